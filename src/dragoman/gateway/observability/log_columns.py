"""Log columns: an exchange as a line that people read, as wide as their terminal, in colour if it has any.

    14:02:11 200 /messages   1.2s    4123+340 fast → openai/gpt-5.1  -top_k ~effort  key laptop
    14:02:15 502 /messages   12ms           - fast → ollama/qwen3
             bad_gateway: ollama unreachable

Time, status, path, duration, tokens in + out (`~` if counted here); then requested model and target, and as far as it
fits the cost (`>` is at least) and more. The reason of a failure is always there, below if need be. Losses that change
the response have names: `-` dropped, `~` approximated, `+` invented; bookkeeping (decision 38) on request. A wide line
has time to first content, cached tokens and id. Text from outside cannot end a line, move a cursor or fake a field.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterable, Sequence
from functools import lru_cache

from msgspec.structs import replace

from dragoman.gateway.observability.record import LogDetails
from dragoman.model.failure import FailureKind
from dragoman.model.features import weight_of
from dragoman.model.jsonvalue import JsonObject
from dragoman.prices.money import least_dollars, short_dollars
from dragoman.records.journal_entry import CallEntry, JournalEntry, LossEntry
from dragoman.sessions.classes import MAIN, class_of
from dragoman.terminal import Screen, cells, cut

_MAX_LABEL = 120
_MICROSECONDS = 1_000_000
_UPSTREAM_AUTH = FailureKind.UPSTREAM_AUTH.value
# A field of an event may be a sentence, or several.
MAX_FIELD_LENGTH = 2000
# Width for all columns, and width below which columns are left out.
_WIDE, _NARROW = 120, 64
_PATH, _WIDE_PATH = 10, 17
_TOKENS, _WIDE_TOKENS = 11, 18
_TTFT = 10
# Cells that long names leave for losses.
_FOR_LOSSES = 16
# Continuation lines are indented to the path, and limited in number.
_INDENT = 13
_MAX_LINES = 4
# As wide as a line is taken to be that has no limit.
_NO_LIMIT = 100_000
_FATES = {"dropped": "-", "approximated": "~", "invented": "+"}
# Outcomes of calls that do not name the provider.
_WELL = frozenset({"", "answered", "client_disconnected", "gateway_error"})

_DIM, _RED, _GREEN, _YELLOW, _CYAN = (f"\x1b[{code}m" for code in (2, 31, 32, 33, 36))
_RESET = "\x1b[0m"
_LEVELS = {"warn": _YELLOW, "error": _RED}


def printable(text: str) -> str:
    """Text from outside on one line of a terminal: short, printable, without blanks that could pose as fields."""
    if len(text) <= _MAX_LABEL and text.isprintable() and " " not in text:
        return text
    return "".join(c if c.isprintable() and c != " " else "?" for c in text[:_MAX_LABEL])


class LogColumns:
    """Formats lines for one terminal."""

    def __init__(self, screen: Screen, *, all_losses: bool = False) -> None:
        self._screen = screen
        self._all_losses = all_losses
        self._arrow, self._ellipsis = (" → ", "…") if screen.unicode else (" -> ", "..")

    def exchange(self, entry: JournalEntry, details: LogDetails, when: str = "") -> str:
        """One exchange: a line, and the rest of a failure's reason; `when` replaces the time of day of its end."""
        if not self._screen.unicode:
            entry, details = _in_ascii(entry, details)
        width = self._screen.columns() or _NO_LIMIT
        wide = width >= _WIDE
        line = _Line(self._screen.colours)
        line.add("", when or _clock((entry.time + entry.duration) // _MICROSECONDS), _DIM)
        line.add(" ", str(entry.status), _colour_of(entry))
        self._add_numbers(line, entry, details.path, width, wide)
        reason = _reason_of(entry, details)
        # A short reason is part of the line itself, directly after the names, which are shortened for it.
        beside = bool(reason) and cells(reason) + 2 <= (width - line.cells) // 2
        losses = _losses(entry.losses, all_losses=self._all_losses)
        reserved = cells(reason) + 2 if beside else min(_FOR_LOSSES, sum(map(len, losses)) + len(losses) + 1)
        names = self._names(entry, width - line.cells - 1 - (reserved if reason or losses else 0))
        if names:
            line.add(" ", names)
        if reason and (beside or cells(reason) + 2 <= width - line.cells):
            line.add("  ", reason, _colour_of(entry))
            reason = ""
        lost = _as_many(losses, width - line.cells - 2, self._ellipsis)
        if lost:
            line.add("  ", lost, _YELLOW)
        for text, shorter, colour in self._facts(entry, details.address, wide):
            room = width - line.cells - 2
            fitting = text if cells(text) <= room else shorter if cells(shorter) <= room else ""
            if fitting:
                line.add("  ", fitting, colour)
        if wide and width - line.cells >= len(entry.id) + 2:
            blanks = width - line.cells - len(entry.id) if width < _NO_LIMIT else 2
            line.add(" " * blanks, entry.id, _DIM)
        for text in _wrapped(reason, max(width - _INDENT, _INDENT), self._ellipsis) if reason else ():
            line.add("\n" + " " * _INDENT, text, _colour_of(entry))
        return line.text()

    def event(self, level: str, message: str, fields: JsonObject) -> str:
        """Something that the gateway itself does."""
        line = _Line(self._screen.colours)
        line.add("", _clock(int(time.time())), _DIM)
        line.add(" ", f"{level:5}", _LEVELS.get(level, ""))
        text = " ".join([message, *(f"{name}={quoted(str(value))}" for name, value in fields.items())])
        width = self._screen.columns()
        room = _NO_LIMIT if width is None else max(width - line.cells - 1, _INDENT)
        # Continuation lines begin at the message.
        below = "\n" + " " * (line.cells + 1)
        line.add(" ", below.join(textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)))
        return line.text() if self._screen.unicode else _ascii(line.text())

    def _add_numbers(self, line: _Line, entry: JournalEntry, path: str, width: int, wide: bool) -> None:
        """The aligned columns: path, times, tokens."""
        path = printable(path) or "-"
        if width >= _NARROW:
            column = _WIDE_PATH if wide else _PATH
            # If no target was called, the path is the only information, and it may take more room.
            most = column if entry.requested_model or entry.provider else max(column, width // 3)
            line.add(" ", _padded(cut(path, min(most, _MAX_LABEL), self._ellipsis), column))
        line.add(" ", f"{_span(entry.duration / _MICROSECONDS):>5}")
        if wide:
            first = entry.first_content
            ttft = f"ttft {_span(first / _MICROSECONDS)}" if first and entry.stream else ""
            line.add(" ", ttft, _DIM)
            line.add(" " * (_TTFT - len(ttft)), "")
        if width >= _NARROW:
            line.add(" ", f"{_tokens(entry, wide):>{_WIDE_TOKENS if wide else _TOKENS}}")

    def _names(self, entry: JournalEntry, room: int) -> str:
        """The requested model, and its target if that differs."""
        requested_model = printable(entry.requested_model)
        if not entry.provider:
            return cut(requested_model, room, self._ellipsis)
        target = printable(f"{entry.provider}/{entry.model}")
        if not requested_model or requested_model in (target, entry.model):
            return cut(target, room, self._ellipsis)
        most = max(room - cells(requested_model) - len(self._arrow), room // 2)
        target = cut(target, most, self._ellipsis)
        requested_model = cut(requested_model, max(room - cells(target) - len(self._arrow), 0), self._ellipsis)
        return f"{requested_model}{self._arrow}{target}" if len(requested_model) > len(self._ellipsis) else target

    def _facts(self, entry: JournalEntry, address: str, wide: bool) -> Iterable[tuple[str, str, str]]:
        """Facts in long form if there is room, in short form otherwise, with a colour; the most important first."""
        cost = _cost(entry)
        if cost:
            yield cost, cost, ""
        if len(entry.calls) > 1:
            attempts = f"{len(entry.calls)} attempts"
            missed = "" if entry.failure else _missed(entry.calls, "")
            yield f"{attempts}: {missed}" if missed else attempts, attempts, _YELLOW
        if entry.key:
            key = printable(entry.key)
            yield f"key {key}", key, _CYAN
        thread = thread_in(entry)
        if thread not in ("", MAIN):
            yield thread, "", _DIM
        if wide and address and not (address.startswith("127.") or address == "::1"):
            yield f"from {printable(address)}", "", _DIM


def thread_in(entry: JournalEntry) -> str:
    """The class of the thread that an exchange is of; "" if the thread is unknown."""
    facts = entry.facts
    return class_of(facts).kind if facts.session or facts.client else ""


def is_fault(status: int, failure: str) -> bool:
    """Whether the operator has to act: the gateway or a provider failed. A refused provider key is no 5xx."""
    return status >= 500 or failure == _UPSTREAM_AUTH


def _in_ascii(entry: JournalEntry, details: LogDetails) -> tuple[JournalEntry, LogDetails]:
    """An exchange whose names a screen can show that knows no other letters."""
    return replace(
        entry,
        requested_model=_ascii(entry.requested_model[:_MAX_LABEL]),
        model=_ascii(entry.model[:_MAX_LABEL]),
        key=_ascii(entry.key[:_MAX_LABEL]),
    ), replace(
        details,
        path=_ascii(details.path[:_MAX_LABEL]),
        refusal=_ascii(details.refusal[:MAX_FIELD_LENGTH]),
    )


def _ascii(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()


class _Line:
    """A line under construction: its text, and its width without colours."""

    __slots__ = ("_colours", "_pieces", "cells")

    def __init__(self, colours: bool) -> None:
        self._colours = colours
        self._pieces: list[str] = []
        self.cells = 0

    def add(self, before: str, text: str, colour: str = "") -> None:
        """Add a text, and the blanks before it, which have no colour."""
        self.cells += len(before) + cells(text)
        self._pieces.append(f"{before}{colour}{text}{_RESET}" if colour and self._colours and text else before + text)

    def text(self) -> str:
        return "".join(self._pieces).rstrip()


def quoted(text: str) -> str:
    """A field of an event on one line: text is quoted, and cannot end the quotation."""
    text = _sentence(text)
    return '"' + text.replace('"', "'") + '"' if not text or " " in text or '"' in text else text


def _sentence(text: str) -> str:
    """Text on one line of a terminal."""
    text = text[:MAX_FIELD_LENGTH]
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def _padded(text: str, room: int) -> str:
    return text + " " * (room - cells(text))


def _colour_of(entry: JournalEntry) -> str:
    if is_fault(entry.status, entry.failure):
        return _RED
    return _YELLOW if entry.status >= 400 or entry.failure else _GREEN


def _reason_of(entry: JournalEntry, details: LogDetails) -> str:
    """Why an exchange failed: the refusal if it was rejected here, else the kind and outcome of its calls."""
    if words := details.advice or details.refusal:
        # Two spaces separate fields.
        return " ".join(_sentence(words).split())
    if not entry.failure:
        return ""
    missed = _missed(entry.calls, entry.failure)
    return f"{entry.failure}: {missed}" if missed else entry.failure


def _missed(calls: Iterable[CallEntry], failure: str) -> str:
    """Failed calls: provider, response, and outcome if known."""
    counts: dict[str, int] = {}
    for call in calls:
        if call.kind in _WELL:
            continue
        words = printable(call.provider)
        if call.status >= 400:
            words += f" answered {call.status}" + (f" {call.kind}" if call.kind != failure else "")
        else:
            words += f" {call.kind}"
        counts[words] = counts.get(words, 0) + 1
    return ", ".join(words if count == 1 else f"{words} ({count} times)" for words, count in counts.items())


def _losses(losses: Sequence[LossEntry], *, all_losses: bool) -> list[str]:
    """Losses by name and fate, each once."""
    shown = [loss for loss in losses if all_losses or weight_of(loss.feature) == "changes_response"]
    return list(dict.fromkeys(_FATES.get(loss.fate, "") + loss.feature for loss in shown))


def _as_many(losses: list[str], room: int, ellipsis: str) -> str:
    """As many losses as there is room for; of the rest there is a number."""
    text = " ".join(losses)
    for left in range(len(losses) - 1, -1, -1):
        if len(text) <= room:
            break
        text = " ".join([*losses[:left], f"{ellipsis}{len(losses) - left}"]) if left else f"{len(losses)} losses"
    return text if len(text) <= room else ""


def _wrapped(text: str, room: int, ellipsis: str) -> Iterable[str]:
    """A sentence in lines of this width, broken at spaces if possible."""
    for _ in range(_MAX_LINES - 1):
        if cells(text) <= room:
            break
        most = len(cut(text, room, ""))
        at = text.rfind(" ", 1, most + 1)
        at = at if at > 0 else most
        yield text[:at]
        text = text[at:].lstrip(" ")
    yield cut(text, room, ellipsis)


def _span(seconds: float) -> str:
    if seconds < 0.9995:
        return f"{1000 * max(seconds, 0.0):.0f}ms"
    return f"{seconds:.1f}s" if seconds < 99.95 else f"{seconds:.0f}s"


def _tokens(entry: JournalEntry, wide: bool) -> str:
    counted = entry.tokens
    if counted is None:
        return "-"
    cached = f"({_count(counted.cache_read)})" if wide and counted.cache_read else ""
    return f"{'~' if entry.estimated else ''}{_count(counted.input)}{cached}+{_count(counted.output)}"


def _cost(entry: JournalEntry) -> str:
    """The cost of an exchange as far as known; nothing without any price."""
    cost = entry.cost
    if cost is None or (cost.unpriced and not cost.total):
        return ""
    return f">{least_dollars(cost.total)}" if cost.unpriced else short_dollars(cost.total)


def _count(number: int) -> str:
    """A number in at most five letters."""
    if number < 10_000:
        return str(number)
    if number < 99_950:
        return f"{number / 1000:.1f}k"
    return f"{number / 1000:.0f}k" if number < 999_500 else f"{number / 1e6:.1f}M"


@lru_cache(maxsize=64)
def _clock(second: int) -> str:
    """The time of day. Formatting it costs more than the rest of a line, and a second has many lines."""
    return time.strftime("%H:%M:%S", time.localtime(second))
