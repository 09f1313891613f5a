"""Options become members of a key; what is left out stays unset."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

import pytest

from dragoman.cli.key_options import MEMBERS, add_members, read_members
from dragoman.errors import UsageError
from dragoman.identities.members import KeyMembers
from dragoman.records.time_range import zone_of

NOW = 1_794_830_400
ZONE = zone_of("Europe/Berlin")


def members(*words: str, removed: tuple[str, ...] = ()) -> KeyMembers:
    parser = argparse.ArgumentParser()
    add_members(parser, of_new_key=True)
    return read_members(parser.parse_args(words), ZONE, NOW, removed)


def test_options_that_are_left_out_set_nothing() -> None:
    assert members() == KeyMembers()


def test_lists_may_have_blanks_and_a_date_is_included_in_its_zone() -> None:
    given = members("--models", " a , b,,", "--expires", "2027-01-31", "--tag", "a=b", removed=("role",))
    assert given == KeyMembers(
        role=None, models=("a", "b"), tags={"a": "b"}, expires=datetime(2027, 1, 31, 23, tzinfo=UTC)
    )


def test_every_member_of_a_key_has_an_option() -> None:
    parser = argparse.ArgumentParser()
    add_members(parser, of_new_key=True)
    options = {action.dest for action in parser._actions} - {"help"}
    assert options == {"tag" if name == "tags" else name for name in MEMBERS}


def test_a_member_is_not_set_and_removed() -> None:
    with pytest.raises(UsageError, match="tags is both set and removed"):
        members("--tag", "a=b", removed=("tags",))
