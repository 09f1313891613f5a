"""What was sent to the client of an exchange so far."""

from __future__ import annotations

from enum import Enum


class SentState(Enum):
    """What was sent to the client. It decides how a failure is reported (`failing`)."""

    NOTHING = "nothing"
    STATUS = "status"
    CONTENT = "content"
    ALL = "all"
