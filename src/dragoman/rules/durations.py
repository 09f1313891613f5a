"""Durations as rate-limit headers spell them (§22): `120ms`, `12s`, `6m0s`, `1h2m3s`."""

from __future__ import annotations

import math
import re

_UNITS = {
    "d": 86400.0,
    "h": 3600.0,
    "m": 60.0,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "µs": 1e-6,  # the micro sign
    "\u03bcs": 1e-6,  # the Greek letter, as some writers have it
    "ns": 1e-9,
}
# Digits are bounded so that no header becomes infinity.
_NUMBER = r"\d{1,15}(?:\.\d{0,15})?|\.\d{1,15}"
_UNIT = "|".join(sorted(_UNITS, key=len, reverse=True))
_is_duration = re.compile(rf"(?:(?:{_NUMBER})(?:{_UNIT}))+", re.ASCII).fullmatch
_is_number = re.compile(_NUMBER, re.ASCII).fullmatch
_steps = re.compile(rf"({_NUMBER})({_UNIT})", re.ASCII).findall


def parse_duration(text: str) -> float | None:
    """Read a duration in seconds; a bare number counts as seconds, anything else is none."""
    text = text.strip()
    if _is_number(text):
        return float(text)
    if not _is_duration(text):
        return None
    return math.fsum(float(number) * _UNITS[unit] for number, unit in _steps(text))


def format_duration(seconds: float) -> str:
    """Write a duration: whole seconds rounded up from one second on, milliseconds below, never negative."""
    if not seconds > 0:
        return "0s"
    # A millisecond count such as 0.07 * 1000 is not quite whole; that must not add another one.
    milliseconds = math.ceil(round(seconds * 1000, 6)) if seconds < 1 else 1000
    if milliseconds < 1000:
        return f"{max(1, milliseconds)}ms"
    minutes, whole = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{whole}s"
    return f"{minutes}m{whole}s" if minutes else f"{whole}s"
