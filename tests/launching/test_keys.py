"""The key that opens the gateway: where it is found, and what is said when it is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.config.settings import Settings, Storage
from dragoman.errors import DragomanError
from dragoman.identities.changes import LOCAL_MAKER, ConfiguredNames
from dragoman.identities.key_text import digest_of
from dragoman.identities.members import KeyMembers
from dragoman.launching.keys import GivenKey, find_key, key_of_own
from dragoman.store.identity_file import open_identity_file
from tests.identities.holders import holder

SECRET = "sk-dragoman-0123456789abcdef"
OPEN = Settings()
CLOSED = Settings(keys=(holder("me", digest_of(SECRET)),))


def test_a_gateway_without_keys_gets_a_word_that_is_none() -> None:
    assert find_key(OPEN, {}).is_placeholder


def test_a_key_that_is_given_is_sent_although_the_configuration_at_hand_has_none(tmp_path: Path) -> None:
    """The gateway that runs may have been started with another configuration."""
    file = tmp_path / "key"
    file.write_text(f"{SECRET}\n")
    assert find_key(OPEN, {"DRAGOMAN_KEY": SECRET}).text == SECRET
    assert find_key(OPEN, {}, str(file)).text == SECRET


def test_the_key_is_found_in_the_environment() -> None:
    key = find_key(CLOSED, {"DRAGOMAN_KEY": SECRET})
    assert (key.text, key.file, key.is_placeholder) == (SECRET, None, False)


def test_a_file_that_is_named_comes_first(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{SECRET}\n")
    key = find_key(CLOSED, {"DRAGOMAN_KEY": "another"}, str(file))
    assert (key.text, key.file) == (SECRET, str(file))


def test_a_key_is_never_shown() -> None:
    assert SECRET not in repr(find_key(CLOSED, {"DRAGOMAN_KEY": SECRET}))


@pytest.mark.parametrize(
    ("environ", "content", "words"),
    [
        ({}, None, "set DRAGOMAN_KEY"),
        ({"DRAGOMAN_KEY": ""}, None, "--key-file; `dragoman key new NAME` makes one"),
        ({"DRAGOMAN_KEY": "sk-of-somebody-else"}, None, "the key in DRAGOMAN_KEY is none of those"),
        ({}, " \n", "holds no key"),
        ({"DRAGOMAN_KEY": f"{SECRET}\n\nKEY\tann"}, None, "DRAGOMAN_KEY holds more than a key"),
        ({"DRAGOMAN_KEY": f"{SECRET}–"}, None, "or another text: a key is one line"),
        ({}, f"{SECRET}\n\nKEY\tann\n", "holds more than a key"),
        ({}, "sk-of-somebody-else", "is none of those"),
    ],
)
def test_what_is_wrong_is_told_without_the_key(
    tmp_path: Path, environ: dict[str, str], content: str | None, words: str
) -> None:
    file = tmp_path / "key"
    file.write_text(content or "")
    with pytest.raises(DragomanError, match=words) as error:
        find_key(CLOSED, environ, None if content is None else str(file))
    assert "somebody" not in str(error.value)


def _with_database(tmp_path: Path, settings: Settings) -> tuple[Settings, str]:
    """The settings with a database that has a key, and its text."""
    path, text = str(tmp_path / "state.db"), "sk-of-the-database-0123456789"
    with open_identity_file(path, lambda: 1.0) as keys:
        keys.changes.create("ann", KeyMembers(), digest_of(text), maker=LOCAL_MAKER, configured=ConfiguredNames())
    return replace(settings, storage=Storage(path=path)), text


def test_a_key_of_the_database_is_sent(tmp_path: Path) -> None:
    settings, text = _with_database(tmp_path, CLOSED)
    assert find_key(settings, {"DRAGOMAN_KEY": text}).text == text
    with pytest.raises(DragomanError, match=r"is none of those in the configuration \(me\) or in .*state\.db; "):
        find_key(settings, {"DRAGOMAN_KEY": "sk-of-somebody-else"})


def test_a_database_with_keys_asks_for_one(tmp_path: Path) -> None:
    settings, text = _with_database(tmp_path, OPEN)
    with pytest.raises(DragomanError, match="set DRAGOMAN_KEY"):
        find_key(settings, {})
    assert find_key(settings, {"DRAGOMAN_KEY": text}).text == text


def test_a_gateway_of_ones_own_has_no_key_of_the_database(tmp_path: Path) -> None:
    settings, text = _with_database(tmp_path, CLOSED)
    assert key_of_own(settings, {"DRAGOMAN_KEY": text}).is_new
    assert key_of_own(settings, {"DRAGOMAN_KEY": SECRET}).text == SECRET


def test_a_file_in_another_encoding_is_named(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(SECRET, encoding="utf-16")
    with pytest.raises(DragomanError, match="or another text"):
        find_key(OPEN, {}, str(file))


def test_a_file_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        find_key(CLOSED, {}, str(tmp_path / "nowhere"))


def test_a_gateway_of_ones_own_has_the_users_key_where_the_configuration_knows_it_and_else_a_new_one(
    tmp_path: Path,
) -> None:
    file = tmp_path / "key"
    file.write_text(SECRET)
    assert key_of_own(CLOSED, {"DRAGOMAN_KEY": SECRET}) == GivenKey(text=SECRET)
    assert key_of_own(CLOSED, {}, str(file)) == GivenKey(text=SECRET, file=str(file))
    new = [key_of_own(CLOSED, {}), key_of_own(OPEN, {}), key_of_own(OPEN, {"DRAGOMAN_KEY": SECRET})]
    assert all(key.is_new and not key.is_placeholder and len(key.text) > 40 for key in new)
    assert len({key.text for key in new}) == 3
    with pytest.raises(DragomanError, match="is none of those"):
        key_of_own(CLOSED, {"DRAGOMAN_KEY": "sk-of-somebody-else"})
