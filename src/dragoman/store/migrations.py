"""Migrations: the tables, as steps from an empty file to the present; a step that was released is never changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable


def m001_keep_responses(db: sqlite3.Connection) -> None:
    """Responses, their items and the conversations they stand in, and the events of background responses."""
    db.execute(
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
    db.execute("CREATE INDEX responses_by_root ON responses (root)")
    db.execute("CREATE INDEX responses_by_expiry ON responses (expires)")
    db.execute(
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
    db.execute("CREATE INDEX items_by_id ON items (id, owner)")
    db.execute(
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
    db.execute("CREATE INDEX conversations_by_expiry ON conversations (expires)")
    db.execute(
        """
        CREATE TABLE events (
            holder TEXT NOT NULL,
            number INTEGER NOT NULL,
            data BLOB NOT NULL,
            PRIMARY KEY (holder, number)
        ) WITHOUT ROWID
        """
    )


def m002_promise_beside_the_response(db: sqlite3.Connection) -> None:
    """Promises in a table of their own: to renew one there does not write a response's whole body again."""
    db.execute("CREATE TABLE promises (holder TEXT PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID")
    db.execute("INSERT INTO promises (holder, until) SELECT id, alive FROM responses WHERE alive > 0")
    db.execute("ALTER TABLE responses DROP COLUMN alive")


def m003_keep_turns(db: sqlite3.Connection) -> None:
    """Turns of clients that send back content and calls alone, and what all of them come to, in bytes."""
    db.execute(
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
    db.execute("CREATE INDEX turns_by_expiry ON turns (expires)")
    db.execute("CREATE TABLE turns_total (bytes INTEGER NOT NULL)")
    db.execute("INSERT INTO turns_total (bytes) VALUES (0)")


def m004_keep_rests(db: sqlite3.Connection) -> None:
    """Rests of targets and keys, until the time of day at which they are over."""
    db.execute("CREATE TABLE rests (subject TEXT PRIMARY KEY, expires REAL NOT NULL, body BLOB NOT NULL) WITHOUT ROWID")
    db.execute("CREATE INDEX rests_by_expiry ON rests (expires)")


STEPS: tuple[Callable[[sqlite3.Connection], None], ...] = (
    m001_keep_responses,
    m002_promise_beside_the_response,
    m003_keep_turns,
    m004_keep_rests,
)


def migrate(db: sqlite3.Connection) -> None:
    """Bring a file to the present, one step at a time; several processes may try at once."""
    if _version(db) == len(STEPS):
        return
    db.execute("BEGIN IMMEDIATE")
    with db:
        for number in range(_version(db), len(STEPS)):
            STEPS[number](db)
            db.execute(f"PRAGMA user_version = {number + 1}")


def _version(db: sqlite3.Connection) -> int:
    found = db.execute("PRAGMA user_version").fetchone()
    version = int(found[0])
    if version > len(STEPS):
        raise sqlite3.DatabaseError("the file was written by a newer version")
    return version
