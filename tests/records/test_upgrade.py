"""A file and a journal that were written before the values in them were renamed, read by today's code.

`tests/data/upgrade` has a row and a journal entry for each outcome of an attempt, in the order of `AttemptOutcome`, and
one for each renamed feature. The journal holds the same exchanges as the file, an hour later.
"""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.records.exchanges import find, latest
from dragoman.records.export import as_csv, as_json_lines, csv_names, exchanges
from dragoman.records.journal_directory import directory_of, journals_in, make_directory
from dragoman.records.journal_ingest import ingest_all
from dragoman.records.old_names import FEATURES, LEVELS, OUTCOMES
from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.store.record_queries import Exports, RecordFilter
from dragoman.store.record_tables import RecordTables, open_record_tables
from dragoman.store.records import BUCKET_MICROSECONDS
from tests.cli.recorded_file import config
from tests.cli.screens import on_screen, piped
from tests.records.viewed import as_json
from tests.sdk.digging import dig_objects
from tests.store.opened import sqlite

DATA = Path(__file__).parents[1] / "data/upgrade"
# When the rows and the journal's entries begin, and when they are read, in microseconds.
ROWS, ENTRIES, NOW = 1_790_000_000_000_000, 1_790_003_600_000_000, 1_790_007_200_000_000
ATTEMPTED = [outcome.value for outcome in AttemptOutcome]
LOST = ["thinking_signature", "mid_conversation_system", "cache_breakpoint", "tools_in_items", "unsupported_content"]
# Of each exchange, the oldest first.
EXPECTED_OUTCOMES = [*ATTEMPTED, *("answered" for _ in LOST)] * 2
EXPECTED_LOSSES = [*([] for _ in ATTEMPTED), *([feature, "temperature"] for feature in LOST)] * 2
OLD = {*OUTCOMES, *FEATURES, *LEVELS}


def loaded(path: Path | str) -> sqlite3.Connection:
    """The file as the version before wrote it."""
    db = sqlite3.connect(path)
    db.executescript((DATA / "state.sql").read_text(encoding="utf-8"))
    return db


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file with the journal in its tables."""
    path = tmp_path / "state.db"
    loaded(path).close()
    path.chmod(0o600)
    directory = directory_of(str(path))
    make_directory(directory)
    (directory / f"{ENTRIES:017d}-1-1.log").write_bytes((DATA / "journal.log").read_bytes())
    ingested = ingest_all(str(path), now=NOW)
    assert (ingested.rows, ingested.damaged, ingested.journals) == (25, 0, 1)
    assert not journals_in(directory)
    config(path.parent)
    return path


@pytest.fixture
def tables(path: Path) -> Iterator[RecordTables]:
    with closing(open_record_tables(str(path), read_only=True)) as tables:
        yield tables


def strings(value: object) -> Iterator[str]:
    """All strings in a document, names of members included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        for member in value.values():
            yield from strings(member)
    elif isinstance(value, list):
        for member in value:
            yield from strings(member)


def check_names(documents: list[object]) -> None:
    """Assert that exchanges, as `logs --json` has them, have the expected names and no old one."""
    outcomes = [[call["outcome"] for call in dig_objects(document, "attempts")] for document in documents]
    losses = [[loss["feature"] for loss in dig_objects(document, "losses")] for document in documents]
    assert outcomes == [[outcome] for outcome in EXPECTED_OUTCOMES]
    assert losses == EXPECTED_LOSSES
    assert not OLD & set(strings(documents))


def test_the_data_hold_every_old_name() -> None:
    with closing(loaded(":memory:")) as db:
        rows = b"".join(details for (details,) in db.execute("SELECT details FROM records")).decode()
        cooldowns = b"".join(body for (body,) in db.execute("SELECT body FROM rests"))
    journal = (DATA / "journal.log").read_text(encoding="utf-8")
    for old in (*OUTCOMES, *FEATURES):
        assert f'"{old}"' in rows and f'"{old}"' in journal, old
    assert all(old in cooldowns for old in (b"resting", b"no_answer", b"silent", b"broken", b"no_money", b"bad_key"))


