"""Usage: what exchanges came to in a period, in groups that add up to the total, whatever they are made by.

Figures are read from sums alone, so that they are the same before and after rows were removed. How they are called
here is what programs may rely on (`dragoman usage --json`): members are added, and never renamed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import add

import msgspec
from msgspec import Struct

from dragoman.accounts.period import Period
from dragoman.errors import DragomanError
from dragoman.model.jsonvalue import JsonObject
from dragoman.store.migrations import MEASURES
from dragoman.store.usage_questions import NAMES, Measures, SessionName, ThreadName, UsageQuestions

SESSION, THREAD, DAY = "session", "thread", "day"
# What may be asked for.
GROUPS = ("key", "model", "provider", "client", SESSION, THREAD, DAY)
_NOTHING: Measures = (0,) * len(MEASURES)
# What is without a session or a thread is called.
_NO_SESSION: dict[str, str | int | None] = {SESSION: "", "session_id": 0, "key": "", "client": ""}
_NO_THREAD: dict[str, str | int | None] = {THREAD: "", "thread_id": 0, "class": "", "label": ""}


class Figures(Struct, frozen=True):
    """What exchanges came to. `input_tokens` are those that were read afresh, read from caches and written to them;
    `output_tokens` include what was thought. Where something is unpriced, it cost more than `cost_nano_usd`."""

    # Conversations that were answered, refused or failed, and of them those that were not answered.
    requests: int = 0
    errors: int = 0
    # Those that their clients left, and counts, lists and other paths: neither is among the requests.
    cancelled_requests: int = 0
    other_requests: int = 0
    input_tokens: int = 0
    fresh_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    thinking_tokens: int = 0
    searches: int = 0
    estimated_requests: int = 0
    cost_nano_usd: int = 0
    unpriced_requests: int = 0
    losses: int = 0
    # Of all requests together; and until their first content, of those that had any.
    took_microseconds: int = 0
    first_microseconds: int = 0
    first_requests: int = 0


class Group(Struct, frozen=True):
    """One line of usage: its names, and what it came to."""

    names: dict[str, str | int | None]
    figures: Figures


class Usage(Struct, frozen=True, kw_only=True):
    """What was asked for, in groups, and all of it together."""

    period: Period
    by: tuple[str, ...]
    groups: tuple[Group, ...]
    total: Figures

    def as_json(self) -> JsonObject:
        """As programs are told."""
        local = self.period.zone.local
        return {
            "since": local(self.period.since).isoformat(),
            "until": local(self.period.until).isoformat(),
            "zone": self.period.zone.name,
            "by": list(self.by),
            "rows": [{**group.names, **_members(group.figures)} for group in self.groups],
            "total": _members(self.total),
        }


def figures_of(measures: Measures) -> Figures:
    """What was added up, by the names that programs know."""
    (
        requests,
        errors,
        cancelled,
        others,
        given,
        cache_read,
        cache_write,
        output,
        thinking,
        searches,
        estimated,
        cost,
        unpriced,
        losses,
        took,
        first,
        firsts,
    ) = measures
    fresh = given - cache_read - cache_write
    return Figures(
        requests=requests,
        errors=errors,
        cancelled_requests=cancelled,
        other_requests=others,
        input_tokens=given,
        fresh_tokens=fresh,
        cache_read_tokens=cache_read,
        cache_write_tokens=cache_write,
        output_tokens=output,
        thinking_tokens=thinking,
        searches=searches,
        estimated_requests=estimated,
        cost_nano_usd=cost,
        unpriced_requests=unpriced,
        losses=losses,
        took_microseconds=took,
        first_microseconds=first,
        first_requests=firsts,
    )


def read_groups(said: Sequence[str]) -> tuple[str, ...]:
    """What to group by, as a person says it: once or several times, and with commas."""
    found = tuple(dict.fromkeys(word.strip() for words in said for word in words.split(",") if word.strip()))
    for word in found:
        if word not in GROUPS:
            raise DragomanError(f"--by: there is no group {word!r}; there are {', '.join(GROUPS)}")
    if not found:
        raise DragomanError(f"--by: says no group; there are {', '.join(GROUPS)}")
    both = [word for word in found if word in (SESSION, THREAD)]
    others = [word for word in found if word in NAMES]
    if len(both) > 1:
        raise DragomanError("--by: a thread is in one session; say session or thread")
    if both and others:
        raise DragomanError(f"--by: sums of a {both[0]} are kept by day alone, and not by {' or '.join(others)}")
    return found


def usage(questions: UsageQuestions, by: Sequence[str], period: Period) -> Usage:
    """Everything in a period, in groups: the dearest first, days in their order."""
    found = list(_by_day(questions, by, period) if DAY in by else _at_once(questions, by, period.start, period.end))
    groups = [Group(names, figures_of(measures)) for names, measures in found]
    groups.sort(key=lambda group: _order(group, by))
    total = _NOTHING
    for _, measures in found:
        total = tuple(map(add, total, measures))
    return Usage(period=period, by=tuple(by), groups=tuple(groups), total=figures_of(total))


def nothing(by: Sequence[str], period: Period) -> Usage:
    """Usage where nothing was ever recorded."""
    return Usage(period=period, by=tuple(by), groups=(), total=Figures())


_Found = tuple[dict[str, str | int | None], Measures]


def _by_day(questions: UsageQuestions, by: Sequence[str], period: Period) -> Iterator[_Found]:
    others = [word for word in by if word != DAY]
    if others:
        for day, start, end in period.days():
            for names, measures in _at_once(questions, others, start, end):
                yield {DAY: day, **names}, measures
        return
    quarters = questions.by_quarter(period.start, period.end)
    at = 0
    for day, _, end in period.days():
        begins = at
        while at < len(quarters) and quarters[at][0] < end:
            at += 1
        if at > begins:
            yield {DAY: day}, tuple(map(sum, zip(*(measures for _, measures in quarters[begins:at]), strict=True)))


def _at_once(questions: UsageQuestions, by: Sequence[str], start: int, end: int) -> Iterator[_Found]:
    if SESSION in by:
        yield from _added((_session_names(name), measures) for name, measures in questions.by_session(start, end))
    elif THREAD in by:
        yield from _added((_thread_names(name), measures) for name, measures in questions.by_thread(start, end))
    else:
        for group, measures in questions.by_names(by, start, end).items():
            yield dict(zip(by, group, strict=True)), measures


def _added(rows: Iterable[_Found]) -> Iterator[_Found]:
    """The rows, but that all whose names were forgotten are one."""
    forgotten: _Found | None = None
    for names, measures in rows:
        if names[SESSION] is not None:
            yield names, measures
        else:
            forgotten = names, measures if forgotten is None else tuple(map(add, forgotten[1], measures))
    if forgotten is not None:
        yield forgotten


def _session_names(session: SessionName) -> dict[str, str | int | None]:
    """A session's names: "" where there was none, None where it was forgotten."""
    if not session.number:
        return dict(_NO_SESSION)
    if session.name is None:
        return dict.fromkeys(_NO_SESSION)
    return {SESSION: session.name, "session_id": session.number, "key": session.key, "client": session.client}


def _thread_names(thread: ThreadName) -> dict[str, str | int | None]:
    """A thread's names likewise, with those of its session."""
    if not thread.number:
        return {**_NO_THREAD, **_NO_SESSION}
    if thread.session_name is None:
        return dict.fromkeys((*_NO_THREAD, *_NO_SESSION))
    return {
        THREAD: thread.name,
        "thread_id": thread.number,
        "class": thread.kind,
        "label": thread.label,
        SESSION: thread.session_name,
        "session_id": thread.session,
        "key": thread.key,
        "client": thread.client,
    }


def _order(group: Group, by: Sequence[str]) -> tuple[object, ...]:
    figures = group.figures
    names = tuple(str(name) for name in group.names.values())
    day = str(group.names[DAY]) if DAY in by else ""
    return (day, -figures.cost_nano_usd, -figures.requests, -figures.input_tokens, names)


def _members(figures: Figures) -> JsonObject:
    members: JsonObject = msgspec.to_builtins(figures)
    return members
