"""Prometheus: the counters of all processes as its text, added up when somebody asks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import asdict

from dragoman.gateway.observability.metrics import (
    DURATIONS,
    OTHER,
    TOKENS,
    Histogram,
    MetricCell,
    Snapshot,
    printable,
    worse,
)
from dragoman.gateway.observability.usage_recorder import RecordingStatus
from dragoman.model.features import weight_of
from dragoman.routing.health_state import HealthLevel


def render(snapshots: Sequence[Snapshot], stored_bytes: int | None = None) -> bytes:
    """Prometheus text of all processes together; `stored_bytes` is what the store that they share holds, if known."""
    cells: dict[tuple[str, str, str, str, int], MetricCell] = {}
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
    _histograms(lines, "duration_seconds", "From the request to the end of the answer.", cells.values(), first=False)
    _histograms(lines, "first_token_seconds", "From the request to the first content.", cells.values(), first=True)
    _family(lines, "losses_total", "counter", "What translation dropped, approximated or invented.")
    for (client, provider_protocol, feature, fate), count in _summed([s.losses for s in snapshots], 4).items():
        labels = f'client="{client}",dialect="{provider_protocol}",feature="{feature}",fate="{fate}"'
        labels += f',weight="{weight_of(feature)}"'
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
    exports = _summed([snapshot.told.items() for snapshot in snapshots], 1)
    if exports:
        _family(lines, "telemetry_total", "counter", "Exchanges for the collector, by what became of telling it.")
    for (result,), count in exports.items():
        lines.append(f'dragoman_telemetry_total{{result="{result}"}} {count}')
    _family(lines, "in_flight", "gauge", "Exchanges under way.")
    lines.append(f"dragoman_in_flight {sum(snapshot.in_flight for snapshot in snapshots)}")
    _loads(lines, snapshots)
    _target_health(lines, snapshots)
    _keys_in_cooldown(lines, snapshots)
    if stored_bytes is not None:
        _family(
            lines, "stored_bytes", "gauge", "Bytes of stored responses and conversations, as storage.max_bytes counts."
        )
        lines.append(f"dragoman_stored_bytes {stored_bytes}")
    _recorded(lines, [snapshot.recorded for snapshot in snapshots if snapshot.recorded is not None])
    _family(lines, "log_lines_lost_total", "counter", "Lines of the log that could not be written.")
    lines.append(f"dragoman_log_lines_lost_total {sum(snapshot.log_lines_lost for snapshot in snapshots)}")
    return ("\n".join(lines) + "\n").encode()


def _add(cells: dict[tuple[str, str, str, str, int], MetricCell], cell: MetricCell) -> None:
    key = (cell.client, cell.provider, cell.dialect, cell.model, cell.status)
    total = cells.get(key)
    if total is None:
        total = MetricCell(client=key[0], provider=key[1], dialect=key[2], model=key[3], status=key[4])
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


def _costs(lines: list[str], cells: Sequence[MetricCell], snapshots: Sequence[Snapshot]) -> None:
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
    reported = _summed([snapshot.said for snapshot in snapshots], 1)
    if not reported:
        return
    _family(lines, "said_cost_nano_usd_total", "counter", "What providers say that exchanges cost.")
    for (provider,), amount in reported.items():
        lines.append(f'dragoman_said_cost_nano_usd_total{{provider="{_escaped(provider)}"}} {amount}')
    _family(lines, "said_cost_beyond_nano_usd", "gauge", "How much more that is than what is known here.")
    for (provider,), amount in _summed([snapshot.said_beyond for snapshot in snapshots], 1).items():
        lines.append(f'dragoman_said_cost_beyond_nano_usd{{provider="{_escaped(provider)}"}} {amount}')


def _histograms(lines: list[str], name: str, words: str, cells: Iterable[MetricCell], *, first: bool) -> None:
    """One histogram by client, provider and dialect: finer labels would make very many series."""
    merged: dict[tuple[str, str, str], Histogram] = {}
    for cell in cells:
        histogram = cell.first if first else cell.duration
        into = merged.setdefault((cell.client, cell.provider, cell.dialect), Histogram())
        into.counts = [a + b for a, b in zip(into.counts, histogram.counts, strict=True)]
        into.total += histogram.total
    _family(lines, name, "histogram", words)
    for (client, provider, provider_protocol), histogram in merged.items():
        labels = f'client="{client}",provider="{_escaped(provider)}",dialect="{provider_protocol}"'
        running = 0
        for bound, count in zip((*DURATIONS, "+Inf"), histogram.counts, strict=True):
            running += count
            lines.append(f'dragoman_{name}_bucket{{{labels},le="{bound}"}} {running}')
        lines.append(f"dragoman_{name}_sum{{{labels}}} {histogram.total:.6f}")
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


def _target_health(lines: list[str], snapshots: Sequence[Snapshot]) -> None:
    """How targets stand: 1 for the level that each is at. Workers know nearly the same, and the worst is told."""
    worst: dict[str, HealthLevel] = {}
    for snapshot in snapshots:
        for target, level in snapshot.standings.items():
            worst[target] = worse(worst.get(target), level)
    unnamed = {level: max((each.unnamed.get(level, 0) for each in snapshots), default=0) for level in HealthLevel}
    if not worst and not any(unnamed.values()):
        return
    _family(lines, "target_standing", "gauge", "How a target stands: 1 for its level; for others, how many there are.")
    for target, target_level in sorted(worst.items()):
        for level in HealthLevel:
            labels = f'target="{_escaped(target)}",level="{level.value}"'
            lines.append(f"dragoman_target_standing{{{labels}}} {int(level is target_level)}")
    if any(unnamed.values()):
        for level, count in unnamed.items():
            lines.append(f'dragoman_target_standing{{target="{OTHER}",level="{level.value}"}} {count}')


def _keys_in_cooldown(lines: list[str], snapshots: Sequence[Snapshot]) -> None:
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


def _recorded(lines: list[str], statuses: Sequence[RecordingStatus]) -> None:
    """What became of what was written down, of all workers together."""
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
        f'client="{cell.client}",provider="{_escaped(cell.provider)}",dialect="{cell.dialect}",'
        f'model="{_escaped(cell.model)}"'
    )


def _escaped(text: str) -> str:
    """A label's value with Prometheus' escapes; its third one, for line breaks, is never needed."""
    return printable(text).replace("\\", "\\\\").replace('"', '\\"')
