"""Placing: which session and thread an exchange belongs to; until there are rules, to none."""

from __future__ import annotations

from typing import NamedTuple

from dragoman.accounts.entry import Entry
from dragoman.store.speakers import Speakers


class Placed(NamedTuple):
    """Numbers of a session and a thread, 0 for none."""

    session: int = 0
    thread: int = 0


class Placer:
    """Finds where exchanges belong, in the order in which they were settled."""

    def __init__(self, speakers: Speakers) -> None:
        self._speakers = speakers

    def place(self, entry: Entry) -> Placed:
        """Where an exchange belongs."""
        return Placed()
