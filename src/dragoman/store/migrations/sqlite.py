"""Migrations of SQLite, as steps from an empty file to the present; a step that was released is never changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dragoman.store.connection import Transaction
from dragoman.store.errors import StoreError
from dragoman.store.sqlite import SQLiteConnection


def m001_store_responses(db: SQLiteConnection) -> None:
    """Responses, their items and conversations, and the events of background responses."""
    db.change(
        """
        CREATE TABLE responses (
            id TEXT PRIMARY KEY,
            owner BLOB NOT NULL,
            expires INTEGER NOT NULL,
            -- The response it goes on from, and the first one of that chain.
            previous TEXT,
            root TEXT NOT NULL,
            -- queued, in_progress, completed, incomplete, failed or cancelled; "" for one that its provider keeps.
            status TEXT NOT NULL,
            background INTEGER NOT NULL,
            provider TEXT NOT NULL,
            -- Until when whoever runs it in the background has promised to come back; 0 if nobody does.
            alive INTEGER NOT NULL,
            body BLOB NOT NULL
        ) WITHOUT ROWID
        """
    )
    db.change("CREATE INDEX responses_by_root ON responses (root)")
    db.change("CREATE INDEX responses_by_expiry ON responses (expires)")
    db.change(
        """
        CREATE TABLE items (
            -- A response or a conversation.
            holder TEXT NOT NULL,
            -- 0 for what was said to the model, 1 for what it said.
            side INTEGER NOT NULL,
            position INTEGER NOT NULL,
            id TEXT NOT NULL,
            owner BLOB NOT NULL,
            body BLOB NOT NULL,
            PRIMARY KEY (holder, side, position)
        ) WITHOUT ROWID
        """
    )
    db.change("CREATE INDEX items_by_id ON items (id, owner)")
    db.change(
        """
        CREATE TABLE conversations (
            id TEXT PRIMARY KEY,
            owner BLOB NOT NULL,
            expires INTEGER NOT NULL,
            created INTEGER NOT NULL,
            metadata BLOB NOT NULL,
            -- The response that is being given in it, and until when that is believed.
            busy TEXT NOT NULL,
            busy_until INTEGER NOT NULL
        ) WITHOUT ROWID
        """
    )
    db.change("CREATE INDEX conversations_by_expiry ON conversations (expires)")
    db.change(
        """
        CREATE TABLE events (
            holder TEXT NOT NULL,
            number INTEGER NOT NULL,
            data BLOB NOT NULL,
            PRIMARY KEY (holder, number)
        ) WITHOUT ROWID
        """
    )


def m002_promise_beside_the_response(db: SQLiteConnection) -> None:
    """Promises in a table of their own: to renew one there does not write a response's whole body again."""
    db.change("CREATE TABLE promises (holder TEXT PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID")
    db.change("INSERT INTO promises (holder, until) SELECT id, alive FROM responses WHERE alive > 0")
    db.change("ALTER TABLE responses DROP COLUMN alive")


def m003_cache_turns(db: SQLiteConnection) -> None:
    """Turns of clients that send back content and calls alone, and what all of them come to, in bytes."""
    db.change(
        """
        CREATE TABLE turns (
            owner BLOB NOT NULL,
            -- The id of the first call.
            call_id TEXT NOT NULL,
            expires INTEGER NOT NULL,
            size INTEGER NOT NULL,
            -- "" for an id that was said in two turns which differ.
            body BLOB NOT NULL,
            PRIMARY KEY (owner, call_id)
        )
        """
    )
    db.change("CREATE INDEX turns_by_expiry ON turns (expires)")
    db.change("CREATE TABLE turns_total (bytes INTEGER NOT NULL)")
    db.change("INSERT INTO turns_total (bytes) VALUES (0)")


def m004_persist_cooldowns(db: SQLiteConnection) -> None:
    """Rests of targets and keys, until the time of day at which they are over."""
    db.change("CREATE TABLE rests (subject TEXT PRIMARY KEY, expires REAL NOT NULL, body BLOB NOT NULL) WITHOUT ROWID")
    db.change("CREATE INDEX rests_by_expiry ON rests (expires)")


