"""Rule matching: selects the rules that replace a route's members for a request. In each route the first match decides.
A conversation keeps its rule even if that no longer matches."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from dragoman.routing.needs import Requirements
from dragoman.routing.plan_inputs import Affinity
from dragoman.routing.route import FALLBACK, Route, RuleCondition
from dragoman.sessions.classes import is_of

_REMEMBERED = 256
_NONE = -1
# The prefix of a rule's digest in affinities, which may also contain positions.
_DIGEST_PREFIX = "="
_NOTHING: frozenset[str] = frozenset()


def decide(route: Route, requirements: Requirements, affinity: Affinity | None) -> tuple[Route, str, str]:
    """The route without rules for this request, and the applied rules: by position for display, by digest for
    affinity."""
    held = frozenset(affinity.rule.split("\n")) if affinity is not None and affinity.rule else _NOTHING
    choices: list[int] = []
    _choose(route, requirements, held, choices)
    key = tuple(choices)
    decision = route.decided.get(key)
    if decision is None:
        if len(route.decided) >= _REMEMBERED:
            route.decided.clear()
        names: list[tuple[str, str]] = []
        bare = _without_rules(route, iter(key).__next__, names)
        shown, digests = ("\n".join(dict.fromkeys(pair[which] for pair in names)) for which in (0, 1))
        decision = bare, shown, digests
        route.decided[key] = decision
    return decision


def fits(when: RuleCondition, requirements: Requirements) -> bool:
    request_features = requirements.request_features
    return (
        (when.input_tokens_over is None or requirements.tokens > when.input_tokens_over)
        and (when.thinking is None or when.thinking == request_features.thinking)
        and (when.images is None or when.images == request_features.images)
        and (when.documents is None or when.documents == request_features.documents)
        and (when.tools is None or when.tools == request_features.tools)
        and (when.structured_output is None or when.structured_output == request_features.structured)
        and (requirements.program.startswith(when.client) or requirements.client == when.client)
        and (not when.thread or is_of(requirements.thread, when.thread))
        and (not when.key or when.key == requirements.key)
    )


def _choose(route: Route, requirements: Requirements, held: frozenset[str], choices: list[int]) -> None:
    """Append the choice of each visited route that has rules."""
    if route.rules:
        choice = _held_rule(route, held) if held else _NONE
        if choice == _NONE:
            choice = next((index for index, rule in enumerate(route.rules) if fits(rule.when, requirements)), _NONE)
        choices.append(choice)
        if choice != _NONE:
            _choose(route.rules[choice].to, requirements, held, choices)
            return
    for member in route.members:
        if isinstance(member, Route) and member.ruled:
            _choose(member, requirements, held, choices)


def _without_rules(route: Route, choice: Callable[[], int], names: list[tuple[str, str]]) -> Route:
    if route.rules and (index := choice()) != _NONE:
        names.append((f"{route.name}#{index}", _digest_id(route, index)))
        to = _without_rules(route.rules[index].to, choice, names)
        return replace(route, members=(to,), weights=(), rules=(), policy=FALLBACK)
    members = tuple(
        _without_rules(member, choice, names) if isinstance(member, Route) and member.ruled else member
        for member in route.members
    )
    return replace(route, members=members, rules=())


def _held_rule(route: Route, held: frozenset[str]) -> int:
    for index in range(len(route.rules)):
        if _digest_id(route, index) in held or f"{route.name}#{index}" in held:
            return index
    return _NONE


def _digest_id(route: Route, index: int) -> str:
    return f"{route.name}#{_DIGEST_PREFIX}{route.rules[index].digest}"
