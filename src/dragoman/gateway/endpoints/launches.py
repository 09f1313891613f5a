"""`GET /launches/NAME`: what a launch came to, for `dragoman launch`; told under the key that its requests had."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.gateway.observability.launch_counters import WorkerLaunchCount, summed
from dragoman.model.jsonvalue import JsonObject


def told_of(name: str, told: Sequence[WorkerLaunchCount]) -> JsonObject:
    """A launch, of all workers together; `processes` are other ones if some have counted less than there was."""
    processes, tally = summed(told)
    return {
        "name": name,
        "requests": tally.requests,
        "calls": tally.calls,
        "failed": tally.failed,
        "input_tokens": tally.input,
        "output_tokens": tally.output,
        "cost_nano_usd": tally.cost,
        "unpriced_requests": tally.unpriced,
        "losses": {**tally.losses},
        "session": tally.session,
        "processes": [*processes],
    }
