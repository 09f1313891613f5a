"""`GET /launches/NAME`: what a launch came to, for `dragoman launch`; told under the key that its requests had."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.gateway.observability.launch_counters import WorkerLaunchCount, summed
from dragoman.model.jsonvalue import JsonObject


def launch_summary(name: str, counts: Sequence[WorkerLaunchCount]) -> JsonObject:
    """A launch, of all workers together; `processes` are other ones if some have counted less than there was."""
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
