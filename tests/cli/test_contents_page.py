"""`dragoman logs ID --contents` and `dragoman forget` with contents."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.contents.archive import open_archive
from dragoman.contents.exchange_contents import BodySide, ExchangeContents, StoredBody
from dragoman.contents.redaction import ContentsRedactor
from dragoman.records.deferred_assignment import assign_scope
from dragoman.store.record_tables import open_record_tables
from dragoman.store.unassigned import RowScope
from tests.cli.machine import clean
from tests.records.filled import filled_file, some_entries

MARKER = "q7Zk3Vx9Lw2Rf8Tn"


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clean(tmp_path, monkeypatch)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    path = tmp_path / ".local/state/dragoman/state.db"
    filled_file(path, some_entries(1, 40))
    return path


def ids(state: Path, key: str) -> list[str]:
    with closing(open_record_tables(str(state), read_only=True)) as tables:
        return [row[0] for row in tables.connection.rows("SELECT id FROM records WHERE key = ? ORDER BY id", (key,))]


def write(state: Path, exchange: str, *bodies: StoredBody, key: str = "alice", reason: str = "") -> None:
    with closing(open_archive(str(state), ContentsRedactor())) as archive:
        archive.write(ExchangeContents(id=exchange, time=10**15, key=key, bodies=bodies, reason=reason))


def request(text: str) -> StoredBody:
    return StoredBody(side=BodySide.CLIENT_REQUEST, data=text.encode())


def test_bodies_are_shown_in_their_order(state: Path, capfd: pytest.CaptureFixture[str]) -> None:
    exchange = ids(state, "alice")[0]
    write(
        state,
        exchange,
        StoredBody(side=BodySide.CLIENT_RESPONSE, data=b"the end\x1b[2J"),
        StoredBody(side=BodySide.PROVIDER_RESPONSE, attempt=1, reason="too large"),
        StoredBody(side=BodySide.PROVIDER_REQUEST, attempt=1, data=b"\xff"),
        request("line\nline"),
    )
    assert main(["logs", exchange, "--contents"]) == 0
    out = capfd.readouterr().out
    assert [line for line in out.splitlines() if line.startswith("---")] == [
        "--- client request (9 bytes)",
        "--- provider request 1 (1 bytes)",
        "--- provider response 1 (missing: too large)",
        "--- client response (11 bytes)",
    ]
    assert "\x1b" not in out and "\\xff" in out
    assert main(["logs", exchange, "--contents", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["bodies"] == [
        {"body": "client_request", "text": "line\nline"},
        {"body": "provider_request", "attempt": 1, "base64": "/w=="},
        {"body": "provider_response", "attempt": 1, "reason": "too large"},
        {"body": "client_response", "text": "the end\x1b[2J"},
    ]


def test_missing_contents_have_a_reason(state: Path, capfd: pytest.CaptureFixture[str]) -> None:
    one, two, *_ = ids(state, "alice")
    assert main(["logs", one, "--contents"]) == 1
    assert "no contents stored" in capfd.readouterr().err
    assert not state.with_name("contents.db").exists()
    write(state, two, reason="queue full")
    assert main(["logs", one, "--contents"]) == 1
    assert "2001-09-09" in capfd.readouterr().err
    assert main(["logs", two, "--contents"]) == 0
    assert "missing: queue full" in capfd.readouterr().out
    assert main(["logs", "--contents"]) == 2


@pytest.mark.parametrize("by", ["key", "session"])
def test_pitfall_657_what_is_forgotten_has_no_contents(state: Path, by: str, capfd: pytest.CaptureFixture[str]) -> None:
    assign_scope(str(state), RowScope())
    gone = ids(state, "alice")
    if by == "session":
        with closing(open_record_tables(str(state), read_only=True)) as tables:
            statement = "SELECT id FROM records WHERE session = (SELECT id FROM sessions WHERE name = ? AND key = ?)"
            gone = [row[0] for row in tables.connection.rows(statement, ("second", "alice"))]
    left = [exchange for exchange in ids(state, "alice") if exchange not in gone]
    for exchange in gone:
        write(state, exchange, request(json.dumps({"messages": [{"role": "user", "content": MARKER + exchange * 3}]})))
    for exchange in left:
        write(state, exchange, request("stays"))
    other = next(exchange for exchange in ids(state, "bob") if exchange not in gone)
    write(state, other, request("stays"), key="bob")
    words = ["--key", "alice"] if by == "key" else ["--session", "second", "--key", "alice"]
    assert main(["forget", *words, "--yes"]) == 0
    assert f"Contents of {len(gone)} request" in capfd.readouterr().out
    assert not any(MARKER.encode() in path.read_bytes() for path in state.parent.rglob("*") if path.is_file())
    with closing(open_archive(str(state), ContentsRedactor())) as archive:
        assert sorted(archive.tables.oldest(100)) == sorted([*left, other])
