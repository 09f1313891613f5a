"""Pattern cost: how many steps a regular expression can take at one place of a text. Patterns that users write are
judged by it before they are used: a search must take linear time whatever the text is.

The cost of a sequence is that of its first item, and for each way in which that can match, the cost of the rest. A
repeat that gives nothing back (`{2,9}+`) matches in one way.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import TypeAlias

from dragoman.contents.redaction import MAX_MATCH
from dragoman.errors import DragomanError

# The only reader of patterns is private, and has no types.
_codes, _parser = import_module("re._constants"), import_module("re._parser")
# Steps at one place: a megabyte takes a second then.
MAX_COST = 2000
MAX_LENGTH = 500
_UNBOUNDED = int(_codes.MAXREPEAT)
_REPEATS = frozenset({_codes.MAX_REPEAT, _codes.MIN_REPEAT, _codes.POSSESSIVE_REPEAT})
_ASSERTIONS = frozenset({_codes.ASSERT, _codes.ASSERT_NOT})
# Steps, and ways to match.
_Cost: TypeAlias = tuple[int, int]


class CostlyPattern(DragomanError):
    """A pattern that is wrong, or that could take too long; the text has the remedy."""


def check_pattern(text: str) -> None:
    """Refuse a pattern that is wrong or too costly."""
    if not text or len(text) > MAX_LENGTH or not text.isascii():
        raise CostlyPattern(f"a pattern has 1 to {MAX_LENGTH} ASCII characters; write others as .{{1,4}}")
    try:
        pattern = re.compile(text, re.ASCII)
        parsed = _parser.parse(text, re.ASCII)
    except (re.error, RecursionError, OverflowError) as error:
        raise CostlyPattern(f"it is no regular expression: {error}") from None
    _, longest = parsed.getwidth()
    steps, _ = _of_sequence(list(parsed))
    if longest > MAX_MATCH:
        raise CostlyPattern(f"it can match more than {MAX_MATCH} characters; replace * and + by bounds, as in {{1,64}}")
    if steps > MAX_COST:
        raise CostlyPattern(
            "it can take too long, since its repeats can match in many ways; shorten them, or let them give nothing"
            " back, as in {1,64}+"
        )
    if pattern.match("") is not None:
        raise CostlyPattern("it matches the empty text; add what a match must have")


def _of_sequence(items: list[tuple[object, object]]) -> _Cost:
    steps, ways = 0, 1
    for code, argument in items:
        more, factor = _of_item(code, argument)
        steps, ways = _bounded(steps + ways * more), _bounded(ways * factor)
    return max(steps, 1), ways


def _of_item(code: object, argument: object) -> _Cost:
    if code in _REPEATS and isinstance(argument, tuple):
        return _of_repeat(argument, is_possessive=code is _codes.POSSESSIVE_REPEAT)
    if code is _codes.BRANCH and isinstance(argument, tuple):
        costs = [_of_sequence(list(branch)) for branch in argument[1]]
        return _bounded(sum(cost[0] for cost in costs)), _bounded(sum(cost[1] for cost in costs))
    if code is _codes.SUBPATTERN and isinstance(argument, tuple):
        return _of_sequence(list(argument[-1]))
    if code is _codes.ATOMIC_GROUP:
        return _of_sequence(_items(argument))[0], 1
    if code in _ASSERTIONS and isinstance(argument, tuple):
        return _of_sequence(list(argument[1]))[0], 1
    if code is _codes.GROUPREF_EXISTS:
        return _UNBOUNDED, _UNBOUNDED
    return 1, 1


def _of_repeat(argument: tuple[object, ...], *, is_possessive: bool) -> _Cost:
    least, most, inner = argument
    assert isinstance(least, int) and isinstance(most, int)
    steps, ways = _of_sequence(_items(inner))
    # An item that matches in several ways multiplies them with each repetition.
    repeated = most if ways == 1 else _power(ways, most)
    all_steps = _bounded(steps * repeated)
    return all_steps, 1 if is_possessive else _bounded((most - least + 1) * (1 if ways == 1 else repeated))


def _items(parsed: object) -> list[tuple[object, object]]:
    assert isinstance(parsed, _parser.SubPattern)
    return list(parsed)


def _power(base: int, exponent: int) -> int:
    # More than 32 doublings are beyond all limits.
    return _bounded(base ** min(exponent, 32))


def _bounded(number: int) -> int:
    return min(number, _UNBOUNDED)
