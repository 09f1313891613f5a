"""Migrations of the contents tables, with the statements of both engines; a step that was released is never changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.store.connection import Connection, Transaction
from dragoman.store.contents import CONTENTS
from dragoman.store.errors import NewerContents
from dragoman.store.sqlite import SQLiteConnection

if TYPE_CHECKING:
    from dragoman.store.postgres import PostgresConnection

CONTENTS_SCHEMA = "dragoman_contents"
_TYPES = {
    "sqlite": {"TEXT": "TEXT", "BLOB": "BLOB", "INTEGER": "INTEGER"},
    "postgres": {"TEXT": 'text COLLATE "C"', "BLOB": "bytea", "INTEGER": "bigint"},
}
_STEPS: tuple[tuple[str, ...], ...] = (
    (
        # The secret for digests; salt and check of the encryption key.
        "CREATE TABLE meta (name {TEXT} PRIMARY KEY, value {BLOB} NOT NULL)",
        "CREATE TABLE exchanges (id {TEXT} PRIMARY KEY, time {INTEGER} NOT NULL, key {TEXT} NOT NULL,"
        # Why none of its bodies are stored; '' if they are.
        " reason {TEXT} NOT NULL)",
        "CREATE INDEX exchanges_by_time ON exchanges (time, id)",
        "CREATE INDEX exchanges_by_key ON exchanges (key)",
        # The sides are those of `contents.exchange_contents.BodySide`.
        "CREATE TABLE bodies (exchange {TEXT} NOT NULL, attempt {INTEGER} NOT NULL, side {INTEGER} NOT NULL,"
        " size {INTEGER} NOT NULL, digest {BLOB} NOT NULL, recipe {BLOB} NOT NULL, reason {TEXT} NOT NULL,"
        " PRIMARY KEY (exchange, attempt, side))",
        # The lists that an exchange uses.
        "CREATE TABLE lists (exchange {TEXT} NOT NULL, node {BLOB} NOT NULL, PRIMARY KEY (exchange, node))",
        # A list: that of its parent, and one element more.
        "CREATE TABLE nodes (digest {BLOB} PRIMARY KEY, parent {BLOB} NOT NULL, piece {BLOB} NOT NULL,"
        # How the element differs from the body of its piece.
        " difference {BLOB} NOT NULL, uses {INTEGER} NOT NULL)",
        "CREATE INDEX nodes_unused ON nodes (digest) WHERE uses = 0",
        "CREATE TABLE pieces (digest {BLOB} PRIMARY KEY, spelling {BLOB} NOT NULL, size {INTEGER} NOT NULL,"
        " body {BLOB} NOT NULL, uses {INTEGER} NOT NULL)",
        "CREATE INDEX pieces_unused ON pieces (digest) WHERE uses = 0",
        "CREATE TABLE totals (name {TEXT} PRIMARY KEY, bytes {INTEGER} NOT NULL)",
        "INSERT INTO totals (name, bytes) VALUES ('contents', 0)",
    ),
    # Erasures: the digest of a key's name, and the time up to which exchanges that began are not stored any more.
    ("CREATE TABLE erasures (scope {BLOB} PRIMARY KEY, asked {INTEGER} NOT NULL)",),
)
NEWEST = len(_STEPS)


def migrate_file(db: SQLiteConnection) -> None:
    """Bring a file to the present; several processes may try at once."""
    if check_version(db.version) == NEWEST:
        return
    with Transaction(db):
        for number in range(check_version(db.version), NEWEST):
            _run(db, number, "sqlite")
            db.change(f"PRAGMA user_version = {number + 1}")


def migrate_schema(db: PostgresConnection) -> None:
    """Bring the schema of the contents to the present; several processes may try at once."""
    if check_version(db.version) == NEWEST:
        return
    with Transaction(db, CONTENTS):
        version = check_version(db.version)
        if version == 0:
            db.script(
                f"CREATE SCHEMA IF NOT EXISTS {CONTENTS_SCHEMA};"
                "CREATE TABLE schema_version (version bigint NOT NULL, oldest bigint NOT NULL);"
                "INSERT INTO schema_version (version, oldest) VALUES (0, 1)"
            )
        for number in range(version, NEWEST):
            _run(db, number, "postgres")
            db.change("UPDATE schema_version SET version = ?", (number + 1,))


def _run(db: Connection, number: int, engine: str) -> None:
    for statement in _STEPS[number]:
        db.change(statement.format_map(_TYPES[engine]))


def check_version(version: int) -> int:
    """The version of the tables, which no later release has changed."""
    if version > NEWEST:
        raise NewerContents("the contents were written by a newer version: use the release that wrote them")
    return version
