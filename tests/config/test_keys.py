"""Gateway keys are known by their digests alone."""

from __future__ import annotations

import hashlib
import re
import tomllib

import pytest

from dragoman.config.keys import digest_of, hash_text, new_key, read_hash, read_keys
from dragoman.config.settings import Key
from dragoman.config.tables import ConfigTable, Problems
from dragoman.config.toml_lines import Lines
from dragoman.errors import ConfigError, ConfigErrors

SECRET = "dgm_0123456789abcdef"


def read(text: str, environ: dict[str, str] | None = None) -> tuple[tuple[Key, ...], tuple[str, ...]]:
    """The keys of a text."""
    problems = Problems("x.toml", Lines(text))
    found = read_keys(ConfigTable(tomllib.loads(text), (), problems).table("keys"), environ or {})
    problems.raise_if_any()
    return found


def test_a_new_key_is_long_and_like_no_other() -> None:
    keys = {new_key() for _ in range(100)}
    assert len(keys) == 100
    assert all(re.fullmatch(r"dgm_[0-9A-Za-z]{43}", key) for key in keys)


def test_a_key_and_its_bytes_have_one_digest() -> None:
    assert digest_of("a") == digest_of(b"a") == hashlib.sha256(b"a").digest()
    assert hash_text("a") == "sha256:" + hashlib.sha256(b"a").hexdigest()


def test_keys_are_read_from_texts_names_and_hashes() -> None:
    text = f"""
[keys.a]
key = "{SECRET}"
[keys.b]
key = "$B"
strict = "all"
concurrency = 4
[keys.c]
hash = "sha256:{digest_of("c").hex().upper()}"
"""
    keys, short = read(text, {"B": "short"})
    assert keys == (
        Key(name="a", digest=digest_of(SECRET)),
        Key(name="b", digest=digest_of("short"), strict="all", concurrency=4),
        Key(name="c", digest=digest_of("c")),
    )
    assert short == ("b",)


def test_a_hash_is_read_as_it_is_printed_and_nothing_else_is_repeated() -> None:
    assert read_hash(hash_text(SECRET)) == digest_of(SECRET)
    assert read_hash(hash_text(SECRET).upper().replace("SHA", "sha")) == digest_of(SECRET)
    for wrong in (SECRET, "", hash_text(SECRET)[:-1], hash_text(SECRET) + "0", hash_text(SECRET) + "\n"):
        with pytest.raises(ConfigError, match="expected sha256: and 64 hexadecimal digits") as refused:
            read_hash(wrong)
        assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[keys.a]\n", "x.toml:1: keys.a: has neither key nor hash"),
        (f'[keys.a]\nkey = "{SECRET}"\nhash = "x"\n', "x.toml:1: keys.a: has both key and hash"),
        ('[keys.a]\nhash = "md5:00"\n', "x.toml:2: keys.a.hash: expected sha256: and 64 hexadecimal digits"),
        ('[keys.a]\nkey = "$NONE"\n', "x.toml:2: keys.a.key: the environment variable NONE is not set (export NONE=…)"),
        (f'[keys.a]\nkey = "{SECRET} x"\n', "x.toml:2: keys.a.key: holds a character that no key has"),
        (f'[keys.a]\nkey = ["{SECRET}"]\n', "x.toml:2: keys.a.key: expected a string, got an array"),
        (f'[keys.a]\nkey = "{SECRET}"\n[keys.b]\nkey = "{SECRET}"\n', "x.toml:3: keys.b: is the same key as keys.a"),
        (f'[keys."a b"]\nkey = "{SECRET}"\n', 'x.toml:1: keys."a b": cannot name a key'),
        (f'[keys.launch]\nkey = "{SECRET}"\n', "x.toml:1: keys.launch: is reserved for the key of the command line"),
        (f'[keys.a]\nkay = "{SECRET}"\n', "x.toml:2: keys.a.kay: is not a known key (did you mean key?)"),
        (
            f'[keys.a]\nkey = "{SECRET}"\nconcurrency = 0\n',
            "x.toml:3: keys.a.concurrency: expected an integer from 1 to 100000, got 0",
        ),
        (f'[keys]\na = "{SECRET}"\n', "x.toml:2: keys.a: expected a table, got a string"),
    ],
)
def test_what_cannot_be_a_key_is_told_without_showing_it(text: str, problem: str) -> None:
    with pytest.raises(ConfigErrors) as refused:
        read(text)
    assert problem in str(refused.value)
    assert SECRET not in str(refused.value)
