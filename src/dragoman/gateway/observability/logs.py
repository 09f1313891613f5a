"""Logs: one line per exchange, as JSON here or as text (`log_columns.py`); never a prompt, never a key. Values from
outside are escaped: they cannot end a line, move a cursor or pose as another field."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TextIO, TypeAlias

from msgspec import UNSET, Struct, UnsetType, to_builtins
from msgspec.json import Encoder
from msgspec.structs import astuple

from dragoman.errors import WireError
from dragoman.gateway.observability.log_columns import MAX_FIELD_LENGTH, LogColumns, is_fault, thread_in
from dragoman.gateway.observability.log_writer import LogWriter, StreamWriter
from dragoman.gateway.observability.record import LogDetails
from dragoman.model.features import weight_of
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.prices.money import NANO, in_units
from dragoman.records.journal_entry import CallEntry, CandidateEntry, CostBreakdown, JournalEntry
from dragoman.terminal import Screen, descriptor_of, screen_of
from dragoman.wire.json import encode

# Maximum characters of names from outside.
_LABEL = slice(120)
_DELETE = 0x7F
_encode = Encoder().encode
_MICROSECONDS = 1_000_000
# Exchanges that may wait to be logged; how many the thread takes at a time, and the seconds between them.
MAX_ENDED = 1024
_AT_ONCE = 32
_PAUSE = 0.001


class Log:
    """Writes to one stream, as text or as JSON, and never blocks on its reader. The writer's thread, or a scrape, logs
    and counts exchanges in batches and in order; an event follows the exchanges that ended before it."""

    def __init__(
        self,
        out: TextIO | None = None,
        *,
        json: bool | None = None,
        quiet: bool = False,
        screen: Screen | None = None,
        all_losses: bool = False,
    ) -> None:
        out = out or sys.stderr
        self._json = not out.isatty() if json is None else json
        self._quiet = quiet
        columns = LogColumns(screen or screen_of(out, os.environ), all_losses=all_losses)
        self._line: Callable[[JournalEntry, LogDetails, str, int], bytes] = _as_json
        self._event: Callable[[str, str, JsonObject], bytes] = _json_event
        if not self._json:
            self._line = lambda entry, details, thread, total: _encode_line(columns.exchange(entry, details))
            self._event = lambda level, message, fields: _encode_line(columns.event(level, message, fields))
        # Ended exchanges that are neither logged nor counted yet, and their counter.
        self._ended: deque[tuple[JournalEntry, LogDetails]] = deque()
        self.count: Callable[[JournalEntry, str, int], None] = lambda entry, thread, total: None
        # Held while a batch is counted.
        self.count_lock = threading.RLock()
        self._is_flushing = False
        descriptor = descriptor_of(out)
        self._writer: LogWriter | StreamWriter = (
            StreamWriter(out, self.flush)
            if descriptor is None
            else LogWriter(descriptor, partial(_dropped_lines_event, self._event), self._flush_slowly)
        )

    @property
    def lines_dropped(self) -> int:
        """Number of lines that were not written."""
        return self._writer.dropped

    def exchange(self, entry: JournalEntry, details: LogDetails) -> None:
        """Have an exchange logged and counted, 100 ms later at most."""
        self._ended.append((entry, details))
        if not self._writer.is_awake:
            self._writer.wake()
        elif len(self._ended) >= MAX_ENDED:
            # The thread waits for a reader.
            self.flush()

    def flush(self, most: int = MAX_ENDED) -> None:
        """Log and count the first exchanges that have ended."""
        with self._writer.lock, self.count_lock:
            if self._is_flushing:
                # Garbage collection meanwhile logs something.
                return
            self._is_flushing = True
            lines: list[bytes] = []
            try:
                for _ in range(min(len(self._ended), most)):
                    entry, details = self._ended.popleft()
                    # Once for the line and the counters.
                    facts, cost = entry.facts, entry.cost
                    thread = thread_in(entry) if facts.session or facts.client else ""
                    total = 0 if cost is None else cost.total
                    # A request that is refused at the door is logged in any case.
                    if details.at_door or not self._quiet:
                        lines.append(self._line(entry, details, thread, total))
                    self.count(entry, thread, total)
            finally:
                self._is_flushing = False
                self._writer.put(lines, own=False)

    def _flush_slowly(self) -> None:
        """Do so in the writer's thread, with pauses in between: the event loop needs the interpreter."""
        while self._ended:
            self.flush(_AT_ONCE)
            if self._ended:
                time.sleep(_PAUSE)

    def event(self, level: str, message: str, **fields: JsonValue) -> None:
        """Log an event of the gateway."""
        self._put_event(self._event(level, message, fields))

    def report(self, level: str, message: str, words: str, **fields: JsonValue) -> None:
        """Log an event of the gateway: as fields in JSON, in words for people."""
        self._put_event(self._event(level, message, fields) if self._json else self._event(level, words, {}))

    def _put_event(self, line: bytes) -> None:
        with self._writer.lock:
            self.flush()
            self._writer.put((line,), own=True)

    def bound(self, make_room: Callable[[int], None]) -> None:
        """Set the callback that makes room before a write."""
        self._writer.make_room = make_room

    def close(self) -> None:
        """Give what waits a moment to be written, before the process ends."""
        self.flush()
        self._writer.close()


