"""Metrics: counters in memory; `prometheus.py` formats them. One cell per route and outcome, so that an exchange costs
one look-up; totals are computed at the scrape. The log's thread or a scrape counts exchanges (`logs.py`). Label values
from outside are limited in number; further ones count as `other`."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.gateway.admission import Load
from dragoman.gateway.observability.launch_counters import LaunchCounters, WorkerLaunchCount
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.observability.usage_recorder import RecordingStatus
from dragoman.records.journal_entry import CostBreakdown, JournalEntry, TokenCounts
from dragoman.records.rows import is_unpriced
from dragoman.routing.health_state import HealthLevel

DURATIONS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_BUCKETS = [round(bound * 1_000_000) for bound in DURATIONS]
_MODELS_LIMIT = 200
_TARGETS_LIMIT = 200
_KEYS_LIMIT = 100
# Keys, routes and outcomes together: a provider may invent statuses, too. Above the first limit, further cells have no
# key of their own, so that those of models remain.
_KEY_CELLS_LIMIT = 4000
_CELLS_LIMIT = 5000
_LABEL_LENGTH = 120
OTHER = "other"
# Statuses of names that their provider does not know: those are not worth a label.
_UNKNOWN = frozenset({400, 404})
# More than any exchange takes; a provider may report anything.
_MAX_TOKEN_BITS = 40
# From the best to the worst.
_LEVELS = (
    HealthLevel.HEALTHY,
    HealthLevel.SUSPECT,
    HealthLevel.SLOW_START,
    HealthLevel.PROBING,
    HealthLevel.NO_KEY,
    HealthLevel.COOLDOWN,
)
TOKENS = ("input", "output", "cache_read", "cache_write", "thinking")


class Histogram(Struct):
    """Numbers of durations by bucket, the last one for all above, and their total; in microseconds."""

    counts: list[int] = msgspec.field(default_factory=lambda: [0] * (len(DURATIONS) + 1))
    total: int = 0


class MetricCell(Struct):
    """The counts of one route and outcome."""

    client_protocol: str
    provider: str
    provider_protocol: str
    model: str
    status: int
    # The name of the gateway key; "" if there was none.
    key: str = ""
    requests: int = 0
    tokens: list[int] = msgspec.field(default_factory=lambda: [0] * len(TOKENS))
    duration: Histogram = msgspec.field(default_factory=Histogram)
    time_to_first_token: Histogram = msgspec.field(default_factory=Histogram)
    # Nano-dollars; exchanges of which something had no price, and those whose tokens were counted here.
    cost: int = 0
    unpriced: int = 0
    estimated: int = 0


# Client protocol, provider, provider protocol, model, status, gateway key.
CellKey: TypeAlias = tuple[str, str, str, str, int, str]


class _Counters:
    """The counters of one cell. Not a struct: setting a member of a struct costs as much as counting three of these."""

    __slots__ = (
        "cache_read",
        "cache_write",
        "cost",
        "duration",
        "durations",
        "estimated",
        "first",
        "firsts",
        "input",
        "key",
        "output",
        "requests",
        "thinking",
        "unpriced",
    )

    def __init__(self, key: CellKey) -> None:
        self.key = key
        self.requests = self.cost = self.unpriced = self.estimated = 0
        self.input = self.output = self.cache_read = self.cache_write = self.thinking = 0
        # Numbers by bucket and totals, in microseconds: of durations, and of times to the first token.
        self.durations, self.duration = [0] * (len(DURATIONS) + 1), 0
        self.firsts, self.first = [0] * (len(DURATIONS) + 1), 0

    def add(self, tokens: TokenCounts) -> None:
        """Add the tokens of one exchange."""
        read, written, output, thinking = tokens.cache_read, tokens.cache_write, tokens.output, tokens.thinking
        new = tokens.input
        if (new | output | read | written | thinking) >> _MAX_TOKEN_BITS:
            # One is negative, or too large: it has a bit beyond the limit. Counters never go down.
            new, output, read, written, thinking = map(_bounded, (new, output, read, written, thinking))
        self.input += new
        self.output += output
        self.cache_read += read
        self.cache_write += written
        self.thinking += thinking

    def cell(self) -> MetricCell:
        """Its cell, as of now."""
        return MetricCell(
            *self.key,
            requests=self.requests,
            tokens=[self.input, self.output, self.cache_read, self.cache_write, self.thinking],
            duration=Histogram(list(self.durations), self.duration),
            time_to_first_token=Histogram(list(self.firsts), self.first),
            cost=self.cost,
            unpriced=self.unpriced,
            estimated=self.estimated,
        )


class Snapshot(Struct):
    """Everything one process counted, to be added to that of its siblings."""

    cells: list[MetricCell]
    # (client protocol, provider protocol, feature, fate) and (client protocol, provider, kind).
    losses: list[tuple[str, str, str, str, int]]
    failures: list[tuple[str, str, str, int]]
    in_flight: int
    log_lines_dropped: int = 0
    # The load of each provider.
    loads: dict[str, Load] = {}
    # (provider, kind).
    attempts: list[tuple[str, str, int]] = []
    # Health of targets by label, number of targets without a label by health, and keys in cooldown by provider.
    target_health: dict[str, HealthLevel] = {}
    unnamed: dict[HealthLevel, int] = {}
    keys_in_cooldown: dict[str, int] = {}
    # (provider, result), and result and time of the last health check by provider.
    health_checks: list[tuple[str, str, int]] = []
    last_health_checks: dict[str, tuple[str, float]] = {}
    # Exchanges for the telemetry collector, by result of the export.
    telemetry_exports: dict[str, int] = {}
    # The state of recording; None if nothing is.
    recorded: RecordingStatus | None = None
    # (provider, nano-dollars): costs that providers report, and these minus the costs that are computed here.
    reported_costs: list[tuple[str, int]] = []
    cost_discrepancies: list[tuple[str, int]] = []
    # (client, class of thread).
    threads: list[tuple[str, str, int]] = []
    # (result): requests whose history was looked up in the cache; and the bytes of this cache.
    cached_translations: dict[str, int] = {}
    prefix_bytes: int = 0


class Metrics:
    """The counters of one process."""

    def __init__(self) -> None:
        # Held while something is counted, or read.
        self.lock = threading.RLock()
        self._cells: dict[CellKey, _Counters] = {}
        self._losses: dict[tuple[str, str, str, str], int] = {}
        self._failures: dict[tuple[str, str, str], int] = {}
        self._attempts: dict[tuple[str, str], int] = {}
        self._threads: dict[tuple[str, str], int] = {}
        self._health_checks: dict[tuple[str, str], int] = {}
        self._last_health_checks: dict[str, tuple[str, float]] = {}
        self._exports: dict[str, int] = {}
        self._reported_costs: dict[str, int] = {}
        self._cost_discrepancies: dict[str, int] = {}
        self._cached_translations: dict[str, int] = {}
        self._unpriced = 0
        self._models: set[tuple[str, str]] = set()
        self._targets: set[str] = set()
        self._keys: set[str] = set()
        # Counters of launches. They are not Prometheus counters, and belong to this process.
        self._launches = LaunchCounters()
        self.in_flight = 0
        # The log whose dropped lines are counted.
        self.log: Log | None = None
        # The state of recording.
        self.recorded: Callable[[], RecordingStatus | None] = lambda: None
        # The present load of providers.
        self.loads: Callable[[], dict[str, Load]] = dict
        # The health of called targets, and the keys in cooldown of each provider.
        self.levels: Callable[[], dict[str, HealthLevel]] = dict
        self.keys_in_cooldown: Callable[[], dict[str, int]] = dict
        # Bytes of request arrays, and of their cached translations.
        self.prefix_bytes: Callable[[], int] = lambda: 0
        # Whether the name of a target may be a label; others are counted together.
        self.may_name: Callable[[str], bool] = lambda _: True

    def count(self, entry: JournalEntry, thread: str, total: int) -> None:
        """Count one exchange that has ended: the class of its thread, and its cost. The log holds `lock`, once for each
        batch."""
        client_protocol, provider_protocol = entry.client_protocol, entry.provider_protocol
        provider, cost = entry.provider, entry.cost
        for call in entry.calls:
            # Requests other than conversations have no kind.
            called = (call.provider, call.kind or OTHER)
            self._attempts[called] = self._attempts.get(called, 0) + 1
        for loss in entry.losses:
            named = (client_protocol, provider_protocol, loss.feature, loss.fate)
            self._losses[named] = self._losses.get(named, 0) + 1
        counters = self._cells.get((client_protocol, provider, provider_protocol, entry.model, entry.status, entry.key))
        if counters is None:
            counters = self._counters_of(entry)
        counters.requests += 1
        counters.durations[bisect_left(_BUCKETS, entry.duration)] += 1
        counters.duration += entry.duration
        if first := entry.first_content:
            counters.firsts[bisect_left(_BUCKETS, first)] += 1
            counters.first += first
        if (tokens := entry.tokens) is not None:
            counters.add(tokens)
        if cost is not None:
            counters.cost += total
            if cost.unpriced:
                counters.unpriced += 1
            if cost.reported is not None:
                self._count_reported_cost(provider, cost, total, cost.reported)
        if entry.estimated:
            counters.estimated += 1
        if entry.kind and is_unpriced(entry):
            self._unpriced += 1
        if entry.failure:
            failed = (client_protocol, provider, entry.failure)
            self._failures[failed] = self._failures.get(failed, 0) + 1
        if thread:
            # Text of clients is no label.
            labels = (entry.facts.client, thread.partition(":")[0])
            self._threads[labels] = self._threads.get(labels, 0) + 1
        if entry.launch:
            self._launches.count(entry)

    def _count_reported_cost(self, provider: str, cost: CostBreakdown, total: int, reported: int) -> None:
        """Count the cost that a provider reported, and its difference to the computed one, if known."""
        self._reported_costs[provider] = self._reported_costs.get(provider, 0) + reported
        if not cost.unpriced:
            difference = self._cost_discrepancies.get(provider, 0) + reported - total
            self._cost_discrepancies[provider] = difference

    def record_health_check(self, provider: str, result: str, now: float) -> None:
        """Count a health check, and store its result."""
        self._health_checks[provider, result] = self._health_checks.get((provider, result), 0) + 1
        self._last_health_checks[provider] = (result, now)

    def count_cached_translation(self, result: str) -> None:
        """Count a look-up of a translated history; threads that translate large requests count, too."""
        with self.lock:
            self._cached_translations[result] = self._cached_translations.get(result, 0) + 1

    def count_exports(self, result: str, number: int) -> None:
        """Count exported exchanges; each result is counted by one thread."""
        self._exports[result] = self._exports.get(result, 0) + number

    def _counters_of(self, entry: JournalEntry) -> _Counters:
        """The counters of an exchange whose model has none under its own name, or another label."""
        route = (entry.client_protocol, entry.provider, entry.provider_protocol, self._bounded(entry), entry.status)
        key = (*route, self._bounded_key(entry.key))
        if key not in self._cells and entry.key and len(self._cells) >= _KEY_CELLS_LIMIT:
            key = (*route, OTHER)
        if key not in self._cells and len(self._cells) >= _CELLS_LIMIT:
            # By its class alone, and of no model: of these there are few.
            key = (*route[:3], OTHER, 100 * (entry.status // 100), OTHER if entry.key else "")
        return self._cells.setdefault(key, _Counters(key))

    def launch_count(self, key: str, name: str) -> WorkerLaunchCount:
        """The count of a launch under a key; None if unknown."""
        if self.log is not None:
            self.log.flush()
        with self.lock:
            return self._launches.count_of(key, name)

    def snapshot(self) -> Snapshot:
        """The state of the counters."""
        if self.log is not None:
            self.log.flush()
        recorded = self.recorded()
        with self.lock:
            health, unnamed = self._labelled(self.levels())
            return Snapshot(
                cells=[counters.cell() for counters in self._cells.values()],
                losses=[(*key, count) for key, count in self._losses.items()],
                failures=[(*key, count) for key, count in self._failures.items()],
                in_flight=self.in_flight,
                log_lines_dropped=self.log.lines_dropped if self.log is not None else 0,
                loads=self.loads(),
                attempts=[(*key, count) for key, count in self._attempts.items()],
                target_health=health,
                unnamed=unnamed,
                keys_in_cooldown=self.keys_in_cooldown(),
                health_checks=[(*key, count) for key, count in self._health_checks.items()],
                last_health_checks=dict(self._last_health_checks),
                telemetry_exports=dict(self._exports),
                recorded=None if recorded is None else replace(recorded, unpriced=self._unpriced),
                reported_costs=list(self._reported_costs.items()),
                cost_discrepancies=list(self._cost_discrepancies.items()),
                threads=[(*key, count) for key, count in self._threads.items()],
                cached_translations=dict(self._cached_translations),
                prefix_bytes=self.prefix_bytes(),
            )

    def _labelled(self, levels: Mapping[str, HealthLevel]) -> tuple[dict[str, HealthLevel], dict[HealthLevel, int]]:
        """The health of targets by label, and the number of targets without one: clients may invent names."""
        labelled: dict[str, HealthLevel] = {}
        unnamed: dict[HealthLevel, int] = {}
        # Unhealthy targets get a label before healthy ones.
        for target, level in sorted(levels.items(), key=lambda known: known[1] is HealthLevel.HEALTHY):
            label = printable(target)
            if not self.may_name(target) or (label not in self._targets and len(self._targets) >= _TARGETS_LIMIT):
                unnamed[level] = unnamed.get(level, 0) + 1
                continue
            self._targets.add(label)
            labelled[label] = worse(labelled.get(label), level)
        return labelled, unnamed

    def _bounded_key(self, name: str) -> str:
        """The label for a gateway key."""
        label = printable(name)
        if label and label not in self._keys:
            if len(self._keys) >= _KEYS_LIMIT:
                return OTHER
            self._keys.add(label)
        return label

    def _bounded(self, entry: JournalEntry) -> str:
        """The label of a model. Names with the same printed form share a label, so that no series occurs twice."""
        provider, model = entry.provider, printable(entry.model)
        if (provider, model) in self._models:
            return model
        full = len(self._models) >= _MODELS_LIMIT
        if full or entry.status in _UNKNOWN or not self.may_name(f"{provider}/{entry.model}"):
            return OTHER if model else ""
        self._models.add((provider, model))
        return model


def _bounded(count: int) -> int:
    return min(max(0, count), 1 << _MAX_TOKEN_BITS)


def worse(one: HealthLevel | None, other: HealthLevel) -> HealthLevel:
    """The worse of two levels."""
    return other if one is None or _LEVELS.index(other) > _LEVELS.index(one) else one


def printable(text: str) -> str:
    """A label's value: short, and on one line."""
    text = text[:_LABEL_LENGTH]
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)
