"""`dragoman key new` as a user runs it."""

from __future__ import annotations

import json
import tomllib

import pytest

from dragoman.cli import main
from dragoman.identities.key_text import hash_text


def test_the_key_comes_first_and_the_lines_hold_its_hash_alone(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["key", "new", "laptop"]) == 0
    key, rest = capfd.readouterr().out.split("\n", 1)
    assert key.startswith("dgm_")
    assert key not in rest
    assert tomllib.loads(rest) == {"keys": {"laptop": {"hash": hash_text(key)}}}


def test_for_programs(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["key", "new", "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told == {"name": "default", "key": told["key"], "hash": hash_text(told["key"])}


def test_a_name_with_a_dot_is_quoted(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["key", "new", "a.b"]) == 0
    assert list(tomllib.loads(capfd.readouterr().out.split("\n", 1)[1])["keys"]) == ["a.b"]


def test_a_name_that_cannot_be_used_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["key", "new", "a b"]) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "name" in captured.err
