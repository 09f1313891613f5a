"""Records, sessions and items in large numbers, and all queries of them."""

from __future__ import annotations

from dragoman.store.connection import Connection
from dragoman.store.erasure import Erasure
from dragoman.store.migrations.sqlite import MEASURES
from dragoman.store.record_queries import Exports, KeyScope, RecordQueries
from dragoman.store.records import BUCKET_MICROSECONDS, Records
from dragoman.store.responses import Responses
from dragoman.store.session_queries import SessionQueries
from dragoman.store.session_tables import SessionTables
from dragoman.store.sqlite import SQLiteConnection
from dragoman.store.unassigned import UnassignedRows
from dragoman.store.usage_queries import UsageQueries

SECOND = 1_000_000
START = 1_700_000_000 * SECOND
FIRST = START // BUCKET_MICROSECONDS
OWNER = b"A"


def bucket_of(number: int) -> int:
    """The 15-minute bucket of a record."""
    return (START + number * SECOND) // BUCKET_MICROSECONDS


class Queries:
    """All queries of a file, of all keys or of one."""

    def __init__(self, db: Connection, scope: KeyScope | None) -> None:
        self.records = RecordQueries(db, scope)
        self.sessions = SessionQueries(db, scope)
        self.usage = UsageQueries(db, scope)
        self.exports = Exports(db)
        self.unassigned = UnassignedRows(db)
        self.erasure = Erasure(db)
        self.responses = Responses(db, lambda: 1, lambda: 2)
        self.session_tables = SessionTables(db)
        self.tables = Records(db)


def fill(db: SQLiteConnection, count: int) -> None:
    """Records, ten for each thread and twenty for each session, and as many items; none is like its neighbours."""
    kinds = {row[1]: "''" if row[2] == "TEXT" else "1" for row in db.execute("PRAGMA table_info(records)")}
    kinds |= {
        "number": "i",
        "id": "'req_' || i",
        "time": f"{START} + i * {SECOND}",
        "kind": "CASE i % 11 WHEN 0 THEN 'count' ELSE 'conversation' END",
    }
    kinds |= {"key": "'key' || (i % 5)", "session": "1 + i / 20", "thread": "1 + i / 10", "details": "x''"}
    kinds["outcome"] = _in_turn(6, "failed", "cancelled", "answered")
    kinds["model"] = _in_turn(3, "größe[x]?", "gpt_5%", "Z")
    kinds |= {"first": "CASE i % 4 WHEN 0 THEN NULL WHEN 1 THEN 0 ELSE i END", "input": "nullif(i % 5, 0)"}
    _add(db, "records", count, **kinds)
    begun = f"{START} + i * {SECOND}"
    _add(
        db,
        "sessions",
        count // 20,
        **{
            "id": "i",
            "key": "'key' || (i % 5)",
            "name": f"{_in_turn(3, 'Zulu ', 'äther ', 'session ')} || i",
            "client": "'codex'",
        },
        **{
            "origin": "CASE i % 7 WHEN 0 THEN i - 1 ELSE 0 END",
            "link": _in_turn(7, "subagent", ""),
        },
        **{"started": f"{begun} * 20", "last": f"{begun} * 20 + {SECOND}"},
    )
    texts = dict.fromkeys(("name", "class", "label", "model", "rule"), _in_turn(2, "main", "subagent"))
    zeros = dict.fromkeys(("parent", "sure", "rules", "windows"), "0")
    _add(
        db,
        "threads",
        count // 10,
        id="i",
        session="1 + i / 2",
        started=begun,
        last=begun,
        facts="x''",
        **texts,
        **zeros,
    )
    measures = {name: f"i % {at + 2}" for at, name in enumerate(MEASURES)}
    for later in range(2):
        _add(db, "thread_sums", count // 10, quarter=f"{FIRST} + i / 90 + {later}", thread="i", **measures)
    _add(db, "thread_sums", count // 900, quarter=f"{FIRST} + i", thread="0", **measures)
    _add(db, "unassigned", count // 10, number=f"{count} - i", second=f"{START // SECOND} + i")
    responses = {"id": "'response ' || i", "owner": "x'41'", "expires": "9 + i % 7", "root": "'response ' || i / 4 * 4"}
    responses["previous"] = "CASE i % 4 WHEN 0 THEN NULL ELSE 'response ' || (i - 1) END"
    empty = {"status": "''", "background": "0", "provider": "'provider ' || i", "body": "x''"}
    _add(db, "responses", count // 10, **responses, **empty)
    _add(
        db,
        "items",
        count,
        **{"holder": "'response ' || (i / 10)", "side": "0", "position": "i % 10", "id": "'item ' || (i / 3)"},
        **{"owner": "x'41'", "body": "CASE i % 50 WHEN 0 THEN x'' ELSE x'7b7d' END"},
    )
    for of in ("thread", "session"):
        db.execute(f"UPDATE {of}_totals SET is_forgotten = 1 WHERE {of} % 100 = 3")


def _in_turn(period: int, *texts: str) -> str:
    """The expression of texts that follow each other; the last one is there for the rest of the period."""
    *first, last = texts
    cases = " ".join(f"WHEN {at} THEN '{text}'" for at, text in enumerate(first))
    return f"CASE i % {period} {cases} ELSE '{last}' END"


def _add(db: SQLiteConnection, table: str, count: int, **columns: str) -> None:
    """Rows whose columns are expressions of their number `i`."""
    numbers = f"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})"
    values = ", ".join(columns.values())
    db.execute(f"{numbers} INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM n")
