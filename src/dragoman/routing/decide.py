"""Decide: which rules of a route take its members' place for a request.

Each route's own rules are asked as it is met, and the first that fits decides. A conversation keeps the rule that
decided for it, whether it still fits or not; where none did, one may, once.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from dragoman.routing.needs import Needs
from dragoman.routing.route import FALLBACK, Route, When
from dragoman.routing.view import Pin

# How many choices of one route are remembered; there are as many as its rules allow.
_REMEMBERED = 256
_NONE = -1


def decide(route: Route, needs: Needs, pin: Pin | None) -> tuple[Route, str]:
    """The route without rules that this request has, and the rules that made it, as pins hold them."""
    held = _held(pin.rule) if pin is not None and pin.rule else {}
    choices: list[int] = []
    _choose(route, needs, held, choices)
    key = tuple(choices)
    found = route.decided.get(key)
    if found is None:
        if len(route.decided) >= _REMEMBERED:
            route.decided.clear()
        names: list[str] = []
        found = _without_rules(route, iter(key).__next__, names), "\n".join(dict.fromkeys(names))
        route.decided[key] = found
    return found


def fits(when: When, needs: Needs) -> bool:
    """Whether all that a rule asks for is so."""
    signs = needs.signs
    return (
        (when.input_over is None or needs.tokens > when.input_over)
        and (when.thinking is None or when.thinking == signs.thinking)
        and (when.images is None or when.images == signs.images)
        and (when.documents is None or when.documents == signs.documents)
        and (when.tools is None or when.tools == signs.tools)
        and (when.structured is None or when.structured == signs.structured)
        and needs.program.startswith(when.client)
        and (not when.key or when.key == needs.key)
    )


def _choose(route: Route, needs: Needs, held: dict[str, int], choices: list[int]) -> None:
    """Note, for each route that is met and has rules, the one that decides."""
    if route.rules:
        choice = held.get(route.name, _NONE)
        if not 0 <= choice < len(route.rules):
            choice = next((index for index, rule in enumerate(route.rules) if fits(rule.when, needs)), _NONE)
        choices.append(choice)
        if choice != _NONE:
            _choose(route.rules[choice].to, needs, held, choices)
            return
    for member in route.members:
        if isinstance(member, Route) and member.ruled:
            _choose(member, needs, held, choices)


def _without_rules(route: Route, choice: Callable[[], int], names: list[str]) -> Route:
    """The same walk, with the choices at hand."""
    if route.rules and (index := choice()) != _NONE:
        names.append(f"{route.name}#{index}")
        to = _without_rules(route.rules[index].to, choice, names)
        return replace(route, members=(to,), weights=(), rules=(), policy=FALLBACK)
    members = tuple(
        _without_rules(member, choice, names) if isinstance(member, Route) and member.ruled else member
        for member in route.members
    )
    return replace(route, members=members, rules=())


def _held(rule: str) -> dict[str, int]:
    """The rules of a pin, by their routes' names."""
    found = {}
    for line in rule.split("\n"):
        name, _, index = line.rpartition("#")
        if index.isdecimal():
            found[name] = int(index[:9])
    return found
