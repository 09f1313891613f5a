"""Metrics: counters in memory; `prometheus.py` formats them. One cell per route and outcome, so that an exchange costs
one look-up; totals are computed at the scrape. The log's thread or a scrape counts exchanges (`logs.py`). Label values
from outside are limited in number; further ones count as `other`."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Mapping
from operator import add

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.gateway.admission import Load
from dragoman.gateway.observability.launch_counters import LaunchCounters, WorkerLaunchCount
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.observability.usage_recorder import RecordingStatus
from dragoman.records.journal_entry import CostBreakdown, JournalEntry
from dragoman.records.rows import is_unpriced
from dragoman.routing.health_state import HealthLevel
from dragoman.sessions.classes import class_of

DURATIONS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_BUCKETS = [round(bound * 1_000_000) for bound in DURATIONS]
_MODELS_LIMIT = 200
_TARGETS_LIMIT = 200
# Routes and outcomes together: a provider may invent statuses, too.
_CELLS_LIMIT = 5000
_LABEL_LENGTH = 120
OTHER = "other"
# Statuses of names that their provider does not know: those are not worth a label.
_UNKNOWN = frozenset({400, 404})
# More than any exchange takes; a provider may report anything.
_MAX_TOKENS = 1 << 40
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

    def add(self, duration: int) -> None:
        """Count one duration."""
        self.counts[bisect_left(_BUCKETS, duration)] += 1
        self.total += duration

    def copy(self) -> Histogram:
        """The same, as of now."""
        return Histogram(list(self.counts), self.total)


class MetricCell(Struct):
    """What was counted of one route and outcome."""

    client_protocol: str
    provider: str
    provider_protocol: str
    model: str
    status: int
    requests: int = 0
    tokens: list[int] = msgspec.field(default_factory=lambda: [0] * len(TOKENS))
    duration: Histogram = msgspec.field(default_factory=Histogram)
    time_to_first_token: Histogram = msgspec.field(default_factory=Histogram)
    # Nano-dollars; exchanges of which something had no price, and those whose tokens were counted here.
    cost: int = 0
    unpriced: int = 0
    estimated: int = 0

    def copy(self) -> MetricCell:
        """The same, as of now."""
        first = self.time_to_first_token.copy()
        return replace(self, tokens=list(self.tokens), duration=self.duration.copy(), time_to_first_token=first)


class Snapshot(Struct):
    """Everything one process counted, to be added to that of its siblings."""

    cells: list[MetricCell]
    # (client protocol, provider protocol, feature, fate) and (client protocol, provider, kind).
    losses: list[tuple[str, str, str, str, int]]
    failures: list[tuple[str, str, str, int]]
    in_flight: int
    log_lines_dropped: int = 0
    # What each provider has to do.
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
    # What became of what was written down; None if nothing is.
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
        self._lock = threading.RLock()
        self._cells: dict[tuple[str, str, str, str, int], MetricCell] = {}
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
        # What launches came to: no counters, but of this process, and gathered as they are.
        self._launches = LaunchCounters()
        self.in_flight = 0
        # What has exchanges counted, and counts what was left out of it.
        self.log: Log | None = None
        # What became of what was written down.
        self.recorded: Callable[[], RecordingStatus | None] = lambda: None
        # What providers have to do at this moment.
        self.loads: Callable[[], dict[str, Load]] = dict
        # How targets stand that were asked, and how many keys of each provider rest.
        self.levels: Callable[[], dict[str, HealthLevel]] = dict
        self.keys_in_cooldown: Callable[[], dict[str, int]] = dict
        # Bytes of request arrays, and of what was made of them.
        self.prefix_bytes: Callable[[], int] = lambda: 0
        # Whether the name of a target may be told; those of others are counted together.
        self.may_name: Callable[[str], bool] = lambda _: True

    def count(self, entry: JournalEntry) -> None:
        """Count one exchange that has ended."""
        with self._lock:
            client_protocol, provider_protocol = entry.client_protocol, entry.provider_protocol
            provider, model, cost, facts = entry.provider, entry.model, entry.cost, entry.facts
            for call in entry.calls:
                # What is asked beside conversations has no kind.
                called = (call.provider, call.kind or OTHER)
                self._attempts[called] = self._attempts.get(called, 0) + 1
            for loss in entry.losses:
                named = (client_protocol, provider_protocol, loss.feature, loss.fate)
                self._losses[named] = self._losses.get(named, 0) + 1
            cell = self._cells.get((client_protocol, provider, provider_protocol, model, entry.status))
            if cell is None:
                cell = self._cell_of(entry)
            cell.requests += 1
            cell.duration.add(entry.duration)
            if entry.first_content:
                cell.time_to_first_token.add(entry.first_content)
            if (tokens := entry.tokens) is not None:
                counts: tuple[int, ...] = (
                    tokens.input,
                    tokens.output,
                    tokens.cache_read,
                    tokens.cache_write,
                    tokens.thinking,
                )
                if min(counts) < 0 or max(counts) > _MAX_TOKENS:
                    # Counters never go down.
                    counts = tuple([min(max(0, count), _MAX_TOKENS) for count in counts])
                cell.tokens = list(map(add, cell.tokens, counts))
            if cost is not None:
                cell.cost += cost.total
                if cost.unpriced:
                    cell.unpriced += 1
                if cost.reported is not None:
                    self._count_reported_cost(provider, cost, cost.reported)
            if entry.estimated:
                cell.estimated += 1
            if entry.kind and is_unpriced(entry):
                self._unpriced += 1
            if entry.failure:
                failed = (client_protocol, provider, entry.failure)
                self._failures[failed] = self._failures.get(failed, 0) + 1
            if facts.session or facts.client:
                # Words of clients are no labels.
                labels = (facts.client, class_of(facts).kind.partition(":")[0])
                self._threads[labels] = self._threads.get(labels, 0) + 1
            if entry.launch:
                self._launches.count(entry)

    def _count_reported_cost(self, provider: str, cost: CostBreakdown, reported: int) -> None:
        """Count what a provider says that it cost, and what that is beyond ours, where ours is known."""
        self._reported_costs[provider] = self._reported_costs.get(provider, 0) + reported
        if not cost.unpriced:
            difference = self._cost_discrepancies.get(provider, 0) + reported - cost.total
            self._cost_discrepancies[provider] = difference

    def record_health_check(self, provider: str, result: str, now: float) -> None:
        """Count a check of a provider, and keep what it found."""
        self._health_checks[provider, result] = self._health_checks.get((provider, result), 0) + 1
        self._last_health_checks[provider] = (result, now)

    def count_cached_translation(self, result: str) -> None:
        """Count a look-up of a translated history; threads that translate large requests count, too."""
        with self._lock:
            self._cached_translations[result] = self._cached_translations.get(result, 0) + 1

    def count_exports(self, result: str, number: int) -> None:
        """Count exchanges that a collector was to be told of; each result is counted by one thread alone."""
        self._exports[result] = self._exports.get(result, 0) + number

    def _cell_of(self, entry: JournalEntry) -> MetricCell:
        """The cell of an exchange whose model has none under its own name, or another label."""
        key = (entry.client_protocol, entry.provider, entry.provider_protocol, self._bounded(entry), entry.status)
        if key not in self._cells and len(self._cells) >= _CELLS_LIMIT:
            # By its class alone, and of no model: of these there are few.
            key = (*key[:3], OTHER, 100 * (entry.status // 100))
        return self._cells.setdefault(key, MetricCell(*key))

    def launch_count(self, key: str, name: str) -> WorkerLaunchCount:
        """What was counted of a launch under a key; nothing of one that is not known."""
        if self.log is not None:
            self.log.flush()
        with self._lock:
            return self._launches.count_of(key, name)

    def snapshot(self) -> Snapshot:
        """The state of the counters."""
        if self.log is not None:
            self.log.flush()
        recorded = self.recorded()
        with self._lock:
            health, unnamed = self._labelled(self.levels())
            return Snapshot(
                cells=[cell.copy() for cell in self._cells.values()],
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
        """How targets stand by their labels, and how many do for which there is none: clients may make names up."""
        labelled: dict[str, HealthLevel] = {}
        unnamed: dict[HealthLevel, int] = {}
        # Those that something is wrong with are worth a label before the others.
        for target, level in sorted(levels.items(), key=lambda known: known[1] is HealthLevel.HEALTHY):
            label = printable(target)
            if not self.may_name(target) or (label not in self._targets and len(self._targets) >= _TARGETS_LIMIT):
                unnamed[level] = unnamed.get(level, 0) + 1
                continue
            self._targets.add(label)
            labelled[label] = worse(labelled.get(label), level)
        return labelled, unnamed

    def _bounded(self, entry: JournalEntry) -> str:
        """The label for a model; what would be shown alike is the same label, so that no series stands there twice."""
        provider, model = entry.provider, printable(entry.model)
        if (provider, model) in self._models:
            return model
        full = len(self._models) >= _MODELS_LIMIT
        if full or entry.status in _UNKNOWN or not self.may_name(f"{provider}/{entry.model}"):
            return OTHER if model else ""
        self._models.add((provider, model))
        return model


def worse(one: HealthLevel | None, other: HealthLevel) -> HealthLevel:
    """The worse of two levels."""
    return other if one is None or _LEVELS.index(other) > _LEVELS.index(one) else one


def printable(text: str) -> str:
    """A label's value: short, and on one line."""
    text = text[:_LABEL_LENGTH]
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)
