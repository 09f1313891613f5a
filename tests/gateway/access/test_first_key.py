"""The key that a gateway makes for itself: once, known by its hash, and only where nobody configured any."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dragoman.config.settings import Settings
from dragoman.errors import ConfigError
from dragoman.gateway.access.first_key import FirstKey, is_wanted, take_first_key, with_first_key
from dragoman.identities.key_text import digest_of, hash_text
from tests.identities.holders import holder
from tests.store.other_users import as_nobody, unwritable_folder

FIRST = FirstKey(digest=digest_of("first"))
OTHER = holder("laptop", digest_of("other"))


def test_pitfall_629_it_is_made_once_and_only_its_hash_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "not there yet" / "first-key"
    made = take_first_key(file)
    assert made.text is not None
    assert made.text.startswith("dgm_")
    assert file.read_text(encoding="ascii") == hash_text(made.text) + "\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert take_first_key(file) == FirstKey(digest=made.digest)


# What a file may hold that is no hash; a key itself is not repeated.
BAD = {"nothing": b"", "a key": b"dgm_0123456789abcdef-of-mine\n", "no text": b"\xff\xfe\x00", "much": b"x" * 5000}


@pytest.mark.parametrize("content", BAD)
def test_a_file_that_holds_something_else_is_not_used_and_not_repeated(tmp_path: Path, content: str) -> None:
    file = tmp_path / "first-key"
    file.write_bytes(BAD[content])
    with pytest.raises(ConfigError) as told:
        take_first_key(file)
    assert str(told.value) == (
        f"--first-key: {file} does not hold the hash of a key (remove it, and another key is made at the next start)"
    )
    assert file.read_bytes() == BAD[content]


def test_a_hash_that_somebody_else_may_have_put_there_opens_nothing(tmp_path: Path) -> None:
    path = tmp_path / "key"
    take_first_key(path)
    path.chmod(0o666)
    with pytest.raises(ConfigError, match="can be written by others"):
        take_first_key(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ConfigError, match="is not a plain file"):
        take_first_key(path)


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be used: Is a directory"):
        take_first_key(tmp_path)


def test_pitfall_630_a_folder_of_another_user_is_one_sentence() -> None:
    with unwritable_folder() as folder, as_nobody() as who, pytest.raises(ConfigError) as told:
        take_first_key(folder / "first-key")
    uid = who.partition(":")[0]
    assert str(told.value) == (
        f"--first-key: {folder} cannot be written to by this user, uid {uid} (as root: chown {who} {folder}; "
        "or configure a key (`dragoman key new`) instead)"
    )


def test_it_is_wanted_only_where_nobody_decided_about_keys() -> None:
    assert is_wanted(Settings())
    assert not is_wanted(Settings(keys=(OTHER,), keys_table=True))
    assert not is_wanted(Settings(keys=(OTHER,)))
    # All of them were revoked, and nobody is to get in.
    assert not is_wanted(Settings(keys_table=True))


def test_it_ends_with_keys_of_the_file() -> None:
    assert [key.name for key in with_first_key(Settings(), FIRST).keys] == ["first"]
    assert with_first_key(Settings(keys=(OTHER,), keys_table=True), FIRST).keys == (OTHER,)
    assert with_first_key(Settings(keys_table=True), FIRST).keys == ()
    assert with_first_key(Settings(), None).keys == ()
