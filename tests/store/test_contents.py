"""Contents tables: uses are counted, and what has none is removed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.database_location import PostgresDatabase
from dragoman.store.contents import NO_NODE, BodyRow, ContentsTables, ExchangeRow
from dragoman.store.contents_database import open_contents


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.process)])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ContentsTables]:
    """The tables of an empty database, with each engine."""
    path = str(tmp_path / "state.db")
    if request.param == "sqlite":
        opened = open_contents(path)
    else:
        opened = open_contents(PostgresDatabase(address=request.getfixturevalue("database"), name="t", path=path))
    yield opened
    opened.close()


def add(tables: ContentsTables, name: str, *pieces: bytes, time: int = 0, key: str = "ann") -> None:
    """An exchange with one list of pieces, whose nodes have the names of what they begin with."""
    with tables.transaction():
        assert tables.add_exchange(ExchangeRow(id=name, time=time, key=key))
        node = NO_NODE
        for piece in pieces:
            parent, node = node, node + piece
            if not tables.has_node(node):
                if tables.use_piece(piece) is None:
                    tables.add_piece(piece, b"spelling", 4, b"body")
                tables.add_node(node, parent, piece, b"")
        tables.add_list(name, node)
        tables.add_list(name, node)
        tables.add_body(BodyRow(exchange=name, attempt=0, side=0, size=1, digest=b"d", recipe=b"r"))
        tables.add_to_total()


def swept(tables: ContentsTables) -> int:
    total = 0
    while count := tables.sweep():
        total += count
    return total


def uses(tables: ContentsTables, table: str) -> dict[bytes, int]:
    return {digest: count for digest, count in tables.connection.rows(f"SELECT digest, uses FROM {table}")}


def test_uses_are_counted_and_swept(tables: ContentsTables) -> None:
    add(tables, "a", b"1", b"2", b"3")
    add(tables, "b", b"1", b"2")
    add(tables, "c", b"2")
    assert uses(tables, "nodes") == {b"1": 1, b"12": 2, b"123": 1, b"2": 1}
    assert uses(tables, "pieces") == {b"1": 1, b"2": 2, b"3": 1}
    assert [row.piece for row in tables.elements(b"123", 3)] == [b"1", b"2", b"3"]
    assert [row.piece for row in tables.elements(b"123", 2)] == [b"2", b"3"]
    assert tables.remove(["a", "a", "unknown"]) == 1
    assert swept(tables) == 2 and swept(tables) == 0
    assert uses(tables, "nodes") == {b"1": 1, b"12": 1, b"2": 1}
    assert tables.remove(["b", "c"]) == 2 and swept(tables) == 5
    assert uses(tables, "nodes") == uses(tables, "pieces") == {}
    assert (tables.count(), tables.total_bytes(), tables.span()) == (0, 0, None)


def test_a_list_without_uses_is_used_again_before_it_is_swept(tables: ContentsTables) -> None:
    add(tables, "a", b"1", b"2")
    tables.remove(["a"])
    add(tables, "b", b"1", b"2")
    assert swept(tables) == 0 and len(tables.elements(b"12", 2)) == 2


def test_a_long_list_is_swept_in_small_steps(tables: ContentsTables) -> None:
    add(tables, "a", *[b"%03d" % number for number in range(120)])
    tables.remove(["a"])
    assert 0 < tables.sweep() <= 100
    swept(tables)
    assert tables.total_bytes() == 0


def test_exchanges_are_found_by_age_and_key(tables: ContentsTables) -> None:
    for time, (name, key) in enumerate([("c", "ann"), ("a", "ben"), ("b", "ann")]):
        add(tables, name, b"1", time=time, key=key)
    assert tables.oldest(2) == ["c", "a"] and tables.oldest(9, before=2) == ["c", "a"]
    assert sorted(tables.of_key("ann", 9)) == ["b", "c"] and tables.of_key("eve", 9) == []
    assert (tables.span(), tables.count()) == ((0, 2), 3)
    assert tables.exchange("a") == ExchangeRow(id="a", time=1, key="ben") and tables.exchange("x") is None
    assert [body.recipe for body in tables.bodies("a")] == [b"r"]


def test_a_transaction_that_failed_adds_nothing(tables: ContentsTables) -> None:
    add(tables, "a", b"1")
    before = tables.total_bytes()
    with pytest.raises(RuntimeError), tables.transaction():
        tables.add_exchange(ExchangeRow(id="b", time=0, key=""))
        raise RuntimeError
    tables.forget_added()
    assert (tables.count(), tables.total_bytes()) == (1, before)


def test_values_are_stored_once(tables: ContentsTables) -> None:
    assert tables.value("secret") is None
    tables.set_value("secret", b"1")
    tables.set_value("secret", b"2")
    assert tables.value("secret") == b"1"


def test_an_erasure_is_of_one_key_and_of_what_began_before(tables: ContentsTables) -> None:
    for asked in (5, 7, 6):
        tables.begin_erasure("ann", asked)
    assert [tables.is_erased(key, time) for key, time in (("ann", 7), ("ann", 8), ("ben", 0))] == [True, False, False]
    tables.end_erasures(before=7)
    assert tables.is_erased("ann", 7)
    tables.end_erasures(before=8)
    assert not tables.is_erased("ann", 0)
