"""Routing plan: the targets of a request in order, with the reasons. Rules replace a route's members (`rule_matching`),
filters exclude targets and rank them by health, the policy orders the rest, and session affinity leads. It is pure: the
same arguments give the same plan. If all targets are healthy and free, the first is often known without a ranking. The
others are then ranked only if it fails, with the same result."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from dragoman.routing.candidate import Candidate, Deprioritized, Filter, Plan, Ranked, Why
from dragoman.routing.filters import (
    DEPTH,
    cost_filter,
    deprioritized_by_health,
    is_in_cooldown,
    may_exclude,
    request_filter,
)
from dragoman.routing.health_state import HEALTHY, HealthLevel
from dragoman.routing.needs import BYTES_PER_TOKEN, DEFAULT_OUTPUT_TOKENS, MAX_BYTES_PER_TOKEN, Requirements
from dragoman.routing.plan_inputs import Affinity, PlanInputs, RandomDraws
from dragoman.routing.route import Route
from dragoman.routing.route_summary import PolicyNode, RouteSummary
from dragoman.routing.rule_matching import decide
from dragoman.routing.target import Target

# A nested route uses the digits of the random number that its parent's choice left.
_DIGITS = 1024
# Bound once: looking up an enum member is slow, and most requests need these.
_AFFINITY, _POLICY = Why.AFFINITY, Why.POLICY
NO_DRAWS = RandomDraws()


def plan(route: Route, requirements: Requirements, inputs: PlanInputs, draws: RandomDraws) -> Plan:
    rule = held = ""
    if route.ruled:
        route, rule, held = decide(route, requirements, inputs.affinity)
    summary = route.summary
    written, policy = summary.written, summary.policy.name
    # Whether no target is excluded or deprioritized, and the policy needs no metadata of targets.
    all_available = not (
        summary.weighs
        or requirements.alone
        or requirements.storing_provider
        or requirements.same_model
        or requirements.refused
        or requirements.losses
    ) and inputs.are_all_available(summary, requirements.size - requirements.request_features.media)
    lead = _lead(summary, requirements, inputs, draws) if all_available else None
    if lead is not None:
        return _led(summary, lead, requirements, inputs, draws, rule, held)
    if all_available:
        able = looked_at = _all_healthy(summary, requirements, inputs)
    else:
        able, looked_at = _looked_at(summary, requirements, inputs, draws)
    ranked, why = _ranked(summary, requirements, inputs, draws, able, looked_at)
    leader = ranked.order[0] if ranked.order else None
    # A target that is called for lack of others gets no affinity.
    held = "" if why is Why.NO_TARGET or why is Why.WAKES else held
    return Plan(leader, written, policy, why, rule, requirements, inputs.now, ranked, held, inputs.affinity)


class Lead(Struct, frozen=True):
    """The first target of a request without a plan, and the inputs of its plan if the target fails."""

    target: Target
    why: Why
    now: float
    # The affinity before this request.
    affinity: Affinity | None = None
    # The usual output tokens, if the policy needs them, and its random number.
    output: int = DEFAULT_OUTPUT_TOKENS
    draws: RandomDraws = NO_DRAWS


def plan_behind(lead: Lead, route: Route, requirements: Requirements, inputs: PlanInputs) -> Plan:
    """The plan of a request that went to its first target without one, while all targets were healthy."""
    return _led(route.summary, (lead.target, lead.why), requirements, inputs, lead.draws)


def _led(
    summary: RouteSummary,
    lead: tuple[Target, Why],
    requirements: Requirements,
    inputs: PlanInputs,
    draws: RandomDraws,
    rule: str = "",
    held: str = "",
) -> Plan:
    """A plan with a leader. The other targets are ranked if the leader fails."""
    first, why = lead
    later = _DeferredRanking(first, summary, requirements, inputs, draws)
    policy = summary.policy.name
    return Plan(first, summary.written, policy, why, rule, requirements, inputs.now, later, held, inputs.affinity)


def _lead(
    summary: RouteSummary, requirements: Requirements, inputs: PlanInputs, draws: RandomDraws
) -> tuple[Target, Why] | None:
    """The first target of a healthy plan, or None if that needs a ranking."""
    leaves = summary.leaves
    there = inputs.affinity.target if inputs.affinity is not None else requirements.issuer
    if there and (place := summary.places.get(there)) is not None and leaves[place][3]:
        return leaves[place][1], _AFFINITY
    if summary.leader is not None:
        return summary.leader, _POLICY
    policy = summary.policy
    if not summary.flat or len(leaves) < 2:
        return None
    if policy.order is not None:
        return leaves[policy.order(summary.tree.weights, inputs.turn, draws.weight)[0]][1], _POLICY
    if not summary.soonest or draws.explore < draws.exploration_rate:
        return None
    soonest = inputs.soonest(summary, requirements.size, requirements.expected_output)
    # Exploring a target that leads anyway counts, too.
    if draws.exploration_rate and inputs.has_doubts(summary, requirements.size, soonest):
        return None
    return leaves[soonest][1], _POLICY


class _DeferredRanking(Struct, frozen=True):
    """Ranks the other targets on access if all are healthy, by their speeds at the time of the plan."""

    first: Target
    summary: RouteSummary
    requirements: Requirements
    inputs: PlanInputs
    draws: RandomDraws

    def __call__(self) -> Ranked:
        healthy = _all_healthy(self.summary, self.requirements, self.inputs)
        ranking, _ = _ranked(self.summary, self.requirements, self.inputs, self.draws, healthy, healthy)
        # The first target stays first, even if the others are faster by now.
        others = [target for target in ranking.order if target is not self.first]
        return Ranked((self.first, *others), ranking.candidates)


def _ranked(
    summary: RouteSummary,
    requirements: Requirements,
    inputs: PlanInputs,
    draws: RandomDraws,
    able: list[Candidate],
    looked_at: list[Candidate],
) -> tuple[Ranked, Why]:
    """The callable targets in order, all candidates, and the reason why the first one leads."""
    if requirements.alone:
        return _single_target(summary, looked_at, requirements, inputs)
    if not able:
        return _choose_in_cooldown(looked_at, inputs.turn)
    if len(able) == 1:
        ordered, why = able, Why.ONLY
    else:
        ordered, why = _ordered(summary, able, requirements, inputs.turn, draws)
    # For a conversation without affinity, its signed reasoning may name the target.
    there = inputs.affinity.target if inputs.affinity is not None else requirements.issuer
    if there and (place := summary.places.get(there)) is not None and summary.leaves[place][3]:
        current = looked_at[place]
        if current.left_out is None and _may_stay(current, able):
            ordered = [current, *(candidate for candidate in ordered if candidate is not current)]
            why = Why.AFFINITY
    order, candidates = _with_last_resort([candidate.target for candidate in ordered], looked_at)
    return Ranked(tuple(order), tuple(candidates)), why


def _with_last_resort(order: list[Target], looked_at: list[Candidate]) -> tuple[list[Target], list[Candidate]]:
    """Append targets that are in cooldown after slow errors. They may cost the client a full timeout, so one request at
    a time may try them, within the retry budget."""
    slow = [candidate for candidate in looked_at if candidate.left_out is Filter.COOLDOWN]
    if not slow:
        return order, looked_at
    last = sorted(slow, key=_end_of_cooldown)
    candidates = [
        replace(candidate, left_out=None, deprioritized=Deprioritized.COOLDOWN) if candidate in slow else candidate
        for candidate in looked_at
    ]
    return [*order, *(candidate.target for candidate in last)], candidates


def _end_of_cooldown(candidate: Candidate) -> float:
    return candidate.health.until


def _all_healthy(summary: RouteSummary, requirements: Requirements, inputs: PlanInputs) -> list[Candidate]:
    windows = inputs.windows(summary)
    speeds = inputs.speeds(summary, requirements.size) if summary.speed else None
    return [
        Candidate(
            place, target, HEALTHY, None, None, None, None if speeds is None else speeds[place], None, windows[place]
        )
        for place, target, _, _ in summary.leaves
    ]


def _looked_at(
    summary: RouteSummary, requirements: Requirements, inputs: PlanInputs, draws: RandomDraws
) -> tuple[list[Candidate], list[Candidate]]:
    now, health_states, busy, windows = (
        inputs.now,
        inputs.health_states(summary),
        inputs.busy(summary),
        inputs.windows(summary),
    )
    cost_of = inputs.cost if summary.prices else None
    speeds = inputs.speeds(summary, requirements.size) if summary.speed else None
    losses_of = requirements.losses if summary.losses else None
    text = requirements.size - requirements.request_features.media
    special = may_exclude(requirements, summary)
    # Success rates are relative to the best: if all targets fail partly, none gets less than its share.
    draw = (
        draws.slow_start
        if health_states is summary.all_healthy
        else draws.slow_start * max(candidate.share(now) for candidate in health_states)
    )
    # A prompt cache may have expired. It makes a target cheaper than others, but never cheap enough for a limit.
    cold = replace(requirements, warm="") if requirements.warm and cost_of is not None else requirements
    able: list[Candidate] = []
    looked_at: list[Candidate] = []
    for place, target, limit, _ in summary.leaves:
        left_out = request_filter(target, requirements, summary.leaves[0][1]) if special else None
        deprioritized = None
        window = windows[place]
        if window is not None and text > window * BYTES_PER_TOKEN:
            deprioritized = Deprioritized.TIGHT
            if left_out is None and text > window * MAX_BYTES_PER_TOKEN:
                left_out = Filter.WINDOW
        cost = None
        if cost_of is not None:
            cost = cost_of(target, requirements)
            if limit is not None and left_out is None:
                full = cost if requirements.warm != target.id else cost_of(target, cold)
                left_out = cost_filter(full, limit)
                cost = full if left_out is not None else cost
        health = health_states[place]
        if health is not HEALTHY:
            if left_out is None and is_in_cooldown(health, now):
                left_out = Filter.COOLDOWN
            deprioritized = deprioritized_by_health(health, now, draw) or deprioritized
        if busy and (deprioritized is None or deprioritized is Deprioritized.TIGHT) and target.provider.name in busy:
            deprioritized = Deprioritized.BUSY
        candidate = Candidate(
            place,
            target,
            health,
            left_out,
            deprioritized,
            cost,
            None if speeds is None else speeds[place],
            None if losses_of is None or (lost := losses_of.get(target.id)) is None else lost.changes,
            window,
        )
        looked_at.append(candidate)
        if left_out is None:
            able.append(candidate)
    return able, looked_at


def _single_target(
    summary: RouteSummary, looked_at: list[Candidate], requirements: Requirements, inputs: PlanInputs
) -> tuple[Ranked, Why]:
    """The one target for stored input of unknown owner: the conversation's, otherwise the first, if possible of the
    client's own protocol. Its health does not matter, because no other target has the input."""
    able = [candidate for candidate in looked_at if candidate.left_out is None or candidate.left_out is Filter.COOLDOWN]
    if not able:
        return Ranked((), tuple(looked_at)), Why.NO_TARGET
    current_place = summary.places.get(inputs.affinity.target if inputs.affinity is not None else requirements.issuer)
    there = next((candidate for candidate in able if candidate.place == current_place), None)
    family = requirements.protocol.partition("-")[0]
    kin = (candidate for candidate in able if candidate.target.endpoint.protocol.partition("-")[0] == family)
    first = there or next(kin, able[0])
    why = Why.AFFINITY if there is not None else Why.ONLY if len(able) == 1 else Why.ALONE
    candidates = [_with_filter(candidate, None) if candidate is first else candidate for candidate in looked_at]
    candidates = [
        candidate if candidate.left_out or candidate.place == first.place else _with_filter(candidate, Filter.ALONE)
        for candidate in candidates
    ]
    return Ranked((first.target,), tuple(candidates)), why