def test_exchanges_are_read_with_todays_names(tables: RecordTables) -> None:
    rows = latest(tables, RecordFilter(), 100)
    check_names([as_json(exchange) for exchange in rows])
    check_names([as_json(find(tables, exchange.entry.id)) for exchange in rows])


def test_exports_have_todays_names(tables: RecordTables) -> None:
    exports = Exports(tables.connection)
    records = [json.loads(line) for line in as_json_lines(exchanges(exports, 0, 1 << 60))]
    assert [record["details"]["calls"][0]["kind"] for record in records] == EXPECTED_OUTCOMES
    losses = [[loss["feature"] for loss in record["details"].get("losses", [])] for record in records]
    assert losses == EXPECTED_LOSSES
    assert not OLD & set(strings(records))
    text = b"".join(as_csv(csv_names(), exchanges(exports, 0, 1 << 60))).decode()
    details = [json.loads(row["details"]) for row in csv.DictReader(io.StringIO(text))]
    assert details == [record["details"] for record in records]


def test_commands_show_todays_names(path: Path) -> None:
    words = ["logs", "--config", "gateway.toml", "-n", "100"]
    status, out, err = piped([*words, "--json"], path.parent, {"TZ": "UTC"}, now=NOW)
    assert (status, err) == (0, "")
    check_names([json.loads(line) for line in out.splitlines()])
    status, out, err = piped(["db", "export", "--config", "gateway.toml"], path.parent)
    assert (status, err) == (0, "")
    assert not OLD & set(strings([json.loads(line) for line in out.splitlines()]))
    seen = on_screen([*words, "--all-losses"], path.parent, columns=140, environ={"TZ": "UTC"}, now=NOW)
    assert seen.status == 0
    shown = set(seen.plain.replace(":", " ").split())
    assert {"first_byte_timeout", "stream_broken", "-cache_breakpoint"} <= shown
    assert not (OLD | {f"-{feature}" for feature in FEATURES}) & shown
    page = on_screen(
        ["logs", "--config", "gateway.toml", "01980000-0000-7000-8000-000000010013"], path.parent, columns=140
    )
    assert (page.status, "first_byte_timeout" in page.plain, "silent" in page.plain) == (0, True, False)


def test_counts_costs_and_losses_are_those_of_the_version_before(tables: RecordTables, path: Path) -> None:
    """The journal's exchanges are those of the rows: today's code must add them up as the version before did."""
    db = sqlite(tables.connection)
    before, now = ROWS // BUCKET_MICROSECONDS, ENTRIES // BUCKET_MICROSECONDS
    with closing(loaded(":memory:")) as old:
        for table in ("sums", "quarter_sums", "thread_sums"):
            stored = old.execute(f"SELECT * FROM {table}").fetchall()
            assert {row[0] for row in stored} == {before}
            found = db.execute(f"SELECT * FROM {table}").fetchall()
            assert found == stored + [(now, *row[1:]) for row in stored], table
        columns = "outcome, status, cost, unpriced, losses, bookkeeping, input, output, first, took"
        stored = old.execute(f"SELECT {columns} FROM records ORDER BY number").fetchall()
        assert db.execute(f"SELECT {columns} FROM records ORDER BY number").fetchall() == stored * 2
    # One loss of the five features is bookkeeping, that of a cache breakpoint.
    assert db.execute("SELECT sum(losses), sum(bookkeeping) FROM records").fetchone() == (18, 2)
    # A provider may have worked for a client that disconnected.
    found = db.execute("SELECT unpriced FROM records WHERE outcome = 'cancelled'").fetchall()
    assert found == [(1,), (1,)]
    usage = ["usage", "--config", "gateway.toml", "--since", "2026-09-21", "--json"]
    status, out, err = piped(usage, path.parent, {"TZ": "UTC"}, now=NOW)
    assert (status, err) == (0, "")
    total = json.loads(out)["total"]
    names = ("requests", "errors", "cancelled_requests", "unpriced_requests", "losses", "bookkeeping_losses")
    assert [total[name] for name in names] == [48, 36, 2, 20, 18, 2]
    assert on_screen(["db", "check", "--config", "gateway.toml"], path.parent).status == 0
