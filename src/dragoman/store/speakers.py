"""Speakers: the tables of sessions and threads."""

from __future__ import annotations

import sqlite3


class Speakers:
    """Sessions, their threads, and where histories ended."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
