"""Model limits: context window and maximum output of a target, and of a name with several targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from msgspec import Struct

from dragoman.routing.target import Target


class ModelLimits(Struct, frozen=True, kw_only=True):
    """Context window and maximum output in tokens. None is unknown."""

    window: int | None = None
    cap: int | None = None


LimitsOf: TypeAlias = Callable[[Target], ModelLimits]


def combine_limits(*sources: LimitsOf) -> LimitsOf:
    """Combine sources of limits. Each limit is taken from the first source that has it."""

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
    """The limits that hold for every target, as far as known."""
    collected = tuple(limits)
    return ModelLimits(
        window=min((each.window for each in collected if each.window is not None), default=None),
        cap=min((each.cap for each in collected if each.cap is not None), default=None),
    )
