"""Timestamps in RFC 3339 (UTC), and durations of rate-limit headers (§22)."""

from __future__ import annotations

import math
import re

_instant = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(\.\d{1,9})?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
).fullmatch


def parse_instant(text: str) -> float | None:
    match = _instant(text.strip())
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(match[group]) for group in range(1, 7))
    if not 1 <= month <= 12 or not 1 <= day <= 31:
        return None
    seconds = _days(year, month, day) * 86400.0 + hour * 3600 + minute * 60 + second
    seconds += float(match[7]) if match[7] else 0.0
    if match[8]:
        offset = int(match[9]) * 3600 + int(match[10]) * 60
        seconds += -offset if match[8] == "+" else offset
    return seconds


def format_instant(seconds: int) -> str:
    days, rest = divmod(seconds, 86400)
    year, month, day = _date(days)
    return f"{year:04}-{month:02}-{day:02}T{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}Z"


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970 in the Gregorian calendar. Years begin in March, so that leap days come last."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


def _date(days: int) -> tuple[int, int, int]:
    """The date of a day since 1970, the inverse of `_days`."""
    era, of_era = divmod(days + 719468, 146097)
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * of_year + 2) // 153
    day = of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year + era * 400 + (month <= 2), month, day


_UNITS = {
    "d": 86400.0,
    "h": 3600.0,
    "m": 60.0,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "µs": 1e-6,  # the micro sign
    "\u03bcs": 1e-6,  # the Greek letter, which some servers use
    "ns": 1e-9,
}
# The number of digits is limited so that no header becomes infinity.
_NUMBER = r"\d{1,15}(?:\.\d{0,15})?|\.\d{1,15}"
_UNIT = "|".join(sorted(_UNITS, key=len, reverse=True))
_is_duration = re.compile(rf"(?:(?:{_NUMBER})(?:{_UNIT}))+", re.ASCII).fullmatch
_is_number = re.compile(_NUMBER, re.ASCII).fullmatch
_steps = re.compile(rf"({_NUMBER})({_UNIT})", re.ASCII).findall


def parse_duration(text: str) -> float | None:
    """A duration in seconds, or None. A bare number counts as seconds."""
    text = text.strip()
    if _is_number(text):
        return float(text)
    if not _is_duration(text):
        return None
    return math.fsum(float(number) * _UNITS[unit] for number, unit in _steps(text))


def format_duration(seconds: float) -> str:
    """Format a duration: whole seconds rounded up from one second on, milliseconds below, never negative."""
    if not seconds > 0:
        return "0s"
    # A product such as 0.07 * 1000 is slightly above an integer, and must not be rounded up.
    milliseconds = math.ceil(round(seconds * 1000, 6)) if seconds < 1 else 1000
    if milliseconds < 1000:
        return f"{max(1, milliseconds)}ms"
    minutes, whole = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{whole}s"
    return f"{minutes}m{whole}s" if minutes else f"{whole}s"
