"""World: providers with their speeds, prices, limits and bad hours, and the requests that come to them."""

from __future__ import annotations

from enum import Enum
from math import exp
from random import Random

from msgspec import Struct

MINUTE = 60.0
# How long a call may be silent before it is given up.
FIRST_BYTE = 20.0
# By how much the permit of a probe outlives that.
MARGIN = 5.0
# How long whoever called too often is told to wait.
LIMITED = 10.0
# How long a provider remembers what a conversation said, and which part of the price reading that costs.
CACHE_TIME = 5 * MINUTE
CACHE_PRICE = 0.1
BYTES_A_TOKEN = 4


class Trouble(Enum):
    """What may be wrong with a provider for a while."""

    # Answers with an error at once.
    ERRORS = "errors"
    # Takes the request and says nothing.
    SILENT = "silent"
    # One call in three fails.
    FLAPS = "flaps"
    # Takes eight times as long.
    SLOW = "slow"


SLOWNESS = 8.0
FLAPPING = 1 / 3


class Spell(Struct, frozen=True):
    """Trouble from one minute to another."""

    trouble: Trouble
    start: float
    end: float

    def at(self, now: float) -> bool:
        """Whether it is on."""
        return self.start * MINUTE <= now < self.end * MINUTE


class Upstream(Struct, frozen=True, kw_only=True):
    """One provider."""

    name: str
    # Seconds to the first token, and tokens per second after it, both as they usually are.
    first_token: float
    rate: float
    # Nano-dollars a token.
    input_price: int
    output_price: int
    # Calls at a time that the gateway is told of, and calls a minute that it is not told of; 0 is any number.
    concurrency: int = 0
    per_minute: int = 0
    # Which part of all calls fails at random, all the time, with an error that comes back quickly.
    error_rate: float = 0.0
    spells: tuple[Spell, ...] = ()

    def trouble(self, now: float) -> Trouble | None:
        """What is wrong with it."""
        return next((spell.trouble for spell in self.spells if spell.at(now)), None)


class Request(Struct, frozen=True, kw_only=True):
    """One request, with how each provider would fare on it: known to the oracle alone."""

    at: float
    conversation: int
    input: int
    output: int
    # By provider: how much slower or faster than usual, whether a flapping one fails, and what would be lost there.
    pace: dict[str, float]
    luck: dict[str, float]
    losses: dict[str, int]


class Outcome(Struct, frozen=True):
    """What became of a call."""

    answered: bool
    seconds: float
    # To the first token.
    first_token: float = 0.0
    # In nano-dollars.
    cost: int = 0
    # Refused for having called too often.
    limited: bool = False


UPSTREAMS = (
    Upstream(
        name="quick",
        first_token=0.3,
        rate=200.0,
        input_price=900,
        output_price=3600,
        spells=(Spell(Trouble.ERRORS, 15, 25), Spell(Trouble.FLAPS, 55, 65), Spell(Trouble.SLOW, 90, 105)),
    ),
    Upstream(name="steady", first_token=0.9, rate=80.0, input_price=3000, output_price=15000),
    Upstream(
        name="cheap",
        first_token=1.5,
        rate=50.0,
        input_price=250,
        output_price=1000,
        per_minute=120,
        spells=(Spell(Trouble.SILENT, 35, 47),),
    ),
    Upstream(
        name="local",
        first_token=0.5,
        rate=30.0,
        input_price=100,
        output_price=300,
        concurrency=4,
        spells=(Spell(Trouble.ERRORS, 75, 82),),
    ),
)


def requests(
    seed: int, minutes: float, per_second: float = 1.2, upstreams: tuple[Upstream, ...] = UPSTREAMS
) -> tuple[Request, ...]:
    """Requests of many conversations, in the order in which they come."""
    dice = Random(seed)
    made = []
    conversation = 0
    while (start := conversation * 4 / per_second) < minutes * MINUTE:
        conversation += 1
        at = start + dice.random() * 4 / per_second
        length = int(exp(dice.gauss(7.5, 1.0)))
        # What it asks for is much the same in each turn, and so is what cannot be said of it.
        losses = {upstream.name: dice.choice((0, 0, 1, 3)) for upstream in upstreams}
        # Four turns, on average; each says again what was said before.
        while at < minutes * MINUTE:
            output = 1 + int(exp(dice.gauss(5.0, 0.8)))
            made.append(
                Request(
                    at=at,
                    conversation=conversation,
                    input=length,
                    output=output,
                    pace={upstream.name: exp(dice.gauss(0.0, 0.25)) for upstream in upstreams},
                    luck={upstream.name: dice.random() for upstream in upstreams},
                    losses=losses,
                )
            )
            if dice.random() < 0.25:
                break
            length += output + int(exp(dice.gauss(5.0, 1.0)))
            at += 5 + dice.expovariate(1 / 30)
    return tuple(sorted(made, key=lambda request: request.at))


def ask(upstream: Upstream, request: Request, now: float, *, warm: bool) -> Outcome:
    """What becomes of a call, limits aside."""
    trouble = upstream.trouble(now)
    if trouble is Trouble.ERRORS:
        return Outcome(False, 0.1)
    if trouble is Trouble.SILENT:
        return Outcome(False, FIRST_BYTE)
    error_rate = FLAPPING if trouble is Trouble.FLAPS else upstream.error_rate
    if request.luck[upstream.name] < error_rate:
        return Outcome(False, 0.5)
    pace = request.pace[upstream.name] * (SLOWNESS if trouble is Trouble.SLOW else 1.0)
    # What was read before is not read again.
    first = upstream.first_token * pace * (0.5 if warm else 1.0)
    seconds = first + request.output / upstream.rate * pace
    return Outcome(True, seconds, first, cost(upstream, request.input, request.output, warm=warm))


def cost(upstream: Upstream, read: int, written: int, *, warm: bool) -> int:
    """What a call costs, in nano-dollars."""
    return int(read * upstream.input_price * (CACHE_PRICE if warm else 1.0)) + written * upstream.output_price