def m005_store_records(db: SQLiteConnection) -> None:
    """Records of exchanges, their totals, sessions, and the offset of each journal (decision 32)."""
    # Columns of numbers that may be NULL are unknown then; times and lengths of time are microseconds.
    db.change(
        """
        CREATE TABLE records (
            number INTEGER PRIMARY KEY,
            id TEXT NOT NULL,
            time INTEGER NOT NULL,
            kind TEXT NOT NULL,
            outcome TEXT NOT NULL,
            key TEXT NOT NULL,
            client TEXT NOT NULL,
            program TEXT NOT NULL,
            address TEXT NOT NULL,
            launch TEXT NOT NULL,
            -- 0 if it belongs to none.
            session INTEGER NOT NULL,
            thread INTEGER NOT NULL,
            dialect TEXT NOT NULL,
            path TEXT NOT NULL,
            stream INTEGER NOT NULL,
            asked TEXT NOT NULL,
            provider TEXT NOT NULL,
            model TEXT NOT NULL,
            served TEXT NOT NULL,
            answered_by TEXT NOT NULL,
            route TEXT NOT NULL,
            policy TEXT NOT NULL,
            reason TEXT NOT NULL,
            status INTEGER NOT NULL,
            failure TEXT NOT NULL,
            stop TEXT NOT NULL,
            first INTEGER,
            took INTEGER NOT NULL,
            input INTEGER,
            cache_read INTEGER,
            cache_write INTEGER,
            cache_write_1h INTEGER,
            output INTEGER,
            thinking INTEGER,
            searches INTEGER,
            estimated INTEGER NOT NULL,
            -- What is known of it, in nano-dollars; `unpriced` says that it was more.
            cost INTEGER NOT NULL,
            unpriced INTEGER NOT NULL,
            said_cost INTEGER,
            price TEXT NOT NULL,
            losses INTEGER NOT NULL,
            upstream_id TEXT NOT NULL,
            response_id TEXT NOT NULL,
            -- The rest of the entry as JSON: calls, losses by name, money by class, facts, why.
            details BLOB NOT NULL
        )
        """
    )
    db.change("CREATE INDEX records_by_time ON records (time)")
    db.change("CREATE INDEX records_by_session ON records (session, time)")
    measures = ", ".join(f"{name} INTEGER NOT NULL DEFAULT 0" for name in _FIRST_MEASURES)
    db.change(
        "CREATE TABLE sums (quarter INTEGER NOT NULL, key TEXT NOT NULL, client TEXT NOT NULL, provider TEXT NOT NULL,"
        f" model TEXT NOT NULL, {measures}, PRIMARY KEY (quarter, key, client, provider, model)) WITHOUT ROWID"
    )
    db.change(
        f"CREATE TABLE thread_sums (quarter INTEGER NOT NULL, thread INTEGER NOT NULL, {measures},"
        " PRIMARY KEY (quarter, thread)) WITHOUT ROWID"
    )
    _create_rollups(db, measures)
    # The usage of one thread over its whole life; one row per thread and 15-minute bucket.
    db.change("CREATE INDEX thread_sums_by_thread ON thread_sums (thread)")
    db.change(
        """
        CREATE TABLE sessions (
            -- Never given again, also of one that is forgotten: its sums stay.
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            key TEXT NOT NULL,
            -- As the client calls it, or made up from how it began.
            name TEXT NOT NULL,
            client TEXT NOT NULL,
            -- The session that it goes on from or was forked from, and which of both; 0 if from none.
            origin INTEGER NOT NULL,
            link TEXT NOT NULL,
            started INTEGER NOT NULL,
            last INTEGER NOT NULL
        )
        """
    )
    db.change("CREATE UNIQUE INDEX sessions_by_name ON sessions (key, name)")
    db.change("CREATE INDEX sessions_by_last ON sessions (last)")
    db.change("CREATE INDEX sessions_by_origin ON sessions (origin) WHERE origin > 0")
    db.change(
        """
        CREATE TABLE threads (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            session INTEGER NOT NULL,
            name TEXT NOT NULL,
            class TEXT NOT NULL,
            -- What its client calls the agent, and the model that it was asked of last.
            label TEXT NOT NULL,
            model TEXT NOT NULL,
            -- The thread that it was begun by; 0 if that is its session itself, or not known.
            parent INTEGER NOT NULL,
            -- The rule that it was placed by, how sure that is (0 to 100), and the version of the rules.
            rule TEXT NOT NULL,
            sure INTEGER NOT NULL,
            rules INTEGER NOT NULL,
            windows INTEGER NOT NULL,
            started INTEGER NOT NULL,
            last INTEGER NOT NULL,
            -- The facts that its class is derived from, as JSON.
            facts BLOB NOT NULL
        )
        """
    )
    db.change("CREATE INDEX threads_by_session ON threads (session, name)")
    # Where histories ended, by thread, state and time, to recognise their continuations. It is the largest table: no
    # other index, and no column that could fail a statement, for which SQLite would copy each changed page.
    db.change(
        "CREATE TABLE tips (digest TEXT NOT NULL, thread INTEGER NOT NULL, state INTEGER, time INTEGER,"
        " PRIMARY KEY (digest, thread)) WITHOUT ROWID"
    )
    db.change(
        "CREATE TABLE journals (name TEXT PRIMARY KEY, applied INTEGER NOT NULL, damaged INTEGER NOT NULL)"
        " WITHOUT ROWID"
    )


