import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.rules import tool_table
from dragoman.rules.tool_table import flatten, wire_name, wire_name_taken
from tests.rules.vectors import objects, text

PATTERN = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@pytest.mark.parametrize("row", objects("names"), ids=lambda row: row["in"][:20])
def test_a_name_has_its_golden_form(row: dict[str, str]) -> None:
    assert wire_name(row["in"]) == row["wire"]


@pytest.mark.parametrize("row", objects("namespaces"), ids=lambda row: row["namespace"])
def test_a_namespace_member_is_flattened_and_then_named(row: dict[str, str]) -> None:
    assert wire_name(flatten(text(row["namespace"]), text(row["name"]))) == row["wire"]


def test_a_name_without_namespace_stays_alone() -> None:
    assert flatten(None, "lookup") == "lookup"


def test_a_taken_name_is_cut_at_51_with_12_digits() -> None:
    taken = wire_name_taken("crm__lookup")
    assert re.fullmatch(r"crm__lookup_[0-9a-f]{12}", taken)
    assert len(wire_name_taken("a" * 200)) == 64


def test_a_trailing_line_break_does_not_conform() -> None:
    assert wire_name("lookup\n") != "lookup\n"
    assert wire_name("") != ""


@given(st.text(min_size=1, max_size=100))
def test_every_form_conforms_and_conforming_names_pass(name: str) -> None:
    assert PATTERN.fullmatch(wire_name(name))
    assert PATTERN.fullmatch(wire_name_taken(name))
    assert (wire_name(name) == name) == bool(PATTERN.fullmatch(name))


@given(st.lists(st.text(alphabet="ab._ /é", min_size=1, max_size=70), unique=True, max_size=30))
def test_different_names_stay_different(names: list[str]) -> None:
    assert len({wire_name(name) for name in names}) == len(names)
    assert len({wire_name_taken(name) for name in names}) == len(names)


def test_a_lone_surrogate_gets_a_name_too() -> None:
    assert PATTERN.fullmatch(wire_name("a\ud800"))


def test_long_names_are_not_remembered() -> None:
    before = tool_table._remembered.cache_info().currsize
    assert len({wire_name("x" * 1000 + str(number)) for number in range(50)}) == 50
    assert tool_table._remembered.cache_info().currsize == before
