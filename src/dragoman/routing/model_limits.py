"""Facts: how much a target takes and says, and what follows from that for a name with several of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from msgspec import Struct

from dragoman.routing.target import Target


class ModelLimits(Struct, frozen=True, kw_only=True):
    """Tokens that are taken, and that are said at most; None is unknown."""

    window: int | None = None
    cap: int | None = None


FactsOf: TypeAlias = Callable[[Target], ModelLimits]


def first_known(*sources: FactsOf) -> FactsOf:
    """Facts from several sources: each of them from the first that knows it."""

    def facts_of(target: Target) -> ModelLimits:
        window = cap = None
        for source in sources:
            found = source(target)
            window = found.window if window is None else window
            cap = found.cap if cap is None else cap
            if window is not None and cap is not None:
                break
        return ModelLimits(window=window, cap=cap)

    return facts_of


def smallest(facts: Iterable[ModelLimits]) -> ModelLimits:
    """What holds whichever target answers, by the facts of each, as far as they are known."""
    known = tuple(facts)
    return ModelLimits(
        window=min((each.window for each in known if each.window is not None), default=None),
        cap=min((each.cap for each in known if each.cap is not None), default=None),
    )