def _create_rollups(db: SQLiteConnection, measures: str) -> None:
    """Rollups of hours and days, and of all users per bucket, kept equal to `sums` by triggers."""
    # `span` is 4 quarters or 96, `start` the first of them; days are those of UTC.
    db.change(
        "CREATE TABLE long_sums (span INTEGER NOT NULL, start INTEGER NOT NULL,"
        f" {', '.join(f'{name} TEXT NOT NULL' for name in _NAMES)}, {measures},"
        f" PRIMARY KEY (span, start, {', '.join(_NAMES)})) WITHOUT ROWID"
    )
    db.change(f"CREATE TABLE quarter_sums (quarter INTEGER PRIMARY KEY, {measures})")
    _create_rollup_triggers(db, _FIRST_MEASURES)


def _create_rollup_triggers(db: SQLiteConnection, measures: Sequence[str]) -> None:
    """Create the triggers by which `sums` adds to `long_sums` and `quarter_sums`."""
    names = _NAMES
    grown = f"DO UPDATE SET {', '.join(f'{name} = {name} + excluded.{name}' for name in measures)}"
    for event, added in (("INSERT", "NEW.{0}"), ("UPDATE", "NEW.{0} - OLD.{0}")):
        values = ", ".join(added.format(name) for name in measures)
        spans = (
            f"INSERT INTO long_sums (span, start, {', '.join((*names, *measures))}) VALUES ({span},"
            f" NEW.quarter / {span} * {span}, {', '.join(f'NEW.{name}' for name in names)}, {values})"
            f" ON CONFLICT (span, start, {', '.join(names)}) {grown};"
            for span in (4, 96)
        )
        whole = (
            f"INSERT INTO quarter_sums (quarter, {', '.join(measures)}) VALUES (NEW.quarter, {values})"
            f" ON CONFLICT (quarter) {grown};"
        )
        db.change(f"CREATE TRIGGER sums_{event.lower()} AFTER {event} ON sums BEGIN {' '.join(spans)} {whole} END")


def m006_store_totals(db: SQLiteConnection) -> None:
    """Totals of each thread and session over all time, since nearly all threads of a month lie within it. Triggers
    update them with `thread_sums`. -1 is the session of threads that were forgotten before there were totals."""
    # Columns that rank groups come first: the rest of a row is not read for that.
    first = ("cost", "requests", "input")
    measures = (*first, *(name for name in _FIRST_MEASURES if name not in first))
    for of, number in _TOTALS:
        columns = f"{of}, since, last, {', '.join(measures)}"
        # `since` and `last` are the first and the last quarter in which there was something.
        db.change(
            f"CREATE TABLE {of}_totals ({of} INTEGER PRIMARY KEY, since INTEGER NOT NULL, last INTEGER NOT NULL,"
            " is_forgotten INTEGER NOT NULL DEFAULT 0,"
            f" {', '.join(f'{name} INTEGER NOT NULL' for name in measures)})"
        )
        db.change(
            f"INSERT INTO {of}_totals ({columns}) SELECT {number.format('q.thread')}, min(q.quarter), max(q.quarter),"
            f" {', '.join(f'sum(q.{name})' for name in measures)} FROM thread_sums q"
            " WHERE q.thread <> 0 GROUP BY 1"
        )
        db.change(f"UPDATE {of}_totals SET is_forgotten = 1 WHERE {of} NOT IN (SELECT id FROM {of}s)")
        db.change(f"CREATE INDEX {of}_totals_by_last ON {of}_totals (last, since)")
    _create_total_triggers(db, measures)


