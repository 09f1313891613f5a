"""Placing: which session and thread an exchange belongs to, found or begun while its line is drained (decision 33)."""

from __future__ import annotations

from msgspec import Struct

from dragoman.accounts.entry import Entry
from dragoman.store.speakers import Speakers


class Placed(Struct, frozen=True):
    """Where an exchange belongs, by the numbers of the tables; 0 is nowhere."""

    session: int = 0
    thread: int = 0


NOWHERE = Placed()


class Placer:
    """Finds where exchanges belong, in the order in which they were settled."""

    def __init__(self, speakers: Speakers) -> None:
        self._speakers = speakers

    def place(self, entry: Entry) -> Placed:
        """Where an exchange belongs."""
        return NOWHERE
