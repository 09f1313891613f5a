"""Exchange contents: the bodies of one exchange, captured or stored."""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct


class BodySide(IntEnum):
    """Which body of an attempt it is; the client's bodies are those of attempt 0. Stored: never change a number."""

    CLIENT_REQUEST = 0
    PROVIDER_REQUEST = 1
    PROVIDER_RESPONSE = 2
    CLIENT_RESPONSE = 3


class StoredBody(Struct, frozen=True, kw_only=True):
    """One body, as it was captured or as it is stored; if it is missing, the reason."""

    side: BodySide
    attempt: int = 0
    data: bytes = b""
    reason: str = ""


class ExchangeContents(Struct, frozen=True, kw_only=True):
    """The bodies of one exchange, or the reason why none are stored. `time` is in microseconds since 1970."""

    id: str
    time: int
    key: str
    bodies: tuple[StoredBody, ...] = ()
    reason: str = ""