def _create_total_triggers(db: SQLiteConnection, measures: Sequence[str]) -> None:
    """Create the triggers by which `thread_sums` adds to the totals of threads and sessions."""
    grown = ", ".join(f"{name} = {name} + excluded.{name}" for name in measures)
    added = ", ".join(f"{name} = {name} + NEW.{name} - OLD.{name}" for name in measures)
    on_insert: list[str] = []
    on_update: list[str] = []
    for of, number in _TOTALS:
        columns = f"{of}, since, last, {', '.join(measures)}"
        new = number.format("NEW.thread")
        on_insert.append(
            f"INSERT INTO {of}_totals ({columns}) VALUES ({new}, NEW.quarter, NEW.quarter,"
            f" {', '.join(f'NEW.{name}' for name in measures)}) ON CONFLICT ({of}) DO UPDATE SET"
            f" since = min(since, excluded.since), last = max(last, excluded.last), {grown};"
        )
        # Every write of `last` also writes the index.
        on_update.append(f"UPDATE {of}_totals SET {added} WHERE {of} = {new};")
    for event, statements in (("INSERT", on_insert), ("UPDATE", on_update)):
        db.change(
            f"CREATE TRIGGER thread_sums_{event.lower()} AFTER {event} ON thread_sums WHEN NEW.thread <> 0"
            f" BEGIN {' '.join(statements)} END"
        )


def m007_count_stored_bytes(db: SQLiteConnection) -> None:
    """Stored bytes per owner: a row's content, and 256 for the row with its indexes. Triggers keep the sums in every
    process, as long as no row is replaced (`OR REPLACE`), for which SQLite calls no delete trigger."""
    # A response may be deleted, or become another's, before its events are.
    db.change("ALTER TABLE events ADD COLUMN owner BLOB NOT NULL DEFAULT x''")
    db.change("UPDATE events SET owner = coalesce((SELECT owner FROM responses WHERE id = holder), x'')")
    db.change("CREATE TABLE stored_bytes (owner BLOB PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID")
    held = {"responses": "body", "items": "body", "conversations": "metadata", "events": "data"}
    rows = " UNION ALL ".join(f"SELECT owner, 256 + length({column}) AS size FROM {of}" for of, column in held.items())
    db.change(f"INSERT INTO stored_bytes (owner, bytes) SELECT owner, sum(size) FROM ({rows}) GROUP BY owner")
    for of, column in held.items():
        grown = (
            f"INSERT INTO stored_bytes (owner, bytes) VALUES (NEW.owner, 256 + length(NEW.{column}))"
            " ON CONFLICT (owner) DO UPDATE SET bytes = bytes + excluded.bytes;"
        )
        shrunk = (
            f"UPDATE stored_bytes SET bytes = bytes - 256 - length(OLD.{column}) WHERE owner = OLD.owner;"
            " DELETE FROM stored_bytes WHERE owner = OLD.owner AND bytes = 0;"
        )
        events = {"insert": grown, "delete": shrunk, f"update of owner, {column}": grown + shrunk}
        for event, statements in events.items():
            name = f"{of}_bytes_{event.split()[0]}"
            db.change(f"CREATE TRIGGER {name} AFTER {event.upper()} ON {of} BEGIN {statements} END")


def m008_count_bookkeeping(db: SQLiteConnection) -> None:
    """Bookkeeping losses apart from losses that change the response (decision 38); older `losses` count both."""
    totals = [f"{of}_totals" for of, _ in _TOTALS]
    for table in ("records", "sums", "thread_sums", "long_sums", "quarter_sums", *totals):
        db.change(f"ALTER TABLE {table} ADD COLUMN bookkeeping INTEGER NOT NULL DEFAULT 0")
    for trigger in ("sums_insert", "sums_update", "thread_sums_insert", "thread_sums_update"):
        db.change(f"DROP TRIGGER {trigger}")
    measures = (*_FIRST_MEASURES, "bookkeeping")
    _create_rollup_triggers(db, measures)
    _create_total_triggers(db, measures)


def m009_index_copies(db: SQLiteConnection) -> None:
    """Indexes under which neither the copies of an item nor the branches of a chain are read one by one."""
    # A client's own ID must not collide with one that a provider issued.
    db.change("CREATE INDEX items_given ON items (id, owner) WHERE body = x''")
    db.change("DROP INDEX responses_by_root")
    db.change("CREATE INDEX responses_by_root ON responses (root, expires)")


