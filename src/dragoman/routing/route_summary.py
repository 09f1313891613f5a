"""Route summary: the properties of a route that no request changes, computed once. `leaves` are all targets, each once,
with the limits of their routes. `tree` states which policy orders which leaves and subtrees."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from dragoman.routing.health_state import HEALTHY, HealthState
from dragoman.routing.policies import POLICIES
from dragoman.routing.policies.policy import Policy
from dragoman.routing.target import Target

if TYPE_CHECKING:
    from dragoman.routing.route import Route

# Larger weights are cut off, because weights are compared as floats.
_MAX_WEIGHT = 2.0**53

# A target, its position, the maximum cost of a request there, and whether it may have affinity.
Leaf: TypeAlias = tuple[int, Target, int | None, bool]


class PolicyNode(Struct, frozen=True):
    """Members under one policy: leaves by their positions, or other nodes."""

    policy: Policy
    members: tuple[int | PolicyNode, ...]
    weights: tuple[float, ...]


class RouteSummary(Struct, frozen=True, kw_only=True):
    # The policy that decides. A route with only one nested route has the policy of that.
    policy: Policy
    leaves: tuple[Leaf, ...]
    # The first target in the configuration; a rule may have none.
    written: Target | None
    tree: PolicyNode
    # Positions by target ID, the IDs, the names of all providers, and both as `Health` knows them.
    places: dict[str, int]
    ids: tuple[str, ...]
    providers: tuple[str, ...]
    subjects: tuple[str, ...]
    # Whether it has no nested route; and the first target of every healthy plan, if that is constant.
    flat: bool
    leader: Target | None
    # Whether the first target of a healthy plan is the one with the shortest expected time.
    soonest: bool
    prices: bool
    speed: bool
    losses: bool
    # Whether any target lacks a capability, is strict, or may have affinity.
    denies: bool
    strict: bool
    sticky: bool
    # Whether the affinity matters: for the order, or for the price with a prompt cache.
    follows: bool
    keys: bool
    # Whether every target must be examined, even if all are healthy.
    weighs: bool
    # The health states while no failure is recorded.
    all_healthy: tuple[HealthState, ...]


def summarize_route(route: Route) -> RouteSummary:
    leaves: dict[str, Leaf] = {}
    policies: list[Policy] = []
    tree = _node(route, None, True, leaves, policies)
    while len(tree.members) == 1 and isinstance(only := tree.members[0], PolicyNode):
        tree = only
    ordered_leaves = tuple(leaves.values())
    prices = any(policy.prices for policy in policies) or any(limit is not None for _, _, limit, _ in ordered_leaves)
    losses = any(policy.losses for policy in policies)
    denies = any(target.denies for _, target, _, _ in ordered_leaves)
    flat = all(isinstance(member, int) for member in tree.members)
    ids, providers = tuple(leaves), tuple(dict.fromkeys(leaf[1].provider.name for leaf in ordered_leaves))
    return RouteSummary(
        policy=tree.policy,
        leaves=ordered_leaves,
        written=ordered_leaves[0][1] if ordered_leaves else None,
        tree=tree,
        places={key: leaf[0] for key, leaf in leaves.items()},
        ids=ids,
        providers=providers,
        subjects=(*ids, *providers),
        flat=flat,
        leader=ordered_leaves[0][1] if flat and tree.policy.as_written and len(ordered_leaves) > 1 else None,
        soonest=flat and tree.policy.soonest and len(ordered_leaves) > 1,
        prices=prices,
        speed=any(policy.speed for policy in policies),
        losses=losses,
        denies=denies,
        strict=any(target.strict for _, target, _, _ in ordered_leaves),
        sticky=any(stays for _, _, _, stays in ordered_leaves),
        follows=any(stays for _, _, _, stays in ordered_leaves) or any(policy.prices for policy in policies),
        keys=any(len(target.provider.keys) > 1 for _, target, _, _ in ordered_leaves),
        weighs=prices or losses or denies,
        all_healthy=(HEALTHY,) * len(ordered_leaves),
    )


def _node(route: Route, limit: int | None, sticky: bool, leaves: dict[str, Leaf], policies: list[Policy]) -> PolicyNode:
    policy = POLICIES[route.policy]
    policies.append(policy)
    limit = limit if route.max_cost is None else route.max_cost if limit is None else min(limit, route.max_cost)
    sticky = sticky and route.sticky
    members: list[int | PolicyNode] = []
    weights: list[float] = []
    for index, member in enumerate(route.members):
        if isinstance(member, Target):
            leaf = leaves.setdefault(member.id, (len(leaves), member, limit, sticky))
            if leaf[0] in members:
                continue
            members.append(leaf[0])
        else:
            members.append(_node(member, limit, sticky, leaves, policies))
        weight = route.weights[index] if index < len(route.weights) else 1
        weights.append(float(min(max(weight, 0), _MAX_WEIGHT)))
    if policy.rank is not None:
        return PolicyNode(policy, tuple(_places(members)), ())
    return PolicyNode(policy, tuple(members), tuple(weights))


def _places(members: list[int | PolicyNode]) -> list[int]:
    """All leaves below, each once, in the order of the route."""
    places: dict[int, None] = {}
    for member in members:
        places.update(dict.fromkeys([member] if isinstance(member, int) else _places(list(member.members))))
    return list(places)
