"""Usage: figures of a period in groups that add up to the total, from rollups alone, so that they outlive rows.
Programs rely on these names (`dragoman usage --json`): members are added, and never renamed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter, neg, sub

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, astuple

from dragoman.errors import UsageError
from dragoman.identities.identity import is_tag, read_tags
from dragoman.records.time_range import Period
from dragoman.store.usage_queries import (
    NAMES,
    SESSION_NAMES,
    THREAD_NAMES,
    Measures,
    NamedRow,
    UsageQueries,
    add_measures,
)

SESSION, THREAD, DAY, TAG = "session", "thread", "day", "tag"
# The beginning of a group by the value of one tag.
ONE_TAG = "tag:"
# Valid groups.
GROUPS = ("key", "model", "provider", "client", TAG, SESSION, THREAD, DAY)
# The names of sessions and threads, and of requests without one.
_LISTED_GROUPS = f"{', '.join(GROUPS)}, tag:NAME"
_NAME_COLUMNS = {SESSION: SESSION_NAMES, THREAD: THREAD_NAMES}
_NONE: dict[str, str | int] = {"session_id": 0, "thread_id": 0}
_encode = msgspec.json.Encoder().encode


class UsageFigures(Struct, frozen=True):
    """Usage of a set of exchanges. `input_tokens` includes uncached tokens and tokens read from and written to caches;
    `output_tokens` includes reasoning. Where something is unpriced, it cost more than `cost_nano_usd`."""

    # Conversations with any outcome except cancelled, and the failed ones among them.
    requests: int = 0
    errors: int = 0
    # Cancelled requests, and counts, lists and other paths: not part of `requests`.
    cancelled_requests: int = 0
    other_requests: int = 0
    input_tokens: int = 0
    uncached_input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    thinking_tokens: int = 0
    searches: int = 0
    estimated_requests: int = 0
    cost_nano_usd: int = 0
    unpriced_requests: int = 0
    losses: int = 0
    # Sum over all requests; sum until the first content, over requests that had content.
    duration_microseconds: int = 0
    first_token_microseconds: int = 0
    first_token_requests: int = 0
    # `losses` counts losses that change the response (decision 38).
    bookkeeping_losses: int = 0


_FIGURES = UsageFigures.__struct_fields__
_COUNT = len(_FIGURES)
# The most expensive first: the position of the cost, from the end of a row.
_by_cost = itemgetter(*(_FIGURES.index(name) - _COUNT for name in ("cost_nano_usd", "requests", "input_tokens")))


class Group(Struct, frozen=True):
    """One group of usage: its names and its usage."""

    names: dict[str, str | int | None]
    figures: UsageFigures


class OtherGroups(Struct, frozen=True):
    """All groups without a line of their own: their number and usage."""

    groups: int
    figures: UsageFigures


class UsageReport(Struct, frozen=True, kw_only=True):
    """The requested usage in groups, and the total."""

    period: Period
    by: tuple[str, ...]
    # The names of the groups; a row has their values, then its figures. There may be many: nothing is made of each.
    names: tuple[str, ...]
    rows: Sequence[NamedRow]
    total: UsageFigures
    rest: OtherGroups | None = None

    @property
    def groups(self) -> tuple[Group, ...]:
        """The rows by their names."""
        # A row is typed by all that may be in it; figures are numbers.
        return tuple(
            Group(dict(zip(self.names, row, strict=False)), UsageFigures(*row[-_COUNT:]))  # type: ignore[arg-type]
            for row in self.rows
        )

    def encoded(self) -> bytes:
        """The report in JSON."""
        local = self.period.zone.local
        # Names of tags are members of one object: there may be any.
        tags = {name: at for at, name in enumerate(self.names) if name.startswith(ONE_TAG)}
        plain = [at for at, name in enumerate(self.names) if name not in tags]
        row = msgspec.defstruct("Row", (*(self.names[at] for at in plain), *(("tags",) if tags else ()), *_FIGURES))
        document: dict[str, object] = {
            "since": local(self.period.since).isoformat(),
            "until": local(self.period.until).isoformat(),
            "zone": self.period.zone.name,
            "widened": self.period.is_widened,
            "by": self.by,
            "rows": [row(*each) for each in self.rows]
            if not tags
            else [
                row(
                    *(each[at] for at in plain),
                    {name.removeprefix(ONE_TAG): each[at] for name, at in tags.items()},
                    *each[-_COUNT:],
                )
                for each in self.rows
            ],
        }
        if self.rest is not None:
            document["rest"] = {"groups": self.rest.groups, **asdict(self.rest.figures)}
        document["total"] = self.total
        return _encode(document)


def figures_of(measures: Measures) -> UsageFigures:
    """The measures by their exported names; both have the same order, except for uncached input."""
    given, cache_read, cache_write = measures[4:7]
    return UsageFigures(*(*measures[:5], given - cache_read - cache_write, *measures[5:]))


def read_groups(values: Sequence[str]) -> tuple[str, ...]:
    """The groups of a command line: one or several options, with commas."""
    groups = tuple(dict.fromkeys(word.strip() for words in values for word in words.split(",") if word.strip()))
    for word in groups:
        if word not in GROUPS and not (word.startswith(ONE_TAG) and is_tag(word.removeprefix(ONE_TAG))):
            raise UsageError(f"--by: there is no group {word!r}; there are {_LISTED_GROUPS}")
    if not groups:
        raise UsageError(f"--by: says no group; there are {_LISTED_GROUPS}")
    both = [word for word in groups if word in (SESSION, THREAD)]
    others = [word for word in groups if word in NAMES or _is_by_tags(word)]
    if len(both) > 1:
        raise UsageError("--by: a thread is in one session; say session or thread")
    if both and others:
        raise UsageError(f"--by: sums of a {both[0]} are kept by day alone, and not by {' or '.join(others)}")
    return groups


def usage(queries: UsageQueries, by: Sequence[str], period: Period, most: int | None = None) -> UsageReport:
    """The usage of a range in groups: the most expensive first, days in order; groups beyond `most` are summed up."""
    others = [word for word in by if word != DAY]
    if DAY in by:
        grouped = _by_day(queries, others, period)
    else:
        grouped = _at_once(queries, others, period.start, period.end, most)
    rows, shown = grouped.rows, grouped.rows
    # Groups with equal cost keep their order.
    rows.sort(key=_by_cost, reverse=True)
    rest = None
    if most is not None and grouped.count > most:
        shown = rows[:most]
        rest = OtherGroups(grouped.count - len(shown), UsageFigures(*_without(grouped.total, shown)))
    if DAY in by:
        shown.sort(key=itemgetter(0))
    return UsageReport(period=period, by=tuple(by), names=names_of(by), rows=shown, total=grouped.total, rest=rest)


def nothing(by: Sequence[str], period: Period) -> UsageReport:
    """Usage where nothing was ever recorded."""
    return UsageReport(period=period, by=tuple(by), names=names_of(by), rows=(), total=UsageFigures())


def names_of(by: Sequence[str]) -> tuple[str, ...]:
    """The names of the groups: days first."""
    others = (name for word in by if word != DAY for name in _NAME_COLUMNS.get(word, (word,)))
    return (*((DAY,) if DAY in by else ()), *others)


class _GroupedUsage(Struct):
    """Rows, of how many groups, and what those come to together."""

    rows: list[NamedRow]
    count: int
    total: UsageFigures


def _by_day(queries: UsageQueries, others: Sequence[str], period: Period) -> _GroupedUsage:
    rows: list[NamedRow] = []
    if others:
        for day, start, end in period.days():
            rows += [(day, *row) for row in _at_once(queries, others, start, end, None).rows]
        return _GroupedUsage(rows, len(rows), _added(rows))
    buckets = queries.by_bucket(period.start, period.end)
    at = 0
    for day, _, end in period.days():
        begins = at
        while at < len(buckets) and buckets[at][0] < end:
            at += 1
        if at > begins:
            measures = tuple(map(sum, zip(*(measures for _, measures in buckets[begins:at]), strict=True)))
            rows.append((day, *_figures(measures)))
    return _GroupedUsage(rows, len(rows), _added(rows))


def _at_once(queries: UsageQueries, by: Sequence[str], start: int, end: int, most: int | None) -> _GroupedUsage:
    if by[0] in _NAME_COLUMNS:
        return _by_session_or_thread(queries, by[0], start, end, most)
    find = _by_tags if any(map(_is_by_tags, by)) else UsageQueries.by_names
    groups = sorted(find(queries, by, start, end).items())
    rows: list[NamedRow] = [(*group, *_figures(measures)) for group, measures in groups]
    return _GroupedUsage(rows, len(rows), _added(rows))


def _is_by_tags(word: str) -> bool:
    return word == TAG or word.startswith(ONE_TAG)


def _by_tags(queries: UsageQueries, by: Sequence[str], start: int, end: int) -> dict[tuple[str, ...], Measures]:
    """The sums of exchanges by tags and names. Rollups by tags have only tagged exchanges: the rest of the total has no
    tags."""
    names = [word for word in by if word in NAMES]
    tagged = queries.by_tags(names, start, end)
    untagged = queries.by_names(names, start, end) if names else _all(queries.total(start, end))
    for (_, *group), measures in tagged.items():
        add_measures(untagged, tuple(group), tuple(map(neg, measures)))
    grouped: dict[tuple[str, ...], Measures] = {}
    for (tags, *group), measures in (*tagged.items(), *((("", *group), rest) for group, rest in untagged.items())):
        if any(measures):
            values, named = dict(read_tags(tags)), dict(zip(names, group, strict=True)) | {TAG: tags}
            words = tuple(named[word] if word in named else values.get(word.removeprefix(ONE_TAG), "") for word in by)
            add_measures(grouped, words, measures)
    return grouped


def _all(total: Measures) -> dict[tuple[str, ...], Measures]:
    """The total as the only group."""
    return {(): total}


def _by_session_or_thread(queries: UsageQueries, of: str, start: int, end: int, most: int | None) -> _GroupedUsage:
    """The usage of sessions or threads, of requests without one, and of forgotten ones, which are one group."""
    named_usage = (queries.by_session if of == SESSION else queries.by_thread)(start, end, most)
    rows, count, names = named_usage.rows, named_usage.count, _NAME_COLUMNS[of]
    total = figures_of(queries.total(start, end))
    if queries.scope is not None:
        # Rollups of threads have no key: the rest of the total has no session.
        left = _without(total, rows)
        if any(left):
            rows.append((*(_NONE.get(name, "") for name in names), *left))
        return _GroupedUsage(rows, len(rows), total)
    none = queries.without_thread(start, end)
    if none is not None:
        rows.append((*(_NONE.get(name, "") for name in names), *_figures(none)))
        count += 1
    if len(rows) == count:
        # All named ones are listed: the rest of the total is forgotten.
        forgotten = _without(total, rows)
    else:
        measures = queries.forgotten(start, end)
        forgotten = () if measures is None else _figures(measures)
    if any(forgotten):
        rows.append((*(None for _ in names), *forgotten))
        count += 1
    return _GroupedUsage(rows, count, total)


def _figures(measures: Measures) -> tuple[int, ...]:
    return astuple(figures_of(measures))


def _added(rows: Iterable[NamedRow]) -> UsageFigures:
    """The sum of rows."""
    return UsageFigures(*(sum(column) for column in zip(*(row[-_COUNT:] for row in rows), strict=True)))


def _without(total: UsageFigures, rows: Iterable[NamedRow]) -> tuple[int, ...]:
    """A total minus some rows."""
    return tuple(map(sub, astuple(total), astuple(_added(rows))))
