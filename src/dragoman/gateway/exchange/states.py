"""What the client of an exchange was sent so far."""

from __future__ import annotations

from enum import Enum


class SentState(Enum):
    """What the client was sent. It decides how a failure is reported (`failing`)."""

    NOTHING = "nothing"
    STATUS = "status"
    CONTENT = "content"
    ALL = "all"
