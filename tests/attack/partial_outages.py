"""Partial outages: how many requests a route answers, and how long they take, while its targets fail, stay silent or
change their speed.

Whether a call fails is drawn for each request and target before it is made. So it is known which requests a gateway
without a circuit breaker answers: those that one of the two targets answers.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from random import Random
from statistics import fmean

from msgspec import Struct

from tests.attack.measuring import Attack, Cost, attacked
from tests.attack.neighbour import ANSWER
from tests.gateway.harness import CHAT, PATHS, Answer, Received, Reply, stay_silent, whole
from tests.gateway.harness import stream as streamed
from tests.server.process import NO_CONSTANTS, Constants, Served

_SEED = 37
_AT_ONCE = 4
_ERROR = whole({"error": {"message": "not now", "type": "server_error"}}, status=500)
_WELL = whole(ANSWER)
# Seconds from which on an error counts as slow, and that a slow one takes.
_SLOW: Constants = {"dragoman.routing.health.PROMPT": 0.1}
_DELAY = 0.15


class _Asked(Struct, frozen=True):
    """A call at a provider: the number of its request, and the model that stands for a target."""

    number: int
    target: str


def _asked(received: Received) -> _Asked:
    body = json.loads(received.body)
    return _Asked(int(body["messages"][0]["content"]), str(body["model"]))


def _fails(number: int, target: str) -> bool:
    rate = int(target.rpartition("-")[2])
    return Random(f"{_SEED} {number} {target}").random() * 100 < rate


def _body(number: int, model: str = "route", **more: object) -> dict[str, object]:
    return {"model": model, "messages": [{"role": "user", "content": str(number)}], **more}


async def _ask_all(house: Served, numbers: range, model: str, **more: object) -> list[Answer]:
    """Send requests, a few at a time; the responses in the order of their numbers."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(number: int) -> Answer:
        async with slots:
            return await house.ask_along(PATHS[CHAT], _body(number, model, **more))

    return await asyncio.gather(*map(one, numbers))


def failing(
    name: str, second: Callable[[int], int], rates: tuple[int, ...], count: int, *, slow: bool = False
) -> Attack:
    """Two targets that fail at random at each of several rates in percent; `second` gives the rate of the second.

    A target has its rate in its name, and each rate has a route.
    """

    def script(received: Received) -> Reply:
        asked = _asked(received)
        if not _fails(asked.number, asked.target):
            return _WELL
        return Reply(status=500, steps=(_DELAY, *_ERROR.steps)) if slow else _ERROR

    def run(name: str) -> Cost:
        begun, cells, lost = time.monotonic(), [], 0
        targets = {rate: (f"first-{rate}", f"second-{second(rate)}") for rate in rates}
        routes = "".join(f'"route-{rate}" = ["chat/{a}", "chat/{b}"]\n' for rate, (a, b) in targets.items())
        with attacked(script, routes, constants=_SLOW if slow else NO_CONSTANTS) as house:
            for rate, (a, b) in targets.items():
                answers = house.run(_ask_all(house, range(count), f"route-{rate}"))
                answered = [answer.status == 200 for answer in answers]
                without = [not (_fails(number, a) and _fails(number, b)) for number in range(count)]
                cells.append(f"{rate} %: {fmean(answered):.1%} ({fmean(without):.1%})")
                lost += sum(before and not now for before, now in zip(without, answered, strict=True))
        sent, seconds = count * len(rates), time.monotonic() - begun
        result = f"{lost} lost of {sent}; answered (without breaker): {', '.join(cells)}"
        return Cost(name=name, sent=sent, seconds=seconds, result=result)

    return Attack(name, run)


_FIRST_BYTE, _PACE, _SILENT_SECONDS = 1.0, 5.0, 16.0


def silent_target(name: str) -> Cost:
    """Ask a route whose first target accepts calls and never answers, five times a second."""

    def script(received: Received) -> Reply:
        return Reply(raw=True, steps=(stay_silent,)) if _asked(received).target == "first" else _WELL

    count = int(_SILENT_SECONDS * _PACE)
    took: list[float] = []

    async def one(house: Served, number: int) -> Answer:
        await asyncio.sleep(number / _PACE)
        begun = time.monotonic()
        answer = await house.ask_along(PATHS[CHAT], _body(number))
        took.append(time.monotonic() - begun)
        return answer

    async def every(house: Served) -> list[Answer]:
        return await asyncio.gather(*(one(house, number) for number in range(count)))

    timeouts = f'"route" = ["chat/first", "chat/second"]\n[timeouts]\nfirst_byte = {_FIRST_BYTE:g}\n'
    with attacked(script, timeouts) as house:
        begun = time.monotonic()
        answers = house.run(every(house))
        seconds = time.monotonic() - begun
        calls = sum(_asked(received).target == "first" for received in house.provider.received)
    waited = sum(each >= _FIRST_BYTE for each in took)
    answered = sum(answer.status == 200 for answer in answers)
    result = f"{answered} of {count} answered; {waited} waited {_FIRST_BYTE:g} s, {calls} calls to the silent target"
    return Cost(name=name, sent=count, seconds=seconds, result=result)