def _choose_in_cooldown(looked_at: list[Candidate], turn: int) -> tuple[Ranked, Why]:
    """If no target may be called: the one in cooldown whose turn it is."""
    in_cooldown = [candidate for candidate in looked_at if candidate.left_out is Filter.COOLDOWN]
    if not in_cooldown:
        return Ranked((), tuple(looked_at)), Why.NO_TARGET
    # A probing target already has its probe request.
    untried = [candidate for candidate in in_cooldown if candidate.health.level is HealthLevel.COOLDOWN] or in_cooldown
    first = untried[turn % len(untried)]
    woken = [_with_filter(candidate, None) if candidate is first else candidate for candidate in looked_at]
    order, candidates = _with_last_resort([first.target], woken)
    return Ranked(tuple(order), tuple(candidates)), Why.WAKES


def _ordered(
    summary: RouteSummary, able: list[Candidate], requirements: Requirements, turn: int, draws: RandomDraws
) -> tuple[list[Candidate], Why]:
    order = _flat if summary.flat else _nested
    for candidate in able:
        if candidate.deprioritized is not None:
            break
    else:
        return order(summary.tree, able, requirements, turn, draws)
    groups: dict[int, list[Candidate]] = {}
    for candidate in able:
        groups.setdefault(_depth(candidate), []).append(candidate)
    # The first group determines why the first target leads.
    parts = [order(summary.tree, groups[depth], requirements, turn, draws) for depth in sorted(groups)]
    return [candidate for part, _ in parts for candidate in part], parts[0][1]


