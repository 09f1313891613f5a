"""Prometheus text format of the counters of all processes, added up at each scrape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import asdict

from dragoman.gateway.observability.metrics import (
    DURATIONS,
    OTHER,
    TOKENS,
    CellKey,
    Histogram,
    MetricCell,
    Snapshot,
    printable,
    worse,
)
from dragoman.gateway.observability.usage_recorder import RecordingStatus
from dragoman.model.features import weight_of
from dragoman.prices.money import NANO, in_units
from dragoman.routing.health_state import HealthLevel


def render(snapshots: Sequence[Snapshot], stored_bytes: int | None = None, database_up: bool | None = None) -> bytes:
    """Prometheus text of all processes together; `stored_bytes` is the size of the shared store, if known, and
    `database_up` whether its server answers, if there is one."""
    cells: dict[CellKey, MetricCell] = {}
    for snapshot in snapshots:
        for cell in snapshot.cells:
            _add(cells, cell)
    lines: list[str] = []
    _family(lines, "requests_total", "counter", "Finished requests, by status.")
    for cell in cells.values():
        lines.append(f"dragoman_requests_total{{{_labels(cell)}}} {cell.requests}")
    _family(
        lines,
        "tokens_total",
        "counter",
        "Tokens reported by providers, or counted by the gateway. Input includes cached tokens, output thinking.",
    )
    for cell in cells.values():
        for name, count in zip(TOKENS, cell.tokens, strict=True):
            if count:
                lines.append(f'dragoman_tokens_total{{{_labels(cell)},type="{name}"}} {count}')
    _costs(lines, list(cells.values()), snapshots)
    _histograms(
        lines,
        "request_duration_seconds",
        "Time from the request to the end of the response.",
        [(cell, cell.duration) for cell in cells.values()],
    )
    _histograms(
        lines,
        "time_to_first_token_seconds",
        "Time from the request to the first content of the response.",
        [(cell, cell.time_to_first_token) for cell in cells.values()],
    )
    _family(lines, "losses_total", "counter", "Features that translation dropped, approximated or invented.")
    for (client_protocol, provider_protocol, feature, fate), count in _summed([s.losses for s in snapshots], 4).items():
        labels = f'client_protocol="{client_protocol}",provider_protocol="{provider_protocol}"'
        labels += f',feature="{feature}",fate="{fate}"'
        labels += f',weight="{weight_of(feature)}"'
        lines.append(f"dragoman_losses_total{{{labels}}} {count}")
    _family(lines, "failures_total", "counter", "Failed requests, by kind of failure.")
    for (client_protocol, provider, kind), count in _summed([s.failures for s in snapshots], 3).items():
        labels = f'client_protocol="{client_protocol}",provider="{_escaped(provider)}",kind="{_escaped(kind)}"'
        lines.append(f"dragoman_failures_total{{{labels}}} {count}")
    attempts = _summed([snapshot.attempts for snapshot in snapshots], 2)
    if attempts:
        _family(lines, "attempts_total", "counter", "Calls to providers, by outcome.")
    for (provider, kind), count in attempts.items():
        labels = f'provider="{_escaped(provider)}",kind="{_escaped(kind)}"'
        lines.append(f"dragoman_attempts_total{{{labels}}} {count}")
    threads = _summed([snapshot.threads for snapshot in snapshots], 2)
    if threads:
        _family(lines, "thread_requests_total", "counter", "Requests of known clients, by class of their thread.")
    for (client, thread), count in threads.items():
        lines.append(f'dragoman_thread_requests_total{{client="{client}",thread="{thread}"}} {count}')
    health_checks = _summed([snapshot.health_checks for snapshot in snapshots], 2)
    if health_checks:
        words = "Active health checks of providers with targets in cooldown, by result."
        _family(lines, "health_checks_total", "counter", words)
    for (provider, result), count in health_checks.items():
        lines.append(f'dragoman_health_checks_total{{provider="{_escaped(provider)}",result="{result}"}} {count}')
    exports = _summed([snapshot.telemetry_exports.items() for snapshot in snapshots], 1)
    if exports:
        _family(lines, "telemetry_exports_total", "counter", "Requests for the telemetry collector, by result.")
    for (result,), count in exports.items():
        lines.append(f'dragoman_telemetry_exports_total{{result="{result}"}} {count}')
    _cached_translations(lines, snapshots)
    _family(lines, "requests_in_flight", "gauge", "Requests in progress.")
    lines.append(f"dragoman_requests_in_flight {sum(snapshot.in_flight for snapshot in snapshots)}")
    _loads(lines, snapshots)
    _target_health(lines, snapshots)
    _keys_in_cooldown(lines, snapshots)
    if stored_bytes is not None:
        _family(
            lines, "stored_bytes", "gauge", "Bytes of stored responses and conversations, as storage.max_bytes counts."
        )
        lines.append(f"dragoman_stored_bytes {stored_bytes}")
    if database_up is not None:
        _family(lines, "database_up", "gauge", "Whether the database server answers the worker that was asked.")
        lines.append(f"dragoman_database_up {int(database_up)}")
    _recorded(lines, [snapshot.recorded for snapshot in snapshots if snapshot.recorded is not None])
    _family(lines, "log_lines_dropped_total", "counter", "Log lines that were not written.")
    lines.append(f"dragoman_log_lines_dropped_total {sum(snapshot.log_lines_dropped for snapshot in snapshots)}")
    return ("\n".join(lines) + "\n").encode()


def _cached_translations(lines: list[str], snapshots: Sequence[Snapshot]) -> None:
    """Look-ups of translated histories, and the memory of the cache, once it was used."""
    lookups = _summed([snapshot.cached_translations.items() for snapshot in snapshots], 1)
    if not lookups:
        return
    words = "Translations of large requests, by what the cache had of their history."
    _family(lines, "cached_translations_total", "counter", words)
    for (result,), count in lookups.items():
        lines.append(f'dragoman_cached_translations_total{{result="{result}"}} {count}')
    _family(lines, "prefix_cache_bytes", "gauge", "Bytes of repeated request arrays, and of what was made of them.")
    lines.append(f"dragoman_prefix_cache_bytes {sum(snapshot.prefix_bytes for snapshot in snapshots)}")


def _add(cells: dict[CellKey, MetricCell], cell: MetricCell) -> None:
    key = (cell.client_protocol, cell.provider, cell.provider_protocol, cell.model, cell.status, cell.key)
    total = cells.get(key)
    if total is None:
        total = cells[key] = MetricCell(*key)
    total.requests += cell.requests
    total.cost += cell.cost
    total.unpriced += cell.unpriced
    total.estimated += cell.estimated
    total.tokens = [a + b for a, b in zip(total.tokens, cell.tokens, strict=True)]
    for into, more in (
        (total.duration, cell.duration),
        (total.time_to_first_token, cell.time_to_first_token),
    ):
        into.counts = [a + b for a, b in zip(into.counts, more.counts, strict=True)]
        into.total += more.total


def _summed(rows: Iterable[Iterable[tuple[str | int, ...]]], width: int) -> dict[tuple[str, ...], int]:
    total: dict[tuple[str, ...], int] = {}
    for table in rows:
        for row in table:
            key = tuple(str(part) for part in row[:width])
            total[key] = total.get(key, 0) + int(row[width])
    return total


def _costs(lines: list[str], cells: Sequence[MetricCell], snapshots: Sequence[Snapshot]) -> None:
    """Costs in dollars and in nano-dollars, which a counter adds up exactly, and requests whose cost is not fully
    known."""
    families: tuple[tuple[str, str, Sequence[int | str]], ...] = (
        (
            "cost_usd_total",
            "Cost of requests in US dollars, as far as it is known.",
            [cell.cost and in_units(cell.cost, NANO) for cell in cells],
        ),
        ("cost_nano_usd_total", "The same in nano-dollars.", [cell.cost for cell in cells]),
        ("unpriced_requests_total", "Requests with parts that have no price.", [cell.unpriced for cell in cells]),
        ("estimated_requests_total", "Requests whose tokens the gateway counted.", [cell.estimated for cell in cells]),
    )
    for name, words, amounts in families:
        _family(lines, name, "counter", words)
        for cell, amount in zip(cells, amounts, strict=True):
            if amount:
                lines.append(f"dragoman_{name}{{{_labels(cell)}}} {amount}")
    reported = _summed([snapshot.reported_costs for snapshot in snapshots], 1)
    if not reported:
        return
    _family(lines, "provider_reported_cost_nano_usd_total", "counter", "Cost of requests as providers report it.")
    for (provider,), amount in reported.items():
        lines.append(f'dragoman_provider_reported_cost_nano_usd_total{{provider="{_escaped(provider)}"}} {amount}')
    _family(lines, "cost_discrepancy_nano_usd", "gauge", "Reported cost minus computed cost.")
    for (provider,), amount in _summed([snapshot.cost_discrepancies for snapshot in snapshots], 1).items():
        lines.append(f'dragoman_cost_discrepancy_nano_usd{{provider="{_escaped(provider)}"}} {amount}')


def _histograms(lines: list[str], name: str, words: str, cells: Iterable[tuple[MetricCell, Histogram]]) -> None:
    """One histogram per client protocol, provider and provider protocol: more labels would make very many series."""
    merged: dict[tuple[str, str, str], Histogram] = {}
    for cell, histogram in cells:
        into = merged.setdefault((cell.client_protocol, cell.provider, cell.provider_protocol), Histogram())
        into.counts = [a + b for a, b in zip(into.counts, histogram.counts, strict=True)]
        into.total += histogram.total
    _family(lines, name, "histogram", words)
    for (client_protocol, provider, provider_protocol), histogram in merged.items():
        labels = f'client_protocol="{client_protocol}",provider="{_escaped(provider)}"'
        labels += f',provider_protocol="{provider_protocol}"'
        running = 0
        for bound, count in zip((*DURATIONS, "+Inf"), histogram.counts, strict=True):
            running += count
            lines.append(f'dragoman_{name}_bucket{{{labels},le="{bound}"}} {running}')
        lines.append(f"dragoman_{name}_sum{{{labels}}} {histogram.total / 1_000_000:.6f}")
        lines.append(f"dragoman_{name}_count{{{labels}}} {running}")


def _loads(lines: list[str], snapshots: Sequence[Snapshot]) -> None:
    """The load of providers with a concurrency limit. Others have no queue."""
    limited = {name: load for snapshot in snapshots for name, load in snapshot.loads.items() if load.most is not None}
    if not limited:
        return
    totals = [
        (name, [snapshot.loads[name] for snapshot in snapshots if name in snapshot.loads]) for name in sorted(limited)
    ]
    _family(lines, "provider_calls_in_flight", "gauge", "Calls in progress to providers with a concurrency limit.")
    for name, loads in totals:
        calls = sum(load.calls for load in loads)
        lines.append(f'dragoman_provider_calls_in_flight{{provider="{_escaped(name)}"}} {calls}')
    _family(lines, "provider_queue_length", "gauge", "Requests queued for providers with a concurrency limit.")
    for name, loads in totals:
        queued = sum(load.waiting for load in loads)
        lines.append(f'dragoman_provider_queue_length{{provider="{_escaped(name)}"}} {queued}')


def _target_health(lines: list[str], snapshots: Sequence[Snapshot]) -> None:
    """Health of targets: 1 for the state of each. Workers know nearly the same, and the worst state is reported."""
    worst: dict[str, HealthLevel] = {}
    for snapshot in snapshots:
        for target, level in snapshot.target_health.items():
            worst[target] = worse(worst.get(target), level)
    unnamed = {level: max((each.unnamed.get(level, 0) for each in snapshots), default=0) for level in HealthLevel}
    if not worst and not any(unnamed.values()):
        return
    words = (
        "Health state of a target: 1 for the current state, 0 for others; for the target other, a number of targets."
    )
    _family(lines, "target_health", "gauge", words)
    for target, target_level in sorted(worst.items()):
        for level in HealthLevel:
            labels = f'target="{_escaped(target)}",state="{level.value}"'
            lines.append(f"dragoman_target_health{{{labels}}} {int(level is target_level)}")
    if any(unnamed.values()):
        for level, count in unnamed.items():
            lines.append(f'dragoman_target_health{{target="{OTHER}",state="{level.value}"}} {count}')


def _keys_in_cooldown(lines: list[str], snapshots: Sequence[Snapshot]) -> None:
    """Number of keys in cooldown; all workers know of the same ones, some a moment later."""
    names = sorted({name for snapshot in snapshots for name in snapshot.keys_in_cooldown})
    if not names:
        return
    _family(lines, "keys_in_cooldown", "gauge", "Keys of a provider in cooldown, for one model or for all.")
    for name in names:
        count = max(snapshot.keys_in_cooldown.get(name, 0) for snapshot in snapshots)
        lines.append(f'dragoman_keys_in_cooldown{{provider="{_escaped(name)}"}} {count}')


# Figures of the records: name, type and help text of each metric.
_RECORDED = {
    "rows": ("records_total", "counter", "Requests ingested from journals into the record tables."),
    "backlog": ("records_backlog_bytes", "gauge", "Bytes of journals that are not ingested yet."),
    "damaged": ("records_damaged_lines_total", "counter", "Lines of journals that cannot be read."),
    "lost": ("records_lost_total", "counter", "Requests that are not recorded, because their record was lost."),
    "unauthenticated_skipped": (
        "records_unauthenticated_skipped_total",
        "counter",
        "Rejected unauthenticated requests that are not recorded, because there were too many within a minute.",
    ),
    "errors": ("records_ingest_errors_total", "counter", "Failed writes to the record tables; each is repeated."),
    "removed": ("records_removed_total", "counter", "Rows deleted because of their age."),
    "unpriced": ("records_unpriced_total", "counter", "Recorded requests whose cost is not fully known."),
}


def _recorded(lines: list[str], statuses: Sequence[RecordingStatus]) -> None:
    """Figures of the records, of all workers together."""
    if not statuses:
        return
    for member, (name, kind, words) in _RECORDED.items():
        _family(lines, name, kind, words)
        lines.append(f"dragoman_{name} {sum(asdict(each)[member] for each in statuses)}")


def _family(lines: list[str], name: str, kind: str, words: str) -> None:
    lines.append(f"# HELP dragoman_{name} {words}")
    lines.append(f"# TYPE dragoman_{name} {kind}")


def _labels(cell: MetricCell) -> str:
    return (
        f'client_protocol="{cell.client_protocol}",provider="{_escaped(cell.provider)}",'
        f'provider_protocol="{cell.provider_protocol}",model="{_escaped(cell.model)}",status="{cell.status}"'
        # A gateway without keys has no such label.
        + (f',key="{_escaped(cell.key)}"' if cell.key else "")
    )


def _escaped(text: str) -> str:
    """A label's value with Prometheus' escapes; its third one, for line breaks, is never needed."""
    return printable(text).replace("\\", "\\\\").replace('"', '\\"')
