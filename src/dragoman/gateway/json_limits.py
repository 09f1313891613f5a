"""Value limits: a body that holds too many values is refused before they are built, whatever its length.

    a request       500,000 values, or members where only those are read      413
    an answer       2,000,000 values                                          502
    an event        likewise (`streaming/source.py`)                          the stream breaks

Far more than any conversation needs that fits a model; a text or a picture is one value, however long.
"""

from __future__ import annotations

from dragoman.errors import ClientError, Oversized
from dragoman.model.jsonvalue import JsonObject
from dragoman.wire.json import decode_object
from dragoman.wire.value_count import MEMBERS, exceeds

MOST_ASKED = 500_000
MOST_ANSWERED = 2_000_000


def weigh_request(body: bytes) -> None:
    """Refuse a request with too many values."""
    if exceeds(body, MOST_ASKED):
        raise ClientError(413, f"the request holds too many values; {MOST_ASKED} are taken at most")


def weigh_members(body: bytes) -> None:
    """Refuse a request with too many members; its lists may be as long as they like, for they are passed on unread."""
    if exceeds(body, MOST_ASKED, MEMBERS):
        raise ClientError(413, f"the request holds too many members; {MOST_ASKED} are taken at most")


def weigh_answer(body: bytes) -> None:
    """Refuse a provider's answer with too many values."""
    if exceeds(body, MOST_ANSWERED):
        raise Oversized("the provider's answer holds too many values")


def weighed_object(body: bytes) -> JsonObject:
    """A request's object, if it does not hold too many values."""
    weigh_request(body)
    return decode_object(body)
