"""Logs: one line per exchange, JSON here and readable on a terminal (`log_columns.py`); never a prompt, never a key.

Whatever came from outside is written so that it cannot end a line, move a cursor or pose as another field.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TextIO

from dragoman.errors import WireError
from dragoman.gateway.observability.log_columns import MAX_FIELD_LENGTH, LogColumns, thread_in
from dragoman.gateway.observability.log_writer import LogWriter
from dragoman.gateway.observability.record import Record, RecordedAttempt
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.prices.money import NANO, in_units
from dragoman.records.journal_entry import CandidateEntry, CostBreakdown
from dragoman.terminal import Screen, descriptor_of, screen_of
from dragoman.translate import changes_in
from dragoman.wire.json import encode

_MAX_LABEL = 120
_DELETE = b"\x7f"
_MICROSECONDS = 1_000_000


class Log:
    """Writes to one stream, as text or as JSON, and never waits for whoever reads it."""

    def __init__(
        self,
        out: TextIO | None = None,
        *,
        json: bool | None = None,
        quiet: bool = False,
        screen: Screen | None = None,
        all_losses: bool = False,
    ) -> None:
        self._out = out or sys.stderr
        self._json = not self._out.isatty() if json is None else json
        self._quiet = quiet
        columns = LogColumns(screen or screen_of(self._out, os.environ), all_losses=all_losses)
        self._line: Callable[[Record], str] = self._as_json if self._json else columns.exchange
        self._event: Callable[[str, str, JsonObject], str] = _json_event if self._json else columns.event
        descriptor = descriptor_of(self._out)
        # None where lines go to a stream without a descriptor, which cannot block.
        self._writer = (
            LogWriter(descriptor, partial(_dropped_lines_event, self._event)) if descriptor is not None else None
        )

    @property
    def lines_dropped(self) -> int:
        """Number of lines that were not written."""
        return self._writer.dropped if self._writer is not None else 0

    def exchange(self, record: Record) -> None:
        """Tell one exchange; of those that are refused at the door somebody must hear in any case."""
        if record.at_door or not self._quiet:
            self._write(self._line(record), own=False)

    def event(self, level: str, message: str, **fields: JsonValue) -> None:
        """Tell what the gateway itself does."""
        self._write(self._event(level, message, fields), own=True)

    def report(self, level: str, message: str, words: str, **fields: JsonValue) -> None:
        """Tell what the gateway itself does: by fields where programs read it, in words where people do."""
        self._write(self._event(level, message, fields) if self._json else self._event(level, words, {}), own=True)

    def bound(self, make_room: Callable[[int], None]) -> None:
        """Have somebody make room before anything is written."""
        if self._writer is not None:
            self._writer.make_room = make_room

    def close(self) -> None:
        """Give what waits a moment to be written, before the process ends."""
        if self._writer is not None:
            self._writer.close()

    def _write(self, line: str, *, own: bool) -> None:
        if self._writer is not None:
            self._writer.put(_encode_line(line), own=own)
        else:
            self._out.write(line + "\n")

    def _as_json(self, record: Record) -> str:
        usage, breakdown = record.usage, record.cost
        cost = None if breakdown is None else _dollars(breakdown)
        changes = len(changes_in(record.losses))
        line: JsonObject = {
            "time": _now(),
            "level": "error" if record.is_fault else "info",
            "event": "exchange",
            "id": record.id,
            "address": record.address,
            "key": record.key,
            "client_protocol": record.client_protocol,
            # Of what is refused at the door the path is all that there is to know.
            "path": record.path[: MAX_FIELD_LENGTH if record.at_door else _MAX_LABEL],
            "requested_model": record.requested_model[:_MAX_LABEL],
            "provider": record.provider,
            "model": record.model[:_MAX_LABEL],
            "provider_protocol": record.provider_protocol,
            "stream": record.stream,
            "status": record.status,
            "duration": round(record.ended - record.started, 4),
            "attempt_count": len(record.attempts),
            "losses": changes,
        }
        if len(record.losses) > changes:
            line["bookkeeping_losses"] = len(record.losses) - changes
        if record.route:
            line["route"], line["policy"], line["reason"] = record.route[:_MAX_LABEL], record.policy, record.reason
            line["attempts"] = [_attempt_as_json(attempt, breakdown, cost) for attempt in record.attempts]
        if record.candidates:
            line["candidates"] = [_candidate_as_json(each) for each in record.candidates]
            if record.candidates_more:
                line["candidates_more"] = record.candidates_more
        if record.queue_full:
            line["queue_full"] = [target[:_MAX_LABEL] for target in record.queue_full]
        if record.first_content:
            line["time_to_first_token"] = round(record.first_content - record.started, 4)
        if (tokens := record.tokens) is not None:
            line["input"], line["output"], line["cache_read"] = tokens.input, tokens.output, tokens.cache_read
        elif usage is not None:
            line["input"], line["output"] = usage.input, usage.output
            line["cache_read"] = usage.cache_read or 0
        if record.estimated:
            line["estimated"] = True
        if breakdown is not None:
            line["cost"] = cost
            if breakdown.unpriced:
                line["unpriced"] = list(breakdown.unpriced)
            if breakdown.reported is not None:
                line["reported_cost"] = in_units(breakdown.reported, NANO)
        if record.program:
            line["client"] = record.program
        if record.launch:
            line["launch"] = record.launch
        if record.facts.session:
            line["session"] = record.facts.session
        if thread := thread_in(record):
            line["thread"] = thread
        if record.failure:
            line["failure"] = record.failure
        if record.refusal:
            line["refusal"] = record.refusal[:MAX_FIELD_LENGTH]
        if record.advice:
            line["advice"] = record.advice[:MAX_FIELD_LENGTH]
        if record.provider_request_id:
            line["provider_request_id"] = record.provider_request_id
        return _json_line(line)


def _dollars(breakdown: CostBreakdown) -> str | None:
    """The cost in dollars, exact; None if no part of it has a price."""
    return None if breakdown.known_total is None else in_units(breakdown.known_total, NANO)


def _attempt_as_json(attempt: RecordedAttempt, breakdown: CostBreakdown | None, cost: str | None) -> JsonValue:
    """One of the calls that were made for an exchange, and what became of it; `cost` is the total of `breakdown`."""
    fields: JsonObject = {
        "target": f"{attempt.provider}/{attempt.model[:_MAX_LABEL]}",
        "kind": attempt.kind,
        "status": attempt.status,
        "duration": round(max(attempt.ended - attempt.started, 0.0), 4),
    }
    counted = attempt.tokens or attempt.usage
    if counted is not None:
        fields["input"], fields["output"] = counted.input, counted.output
    if attempt.cost is not None:
        # Of most exchanges there is one call, which cost what the exchange did.
        fields["cost"] = cost if attempt.cost is breakdown else _dollars(attempt.cost)
    if attempt.maybe_billed:
        fields["maybe_billed"] = True
    return fields


def _candidate_as_json(candidate: CandidateEntry) -> JsonValue:
    """One of the targets that an exchange might have gone to; what is not known is left out."""
    fields: JsonObject = {"target": candidate.target[:_MAX_LABEL]}
    if candidate.why:
        fields["reason"] = candidate.why
    if candidate.cost is not None:
        fields["cost"] = in_units(candidate.cost, NANO)
    if candidate.losses is not None:
        fields["losses"] = candidate.losses
    if candidate.first_token is not None:
        fields["first_token"] = round(candidate.first_token / _MICROSECONDS, 4)
    if candidate.rate is not None:
        fields["tokens_per_second"] = candidate.rate
    return fields


def _json_event(level: str, message: str, fields: JsonObject) -> str:
    return _json_line({"time": _now(), "level": level, "event": message, **_cut(fields)})


def _dropped_lines_event(event: Callable[[str, str, JsonObject], str], lines: int) -> bytes:
    return _encode_line(event("warn", "log lines dropped", {"lines": lines}))


def _encode_line(line: str) -> bytes:
    return line.encode("utf-8", "backslashreplace") + b"\n"


def _json_line(line: JsonObject) -> str:
    """One line for a machine that a terminal may still show: what JSON allows but is not printable is escaped."""
    try:
        written = encode(line)
        text = written.decode()
        if written.isascii() and _DELETE not in written:
            # All other control characters are escaped already, and letter by letter takes far longer to see.
            return text
    except WireError:
        # A lone surrogate, as in the name of a file that is not UTF-8.
        text = encode({name: _mended(value) for name, value in line.items()}).decode()
    return text if text.isprintable() else _unprintable(_escape, text)


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


_SECOND: list[int | str] = [0, ""]


def _now() -> str:
    """The time. Formatting it costs more than the rest of a line, and a second has many lines."""
    now = int(time.time())
    if now != _SECOND[0]:
        _SECOND[:] = (now, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)))
    return str(_SECOND[1])
