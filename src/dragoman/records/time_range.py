"""Time range: a period as typed, in a time zone, widened to 15-minute buckets, which fit the days of every zone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo

from msgspec import Struct

from dragoman.errors import UsageError

# Seconds of a 15-minute bucket.
BUCKET_SECONDS = 900
_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_AGO = re.compile(r"([0-9]{1,9}) ?([mhdw])")
_DURATIONS = "0, 90m, 24h, 7d or 2w"
_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(:\d\d)?(Z|[+-]\d\d:?\d\d)?", re.ASCII)
ALL, TODAY, YESTERDAY = "all", "today", "yesterday"
_ENDS = "90d, 24h, 90m, 2w, a date (2027-01-31), which is included, or a date and time (2027-01-31T14:30)"
_FORMS = "7d, 24h, 90m, today, yesterday, all, a date (2026-01-31), or a date and time (2026-01-31T14:30)"
# Times that every time zone can express.
_EARLIEST, _LATEST = 86400, 253_370_764_800


class Zone(Struct, frozen=True, kw_only=True):
    """The time zone of days: `rules` are None for those of the machine."""

    name: str
    rules: tzinfo | None

    def local(self, moment: int) -> datetime:
        """A moment as clocks show it there, with the distance from UTC."""
        return datetime.fromtimestamp(moment, self.rules).astimezone(self.rules)

    def moment(self, shown: datetime) -> int:
        """When clocks show something: the first time if they do so twice, and as if they did not leap over it."""
        return int(shown.replace(tzinfo=self.rules, fold=0).timestamp())

    def begin(self, day: date) -> int:
        return self.moment(datetime(day.year, day.month, day.day))


class Period(Struct, frozen=True, kw_only=True):
    """From the start of a 15-minute bucket to the end of another, in seconds, and the requested range inside it."""

    zone: Zone
    since: int
    until: int
    requested_since: int
    requested_until: int

    @property
    def start(self) -> int:
        return self.since // BUCKET_SECONDS

    @property
    def end(self) -> int:
        """The quarter behind the last one."""
        return self.until // BUCKET_SECONDS

    @property
    def is_widened(self) -> bool:
        """Whether the range is wider than requested; until now means until now."""
        return (self.since, self.until) != (self.requested_since, self.requested_until)

    def days(self) -> Iterator[tuple[str, int, int]]:
        """Every day with its first quarter and the one behind its last, as far as they are within."""
        if self.since >= self.until:
            return
        day, start = self.zone.local(self.since).date(), self.start
        while start < self.end:
            day += timedelta(days=1)
            end = min(self.zone.begin(day) // BUCKET_SECONDS, self.end)
            if end > start:
                yield (day - timedelta(days=1)).isoformat(), start, end
                start = end


def zone_of(name: str) -> Zone:
    """The zone of a name (`Europe/Berlin`, `UTC`, `+05:30`); that of the machine for ""."""
    if not name:
        return Zone(name="local", rules=None)
    if name.upper() in ("UTC", "Z"):
        return Zone(name="UTC", rules=UTC)
    if fixed := _OFFSET.fullmatch(name):
        minutes = int(fixed[2]) * 60 + int(fixed[3])
        if int(fixed[3]) < 60 and minutes < 24 * 60 and minutes % 15 == 0:
            distance = timedelta(minutes=-minutes if fixed[1] == "-" else minutes)
            return Zone(name=name, rules=timezone(distance))
    # Here: gateways load this module, and seldom any zone.
    from zoneinfo import ZoneInfo

    try:
        return Zone(name=name, rules=ZoneInfo(name))
    except (OSError, ValueError, KeyError):
        # A name that is none, and one that leads out of the folder of zones.
        raise UsageError(
            f"zone: {name!r} is not known on this machine; zones are named as Europe/Berlin, UTC or +05:30"
        ) from None


def period_of(zone: Zone, now: int, *, since: str, until: str = "", first: int | None = None) -> Period:
    """The range of two texts; "" is now, and `all` from the `first` moment that is known."""
    if since == ALL:
        begins = min(now, now if first is None else first)
    else:
        begins = _read("--since", since, zone, now, end=False)
    ends = _read("--until", until, zone, now, end=True) if until else now
    if begins > ends or (until and begins == ends):
        shown = [zone.local(moment).isoformat(" ", "minutes") for moment in (begins, ends)]
        raise UsageError(f"since {shown[0]} is not before until {shown[1]}")
    # The present quarter is not over: whatever is in it was before now.
    return Period(
        zone=zone,
        since=begins // BUCKET_SECONDS * BUCKET_SECONDS,
        until=-(-ends // BUCKET_SECONDS) * BUCKET_SECONDS if until else (ends // BUCKET_SECONDS + 1) * BUCKET_SECONDS,
        requested_since=begins,
        requested_until=ends if until else (ends // BUCKET_SECONDS + 1) * BUCKET_SECONDS,
    )


def end_of(option: str, text: str, zone: Zone, now: int) -> int:
    """When something ends, in seconds: after a duration, at a time, or with the last second of a date."""
    if ahead := _AGO.fullmatch(text.strip()):
        moment: int | None = now + _seconds(ahead)
    else:
        moment = _valid_moment(text, zone, now, end=True)
    if moment is None or moment >= _LATEST:
        raise UsageError(f"{option}: {text!r} is no end; it may be {_ENDS}")
    return moment


def duration_of(option: str, text: str) -> int:
    """A duration in seconds."""
    match = _AGO.fullmatch(text.strip())
    if match is None and text.strip() != "0":
        raise UsageError(f"{option}: {text!r} is no duration; it may be {_DURATIONS}")
    return 0 if match is None else _seconds(match)


def _seconds(match: re.Match[str]) -> int:
    return int(match[1]) * _UNITS[match[2]]


def _read(option: str, text: str, zone: Zone, now: int, *, end: bool) -> int:
    moment = _valid_moment(text, zone, now, end=end)
    if moment is None:
        raise UsageError(f"{option}: {text!r} is no time; it may be {_FORMS}")
    return moment


def _valid_moment(text: str, zone: Zone, now: int, *, end: bool) -> int | None:
    """The moment that a text names; None if it is no time that every zone can express."""
    try:
        moment = _moment(text.strip(), zone, now, end=end)
    except (ValueError, OverflowError):
        # There is no such day, or no calendar goes so far.
        return None
    return moment if moment is not None and _EARLIEST <= moment < _LATEST else None


def _moment(text: str, zone: Zone, now: int, *, end: bool) -> int | None:
    if ago := _AGO.fullmatch(text):
        return max(now - _seconds(ago), _EARLIEST)
    today = zone.local(now).date()
    if text in (TODAY, YESTERDAY) or _DAY.fullmatch(text):
        named = {TODAY: today, YESTERDAY: today - timedelta(days=1)}
        day = named.get(text) or date.fromisoformat(text)
        return zone.begin(day + timedelta(days=1) if end else day)
    if match := _TIME.fullmatch(text):
        shown = datetime.fromisoformat(f"{match[1]}T{match[2]}{match[3] or ':00'}")
        if match[4]:
            shown = shown.replace(tzinfo=datetime.fromisoformat(f"2000-01-01T00:00:00{match[4]}").tzinfo)
            return int(shown.timestamp())
        return zone.moment(shown)
    return None
