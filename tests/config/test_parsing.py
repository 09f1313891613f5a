"""Bytes to values: a file may be a stranger's, and whatever it holds is told soon and in words."""

from __future__ import annotations

import time

import pytest

from dragoman.config.parsing import parse
from dragoman.errors import ConfigErrors


def test_values_come_with_their_lines() -> None:
    values, lines = parse("a.toml", b"\xef\xbb\xbf# first\r\n[server]\r\nport = 1\r\n")
    assert values == {"server": {"port": 1}}
    assert lines.of(("server", "port")) == 3


# What is written, and what is said of it.
BOMBS: dict[str, tuple[bytes, str]] = {
    "a key of many parts": (b".".join([b"a"] * 400_000) + b" = 1", "has a key of more than 32 parts"),
    "a quoted one": (b"\n" + b" . ".join([b'"a"', b"'b'"] * 100_000) + b" = 1", "x.toml:2: has a key of more than 32"),
    "a table of many parts": (b"[" + b".".join([b"a"] * 400_000) + b"]", "has a key of more than 32 parts"),
    "a deep list": (b"a = " + b"[" * 500_000, "is nested too deeply"),
    "a deep table": (b"a = " + b"{a=" * 300_000, "is nested too deeply"),
    "many places deep inside": (b"a = " + b"[" * 100 + b"1," * 400_000 + b"]" * 100, "is nested too deeply"),
    "a number of many digits": (b"a = " + b"9" * 1_000_000, "is not TOML"),
    "the same in another base": (b"[t]\na = [0x" + b"f" * 1_000_000 + b"]", "x.toml:2: t.a[0]: is a number of more"),
    "no text": (b"\xff" * 1_000_000, "is not text in UTF-8"),
    "an unended text": (b'a = "' + b"x" * 1_000_000, "is not TOML"),
    "many quotes": (b'"' * 1_000_000, "is not TOML"),
    "a long name": (b"a" * 1_000_000, "is not TOML"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_file_that_is_made_to_choke_its_reader_is_refused_soon(bomb: str) -> None:
    content, words = BOMBS[bomb]
    began = time.process_time()
    with pytest.raises(ConfigErrors) as error:
        parse("x.toml", content)
    assert words in str(error.value)
    assert len(str(error.value)) < 1000
    # Of one processor, not by the clock; the worst of them took an hour.
    assert time.process_time() - began < 10


def test_a_key_of_some_parts_is_no_problem() -> None:
    values, _ = parse("x.toml", ".".join("abcdefgh").encode() + b" = 1")
    assert list(values) == ["a"]
    assert parse("x.toml", b'a = "' + b"1.2.3.4." * 3 + b'"')[0] == {"a": "1.2.3.4." * 3}
