"""`GET /launches/NAME`: the totals of a launch, for `dragoman launch`. The key must be the one of its requests."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.gateway.observability.launch_counters import WorkerLaunchCount, summed
from dragoman.model.jsonvalue import JsonObject


def launch_summary(name: str, counts: Sequence[WorkerLaunchCount]) -> JsonObject:
    """The totals of a launch over all workers. `processes` differ if a process with earlier counts has ended."""
    processes, total = summed(counts)
    return {
        "name": name,
        "requests": total.requests,
        "calls": total.calls,
        "failed": total.failed,
        "input_tokens": total.input,
        "output_tokens": total.output,
        "cost_nano_usd": total.cost,
        "unpriced_requests": total.unpriced,
        "losses": {**total.losses},
        "session": total.session,
        "processes": [*processes],
    }
