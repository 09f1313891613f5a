"""States of an exchange: what is waited for, and what the client was told. `machine.py` says how they follow."""

from __future__ import annotations

from enum import Enum, IntEnum


class State(IntEnum):
    """What is waited for."""

    FRESH = 1
    READING = 2
    RESOLVING = 3
    PREPARING = 4
    RESERVING = 5
    DETACHING = 6
    FOLLOWING = 7
    CALLING = 8
    REFUSED = 9
    RELIEVING = 10
    GATHERING = 11
    JUDGING = 12
    TRANSLATING = 13
    COLLECTING = 14
    FEEDING = 15
    CLOSING = 16
    NAMING = 17
    STORING_FULL = 18
    RESUMING = 19
    CONTINUING = 20
    READING_ON = 21
    STREAMING = 22
    MISSED = 23
    FINALIZING = 24
    STORING = 25
    BREAKING = 26
    ENDING = 27
    OVER = 28
    BACKING_OFF = 29
    CHOOSING = 30
    LOCATING = 31
    COUNTING = 32
    WEIGHING = 33


class SentState(Enum):
    """What the client was told."""

    NOTHING = "nothing"
    STATUS = "status"
    CONTENT = "content"
    ALL = "all"
