"""Ids of exchanges: they ascend, since each begins with its time, by which its row is found (decision 32)."""

from __future__ import annotations

from collections.abc import Callable

_BEGINNING = "req_"
# Digits of the time in microseconds, in hex: enough until the year 2112. What follows it nobody can guess.
_DIGITS = 13
_LETTERS = 11
_LENGTH = len(_BEGINNING) + _DIGITS + _LETTERS


def new_id(now: int, token: Callable[[int], str]) -> str:
    """An id for an exchange that begins now, in microseconds."""
    return f"{_BEGINNING}{now:0{_DIGITS}x}{token(_LETTERS)}"


def time_of(name: str) -> int | None:
    """When an exchange began by its id, in microseconds, a moment more or less; None if it is no id of ours."""
    digits = name[len(_BEGINNING) : len(_BEGINNING) + _DIGITS]
    if len(name) != _LENGTH or not name.startswith(_BEGINNING) or not set(digits) <= set("0123456789abcdef"):
        return None
    return int(digits, 16)
