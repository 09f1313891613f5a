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


LimitsOf: TypeAlias = Callable[[Target], ModelLimits]


def combine_limits(*sources: LimitsOf) -> LimitsOf:
    """Facts from several sources: each of them from the first that knows it."""

    def limits_of(target: Target) -> ModelLimits:
        window = cap = None
        for source in sources:
            limits = source(target)
            window = limits.window if window is None else window
            cap = limits.cap if cap is None else cap
            if window is not None and cap is not None:
                break
        return ModelLimits(window=window, cap=cap)

    return limits_of


def smallest(limits: Iterable[ModelLimits]) -> ModelLimits:
    """What holds whichever target answers, by the facts of each, as far as they are known."""
    collected = tuple(limits)
    return ModelLimits(
        window=min((each.window for each in collected if each.window is not None), default=None),
        cap=min((each.cap for each in collected if each.cap is not None), default=None),
    )
