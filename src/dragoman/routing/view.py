"""View: what a plan sees of the world, all of it handed in: health, speed, prices, the conversation, chance."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from dragoman.routing.needs import Needs
from dragoman.routing.speed import Speed
from dragoman.routing.standing import GOOD, Standing
from dragoman.routing.target import Target

if TYPE_CHECKING:
    from dragoman.routing.outline import Outline

# One request in twenty.
EXPLORING = 0.05


class Pin(Struct, frozen=True):
    """Where a conversation is: the target's id, the digest of the provider's key, and which rules led there."""

    target: str
    key: str = ""
    rule: str = ""


class View(Struct, frozen=True, kw_only=True):
    """What is known at a moment. Without anything said, everybody is well, free, and of unknown price and speed.

    Most is told of all targets of a line at once, in its order: mostly there is nothing to tell of any of them.
    """

    now: float = 0.0
    standings: Callable[[Outline], Sequence[Standing]] = lambda outline: [GOOD] * len(outline.leaves)
    # Of requests of about this many bytes.
    speeds: Callable[[Outline, int], Sequence[Speed | None]] = lambda outline, _: [None] * len(outline.leaves)
    # The names of providers that have no slot for one more call.
    busy: Callable[[Outline], Container[str]] = lambda _: ()
    # What the request is estimated to cost there, in nano-dollars; None is unknown.
    cost: Callable[[Target, Needs], int | None] = lambda _, __: None
    # How many tokens the targets take in; None is unknown.
    windows: Callable[[Outline], Sequence[int | None]] = lambda outline: [None] * len(outline.leaves)
    # Where the conversation is, if it is anywhere.
    pin: Pin | None = None
    # How many requests the line has had.
    turn: int = 0


class Dice(Struct, frozen=True):
    """Chance, each throw a number from 0 up to, but not including, 1."""

    weight: float = 0.0
    explore: float = 0.5
    ramp: float = 0.0
    # How often a policy that learns leads with the target of which it knows the least.
    exploring: float = EXPLORING
