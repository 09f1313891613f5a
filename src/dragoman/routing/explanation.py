"""Explanation of a plan as text, for `dragoman route` and the request records."""

from __future__ import annotations

from collections.abc import Collection

from dragoman.prices.money import dollars
from dragoman.records.journal_entry import CandidateEntry
from dragoman.routing.candidate import Candidate, Deprioritized, Filter, Plan, Why
from dragoman.routing.health import SUSPICION
from dragoman.routing.health_state import HealthLevel, HealthState
from dragoman.routing.policies import POLICIES
from dragoman.routing.policies.policy import Policy
from dragoman.routing.speed import Speed
from dragoman.routing.target import printable_model_name

LEADS = {
    Why.ONLY: "it is the only target left",
    Why.AFFINITY: "the conversation is there",
    Why.ALONE: "the owner of the referenced items is unknown, and it is the first possible target",
    Why.EXPLORED: "its measurements are the oldest, and are updated now and then",
    Why.WAKES: "all targets are in cooldown, and it is its turn to be probed",
}
LEFT_OUT = {
    Filter.TOOLS: "it takes no tools",
    Filter.IMAGES: "it takes no images",
    Filter.DOCUMENTS: "it takes no documents",
    Filter.THINKING: "it does not reason",
    Filter.STRUCTURED: "it has no structured output",
    Filter.WINDOW: "its window is too small",
    Filter.COST: "its estimated cost exceeds max_cost",
    Filter.UNKNOWN_COST: "its price is unknown, and there is a max_cost",
    Filter.REFUSED: "the request cannot be translated for it",
    Filter.STRICT: "strict forbids the losses of the translation",
    Filter.STORED_ELSEWHERE: "another provider stores the referenced items",
    Filter.OTHER_MODEL: "its model is another one",
    Filter.COOLDOWN: "in cooldown",
    Filter.ALONE: "the owner of the referenced items is unknown, and only one target is called",
}
ABSENT = "its provider is not configured"
NOT_PERMITTED = "the key's list of providers does not have its provider"
# Reasons for deprioritized targets. A failed one has the seconds since its failure.
DEPRIORITIZED = {
    Deprioritized.TIGHT: "its window may be too small",
    Deprioritized.SUSPECT: "failed {seconds} s ago",
    Deprioritized.SLOW_START: "slow start after a cooldown: it gets a part of the requests",
    Deprioritized.BUSY: "all its slots are taken",
    Deprioritized.NO_KEY: "all its keys are in cooldown",
    Deprioritized.COOLDOWN: "in cooldown: called if all others fail",
}

# Maximum candidates per record, and maximum length of their names, which clients may choose.
_MAX_CANDIDATES = 16
_MAX_NAME_LENGTH = 256
_MICROSECONDS = 1_000_000
_LIMIT = 1e9
_MAX_INTEGER = (1 << 63) - 1


def candidate_entries(
    plan: Plan, missed: Collection[str] = (), providers: Collection[str] | None = None
) -> tuple[tuple[CandidateEntry, ...], int | None]:
    """A plan's candidates for the record: ranked, excluded, `missed`; and the number of further ones. Losses are left
    out, because they may quote clients. `providers` is the list of the gateway key, if it has one."""
    entries = [_candidate_entry(candidate, plan.now) for candidate in in_order(plan)[:_MAX_CANDIDATES]]
    entries += [
        CandidateEntry(printable_target(name)[:_MAX_NAME_LENGTH], f"left out: {why_missed(name, providers)}")
        for name in [*missed][: _MAX_CANDIDATES - len(entries)]
    ]
    return tuple(entries), len(plan.candidates) + len(missed) - len(entries) or None


def why_missed(name: str, providers: Collection[str] | None) -> str:
    return ABSENT if providers is None or name.partition("/")[0] in providers else NOT_PERMITTED


def in_order(plan: Plan) -> list[Candidate]:
    """Candidates in the order of their rank, excluded ones last."""
    places = {target.id: place for place, target in enumerate(plan.order)}
    return sorted(plan.candidates, key=lambda found: places.get(found.target.id, len(places)))


def printable_target(name: str) -> str:
    """The name of a missing target, in the form for responses and logs."""
    provider, _, model = name.partition("/")
    return f"{provider}/{printable_model_name(model)}"


def explain(plan: Plan) -> tuple[str, ...]:
    """Explain why the first target leads, then every candidate."""
    candidates = {candidate.target.id: candidate for candidate in plan.candidates}
    lines = [_first(plan)]
    for place, target in enumerate(plan.order, 1):
        lines.append(f"{place}. {_described(candidates.pop(target.id), plan)}")
    for candidate in candidates.values():
        lines.append(f"left out: {_described(candidate, plan)}")
    return tuple(lines)


