"""The fitted table is whole, and a broken one is not taken for a table."""

from __future__ import annotations

import re

import msgspec
import pytest

from dragoman.tokens.table import TokenTable, fitted_table, read_table

EMPTY = b'{"unit":20,"lift":1.0,"classes":{"upper":"","lower":"","other":"","digits":""}'
GROUPS = ("pieces", "triples", "pairs", "characters", "blocks", "firsts", "first_blocks")


def written(**groups: str) -> bytes:
    return EMPTY + "".join(f',"{name}":{groups.get(name, "{}")}' for name in GROUPS).encode() + b"}"


def test_keys_of_the_same_value_stand_together_in_the_file() -> None:
    table = read_table(written(pieces='{"20":[" the","of"],"40":["xyz"]}', blocks='{"30":["78"]}'))
    assert table.pieces == {" the": 20, "of": 20, "xyz": 40}
    assert table.blocks == {78: 30}


def test_a_group_that_is_unknown_or_missing_is_a_mistake() -> None:
    with pytest.raises(msgspec.ValidationError):
        read_table(EMPTY + b"}")
    with pytest.raises(msgspec.ValidationError):
        read_table(written()[:-1] + b',"more":{}}')


def test_the_table_of_the_package_is_read_once() -> None:
    assert fitted_table() is fitted_table()


def test_every_number_of_the_table_can_be_a_number_of_tokens() -> None:
    table = fitted_table()
    assert 1.0 <= table.lift < 1.1
    for group in (table.triples, table.pairs, table.characters, table.blocks):
        assert group
        assert all(0 <= parts <= 4 * table.unit for parts in group.values())
    assert all(0 < parts <= 24 * 4 * table.unit for parts in table.pieces.values())
    assert all(0 < parts <= 4 * table.unit for parts in table.firsts.values())


def test_keys_are_as_long_as_what_they_describe() -> None:
    table = fitted_table()
    assert {len(key) for key in table.triples} <= {2, 3}
    assert {len(key) for key in table.pairs} == {2}
    assert {len(key) for key in table.characters} == {len(key) for key in table.firsts} == {1}


@pytest.mark.parametrize("name", ["upper", "lower", "other", "digits"])
def test_classes_are_ranges_beyond_ascii(name: str) -> None:
    table: TokenTable = fitted_table()
    ranges = {"upper": table.classes.upper, "lower": table.classes.lower}
    ranges |= {"other": table.classes.other, "digits": table.classes.digits}
    assert not re.compile(f"[{ranges[name]}]").search("".join(map(chr, range(128))).replace("-", ""))