def m010_assign_on_demand(db: SQLiteConnection) -> None:
    """Rows that await the assignment of a session, and the relations by which they are connected (decision 44)."""
    # Rows of an earlier release are assigned. An index of `records` for this would be made from all of them.
    db.change("CREATE TABLE unassigned (number INTEGER PRIMARY KEY, second INTEGER NOT NULL)")
    db.change(
        "CREATE TABLE unassigned_relations (relation INTEGER, number INTEGER, PRIMARY KEY (relation, number))"
        " WITHOUT ROWID"
    )
    # Numbers of removed rows are given again.
    db.change(
        "CREATE TRIGGER records_delete AFTER DELETE ON records"
        " BEGIN DELETE FROM unassigned WHERE number = OLD.number; END"
    )


def m011_store_identities(db: SQLiteConnection) -> None:
    """Gateway keys of the database, the number of the last change, and the audit log (decision 46)."""
    db.change(
        """
        CREATE TABLE identities (
            id INTEGER PRIMARY KEY,
            name TEXT NOT NULL UNIQUE,
            -- The digest that the identity had first.
            owner BLOB NOT NULL UNIQUE,
            rights TEXT NOT NULL,
            tags TEXT NOT NULL,
            -- Seconds since 1970; NULL is never.
            expires REAL,
            created REAL NOT NULL,
            created_by TEXT NOT NULL,
            revoked REAL,
            -- Of the last change of this row.
            generation INTEGER NOT NULL
        )
        """
    )
    db.change("CREATE INDEX identities_by_generation ON identities (generation)")
    db.change(
        """
        CREATE TABLE digests (
            digest BLOB PRIMARY KEY,
            identity INTEGER NOT NULL,
            -- Until when it is accepted: NULL has no end; 0 is retired, and stays, so that nothing else gets it.
            until REAL
        ) WITHOUT ROWID
        """
    )
    db.change("CREATE INDEX digests_by_identity ON digests (identity)")
    # Names of keys of the file, too: a name belongs to one owner for ever.
    db.change("CREATE TABLE key_names (name TEXT PRIMARY KEY, owner BLOB NOT NULL) WITHOUT ROWID")
    db.change("CREATE TABLE generation (number INTEGER NOT NULL)")
    db.change("INSERT INTO generation (number) VALUES (0)")
    db.change(
        """
        CREATE TABLE audit (
            id INTEGER PRIMARY KEY,
            time REAL NOT NULL,
            actor TEXT NOT NULL,
            action TEXT NOT NULL,
            subject TEXT NOT NULL,
            -- The identity before and after the change, as JSON without digests; NULL if there was none.
            before TEXT,
            after TEXT
        )
        """
    )


def m012_tag_exchanges(db: SQLiteConnection) -> None:
    """Tags of exchanges, and rollups of tagged exchanges by their set of tags, which `sums` has too (decision 46)."""
    # No row of an earlier release has tags, so none is written: `sums` with another key would be a copy of all of it.
    db.change("ALTER TABLE records ADD COLUMN tags INTEGER NOT NULL DEFAULT 0")
    db.change("CREATE TABLE tag_sets (id INTEGER PRIMARY KEY, tags TEXT NOT NULL UNIQUE)")
    texts = ", ".join(f"{name} TEXT NOT NULL" for name in _NAMES)
    measures = ", ".join(f"{name} INTEGER NOT NULL DEFAULT 0" for name in (*_FIRST_MEASURES, "bookkeeping"))
    for table, time in (("tag_sums", ("quarter",)), ("long_tag_sums", ("span", "start"))):
        columns = ", ".join(f"{name} INTEGER NOT NULL" for name in (*time, "tags"))
        db.change(
            f"CREATE TABLE {table} ({columns}, {texts}, {measures},"
            f" PRIMARY KEY ({', '.join((*time, 'tags', *_NAMES))})) WITHOUT ROWID"
        )
    _create_tag_triggers(db, (*_FIRST_MEASURES, "bookkeeping"))