def reason(candidate: Candidate, plan: Plan) -> str:
    """The reason why a candidate is excluded, or ""."""
    left_out = candidate.left_out
    if left_out is None:
        return ""
    detail = plan.requirements.refused.get(candidate.target.id, "") if left_out is Filter.REFUSED else ""
    return f"{LEFT_OUT[left_out]}: {detail}" if detail else LEFT_OUT[left_out]


def why_deprioritized(candidate: Candidate, now: float) -> str:
    """The reason why a candidate ranks lower than by the policy, or ""."""
    cause = candidate.deprioritized
    if cause is None:
        return ""
    if cause is not Deprioritized.SUSPECT:
        return DEPRIORITIZED[cause]
    # A target is suspect for this long after its last failure.
    return DEPRIORITIZED[cause].format(seconds=int(max(SUSPICION - (candidate.health.until - now), 0.0)))


def because(plan: Plan, *, randomized: bool = True) -> str:
    """Explain why the first target leads. `randomized` means that random numbers decided."""
    if not plan.order:
        return "no target can be called"
    if plan.why is not Why.POLICY:
        return LEADS[plan.why]
    policy = POLICIES[plan.policy]
    if not randomized and policy.unrandomized:
        return policy.unrandomized
    moved = policy.as_written and plan.order[0].id != plan.candidates[0].target.id
    return f"{policy.chosen} that is neither left out nor deprioritized" if moved else policy.chosen


def _candidate_entry(candidate: Candidate, now: float) -> CandidateEntry:
    target, cost, speed = candidate.target, candidate.cost, candidate.speed
    first = rate = None
    if speed is not None and speed.samples > 0:
        first = int(speed.first_token * _MICROSECONDS) if 0 <= speed.first_token < _LIMIT else None
        rate = round(speed.rate, 2) if 0 < speed.rate < _LIMIT else None
    return CandidateEntry(
        f"{target.provider.name}/{target.printable_model}"[:_MAX_NAME_LENGTH],
        _why(candidate, now),
        cost if cost is not None and cost <= _MAX_INTEGER else None,
        candidate.losses,
        first,
        rate,
    )


def _why(candidate: Candidate, now: float) -> str:
    """The reason why a candidate is excluded or deprioritized, without content of the request."""
    if candidate.left_out is not None:
        return f"left out: {LEFT_OUT[candidate.left_out]}"
    return "" if candidate.deprioritized is None else f"deprioritized: {why_deprioritized(candidate, now)}"


def _first(plan: Plan) -> str:
    rules = f" (by rule {', '.join(plan.rule.splitlines())})" if plan.rule else ""
    if not plan.order:
        return f"{because(plan)}{rules}"
    return f"{plan.order[0].id} leads{rules}: {because(plan)} ({plan.policy})"


def _described(candidate: Candidate, plan: Plan) -> str:
    parts = [
        reason(candidate, plan),
        f"deprioritized, {why_deprioritized(candidate, plan.now)}"
        if candidate.deprioritized is not None and candidate.left_out is None
        else "",
        _health(candidate.health, plan.now),
        *_figures(candidate, POLICIES[plan.policy]),
    ]
    return f"{candidate.target.id}: {'; '.join(part for part in parts if part)}"


def _health(health: HealthState, now: float) -> str:
    left = health.until - now
    if health.level is HealthLevel.HEALTHY or not left > 0:
        return (
            "healthy"
            if health.level not in (HealthLevel.COOLDOWN, HealthLevel.PROBING)
            else "tried again after a cooldown"
        )
    return f"{health.level.value} for {left:.3g} s"


def _figures(candidate: Candidate, policy: Policy) -> list[str]:
    figures = []
    if candidate.cost is not None:
        figures.append(f"costs about {dollars(candidate.cost)}")
    elif policy.prices or candidate.left_out is Filter.UNKNOWN_COST:
        figures.append("price unknown")
    if candidate.speed is not None and candidate.speed.samples > 0:
        figures.append(_speed(candidate.speed))
    elif policy.speed:
        figures.append("speed unknown")
    if candidate.losses is not None:
        figures.append(f"losses: {candidate.losses}")
    elif policy.losses:
        figures.append("losses unknown")
    if candidate.window is not None:
        figures.append(f"window of {candidate.window} tokens")
    return figures


def _speed(speed: Speed) -> str:
    rate = f"{speed.rate:.3g} tokens/s" if speed.rate > 0 else "tokens/s unknown"
    return (
        f"first token after {speed.first_token:.3g} s, {rate}, {speed.success_rate:.0%} succeed, "
        f"measured {speed.age:.3g} s ago ({speed.samples} samples)"
    )
