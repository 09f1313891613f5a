"""View: what a plan sees of the world, all of it handed in: health, speed, prices, the conversation, chance."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from dragoman.routing.needs import Needs
from dragoman.routing.speed import Speed
from dragoman.routing.standing import GOOD, Standing
from dragoman.routing.target import Target

# One request in twenty.
EXPLORING = 0.05


class Pin(Struct, frozen=True):
    """Where a conversation is: the target's id, the digest of the provider's key, and which rules led there."""

    target: str
    key: str = ""
    rule: str = ""


class View(Struct, frozen=True, kw_only=True):
    """What is known at a moment. Without anything said, everybody is well, free, and of unknown price and speed."""

    now: float = 0.0
    standing: Callable[[Target], Standing] = lambda _: GOOD
    # Of requests of about this many bytes.
    speed: Callable[[Target, int], Speed | None] = lambda _, __: None
    # Whether the target has a slot for one more call.
    free: Callable[[Target], bool] = lambda _: True
    # What the request is estimated to cost there, in nano-dollars; None is unknown.
    cost: Callable[[Target, Needs], int | None] = lambda _, __: None
    # How many tokens the target takes in; None is unknown.
    window: Callable[[Target], int | None] = lambda _: None
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
