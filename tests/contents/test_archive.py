"""The archive: any body is rebuilt to identical bytes, each thing is stored once, and what is deleted is gone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.contents.archive import Archive, open_archive
from dragoman.contents.exchange_contents import BodySide, ExchangeContents, StoredBody
from dragoman.contents.redaction import ContentsRedactor
from dragoman.database_location import DatabaseLocation, PostgresDatabase
from dragoman.errors import ConfigError
from tests.contents.agent_session import exchanges
from tests.contents.fakes import FAKES

KEY = "a key of the operator's own"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.process)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> DatabaseLocation:
    """Where contents are stored, with each engine."""
    path = str(tmp_path / "state.db")
    if request.param == "sqlite":
        return path
    return PostgresDatabase(address=request.getfixturevalue("database"), name="test", path=path)


@pytest.fixture
def archive(place: DatabaseLocation) -> Iterator[Archive]:
    opened = open_archive(place, ContentsRedactor())
    yield opened
    opened.close()


def contents(name: str, *requests: bytes, key: str = "ann", time: int = 0) -> ExchangeContents:
    bodies = [StoredBody(side=BodySide.CLIENT_REQUEST, data=requests[0])]
    bodies += [
        StoredBody(side=BodySide.PROVIDER_REQUEST, attempt=n, data=data) for n, data in enumerate(requests[1:], 1)
    ]
    return ExchangeContents(id=name, time=time, key=key, bodies=tuple(bodies))


def body_of(*messages: object, **members: object) -> bytes:
    return json.dumps({"model": "m", **members, "messages": messages}).encode()


def message(text: str) -> dict[str, object]:
    return {"role": "user", "content": [{"type": "text", "text": text * 40}]}


def rows(archive: Archive, table: str) -> int:
    return archive.tables.connection.number(f"SELECT count(*) FROM {table}")


def test_an_exchange_is_read_as_it_was_written(archive: Archive) -> None:
    written = list(exchanges(4, 4000))
    for each in written:
        assert archive.write(each)
    for each in written:
        read = archive.read(each.id)
        assert read is not None
        assert sorted(read.bodies, key=lambda body: body.side) == list(each.bodies)
        assert (read.id, read.time, read.key, read.reason) == (each.id, each.time, each.key, "")
    assert not archive.write(written[0])
    assert archive.read("req_unknown") is None


def test_a_missing_body_has_its_reason(archive: Archive) -> None:
    missing = StoredBody(side=BodySide.CLIENT_RESPONSE, reason="too large")
    archive.write(ExchangeContents(id="a", time=1, key="", bodies=(missing,)))
    archive.write(ExchangeContents(id="b", time=2, key="", reason="queue full"))
    read, dropped = archive.read("a"), archive.read("b")
    assert read is not None and read.bodies == (missing,)
    assert dropped is not None and (dropped.bodies, dropped.reason) == ((), "queue full")


def test_each_thing_is_stored_once(archive: Archive) -> None:
    archive.write(contents("a", body_of(message("one"), message("two"))))
    assert rows(archive, "pieces") == 2
    archive.write(contents("b", body_of(message("one"), message("two"), message("three"), temperature=1)))
    archive.write(contents("c", body_of(message("two"), message("one"))))
    assert rows(archive, "pieces") == 3 and rows(archive, "nodes") == 5


def test_nothing_is_shared_between_keys(archive: Archive) -> None:
    archive.write(contents("a", body_of(message("one"))))
    archive.write(contents("b", body_of(message("one")), key="ben"))
    assert rows(archive, "pieces") == 2 and rows(archive, "nodes") == 2


def test_breakpoints_and_orders_of_members_are_differences(archive: Archive) -> None:
    text: dict[str, object] = {"type": "text", "text": "one" * 50}
    marks: dict[str, object] = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    spellings = [text, text | marks, marks | text, dict(reversed(text.items()))]
    for number, spelling in enumerate(spellings):
        request = body_of({"role": "user", "content": [spelling]}, message("two"))
        archive.write(contents(str(number), request))
        read = archive.read(str(number))
        assert read is not None and read.bodies[0].data == request
    assert rows(archive, "pieces") == 2
    # The second order of members is another list of the same pieces.
    assert rows(archive, "nodes") == 4


def test_credentials_are_replaced_before_anything_is_stored(archive: Archive) -> None:
    tokens = [text for fakes in FAKES.values() for text, _ in fakes]
    request = body_of(*[message("x") | {"name": token} for token in tokens])
    archive.write(contents("a", request))
    read = archive.read("a")
    assert read is not None
    assert read.bodies[0].data == ContentsRedactor().clean(request) != request


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_session_of_300_turns_takes_a_twentieth_of_what_was_sent(archive: Archive, tmp_path: Path) -> None:
    sent = 0
    for each in exchanges(300, 200_000):
        sent += sum(len(body.data) for body in each.bodies[:2])
        archive.write(each)
        last = each
    files = [path for path in tmp_path.iterdir() if path.name.startswith("contents.db")]
    assert archive.tables.total_bytes() < sent / 20
    assert archive.tables.wipe() and sum(path.stat().st_size for path in files) < sent / 20
    read = archive.read(last.id)
    assert read is not None and {body.data for body in read.bodies} == {body.data for body in last.bodies}


@pytest.mark.parametrize("key", ["", KEY])
def test_a_short_session_takes_a_fifth(place: DatabaseLocation, key: str) -> None:
    archive = open_archive(place, ContentsRedactor(), key=key)
    sent = 0
    for each in exchanges(30, 20_000):
        sent += sum(len(body.data) for body in each.bodies[:2])
        archive.write(each)
    assert archive.tables.total_bytes() < sent / 5
    archive.close()


def delete_all(archive: Archive, *names: str) -> None:
    archive.tables.remove(names)
    while archive.tables.sweep():
        pass


def test_deletion_removes_what_nothing_else_uses(archive: Archive) -> None:
    archive.write(contents("a", body_of(message("one"), message("two"), message("three"))))
    archive.write(contents("b", body_of(message("one"), message("two"))))
    delete_all(archive, "a")
    assert rows(archive, "pieces") == 2 and rows(archive, "nodes") == 2
    read = archive.read("b")
    assert read is not None and read.bodies[0].data == body_of(message("one"), message("two"))
    delete_all(archive, "b", "unknown")
    assert [rows(archive, name) for name in ("exchanges", "bodies", "lists", "nodes", "pieces")] == [0] * 5
    assert archive.tables.total_bytes() == 0


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_deleted_text_is_in_no_file(place: DatabaseLocation, archive: Archive, tmp_path: Path) -> None:
    # Random letters, so that compressed bytes hold them in any case: long runs are stored as they are.
    marker = "q7Zk3Vx9Lw2Rf8Tn"
    archive.write(contents("a", body_of({"role": "user", "content": marker})))
    archive.write(contents("b", body_of(message("stays"))))
    assert any(marker.encode() in path.read_bytes() for path in tmp_path.iterdir())
    delete_all(archive, "a")
    assert archive.tables.wipe()
    assert not any(marker.encode() in path.read_bytes() for path in tmp_path.iterdir())
    assert archive.read("b") is not None


def test_encrypted_contents_need_their_key(place: DatabaseLocation, tmp_path: Path) -> None:
    marker = b"q7Zk3Vx9Lw2Rf8Tn"
    archive = open_archive(place, ContentsRedactor(), key=KEY)
    request = body_of({"role": "user", "content": marker.decode()})
    archive.write(contents("a", request))
    archive.close()
    assert not any(marker in path.read_bytes() for path in tmp_path.iterdir())
    for key, problem in (("", "are encrypted"), ("another key of somebody", "another key")):
        with pytest.raises(ConfigError, match=problem):
            open_archive(place, ContentsRedactor(), key=key)
    archive = open_archive(place, ContentsRedactor(), key=KEY)
    read = archive.read("a")
    assert read is not None and read.bodies[0].data == request
    # Rows that were exchanged do not open.
    archive.write(contents("b", body_of(message("other"))))
    archive.tables.connection.change("UPDATE bodies SET recipe = (SELECT recipe FROM bodies WHERE exchange = 'b')")
    read = archive.read("a")
    assert read is not None and "damaged" in read.bodies[0].reason
    archive.close()


def test_plain_contents_are_not_opened_with_a_key(place: DatabaseLocation) -> None:
    open_archive(place, ContentsRedactor()).close()
    with pytest.raises(ConfigError, match="are not encrypted"):
        open_archive(place, ContentsRedactor(), key=KEY)
    open_archive(place, ContentsRedactor()).close()


def test_damaged_rows_give_a_reason_and_no_text(archive: Archive) -> None:
    archive.write(contents("a", body_of(message("one"), message("two"))))
    change = archive.tables.connection.change
    for statement in (
        "UPDATE pieces SET spelling = ?, body = ? WHERE digest = (SELECT piece FROM nodes WHERE parent = ?)",
        "UPDATE bodies SET recipe = ?, digest = ? WHERE recipe <> ?",
    ):
        change(statement, (b"12345678", b"\0other", b""))
        read = archive.read("a")
        assert read is not None and read.bodies[0].data == b"" and read.bodies[0].reason
    archive.write(contents("b", body_of(message("three"))))
    change("DELETE FROM pieces")
    read = archive.read("b")
    assert read is not None and "missing" in read.bodies[0].reason


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
messages = st.dictionaries(
    st.sampled_from(["role", "content", "cache_control", "name", "x"]), json_values | st.text(min_size=60), max_size=4
)
json_bodies = st.dictionaries(
    st.sampled_from(["messages", "tools", "system", "input", "metadata", "model"]),
    st.lists(messages, max_size=6) | json_values | st.text(min_size=300, max_size=400),
).flatmap(
    lambda value: st.sampled_from(
        [
            json.dumps(value),
            json.dumps(value, separators=(",", ":"), ensure_ascii=False),
            json.dumps(value, indent=1),
            json.dumps(value, separators=(" , ", " : ")).replace("\\u00", "\\u00"),
        ]
    )
)
bodies = st.lists(json_bodies.map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary(), min_size=1)


@settings(max_examples=40)
@given(several=st.lists(bodies, min_size=1, max_size=3))
def test_any_body_is_rebuilt_to_identical_bytes(
    several: list[list[bytes]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    archive = open_archive(str(tmp_path_factory.mktemp("contents") / "state.db"), ContentsRedactor())
    for number, requests in enumerate(several):
        archive.write(contents(str(number), *requests))
    for number, requests in enumerate(several):
        read = archive.read(str(number))
        assert read is not None
        assert [body.data for body in read.bodies] == [ContentsRedactor().clean(request) for request in requests]
        delete_all(archive, str(number))
    assert archive.tables.total_bytes() == 0 and rows(archive, "nodes") == rows(archive, "pieces") == 0
    archive.close()


def test_repeated_members_and_other_spellings_are_restored(archive: Archive) -> None:
    requests = [
        b'{"messages":[{"a":1,"a":2,"content":"' + b"x" * 99 + b'"}],"messages":[{"content":"' + b"y" * 99 + b'"}]}',
        b'{"messages":[{"content":"' + b"\\u0078" * 99 + b'"}, {"content":"' + b"x" * 99 + b'"}]}',
        b'{"messages":[{"content":"' + b"x" * 99 + b'"},\n{"content":1.0e5,"z":"' + b"x" * 60 + b'"} ] } ',
        b"{" + b'"a":{' * 900 + b"}" * 901,
        b"[" * 2000,
        b'{"messages":[' + b"1," * 500 + b"1]}",
        b"\xff\xfe{}",
        b"",
        b"data: " + b"x" * 400 + b"\n\n",
    ]
    archive.write(contents("a", *requests))
    read = archive.read("a")
    assert read is not None and [body.data for body in read.bodies] == requests
