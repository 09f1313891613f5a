"""Plan: which targets a request is tried on, in which order, and why.

    rules       what takes the members' place         decide
    filters     who is left out                       filters
    policy      the order of who is left              policies
    health      who is not well stands behind         filters
    pin         where the conversation is leads

It is pure: the same arguments make the same plan. What is the same for all requests of a route is in its outline; what
a plan holds of its candidates is put into words only when somebody asks (`explain`). On a calm day, when all targets
are well, free and fit for the request, the first is often known without a look at the others: those are ranked if it
fails, with the same outcome.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from dragoman.routing.candidate import Behind, Candidate, Filter, Plan, Ranked, Why
from dragoman.routing.explanation import explain
from dragoman.routing.filters import DEPTH, picky, rests, too_dear, unfit, unwell
from dragoman.routing.health_state import GOOD, HealthLevel
from dragoman.routing.needs import MOST_BYTES, USUAL_BYTES, Requirements
from dragoman.routing.plan_inputs import Affinity, Dice, PlanInputs
from dragoman.routing.route import Route
from dragoman.routing.route_summary import PolicyNode, RouteSummary
from dragoman.routing.rule_matching import decide
from dragoman.routing.target import Target

__all__ = ["Affinity", "Behind", "Candidate", "Dice", "Filter", "Plan", "PlanInputs", "Why", "explain", "plan"]

# A nested route's chance is in the digits that its parent's choice left alone.
_DIGITS = 1024
# Members of an enumeration are slow to find, and these are looked for in most requests.
_PINNED, _POLICY = Why.PINNED, Why.POLICY


def plan(route: Route, needs: Requirements, view: PlanInputs, dice: Dice) -> Plan:
    """The targets of a route in the order in which this request tries them."""
    rule = held = ""
    if route.ruled:
        route, rule, held = decide(route, needs, view.pin)
    outline = route.outline
    written, policy = outline.written, outline.policy.name
    # Whether nobody is left out or stands behind, and nobody asks for what must be worked out for each target.
    calm = not (
        outline.weighs or needs.alone or needs.keeper or needs.same_model or needs.refused or needs.losses
    ) and view.is_calm(outline, needs.size - needs.signs.media)
    lead = _lead(outline, needs, view, dice) if calm else None
    if lead is not None:
        first, why = lead
        later = _Later(first, outline, needs, view, dice)
        return Plan(first, written, policy, why, rule, needs, view.now, later, held, view.pin)
    if calm:
        able = looked_at = _all_well(outline, needs, view)
    else:
        able, looked_at = _looked_at(outline, needs, view, dice)
    ranked, why = _ranked(outline, needs, view, dice, able, looked_at)
    leader = ranked.order[0] if ranked.order else None
    # Nobody stays with whoever is asked for want of anybody else.
    held = "" if why is Why.NOBODY or why is Why.WAKES else held
    return Plan(leader, written, policy, why, rule, needs, view.now, ranked, held, view.pin)


def _lead(outline: RouteSummary, needs: Requirements, view: PlanInputs, dice: Dice) -> tuple[Target, Why] | None:
    """Who is the first on a calm day; None if that takes a ranking."""
    leaves = outline.leaves
    there = view.pin.target if view.pin is not None else needs.issuer
    if there and (place := outline.places.get(there)) is not None and leaves[place][3]:
        return leaves[place][1], _PINNED
    if outline.leader is not None:
        return outline.leader, _POLICY
    policy = outline.policy
    if not outline.flat or len(leaves) < 2:
        return None
    if policy.order is not None:
        return leaves[policy.order(outline.tree.weights, view.turn, dice.weight)[0]][1], _POLICY
    first = policy.first(outline, needs, view, dice) if policy.first is not None else None
    return None if first is None else (leaves[first][1], _POLICY)


class _Later(Struct, frozen=True):
    """Ranks the others of a calm day when somebody asks for them: all well, by their speeds of then."""

    first: Target
    outline: RouteSummary
    needs: Requirements
    view: PlanInputs
    dice: Dice

    def __call__(self) -> Ranked:
        well = _all_well(self.outline, self.needs, self.view)
        found, _ = _ranked(self.outline, self.needs, self.view, self.dice, well, well)
        # Whoever led, leads, however fast the others are by now.
        others = [target for target in found.order if target is not self.first]
        return Ranked((self.first, *others), found.candidates)


def _ranked(
    outline: RouteSummary,
    needs: Requirements,
    view: PlanInputs,
    dice: Dice,
    able: list[Candidate],
    looked_at: list[Candidate],
) -> tuple[Ranked, Why]:
    """Those who may be asked in their order, with all that were looked at, and why the first leads."""
    if needs.alone:
        return _of_one(outline, looked_at, needs, view)
    if not able:
        return _of_nobody(looked_at, view.turn)
    if len(able) == 1:
        ordered, why = able, Why.ONLY
    else:
        ordered, why = _ordered(outline, able, needs, view.turn, dice)
    # Where nobody remembers a conversation, what it carries may tell.
    there = view.pin.target if view.pin is not None else needs.issuer
    if there and (place := outline.places.get(there)) is not None and outline.leaves[place][3]:
        pinned = looked_at[place]
        if pinned.left_out is None and _keeps(pinned, able):
            ordered = [pinned, *(found for found in ordered if found is not pinned)]
            why = Why.PINNED
    order, told = _with_last_resort([found.target for found in ordered], looked_at)
    return Ranked(tuple(order), tuple(told)), why


def _with_last_resort(order: list[Target], looked_at: list[Candidate]) -> tuple[list[Target], list[Candidate]]:
    """The same with those in cooldown whose errors take long: each is asked when all before it have failed.

    It may cost the client a whole timeout. One request at a time asks it, as often as its retry budget allows.
    """
    slow = [found for found in looked_at if found.left_out is Filter.RESTING]
    if not slow:
        return order, looked_at
    last = sorted(slow, key=_end_of_cooldown)
    told = [replace(found, left_out=None, behind=Behind.COOLDOWN) if found in slow else found for found in looked_at]
    return [*order, *(found.target for found in last)], told


def _end_of_cooldown(found: Candidate) -> float:
    return found.standing.until


def _all_well(outline: RouteSummary, needs: Requirements, view: PlanInputs) -> list[Candidate]:
    """What is known of everybody on a calm day."""
    windows = view.windows(outline)
    speeds = view.speeds(outline, needs.size) if outline.speed else None
    return [
        Candidate(
            place, target, GOOD, None, None, None, None if speeds is None else speeds[place], None, windows[place]
        )
        for place, target, _, _ in outline.leaves
    ]


def _looked_at(
    outline: RouteSummary, needs: Requirements, view: PlanInputs, dice: Dice
) -> tuple[list[Candidate], list[Candidate]]:
    """Who may be asked, and what is known of everybody."""
    now, standings, busy, windows = view.now, view.standings(outline), view.busy(outline), view.windows(outline)
    cost_of = view.cost if outline.prices else None
    speeds = view.speeds(outline, needs.size) if outline.speed else None
    losses_of = needs.losses if outline.losses else None
    text = needs.size - needs.signs.media
    special = picky(needs, outline)
    # Shares are those beside the best: where all fail partly, none of them is worse off than the others.
    chance = dice.ramp if standings is outline.good else dice.ramp * max(found.share(now) for found in standings)
    # What a cache holds may be gone: it makes a target cheaper than others, but never cheap enough for a limit.
    cold = replace(needs, warm="") if needs.warm and cost_of is not None else needs
    able: list[Candidate] = []
    looked_at: list[Candidate] = []
    for place, target, limit, _ in outline.leaves:
        left_out = unfit(target, needs, outline.leaves[0][1]) if special else None
        behind = None
        window = windows[place]
        if window is not None and text > window * USUAL_BYTES:
            behind = Behind.TIGHT
            if left_out is None and text > window * MOST_BYTES:
                left_out = Filter.WINDOW
        cost = None
        if cost_of is not None:
            cost = cost_of(target, needs)
            if limit is not None and left_out is None:
                full = cost if needs.warm != target.id else cost_of(target, cold)
                left_out = too_dear(full, limit)
                cost = full if left_out is not None else cost
        standing = standings[place]
        if standing is not GOOD:
            if left_out is None and rests(standing, now):
                left_out = Filter.RESTING
            behind = unwell(standing, now, chance) or behind
        if busy and (behind is None or behind is Behind.TIGHT) and target.provider.name in busy:
            behind = Behind.BUSY
        found = Candidate(
            place,
            target,
            standing,
            left_out,
            behind,
            cost,
            None if speeds is None else speeds[place],
            None if losses_of is None or (lost := losses_of.get(target.id)) is None else lost.changes,
            window,
        )
        looked_at.append(found)
        if left_out is None:
            able.append(found)
    return able, looked_at


def _of_one(
    outline: RouteSummary, looked_at: list[Candidate], needs: Requirements, view: PlanInputs
) -> tuple[Ranked, Why]:
    """The one target that is asked for what nobody knows the keeper of: where the conversation is, else the first.

    However it does: none of the others knows of it. The first is that of the client's own family, if there is one.
    """
    able = [found for found in looked_at if found.left_out is None or found.left_out is Filter.RESTING]
    if not able:
        return Ranked((), tuple(looked_at)), Why.NOBODY
    pinned = outline.places.get(view.pin.target if view.pin is not None else needs.issuer)
    there = next((found for found in able if found.place == pinned), None)
    family = needs.protocol.partition("-")[0]
    kin = (found for found in able if found.target.endpoint.protocol.partition("-")[0] == family)
    first = there or next(kin, able[0])
    why = Why.PINNED if there is not None else Why.ONLY if len(able) == 1 else Why.ALONE
    told = [_left(found, None) if found is first else found for found in looked_at]
    told = [found if found.left_out or found.place == first.place else _left(found, Filter.ALONE) for found in told]
    return Ranked((first.target,), tuple(told)), why


def _of_nobody(looked_at: list[Candidate], turn: int) -> tuple[Ranked, Why]:
    """What is left where nobody may be asked: of those that only rest, the one whose turn it is."""
    resting = [found for found in looked_at if found.left_out is Filter.RESTING]
    if not resting:
        return Ranked((), tuple(looked_at)), Why.NOBODY
    # Of one that is being tried somebody finds out already.
    untried = [found for found in resting if found.standing.level is HealthLevel.RESTING] or resting
    first = untried[turn % len(untried)]
    woken = [_left(found, None) if found is first else found for found in looked_at]
    order, told = _with_last_resort([first.target], woken)
    return Ranked(tuple(order), tuple(told)), Why.WAKES


def _ordered(
    outline: RouteSummary, able: list[Candidate], needs: Requirements, turn: int, dice: Dice
) -> tuple[list[Candidate], Why]:
    """By policy, those that are well before the others."""
    order = _flat if outline.flat else _nested
    for found in able:
        if found.behind is not None:
            break
    else:
        return order(outline.tree, able, needs, turn, dice)
    groups: dict[int, list[Candidate]] = {}
    for found in able:
        groups.setdefault(_depth(found), []).append(found)
    # Why it leads is the first group's to say.
    parts = [order(outline.tree, groups[depth], needs, turn, dice) for depth in sorted(groups)]
    return [found for part, _ in parts for found in part], parts[0][1]


def _flat(
    node: PolicyNode, able: list[Candidate], needs: Requirements, turn: int, dice: Dice
) -> tuple[list[Candidate], Why]:
    """The order of targets that one policy has in hand."""
    policy = node.policy
    if policy.rank is not None:
        return policy.rank(able, needs, dice)
    assert policy.order is not None
    weights = node.weights
    if len(able) < len(weights):
        weights = tuple([weights[found.place] for found in able])
    return [able[index] for index in policy.order(weights, turn, dice.weight)], Why.POLICY


def _nested(
    node: PolicyNode, able: list[Candidate], needs: Requirements, turn: int, dice: Dice
) -> tuple[list[Candidate], Why]:
    """The order of routes within routes."""
    ordered, why = _below(node, {found.place: found for found in able}, needs, turn, dice)
    # A target that stands in several routes is tried where it comes first.
    return list({found.place: found for found in ordered}.values()), why


def _below(
    node: PolicyNode, able: Mapping[int, Candidate], needs: Requirements, turn: int, dice: Dice
) -> tuple[list[Candidate], Why]:
    policy = node.policy
    if policy.rank is not None:
        return policy.rank(
            [able[place] for place in node.members if isinstance(place, int) and place in able], needs, dice
        )
    assert policy.order is not None
    present = [index for index, member in enumerate(node.members) if _anybody(member, able)]
    weights = [node.weights[index] for index in present]
    inner = replace(dice, weight=dice.weight * _DIGITS % 1.0)
    inner_turn = turn // len(present) if policy.turns and present else turn
    ordered: list[Candidate] = []
    why = Why.POLICY
    for index in policy.order(weights, turn, dice.weight):
        member = node.members[present[index]]
        if isinstance(member, int):
            ordered.append(able[member])
            continue
        found, reason = _below(member, able, needs, inner_turn, inner)
        why = why if ordered else reason
        ordered += found
    return ordered, why


def _anybody(member: int | PolicyNode, able: Mapping[int, Candidate]) -> bool:
    if isinstance(member, int):
        return member in able
    return any(_anybody(inner, able) for inner in member.members)


def _keeps(found: Candidate, able: list[Candidate]) -> bool:
    """Whether a conversation stays with it: it is well, and one that is tried after a rest is not yet.

    Where nobody is better off than one that failed a moment ago, nothing is gained by a move.
    """
    if found.standing.level in (HealthLevel.RESTING, HealthLevel.PROBED):
        return False
    if found.behind in (Behind.SUSPECT, Behind.RAMPING):
        return _depth(found) == min(map(_depth, able))
    return found.behind is None or found.behind is Behind.TIGHT


def _depth(found: Candidate) -> int:
    behind = found.behind
    return 0 if behind is None else DEPTH[behind]


def _left(found: Candidate, left_out: Filter | None) -> Candidate:
    return replace(found, left_out=left_out)