_TOTAL = 2.0


def limited_total(name: str) -> Cost:
    """Ask targets that fail at once, within a total of two seconds."""
    begun, calls = 0.0, []

    def script(received: Received) -> Reply:
        calls.append(time.monotonic() - begun)
        return _ERROR

    routes = f'"route" = {{ to = "chat/first", retries = 5 }}\n[timeouts]\ntotal = {_TOTAL:g}\n'
    with attacked(script, routes) as house:
        begun = time.monotonic()
        answer = house.post(PATHS[CHAT], _body(0))
        seconds = time.monotonic() - begun
    last = f"the last of {len(calls)} calls after {calls[-1]:.2f} s of {_TOTAL:g} s"
    return Cost(name=name, sent=1, seconds=seconds, result=f"{answer.status}; {last}")


# Seconds until the first token, and for each of the tokens that follow. A response of 256 tokens would take the second
# target less time.
_SPEEDS = {"short": (0.05, 0.02), "long": (0.4, 0.0)}
_TOKENS, _MANY = 5, 200


def _speaking(speeds: Mapping[str, tuple[float, float]]) -> Callable[[Received], Reply]:
    """A provider of short streams, each target at its own speed."""
    chunk = b'data: {"choices":[{"index":0,"delta":{"content":"word "}}]}\n\n'
    usage = b'"usage":{"prompt_tokens":5,"completion_tokens":%d,"total_tokens":%d}' % (_TOKENS, _TOKENS + 5)
    end = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],%b}\n\ndata: [DONE]\n\n' % usage

    def script(received: Received) -> Reply:
        first, each = speeds[_asked(received).target]
        steps = (step for _ in range(_TOKENS) for step in (chunk, each))
        return streamed(first, *steps, end)

    return script


_FASTEST = '"route" = { targets = ["chat/long", "chat/short"], policy = "fastest", sticky = false }\n'


def _led_by(house: Served, numbers: range) -> list[str]:
    """The targets of streamed requests, in the order in which they were called."""
    house.run(_ask_all(house, numbers, "route", stream=True))
    return [_asked(received).target for received in house.provider.received[-len(numbers) :]]


def fastest(name: str) -> Cost:
    """Ask for short responses; one target has the sooner first token, the other the higher rate."""
    with attacked(_speaking(_SPEEDS), _FASTEST) as house:
        begun = time.monotonic()
        led = _led_by(house, range(_MANY))
        seconds = time.monotonic() - begun
    share = fmean(target == "short" for target in led)
    return Cost(name=name, sent=_MANY, seconds=seconds, result=f"the best target leads {share:.0%}")


def became_faster(name: str) -> Cost:
    """Have the slower of two targets become much faster than the other, and count the requests until it leads."""
    speeds = {"short": (0.12, 0.0), "long": (0.5, 0.0)}
    with attacked(_speaking(speeds), _FASTEST) as house:
        begun = time.monotonic()
        _led_by(house, range(100))
        speeds["long"] = (0.03, 0.0)
        led = _led_by(house, range(100, 100 + _MANY))
        seconds = time.monotonic() - begun
    # It leads once it has nine of ten requests in a row.
    since = next((k for k in range(_MANY - 9) if sum(target == "long" for target in led[k : k + 10]) >= 9), None)
    result = f"never leads in {_MANY} requests" if since is None else f"leads after {since} requests"
    return Cost(name=name, sent=100 + _MANY, seconds=seconds, result=f"it is 4 times faster and {result}")


_ALL_RATES = tuple(range(10, 100, 10))

ATTACKS = (
    failing("two targets fail at random", lambda rate: rate, _ALL_RATES, 300),
    failing("one of two targets fails at random", lambda rate: 0, _ALL_RATES, 300),
    failing("two targets fail slowly", lambda rate: rate, (30, 60, 90), 120, slow=True),
    failing("one of two targets fails slowly", lambda rate: 0, (30, 60, 90), 120, slow=True),
    Attack("a silent target, not streamed", silent_target),
    Attack("retries within a total of 2 s", limited_total),
    Attack("fastest of two, short responses", fastest),
    Attack("the slower target becomes the faster", became_faster),
)
