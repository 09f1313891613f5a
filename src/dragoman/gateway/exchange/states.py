"""States of an exchange: what is waited for, and what the client was told. `machine.py` says how they follow."""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """What is waited for."""

    FRESH = "fresh"
    READING = "reading"
    RECALLING = "recalling"
    PREPARING = "preparing"
    RESERVING = "reserving"
    LEAVING = "leaving"
    FOLLOWING = "following"
    CALLING = "calling"
    REFUSED = "refused"
    RELIEVING = "relieving"
    GATHERING = "gathering"
    JUDGING = "judging"
    TRANSLATING = "translating"
    COLLECTING = "collecting"
    FEEDING = "feeding"
    CLOSING = "closing"
    NAMING = "naming"
    KEEPING = "keeping"
    RESUMING = "resuming"
    CONTINUING = "continuing"
    READING_ON = "reading on"
    HEARING = "hearing"
    MISSED = "missed"
    SETTLING = "settling"
    STORING = "storing"
    BREAKING = "breaking"
    ENDING = "ending"
    OVER = "over"


class Told(Enum):
    """What the client was told."""

    NOTHING = "nothing"
    STATUS = "status"
    CONTENT = "content"
    ALL = "all"
