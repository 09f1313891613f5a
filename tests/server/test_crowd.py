"""Five hundred streams at once, every pair of protocols among them: each asker gets its own answer and no other."""

from __future__ import annotations

import asyncio
import re
from itertools import cycle, islice

from tests.gateway.harness import CHAT, MESSAGES, PATHS, Answer, Received, Reply
from tests.gateway.harness import stream as streamed
from tests.gateway.says import PAIRS, is_finished, question, streamed_text, turn
from tests.sdk.providers import stream as stream_of
from tests.server.process import PATIENCE, Gate, Served, serving

CROWD = 500
TOKEN = re.compile(rb"token-\d+-of-this-asker")
# Fewer files than the crowd needs: the gateway has to ask for more.
FEW_FILES = ("sh", "-c", 'ulimit -S -n 256 && exec "$@"', "sh")


def _said(token: str) -> str:
    return " ".join([token] * 12)


class Echoing:
    """A provider that repeats the token it was asked with, once everybody's stream has begun."""

    def __init__(self) -> None:
        self.gate = Gate()

    def __call__(self, received: Received) -> Reply:
        """Stream the token, cut anywhere, with a wait for the others in the middle."""
        found = set(TOKEN.findall(received.body))
        assert len(found) == 1, found
        protocol = _protocol_of(received.target)
        said = stream_of(protocol, turn(protocol, _said(found.pop().decode())))
        # Behind the first words, wherever that is within a frame.
        half = said.index(b"of-this-asker") + 20
        rest = [said[at : at + 97] for at in range(half, len(said), 97)]
        return streamed(said[:half], self.gate, *rest)


def _protocol_of(target: str) -> str:
    return next(protocol for protocol, path in PATHS.items() if target.startswith(path))


def _question(number: int, client: str, provider: str) -> object:
    body = question(client, provider, stream=True)
    text = f"Repeat: token-{number}-of-this-asker"
    return {**body, **({"input": text} if "input" in body else {"messages": [{"role": "user", "content": text}]})}


async def _ask_all(house: Served, gate: Gate) -> list[tuple[str, Answer]]:
    async def opened() -> None:
        await asyncio.to_thread(gate.reached, CROWD)
        gate.open()

    async def ask(number: int, client: str, provider: str) -> tuple[str, Answer]:
        return client, await house.ask_along(PATHS[client], _question(number, client, provider))

    async with asyncio.timeout(2 * PATIENCE), asyncio.TaskGroup() as group:
        group.create_task(opened())
        pairs = islice(cycle(PAIRS), CROWD)
        asked = [group.create_task(ask(number, *pair)) for number, pair in enumerate(pairs)]
    return [task.result() for task in asked]


def test_five_hundred_streams_do_not_mix() -> None:
    echoing = Echoing()
    with serving(echoing, under=FEW_FILES) as house:
        answers = house.run(_ask_all(house, echoing.gate))
        for number, (client, told) in enumerate(answers):
            assert (told.status, told.complete) == (200, True), told
            assert streamed_text(client, told.body) == _said(f"token-{number}-of-this-asker")
            assert is_finished(client, told.body)
        assert len({told.header("request-id") or told.header("x-request-id") for _, told in answers}) == CROWD
        # One line for each of them, and one call.
        told_of = house.exchanges(CROWD)
        assert len({line["id"] for line in told_of}) == len(told_of) == CROWD
        assert len(house.provider.received) == CROWD
        assert house.is_idle()
        labels = f'client_protocol="{MESSAGES}",provider="chat",provider_protocol="{CHAT}",model="served",status="200"'
        assert house.metric(f"dragoman_requests_total{{{labels}}}") == len(
            [pair for pair in islice(cycle(PAIRS), CROWD) if pair == (MESSAGES, CHAT)]
        )
