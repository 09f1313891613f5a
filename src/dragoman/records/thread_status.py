"""Status: the status of a thread, by one function from facts for every view.

| the last that is known of it | it is |
| --- | --- |
| an exchange that is open since less than a minute | streaming |
| one that is open for longer | stalled: a stream is open, and nothing was heard of it |
| an answer that asked for tools | running tools, in the minute after it; later, tool results overdue |
| an answer that ended its turn | waiting for user, or done where no person talks to it |
| an answer that broke, a refusal, a crash | failed |
| a client that went | disconnected |

A thread counts as running only with a fact of the last minute.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from dragoman.model.response import StopReason
from dragoman.records.journal_entry import ANSWERED, CANCELLED
from dragoman.store.session_queries import LastExchange

STREAMING, STALLED, RUNNING_TOOLS, WAITING_FOR_USER = "streaming", "stalled", "running tools", "waiting for user"
DONE, FAILED, DISCONNECTED, UNKNOWN = "done", "failed", "disconnected", "unknown"
# The status of tools that have run for longer than `PRESENT`.
TOOL_RESULTS_OVERDUE = "tool results overdue"
# Facts younger than this, in microseconds, count as the present.
PRESENT = 60_000_000
# Classes of threads that a person talks to.
_TALKED_TO = frozenset({"main", "side"})


class ThreadStatus(Struct, frozen=True):
    """The status of a thread, and its start in microseconds; 0 if unknown."""

    state: str
    since: int = 0


class Opened(Struct, frozen=True, kw_only=True):
    """When the latest open exchange of sessions and of threads began, by their numbers."""

    sessions: Mapping[int, int] = {}
    threads: Mapping[int, int] = {}


def status_of(kind: str, last: LastExchange | None, opened: int, now: int) -> ThreadStatus:
    """The status of a thread of a class; `opened` is when the latest of its open exchanges began, 0 if none is."""
    if opened:
        return ThreadStatus(STREAMING if now - opened < PRESENT else STALLED, opened)
    if last is None:
        return ThreadStatus(UNKNOWN)
    since = last.time + last.took
    if last.outcome == CANCELLED:
        return ThreadStatus(DISCONNECTED, since)
    if last.outcome != ANSWERED:
        return ThreadStatus(FAILED, since)
    if last.stop in (StopReason.TOOL_CALL.value, StopReason.PAUSE.value):
        return ThreadStatus(RUNNING_TOOLS, since)
    return ThreadStatus(WAITING_FOR_USER if kind in _TALKED_TO else DONE, since)


def format_status(status: ThreadStatus, now: int) -> str:
    """A state in few words, with how long it has been so."""
    if status.state == UNKNOWN:
        return "-"
    age = now - status.since
    is_overdue = status.state == RUNNING_TOOLS and age >= PRESENT
    return f"{TOOL_RESULTS_OVERDUE if is_overdue else status.state} {in_short(age)}"


def in_short(span: int) -> str:
    """A length of time, in microseconds, in its largest unit."""
    seconds = max(span, 0) // 1_000_000
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        # Two days are shown in hours, which are more precise.
        if seconds >= (2 * size if unit == "d" else size):
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
