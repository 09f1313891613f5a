"""A table is read key by key, and everything wrong with it is told at once."""

from __future__ import annotations

import tomllib

import pytest
from msgspec import Struct

from dragoman.config import values
from dragoman.config.nearest_name import nearest
from dragoman.config.tables import ConfigTable, Problems, did_you_mean
from dragoman.config.toml_lines import Lines
from dragoman.config.values import ValueType
from dragoman.errors import ConfigErrors

SWITCH = ValueType(type_name="boolean", example="true", read=values.read_boolean)
PORT = ValueType(type_name="a port", example="8484", read=values.integer(0, 65535))
KINDS: dict[str, ValueType[object]] = {"port": PORT, "strict": SWITCH}


class Place(Struct, frozen=True, kw_only=True):
    """A struct with defaults."""

    port: int = 8484
    strict: bool = False


def table(text: str) -> ConfigTable:
    """The table `[t]` of a text."""
    return ConfigTable(tomllib.loads(text), (), Problems("x.toml", Lines(text))).table("t")


def problems_of(place: ConfigTable) -> list[str]:
    """What was noted so far, in words."""
    with pytest.raises(ConfigErrors) as raised:
        place.problems.raise_if_any()
    return str(raised.value).splitlines()


def test_a_struct_is_filled_with_what_is_there() -> None:
    place = table("[t]\nport = 1\n")
    assert place.fill(Place, KINDS) == Place(port=1)
    assert (place.has("port"), place.has("strict")) == (True, False)
    place.problems.raise_if_any()


def test_every_problem_is_told_in_the_order_of_the_file() -> None:
    place = table('[t]\nprot = 1\nstrict = "no"\nport = -1\n"a b".c = 1\n')
    assert place.fill(Place, KINDS) == Place()
    place.refuse_others(KINDS)
    assert problems_of(place) == [
        "x.toml:2: t.prot: is not a known key (did you mean port?)",
        "x.toml:3: t.strict: expected a boolean, got a string (example: strict = true)",
        "x.toml:4: t.port: expected an integer from 0 to 65535, got -1 (example: port = 8484)",
        'x.toml:5: t."a b": is not a known key (known are port, strict)',
    ]


def test_a_value_in_place_of_a_table() -> None:
    place = table("t = 1\n")
    assert place.tables() == {}
    assert problems_of(place) == ["x.toml:1: t: expected a table, got an integer (begin a line with [t])"]


def test_problems_are_known_by_their_keys() -> None:
    place = table("[t]\nport = -1\n")
    assert place.problems.keys() == frozenset()
    place.take("port", PORT)
    assert place.problems.keys() == {"t.port"}


def test_the_nearest_name_does_not_mind_capitals() -> None:
    assert nearest("OpenAI", ["openai", "echo"]) == "openai"
    assert nearest("zzz", ["openai"]) is None
    assert did_you_mean("gpt-5.0", ["gpt-5.1"]) == 'did you mean "gpt-5.1"?'