class _SharedMembers(Struct, gc=False):
    """Members in the middle of a line, which are the same for most exchanges of one client."""

    address: str
    key: str
    client_protocol: str
    path: str
    requested_model: str
    provider: str
    model: str
    provider_protocol: str
    stream: bool
    status: int


_Shared: TypeAlias = tuple[str, str, str, str, str, str, str, str, bool, int]


class _AttemptMembers(Struct, gc=False):
    """Members of one call, without inapplicable ones."""

    target: str
    kind: str
    status: int
    duration: float
    input: int | UnsetType
    output: int | UnsetType
    cost: str | UnsetType | None
    maybe_billed: bool | UnsetType


class _OwnMembers(Struct, gc=False):
    """Members at the end of a line, specific to one exchange, without inapplicable ones."""

    duration: float
    attempt_count: int
    losses: int
    bookkeeping_losses: int | UnsetType
    route: str | UnsetType
    policy: str | UnsetType
    reason: str | UnsetType
    attempts: list[_AttemptMembers] | UnsetType
    candidates: JsonList | UnsetType
    candidates_more: int | UnsetType
    queue_full: JsonList | UnsetType
    time_to_first_token: float | UnsetType
    input: int | UnsetType
    output: int | UnsetType
    cache_read: int | UnsetType
    estimated: bool | UnsetType
    cost: str | UnsetType | None
    unpriced: tuple[str, ...] | UnsetType
    reported_cost: str | UnsetType
    client: str | UnsetType
    launch: str | UnsetType
    session: str | UnsetType
    thread: str | UnsetType
    failure: str | UnsetType
    refusal: str | UnsetType
    advice: str | UnsetType
    provider_request_id: str | UnsetType


def _as_json(entry: JournalEntry, details: LogDetails, thread: str, total: int) -> bytes:
    """The line of an exchange: its time, level and ID, then the shared members, then its own."""
    status, failure = entry.status, entry.failure
    is_error = status >= 500 or (failure != "" and is_fault(status, failure))
    shared = (
        details.address,
        entry.key,
        entry.client_protocol,
        # Of a request that is refused at the door the path is all that there is to know.
        details.path[:MAX_FIELD_LENGTH] if details.at_door else details.path[_LABEL],
        entry.requested_model[_LABEL],
        entry.provider,
        entry.model[_LABEL],
        entry.provider_protocol,
        entry.stream,
        status,
    )
    own = _own_members(entry, details, thread, total)
    second = (entry.time + entry.duration) // _MICROSECONDS
    try:
        # The gateway makes the id: JSON escapes nothing in it.
        return b"".join(
            (_line_start(second, is_error), entry.id.encode(), _shared_as_json(shared), _escaped(_encode(own))[1:])
        )
    except UnicodeEncodeError:
        fields: JsonObject = {"time": _instant(second), "level": _level(is_error), "event": "exchange", "id": entry.id}
        for part in (_SharedMembers(*shared), own):
            members = zip(part.__struct_fields__, astuple(part), strict=True)
            fields |= {name: to_builtins(value) for name, value in members if value is not UNSET}
        return _json_line(fields)


def _level(is_error: bool) -> str:
    return "error" if is_error else "info"


@lru_cache(maxsize=64)
def _line_start(second: int, is_error: bool) -> bytes:
    """A line up to the exchange's id."""
    return f'{{"time":"{_instant(second)}","level":"{_level(is_error)}","event":"exchange","id":"'.encode()


@lru_cache(maxsize=1024)
def _shared_as_json(shared: _Shared) -> bytes:
    """The shared members of a line, from the end of the id on. Encoding them costs as much as all others together."""
    return b'",' + _escaped(_encode(_SharedMembers(*shared)))[1:-2] + b","


