"""Decide: which rules of a route take its members' place for a request.

Each route's own rules are asked as it is met, and the first that fits decides. A conversation keeps the rule that
decided for it, whether it still fits or not; where none did, one may, once.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from dragoman.routing.needs import Requirements
from dragoman.routing.plan_inputs import Affinity
from dragoman.routing.route import FALLBACK, Route, RuleCondition
from dragoman.sessions.classes import is_of

# How many choices of one route are remembered; there are as many as its rules allow.
_REMEMBERED = 256
_NONE = -1
# What stands before the mark of a rule, where a place among the rules may stand as well.
_MARK = "="
_NOTHING: frozenset[str] = frozenset()


def decide(route: Route, needs: Requirements, pin: Affinity | None) -> tuple[Route, str, str]:
    """The route without rules that this request has, and the rules that made it, as shown and as held by pins.

    They are shown by their places, and held by their marks: after a reload other rules may stand in those places.
    """
    held = frozenset(pin.rule.split("\n")) if pin is not None and pin.rule else _NOTHING
    choices: list[int] = []
    _choose(route, needs, held, choices)
    key = tuple(choices)
    found = route.decided.get(key)
    if found is None:
        if len(route.decided) >= _REMEMBERED:
            route.decided.clear()
        names: list[tuple[str, str]] = []
        bare = _without_rules(route, iter(key).__next__, names)
        shown, marks = ("\n".join(dict.fromkeys(pair[which] for pair in names)) for which in (0, 1))
        found = bare, shown, marks
        route.decided[key] = found
    return found


def fits(when: RuleCondition, needs: Requirements) -> bool:
    """Whether all that a rule asks for is so."""
    signs = needs.signs
    return (
        (when.input_over is None or needs.tokens > when.input_over)
        and (when.thinking is None or when.thinking == signs.thinking)
        and (when.images is None or when.images == signs.images)
        and (when.documents is None or when.documents == signs.documents)
        and (when.tools is None or when.tools == signs.tools)
        and (when.structured is None or when.structured == signs.structured)
        and (needs.program.startswith(when.client) or needs.client == when.client)
        and (not when.thread or is_of(needs.thread, when.thread))
        and (not when.key or when.key == needs.key)
    )


def _choose(route: Route, needs: Requirements, held: frozenset[str], choices: list[int]) -> None:
    """Note, for each route that is met and has rules, the one that decides."""
    if route.rules:
        choice = _kept(route, held) if held else _NONE
        if choice == _NONE:
            choice = next((index for index, rule in enumerate(route.rules) if fits(rule.when, needs)), _NONE)
        choices.append(choice)
        if choice != _NONE:
            _choose(route.rules[choice].to, needs, held, choices)
            return
    for member in route.members:
        if isinstance(member, Route) and member.ruled:
            _choose(member, needs, held, choices)


def _without_rules(route: Route, choice: Callable[[], int], names: list[tuple[str, str]]) -> Route:
    """The same walk, with the choices at hand."""
    if route.rules and (index := choice()) != _NONE:
        names.append((f"{route.name}#{index}", _marked(route, index)))
        to = _without_rules(route.rules[index].to, choice, names)
        return replace(route, members=(to,), weights=(), rules=(), policy=FALLBACK)
    members = tuple(
        _without_rules(member, choice, names) if isinstance(member, Route) and member.ruled else member
        for member in route.members
    )
    return replace(route, members=members, rules=())


def _kept(route: Route, held: frozenset[str]) -> int:
    """The rule of a route that a pin holds, by its mark or by its place."""
    for index in range(len(route.rules)):
        if _marked(route, index) in held or f"{route.name}#{index}" in held:
            return index
    return _NONE


def _marked(route: Route, index: int) -> str:
    return f"{route.name}#{_MARK}{route.rules[index].mark}"
