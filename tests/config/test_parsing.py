"""Bytes to values: a file may be a stranger's, and whatever it holds is told soon and in words."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from dragoman.config.parsing import _LONG_KEY, parse
from dragoman.errors import ConfigErrors
from tests.backtracking import backtracking_repeats
from tests.step_counting import StepCounter, count_steps


def test_values_come_with_their_lines() -> None:
    values, lines = parse("a.toml", b"\xef\xbb\xbf# first\r\n[server]\r\nport = 1\r\n")
    assert values == {"server": {"port": 1}}
    assert lines.of(("server", "port")) == 3


# What is written so many times, and what is said of it.
BOMBS: dict[str, tuple[Callable[[int], bytes], str]] = {
    "a key of many parts": (lambda n: b".".join([b"a"] * n) + b" = 1", "has a key of more than 32 parts"),
    "a quoted one": (
        lambda n: b"\n" + b" . ".join([b'"a"', b"'b'"] * n) + b" = 1",
        "x.toml:2: has a key of more than 32",
    ),
    "a table of many parts": (lambda n: b"[" + b".".join([b"a"] * n) + b"]", "has a key of more than 32 parts"),
    "a deep list": (lambda n: b"a = " + b"[" * n, "is nested too deeply"),
    "a deep table": (lambda n: b"a = " + b"{a=" * n, "is nested too deeply"),
    "many places deep inside": (lambda n: b"a = " + b"[" * 100 + b"1," * n + b"]" * 100, "is nested too deeply"),
    "a number of many digits": (lambda n: b"a = " + b"9" * n, "is not TOML"),
    "the same in another base": (
        lambda n: b"[t]\na = [0x" + b"f" * n + b"]",
        "x.toml:2: t.a[0]: is an integer of more",
    ),
    "no text": (lambda n: b"\xff" * n, "is not text in UTF-8"),
    "an unended text": (lambda n: b'a = "' + b"x" * n, "is not TOML"),
    "many quotes": (lambda n: b'"' * n, "is not TOML"),
    "a long name": (lambda n: b"a" * n, "is not TOML"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_file_that_is_made_to_choke_its_reader_is_refused(bomb: str) -> None:
    make, words = BOMBS[bomb]
    # The worst of them took an hour.
    with pytest.raises(ConfigErrors) as error, StepCounter(limit=3_000_000):
        parse("x.toml", make(30_000))
    assert words in str(error.value)
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_file_that_is_made_to_choke_its_reader_takes_steps_by_its_length(bomb: str) -> None:
    def work(count: int) -> Callable[[], None]:
        content = BOMBS[bomb][0](count)

        def refuse() -> None:
            with suppress(ConfigErrors):
                parse("x.toml", content)

        return refuse

    assert count_steps(work(4_000)) <= 2.2 * count_steps(work(2_000))


def test_a_long_key_is_searched_for_in_one_way() -> None:
    assert backtracking_repeats(_LONG_KEY) == []


def test_a_key_of_some_parts_is_no_problem() -> None:
    values, _ = parse("x.toml", ".".join("abcdefgh").encode() + b" = 1")
    assert list(values) == ["a"]
    assert parse("x.toml", b'a = "' + b"1.2.3.4." * 3 + b'"')[0] == {"a": "1.2.3.4." * 3}
