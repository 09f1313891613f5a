"""Metrics: counters in memory, written as Prometheus text when somebody asks.

One cell per route and outcome, so that an exchange costs one look-up; everything is added up at the scrape. Names from
outside are labels only while there are few of them: beyond a limit they count as `other`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import add

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from dragoman.gateway.admission import Load
from dragoman.gateway.records.accounting import Recorded
from dragoman.gateway.records.log_columns import thread_in
from dragoman.gateway.records.logs import Log
from dragoman.gateway.records.record import Record
from dragoman.gateway.records.tallies import Tallies
from dragoman.routing.standing import Level

DURATIONS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_MODELS_LIMIT = 200
_TARGETS_LIMIT = 200
# Routes and outcomes together: a provider may invent statuses, too.
_CELLS_LIMIT = 5000
_LABEL_LENGTH = 120
OTHER = "other"
# Statuses of names that their provider does not know: those are not worth a label.
_UNKNOWN = frozenset({400, 404})
# More than any exchange takes; a provider may report anything.
_MOST_TOKENS = 1 << 40
# From the best to the worst.
_LEVELS = (Level.GOOD, Level.SUSPECT, Level.RAMPING, Level.PROBED, Level.KEYLESS, Level.RESTING)
TOKENS = ("input", "output", "cache_read", "cache_write", "thinking")


class Spread(Struct):
    """How values are spread over the buckets; the last one is for everything above."""

    counts: list[int] = msgspec.field(default_factory=lambda: [0] * (len(DURATIONS) + 1))
    total: float = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(DURATIONS, value)] += 1
        self.total += value


class Cell(Struct):
    """What was counted of one route and outcome."""

    client: str
    provider: str
    dialect: str
    model: str
    status: int
    requests: int = 0
    tokens: list[int] = msgspec.field(default_factory=lambda: [0] * len(TOKENS))
    duration: Spread = msgspec.field(default_factory=Spread)
    first: Spread = msgspec.field(default_factory=Spread)
    # Nano-dollars; exchanges of which something had no price, and those whose tokens were counted here.
    cost: int = 0
    unpriced: int = 0
    estimated: int = 0


class Snapshot(Struct):
    """Everything one process counted, to be added to that of its siblings."""

    cells: list[Cell]
    # (client, dialect, feature, fate) and (client, provider, kind).
    losses: list[tuple[str, str, str, str, int]]
    failures: list[tuple[str, str, str, int]]
    in_flight: int
    log_lines_lost: int = 0
    # What each provider has to do.
    loads: dict[str, Load] = {}
    # (provider, kind).
    attempts: list[tuple[str, str, int]] = []
    # How targets stand, how many do of those that have no label, and how many keys of each provider rest.
    standings: dict[str, Level] = {}
    unnamed: dict[Level, int] = {}
    resting: dict[str, int] = {}
    # (provider, result), and what each check found last and when.
    checks: list[tuple[str, str, int]] = []
    checked: dict[str, tuple[str, float]] = {}
    # Exchanges that a collector was to be told of, by what became of that.
    told: dict[str, int] = {}
    # What became of what was written down; None if nothing is.
    recorded: Recorded | None = None
    # (provider, nano-dollars): what providers say that they cost, and how much more that is than what is known here.
    said: list[tuple[str, int]] = []
    said_beyond: list[tuple[str, int]] = []
    # (program, class of thread).
    threads: list[tuple[str, str, int]] = []


class Metrics:
    """The counters of one process."""

    def __init__(self) -> None:
        self._cells: dict[tuple[str, str, str, str, int], Cell] = {}
        self._losses: dict[tuple[str, str, str, str], int] = {}
        self._failures: dict[tuple[str, str, str], int] = {}
        self._attempts: dict[tuple[str, str], int] = {}
        self._threads: dict[tuple[str, str], int] = {}
        self._checks: dict[tuple[str, str], int] = {}
        self._checked: dict[str, tuple[str, float]] = {}
        self._told: dict[str, int] = {}
        self._said: dict[str, int] = {}
        self._said_beyond: dict[str, int] = {}
        self._models: set[tuple[str, str]] = set()
        self._targets: set[str] = set()
        # What launches came to: no counters, but of this process, and gathered as they are.
        self.tallies = Tallies()
        self.in_flight = 0
        # Where what was left out of the log is counted.
        self.log: Log | None = None
        # What became of what was written down.
        self.recorded: Callable[[], Recorded | None] = lambda: None
        # What providers have to do at this moment.
        self.loads: Callable[[], dict[str, Load]] = dict
        # How targets stand that were asked, and how many keys of each provider rest.
        self.levels: Callable[[], dict[str, Level]] = dict
        self.resting: Callable[[], dict[str, int]] = dict
        # Whether the name of a target may be told; those of others are counted together.
        self.may_name: Callable[[str], bool] = lambda _: True

    def count(self, record: Record) -> None:
        """Count one exchange that has ended."""
        model = self._bounded(record)
        key = (record.dialect, record.provider, record.served, model, record.status)
        cell = self._cells.get(key) or self._new_cell(key)
        cell.requests += 1
        cell.duration.add(record.ended - record.started)
        if record.first:
            cell.first.add(record.first - record.started)
        if (tokens := record.tokens) is not None:
            # Whoever accounted for them saw to it that they can be.
            counts = (tokens.input, tokens.output, tokens.cache_read, tokens.cache_write, tokens.thinking)
            cell.tokens = list(map(add, cell.tokens, counts))
        elif (usage := record.usage) is not None:
            told = (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.thinking)
            # Counters never go down.
            counted = [min(max(0, count or 0), _MOST_TOKENS) for count in told]
            cell.tokens = list(map(add, cell.tokens, counted))
        if (money := record.money) is not None:
            cell.cost += money.total
            cell.unpriced += bool(money.unpriced)
            if money.said is not None:
                self._count_said(record, money.said)
        cell.estimated += record.estimated
        for attempt in record.attempts:
            # What is asked beside conversations has no kind.
            called = (attempt.provider, attempt.kind or OTHER)
            self._attempts[called] = self._attempts.get(called, 0) + 1
        for loss in record.losses:
            named = (record.dialect, record.served, loss["feature"], loss["fate"])
            self._losses[named] = self._losses.get(named, 0) + 1
        if record.failure:
            failed = (record.dialect, record.provider, record.failure)
            self._failures[failed] = self._failures.get(failed, 0) + 1
        if thread := thread_in(record):
            # Words of clients are no labels.
            spoken = (record.facts.client, thread.partition(":")[0])
            self._threads[spoken] = self._threads.get(spoken, 0) + 1

    def _count_said(self, record: Record, said: int) -> None:
        """Count what a provider says that it cost, and what that is beyond ours, where ours is known."""
        name, money = record.provider, record.money
        self._said[name] = self._said.get(name, 0) + said
        if money is not None and not money.unpriced:
            self._said_beyond[name] = self._said_beyond.get(name, 0) + said - money.total

    def note_check(self, provider: str, result: str, now: float) -> None:
        """Count a check of a provider, and keep what it found."""
        self._checks[provider, result] = self._checks.get((provider, result), 0) + 1
        self._checked[provider] = (result, now)

    def count_told(self, result: str, number: int) -> None:
        """Count exchanges that a collector was to be told of; each result is counted by one thread alone."""
        self._told[result] = self._told.get(result, 0) + number

    def _new_cell(self, key: tuple[str, str, str, str, int]) -> Cell:
        client, provider, dialect, model, status = key
        if len(self._cells) >= _CELLS_LIMIT:
            # By its class alone, and of no model: of these there are few.
            model, status = OTHER, 100 * (status // 100)
            key = (client, provider, dialect, model, status)
        made = Cell(client=client, provider=provider, dialect=dialect, model=model, status=status)
        return self._cells.setdefault(key, made)

    def snapshot(self) -> Snapshot:
        """The state of the counters."""
        standings, unnamed = self._labelled(self.levels())
        return Snapshot(
            cells=list(self._cells.values()),
            losses=[(*key, count) for key, count in self._losses.items()],
            failures=[(*key, count) for key, count in self._failures.items()],
            in_flight=self.in_flight,
            log_lines_lost=self.log.lines_lost if self.log is not None else 0,
            loads=self.loads(),
            attempts=[(*key, count) for key, count in self._attempts.items()],
            standings=standings,
            unnamed=unnamed,
            resting=self.resting(),
            checks=[(*key, count) for key, count in self._checks.items()],
            checked=dict(self._checked),
            told=dict(self._told),
            recorded=self.recorded(),
            said=list(self._said.items()),
            said_beyond=list(self._said_beyond.items()),
            threads=[(*key, count) for key, count in self._threads.items()],
        )

    def _labelled(self, levels: Mapping[str, Level]) -> tuple[dict[str, Level], dict[Level, int]]:
        """How targets stand by their labels, and how many do for which there is none: clients may make names up."""
        labelled: dict[str, Level] = {}
        unnamed: dict[Level, int] = {}
        # Those that something is wrong with are worth a label before the others.
        for target, level in sorted(levels.items(), key=lambda known: known[1] is Level.GOOD):
            label = _printable(target)
            if not self.may_name(target) or (label not in self._targets and len(self._targets) >= _TARGETS_LIMIT):
                unnamed[level] = unnamed.get(level, 0) + 1
                continue
            self._targets.add(label)
            labelled[label] = _worse(labelled.get(label), level)
        return labelled, unnamed

    def _bounded(self, record: Record) -> str:
        """The label for a model; what would be shown alike is the same label, so that no series stands there twice."""
        provider, model = record.provider, record.model
        if (provider, model) in self._models:
            return model
        model = _printable(model)
        if (provider, model) in self._models:
            return model
        full = len(self._models) >= _MODELS_LIMIT
        if full or record.status in _UNKNOWN or not self.may_name(f"{provider}/{record.model}"):
            return OTHER if model else ""
        self._models.add((provider, model))
        return model


def render(snapshots: Sequence[Snapshot]) -> bytes:
    """Prometheus text of all processes together."""
    cells: dict[tuple[str, str, str, str, int], Cell] = {}
    for snapshot in snapshots:
        for cell in snapshot.cells:
            _add(cells, cell)
    lines: list[str] = []
    _family(lines, "requests_total", "counter", "Exchanges that ended, by status.")
    for cell in cells.values():
        lines.append(f'dragoman_requests_total{{{_labels(cell)},status="{cell.status}"}} {cell.requests}')
    _family(
        lines,
        "tokens_total",
        "counter",
        "Tokens that providers reported, or that were counted here; totals include cached and thinking ones.",
    )
    for cell in cells.values():
        for name, count in zip(TOKENS, cell.tokens, strict=True):
            if count:
                labels = f'{_labels(cell)},status="{cell.status}",type="{name}"'
                lines.append(f"dragoman_tokens_total{{{labels}}} {count}")
    _costs(lines, list(cells.values()), snapshots)
    _spreads(lines, "duration_seconds", "From the request to the end of the answer.", cells.values(), first=False)
    _spreads(lines, "first_token_seconds", "From the request to the first content.", cells.values(), first=True)
    _family(lines, "losses_total", "counter", "What translation dropped, approximated or invented.")
    for (client, dialect, feature, fate), count in _summed([s.losses for s in snapshots], 4).items():
        labels = f'client="{client}",dialect="{dialect}",feature="{feature}",fate="{fate}"'
        lines.append(f"dragoman_losses_total{{{labels}}} {count}")
    _family(lines, "failures_total", "counter", "Exchanges that failed, by kind.")
    for (client, provider, kind), count in _summed([s.failures for s in snapshots], 3).items():
        labels = f'client="{client}",provider="{_escaped(provider)}",kind="{_escaped(kind)}"'
        lines.append(f"dragoman_failures_total{{{labels}}} {count}")
    attempts = _summed([snapshot.attempts for snapshot in snapshots], 2)
    if attempts:
        _family(lines, "attempts_total", "counter", "Calls to providers, by what became of them.")
    for (provider, kind), count in attempts.items():
        labels = f'provider="{_escaped(provider)}",kind="{_escaped(kind)}"'
        lines.append(f"dragoman_attempts_total{{{labels}}} {count}")
    threads = _summed([snapshot.threads for snapshot in snapshots], 2)
    if threads:
        _family(lines, "thread_requests_total", "counter", "Exchanges of known programs, by the class of their thread.")
    for (program, thread), count in threads.items():
        lines.append(f'dragoman_thread_requests_total{{program="{program}",thread="{thread}"}} {count}')
    checks = _summed([snapshot.checks for snapshot in snapshots], 2)
    if checks:
        _family(lines, "checks_total", "counter", "Checks of providers whose targets rested, by what they found.")
    for (provider, result), count in checks.items():
        lines.append(f'dragoman_checks_total{{provider="{_escaped(provider)}",result="{result}"}} {count}')
    told = _summed([snapshot.told.items() for snapshot in snapshots], 1)
    if told:
        _family(lines, "telemetry_total", "counter", "Exchanges for the collector, by what became of telling it.")
    for (result,), count in told.items():
        lines.append(f'dragoman_telemetry_total{{result="{result}"}} {count}')
    _family(lines, "in_flight", "gauge", "Exchanges under way.")
    lines.append(f"dragoman_in_flight {sum(snapshot.in_flight for snapshot in snapshots)}")
    _loads(lines, snapshots)
    _standings(lines, snapshots)
    _resting(lines, snapshots)
    _recorded(lines, [snapshot.recorded for snapshot in snapshots if snapshot.recorded is not None])
    _family(lines, "log_lines_lost_total", "counter", "Lines of the log that could not be written.")
    lines.append(f"dragoman_log_lines_lost_total {sum(snapshot.log_lines_lost for snapshot in snapshots)}")
    return ("\n".join(lines) + "\n").encode()


def _add(cells: dict[tuple[str, str, str, str, int], Cell], cell: Cell) -> None:
    key = (cell.client, cell.provider, cell.dialect, cell.model, cell.status)
    total = cells.get(key)
    if total is None:
        total = Cell(client=key[0], provider=key[1], dialect=key[2], model=key[3], status=key[4])
        cells[key] = total
    total.requests += cell.requests
    total.cost += cell.cost
    total.unpriced += cell.unpriced
    total.estimated += cell.estimated
    total.tokens = [a + b for a, b in zip(total.tokens, cell.tokens, strict=True)]
    for into, more in ((total.duration, cell.duration), (total.first, cell.first)):
        into.counts = [a + b for a, b in zip(into.counts, more.counts, strict=True)]
        into.total += more.total


def _summed(rows: Iterable[Iterable[tuple[str | int, ...]]], width: int) -> dict[tuple[str, ...], int]:
    total: dict[tuple[str, ...], int] = {}
    for table in rows:
        for row in table:
            key = tuple(str(part) for part in row[:width])
            total[key] = total.get(key, 0) + int(row[width])
    return total


def _costs(lines: list[str], cells: Sequence[Cell], snapshots: Sequence[Snapshot]) -> None:
    """Money in nano-dollars, of which a counter loses nothing, and what is not known of it."""
    families = (
        ("cost_nano_usd_total", "What exchanges cost, as far as that is known.", [cell.cost for cell in cells]),
        ("unpriced_requests_total", "Exchanges of which something had no price.", [cell.unpriced for cell in cells]),
        ("estimated_requests_total", "Exchanges whose tokens were counted here.", [cell.estimated for cell in cells]),
    )
    for name, words, amounts in families:
        _family(lines, name, "counter", words)
        for cell, amount in zip(cells, amounts, strict=True):
            if amount:
                lines.append(f'dragoman_{name}{{{_labels(cell)},status="{cell.status}"}} {amount}')
    said = _summed([snapshot.said for snapshot in snapshots], 1)
    if not said:
        return
    _family(lines, "said_cost_nano_usd_total", "counter", "What providers say that exchanges cost.")
    for (provider,), amount in said.items():
        lines.append(f'dragoman_said_cost_nano_usd_total{{provider="{_escaped(provider)}"}} {amount}')
    _family(lines, "said_cost_beyond_nano_usd", "gauge", "How much more that is than what is known here.")
    for (provider,), amount in _summed([snapshot.said_beyond for snapshot in snapshots], 1).items():
        lines.append(f'dragoman_said_cost_beyond_nano_usd{{provider="{_escaped(provider)}"}} {amount}')


def _spreads(lines: list[str], name: str, words: str, cells: Iterable[Cell], *, first: bool) -> None:
    """One histogram by client, provider and dialect: finer labels would make very many series."""
    merged: dict[tuple[str, str, str], Spread] = {}
    for cell in cells:
        spread = cell.first if first else cell.duration
        into = merged.setdefault((cell.client, cell.provider, cell.dialect), Spread())
        into.counts = [a + b for a, b in zip(into.counts, spread.counts, strict=True)]
        into.total += spread.total
    _family(lines, name, "histogram", words)
    for (client, provider, dialect), spread in merged.items():
        labels = f'client="{client}",provider="{_escaped(provider)}",dialect="{dialect}"'
        running = 0
        for bound, count in zip((*DURATIONS, "+Inf"), spread.counts, strict=True):
            running += count
            lines.append(f'dragoman_{name}_bucket{{{labels},le="{bound}"}} {running}')
        lines.append(f"dragoman_{name}_sum{{{labels}}} {spread.total:.6f}")
        lines.append(f"dragoman_{name}_count{{{labels}}} {running}")


def _loads(lines: list[str], snapshots: Sequence[Snapshot]) -> None:
    """What providers with a limit have to do; of the others nobody waits."""
    limited = {name: load for snapshot in snapshots for name, load in snapshot.loads.items() if load.most is not None}
    if not limited:
        return
    totals = [
        (name, [snapshot.loads[name] for snapshot in snapshots if name in snapshot.loads]) for name in sorted(limited)
    ]
    _family(lines, "provider_calls", "gauge", "Calls under way to providers that have a limit.")
    for name, loads in totals:
        lines.append(f'dragoman_provider_calls{{provider="{_escaped(name)}"}} {sum(load.calls for load in loads)}')
    _family(lines, "provider_waiting", "gauge", "Requests that wait for a call to such a provider.")
    for name, loads in totals:
        lines.append(f'dragoman_provider_waiting{{provider="{_escaped(name)}"}} {sum(load.waiting for load in loads)}')


def _standings(lines: list[str], snapshots: Sequence[Snapshot]) -> None:
    """How targets stand: 1 for the level that each is at. Workers know nearly the same, and the worst is told."""
    found: dict[str, Level] = {}
    for snapshot in snapshots:
        for target, level in snapshot.standings.items():
            found[target] = _worse(found.get(target), level)
    unnamed = {level: max((each.unnamed.get(level, 0) for each in snapshots), default=0) for level in Level}
    if not found and not any(unnamed.values()):
        return
    _family(lines, "target_standing", "gauge", "How a target stands: 1 for its level; for others, how many there are.")
    for target, stands in sorted(found.items()):
        for level in Level:
            labels = f'target="{_escaped(target)}",level="{level.value}"'
            lines.append(f"dragoman_target_standing{{{labels}}} {int(level is stands)}")
    if any(unnamed.values()):
        for level, count in unnamed.items():
            lines.append(f'dragoman_target_standing{{target="{OTHER}",level="{level.value}"}} {count}')


def _resting(lines: list[str], snapshots: Sequence[Snapshot]) -> None:
    """How many keys rest; all workers know of the same ones, some a moment later."""
    names = sorted({name for snapshot in snapshots for name in snapshot.resting})
    if not names:
        return
    _family(lines, "keys_resting", "gauge", "Keys of a provider that rest, for one model or for all.")
    for name in names:
        count = max(snapshot.resting.get(name, 0) for snapshot in snapshots)
        lines.append(f'dragoman_keys_resting{{provider="{_escaped(name)}"}} {count}')


# How the accounts fare: what is counted, its kind and its words.
_RECORDED = {
    "rows": ("records_total", "counter", "Exchanges that were moved into the tables of the accounts."),
    "backlog": ("records_backlog_bytes", "gauge", "Bytes of journals that are not in the tables yet."),
    "damaged": ("records_damaged_lines_total", "counter", "Lines of journals that could not be read."),
    "lost": ("records_lost_total", "counter", "Exchanges that could not be written down."),
    "strangers": ("records_strangers_total", "counter", "Refusals of strangers beyond those that are written down."),
    "errors": ("records_drain_errors_total", "counter", "Times that the tables could not be written, and were later."),
    "removed": ("records_removed_total", "counter", "Rows that were removed because of their age."),
    "unpriced": ("records_unpriced_total", "counter", "Exchanges that cost more than is known."),
}


def _recorded(lines: list[str], found: Sequence[Recorded]) -> None:
    """What became of what was written down, of all workers together."""
    if not found:
        return
    for member, (name, kind, words) in _RECORDED.items():
        _family(lines, name, kind, words)
        lines.append(f"dragoman_{name} {sum(asdict(each)[member] for each in found)}")


def _worse(one: Level | None, other: Level) -> Level:
    return other if one is None or _LEVELS.index(other) > _LEVELS.index(one) else one


def _family(lines: list[str], name: str, kind: str, words: str) -> None:
    lines.append(f"# HELP dragoman_{name} {words}")
    lines.append(f"# TYPE dragoman_{name} {kind}")


def _labels(cell: Cell) -> str:
    return (
        f'client="{cell.client}",provider="{_escaped(cell.provider)}",dialect="{cell.dialect}",'
        f'model="{_escaped(cell.model)}"'
    )


def _escaped(text: str) -> str:
    """A label's value with Prometheus' escapes; its third one, for line breaks, is never needed."""
    return _printable(text).replace("\\", "\\\\").replace('"', '\\"')


def _printable(text: str) -> str:
    text = text[:_LABEL_LENGTH]
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)
