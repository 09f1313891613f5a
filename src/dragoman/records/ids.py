"""Ids of exchanges: they ascend, since each begins with its time, by which its row is found (decision 32)."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.rules.ids import object_suffix

ID_PREFIX = "req_"
# Digits of the time in microseconds, in hex, from the year 1978 to 2112. The letters after them cannot be guessed.
_DIGITS = 13
_LETTERS = 11
# The minimum digits of an ID prefix: the rest covers a little more than an hour. Clocks are read more than once, and
# are set between.
_MIN_DIGITS = 5
_MOMENT = 2_000_000


def new_id(now: int, token: Callable[[int], str]) -> str:
    """An id for an exchange that begins now, in microseconds."""
    # A format with a width takes three times as long.
    return f"{ID_PREFIX}{hex(now)[2:]}{token(_LETTERS)}"


def response_suffix(exchange: str) -> str:
    """The ID of a response, derived from its exchange, if its provider gave none that is valid (N4)."""
    return exchange.removeprefix(ID_PREFIX)


def exchange_of(response_id: str) -> str:
    """The exchange that an answer would be called after by this id; "" if by that none is."""
    suffix = object_suffix(response_id) or ""
    return f"{ID_PREFIX}{suffix}" if len(suffix) == _DIGITS + _LETTERS else ""


def times_of(beginning: str) -> tuple[int, int] | None:
    """The rough first and last microsecond of ids with this prefix; None if it is not one of ours, or too short."""
    digits = beginning[len(ID_PREFIX) : len(ID_PREFIX) + _DIGITS]
    if not beginning.startswith(ID_PREFIX) or len(digits) < _MIN_DIGITS or not set(digits) <= set("0123456789abcdef"):
        return None
    low, high = (int(digits.ljust(_DIGITS, end), 16) for end in "0f")
    return low - _MOMENT, high + _MOMENT
