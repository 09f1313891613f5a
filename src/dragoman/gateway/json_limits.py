"""Value limits: a body with too many JSON values is refused before they are built: a request (413) with 500,000 values,
or members where only those are read, a response (502) or an event (`streaming/source.py`) with 2,000,000. A text or a
picture is one value, so no conversation that fits a model comes near."""

from __future__ import annotations

from dragoman.errors import ClientError, Oversized
from dragoman.model.jsonvalue import JsonObject
from dragoman.wire.json import decode_object
from dragoman.wire.value_count import MEMBERS, exceeds

MAX_REQUEST_VALUES = 500_000
MAX_RESPONSE_VALUES = 2_000_000


def check_request_values(body: bytes) -> None:
    """Refuse a request with too many values."""
    if len(body) > MAX_REQUEST_VALUES and exceeds(body, MAX_REQUEST_VALUES):
        raise ClientError(413, f"the request holds too many values; {MAX_REQUEST_VALUES} are taken at most")


def check_request_members(body: bytes) -> None:
    """Refuse a request with too many members; its lists may be as long as they like, for they are passed on unread."""
    if exceeds(body, MAX_REQUEST_VALUES, MEMBERS):
        raise ClientError(413, f"the request holds too many members; {MAX_REQUEST_VALUES} are taken at most")


def check_response_values(body: bytes) -> None:
    """Refuse a provider's answer with too many values."""
    if len(body) > MAX_RESPONSE_VALUES and exceeds(body, MAX_RESPONSE_VALUES):
        raise Oversized("the provider's response has too many values")


def decode_checked_object(body: bytes) -> JsonObject:
    """A request's object, if it does not hold too many values."""
    check_request_values(body)
    return decode_object(body)