def _create_tag_triggers(db: SQLiteConnection, measures: Sequence[str]) -> None:
    """Create the triggers by which `tag_sums` adds to `long_tag_sums`."""
    names = ("tags", *_NAMES)
    columns = ", ".join(("span", "start", *names, *measures))
    grown = ", ".join(f"{name} = {name} + excluded.{name}" for name in measures)
    for event, added in (("INSERT", "NEW.{0}"), ("UPDATE", "NEW.{0} - OLD.{0}")):
        values = ", ".join((*(f"NEW.{name}" for name in names), *(added.format(name) for name in measures)))
        spans = " ".join(
            f"INSERT INTO long_tag_sums ({columns}) VALUES ({span}, NEW.quarter / {span} * {span}, {values})"
            f" ON CONFLICT (span, start, {', '.join(names)}) DO UPDATE SET {grown};"
            for span in (4, 96)
        )
        db.change(f"CREATE TRIGGER tag_sums_{event.lower()} AFTER {event} ON tag_sums BEGIN {spans} END")


def m013_journals_of_version_2(db: SQLiteConnection) -> None:
    """No table changes: an earlier release must not open the file, since it would take lines of the present journals
    for nothing and remove them (decision 44)."""


def m014_index_given_items(db: SQLiteConnection) -> None:
    """The index of items that providers gave by a condition that a query can have on every engine (decision 47)."""
    db.change("DROP INDEX items_given")
    db.change("CREATE INDEX items_given ON items (id, owner) WHERE length(body) = 0")


def m015_number_turns(db: SQLiteConnection) -> None:
    """The order of turns of one second as a column, since only SQLite numbers rows by itself (decision 47)."""
    db.change(
        """
        CREATE TABLE numbered_turns (
            number INTEGER PRIMARY KEY,
            owner BLOB NOT NULL,
            call_id TEXT NOT NULL,
            expires INTEGER NOT NULL,
            size INTEGER NOT NULL,
            body BLOB NOT NULL,
            UNIQUE (owner, call_id)
        )
        """
    )
    columns = "owner, call_id, expires, size, body"
    db.change(f"INSERT INTO numbered_turns (number, {columns}) SELECT rowid, {columns} FROM turns")
    db.change("DROP TABLE turns")
    db.change("ALTER TABLE numbered_turns RENAME TO turns")
    db.change("CREATE INDEX turns_by_expiry ON turns (expires)")


# Groups of totals, besides the time.
_NAMES = ("key", "client", "provider", "model")
# Tables with totals, and the expression of their number for a thread.
_TOTALS = (("thread", "{0}"), ("session", "coalesce((SELECT session FROM threads WHERE id = {0}), -1)"))
# Measures of `sums` and `thread_sums`, as when these were created, like every step.
_FIRST_MEASURES = (
    "requests",
    "errors",
    "cancelled",
    "others",
    "input",
    "cache_read",
    "cache_write",
    "output",
    "thinking",
    "searches",
    "estimated",
    "cost",
    "unpriced",
    "losses",
    "took",
    "first",
    "firsts",
)
# The present measures.
MEASURES = (*_FIRST_MEASURES, "bookkeeping")

STEPS: tuple[Callable[[SQLiteConnection], None], ...] = (
    m001_store_responses,
    m002_promise_beside_the_response,
    m003_cache_turns,
    m004_persist_cooldowns,
    m005_store_records,
    m006_store_totals,
    m007_count_stored_bytes,
    m008_count_bookkeeping,
    m009_index_copies,
    m010_assign_on_demand,
    m011_store_identities,
    m012_tag_exchanges,
    m013_journals_of_version_2,
    m014_index_given_items,
    m015_number_turns,
)
# The first version of a file with identities.
IDENTITIES_VERSION = 1 + STEPS.index(m011_store_identities)


class NewerFile(StoreError):
    """A file that a later release has changed."""


def remedy_of(error: Exception, otherwise: str) -> str:
    """The remedy for a file that cannot be opened; `otherwise` is how to do without it."""
    if isinstance(error, NewerFile):
        return f"use the release that wrote it, or name another file, or {otherwise}"
    return f"name a file in a directory that can be written to, or {otherwise}"


def migrate(db: SQLiteConnection) -> None:
    """Bring a file to the present, one step at a time; several processes may try at once."""
    if _version(db) == len(STEPS):
        return
    with Transaction(db):
        for number in range(_version(db), len(STEPS)):
            STEPS[number](db)
            db.change(f"PRAGMA user_version = {number + 1}")


def _version(db: SQLiteConnection) -> int:
    version = db.version
    if version > len(STEPS):
        raise NewerFile("the file was written by a newer version")
    return version