def _flat(
    node: PolicyNode, able: list[Candidate], requirements: Requirements, turn: int, draws: RandomDraws
) -> tuple[list[Candidate], Why]:
    """The order of targets under one policy."""
    policy = node.policy
    if policy.rank is not None:
        return policy.rank(able, requirements, draws)
    assert policy.order is not None
    weights = node.weights
    if len(able) < len(weights):
        weights = tuple([weights[candidate.place] for candidate in able])
    return [able[index] for index in policy.order(weights, turn, draws.weight)], Why.POLICY


def _nested(
    node: PolicyNode, able: list[Candidate], requirements: Requirements, turn: int, draws: RandomDraws
) -> tuple[list[Candidate], Why]:
    """The order of nested routes."""
    ordered, why = _below(node, {candidate.place: candidate for candidate in able}, requirements, turn, draws)
    # A target of several routes is called at its first position.
    return list({candidate.place: candidate for candidate in ordered}.values()), why


def _below(
    node: PolicyNode, able: Mapping[int, Candidate], requirements: Requirements, turn: int, draws: RandomDraws
) -> tuple[list[Candidate], Why]:
    policy = node.policy
    if policy.rank is not None:
        return policy.rank(
            [able[place] for place in node.members if isinstance(place, int) and place in able], requirements, draws
        )
    assert policy.order is not None
    present = [index for index, member in enumerate(node.members) if _has_available(member, able)]
    weights = [node.weights[index] for index in present]
    inner = replace(draws, weight=draws.weight * _DIGITS % 1.0)
    inner_turn = turn // len(present) if policy.turns and present else turn
    ordered: list[Candidate] = []
    why = Why.POLICY
    for index in policy.order(weights, turn, draws.weight):
        member = node.members[present[index]]
        if isinstance(member, int):
            ordered.append(able[member])
            continue
        nested, reason = _below(member, able, requirements, inner_turn, inner)
        why = why if ordered else reason
        ordered += nested
    return ordered, why


def _has_available(member: int | PolicyNode, able: Mapping[int, Candidate]) -> bool:
    if isinstance(member, int):
        return member in able
    return any(_has_available(inner, able) for inner in member.members)


def _may_stay(candidate: Candidate, able: list[Candidate]) -> bool:
    """Whether a conversation keeps its target: not in COOLDOWN; in SUSPECT or SLOW_START if no other target ranks
    higher."""
    if candidate.health.level in (HealthLevel.COOLDOWN, HealthLevel.PROBING):
        return False
    if candidate.deprioritized in (Deprioritized.SUSPECT, Deprioritized.SLOW_START):
        return _depth(candidate) == min(map(_depth, able))
    return candidate.deprioritized is None or candidate.deprioritized is Deprioritized.TIGHT


def _depth(candidate: Candidate) -> int:
    deprioritized = candidate.deprioritized
    return 0 if deprioritized is None else DEPTH[deprioritized]


def _with_filter(candidate: Candidate, left_out: Filter | None) -> Candidate:
    return replace(candidate, left_out=left_out)
