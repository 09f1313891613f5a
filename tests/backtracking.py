"""Finds repeats of a regular expression that may be tried in many ways, where a hostile text makes them take long.

    assert backtracking_repeats(re.compile(r"a*+b{0,9}")) == []

A search runs in C, so that its work takes no steps that a test could count. A repeat is safe if it is bounded, or if it
gives nothing back: `*+`, `++`, `?+`, `{2,}+` and `(?>...)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib import import_module

# The only reader of patterns is private, and has no types.
codes, parser = import_module("re._constants"), import_module("re._parser")

# A repeat of up to so many is bounded.
_BOUNDED = 1000


def backtracking_repeats(search: object) -> list[str]:
    """The unbounded repeats that can give back what they took, of a pattern or of the pattern of a method."""
    pattern = search if isinstance(search, re.Pattern) else getattr(search, "__self__", None)
    assert isinstance(pattern, re.Pattern), search
    return [str(repeat) for repeat in _unsafe(parser.parse(pattern.pattern, pattern.flags))]


def _unsafe(parsed: Iterable[tuple[object, object]]) -> Iterator[object]:
    for code, argument in parsed:
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT) and isinstance(argument, tuple) and argument[1] > _BOUNDED:
            yield (code, argument)
        # An atomic group gives nothing back, whatever is in it.
        elif code is not codes.ATOMIC_GROUP:
            yield from _unsafe_inside(argument)


def _unsafe_inside(argument: object) -> Iterator[object]:
    if isinstance(argument, parser.SubPattern):
        yield from _unsafe(argument)
    elif isinstance(argument, tuple | list):
        for part in argument:
            yield from _unsafe_inside(part)