def _own_members(entry: JournalEntry, details: LogDetails, thread: str, total: int) -> _OwnMembers:
    calls, losses, tokens, breakdown, route = entry.calls, entry.losses, entry.tokens, entry.cost, entry.route
    bookkeeping = len([0 for loss in losses if weight_of(loss.feature) == "bookkeeping"]) if losses else 0
    cost = None if breakdown is None else _dollars(breakdown, total)
    first = entry.first_content
    return _OwnMembers(
        # `_seconds`, without the call.
        (entry.duration + 50) // 100 / 10_000,
        len(calls),
        len(losses) - bookkeeping,
        bookkeeping or UNSET,
        route[_LABEL] if route else UNSET,
        entry.policy if route else UNSET,
        entry.reason if route else UNSET,
        [_attempt_members(call, breakdown, cost) for call in calls] if route else UNSET,
        [_candidate_as_json(each) for each in entry.candidates] if entry.candidates else UNSET,
        (entry.candidates_more or UNSET) if entry.candidates else UNSET,
        [target[_LABEL] for target in entry.queue_full] if entry.queue_full else UNSET,
        (first + 50) // 100 / 10_000 if first else UNSET,
        UNSET if tokens is None else tokens.input,
        UNSET if tokens is None else tokens.output,
        UNSET if tokens is None else tokens.cache_read,
        entry.estimated or UNSET,
        UNSET if breakdown is None else cost,
        UNSET if breakdown is None else breakdown.unpriced or UNSET,
        UNSET if breakdown is None or breakdown.reported is None else in_units(breakdown.reported, NANO),
        entry.program or UNSET,
        entry.launch or UNSET,
        entry.facts.session or UNSET,
        thread or UNSET,
        entry.failure or UNSET,
        details.refusal[:MAX_FIELD_LENGTH] if details.refusal else UNSET,
        details.advice[:MAX_FIELD_LENGTH] if details.advice else UNSET,
        entry.provider_request_id or UNSET,
    )


def _seconds(microseconds: int) -> float:
    """Seconds with four decimals; `round` takes four times as long."""
    return (microseconds + 50) // 100 / 10_000


def _dollars(breakdown: CostBreakdown, total: int) -> str | None:
    """The cost in dollars, exact; None if no part of it has a price. `total` is the breakdown's."""
    return None if breakdown.unpriced and not total else in_units(total, NANO)


def _attempt_members(call: CallEntry, breakdown: CostBreakdown | None, cost: str | None) -> _AttemptMembers:
    """One of the calls that were made for an exchange, and what became of it; `cost` is the total of `breakdown`."""
    tokens, spent, took = call.tokens, call.cost, call.ended - call.started
    return _AttemptMembers(
        f"{call.provider}/{call.model[_LABEL]}",
        call.kind,
        call.status,
        # `_seconds`, without the call.
        (took + 50) // 100 / 10_000 if took > 0 else 0.0,
        UNSET if tokens is None else tokens.input,
        UNSET if tokens is None else tokens.output,
        # Most exchanges have one call with the same cost.
        UNSET if spent is None else cost if spent is breakdown else _dollars(spent, spent.total),
        call.maybe_billed or UNSET,
    )


def _candidate_as_json(candidate: CandidateEntry) -> JsonValue:
    """One candidate target of an exchange, without unknown members."""
    fields: JsonObject = {"target": candidate.target[_LABEL]}
    if candidate.why:
        fields["reason"] = candidate.why
    if candidate.cost is not None:
        fields["cost"] = in_units(candidate.cost, NANO)
    if candidate.losses is not None:
        fields["losses"] = candidate.losses
    if candidate.first_token is not None:
        fields["first_token"] = _seconds(candidate.first_token)
    if candidate.rate is not None:
        fields["tokens_per_second"] = candidate.rate
    return fields


def _json_event(level: str, message: str, fields: JsonObject) -> bytes:
    return _json_line({"time": _instant(int(time.time())), "level": level, "event": message, **_cut(fields)})


def _dropped_lines_event(event: Callable[[str, str, JsonObject], bytes], lines: int) -> bytes:
    return event("warn", "log lines dropped", {"lines": lines})


def _encode_line(line: str) -> bytes:
    return line.encode("utf-8", "backslashreplace") + b"\n"


def _json_line(line: JsonObject) -> bytes:
    """One line for a machine that a terminal may still show: what JSON allows but is not printable is escaped."""
    try:
        written = encode(line)
    except WireError:
        # A lone surrogate, as in the name of a file that is not UTF-8.
        written = encode({name: _mended(value) for name, value in line.items()})
    return _escaped(written)


def _escaped(written: bytes) -> bytes:
    """A line in which nothing is left that could act on a terminal."""
    # All other control characters are escaped already.
    if written.isascii() and written.find(_DELETE) < 0:
        return written + b"\n"
    text = written.decode()
    return _encode_line(text if text.isprintable() else _unprintable(_escape, text))


def _mended(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return [_mended(each) for each in value]
    if isinstance(value, dict):
        return {name: _mended(each) for name, each in value.items()}
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


# Only characters beyond ASCII are left to be found, and those only inside strings.
_unprintable = re.compile(r"[^\x20-\x7e]").sub


def _escape(match: re.Match[str]) -> str:
    if match[0].isprintable():
        return match[0]
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _cut(fields: JsonObject) -> JsonObject:
    return {name: value[:MAX_FIELD_LENGTH] if isinstance(value, str) else value for name, value in fields.items()}


@lru_cache(maxsize=64)
def _instant(second: int) -> str:
    """A time. Formatting it costs more than the rest of a line, and a second has many lines."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))
