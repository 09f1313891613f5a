"""A client that disconnects: the provider's call is cancelled, wherever the exchange stands."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from tests.gateway.harness import PATHS, Reply, Step
from tests.gateway.harness import stream as streamed
from tests.gateway.says import NAMES, PAIRS, opening, question, speaking
from tests.server.process import Gate, Script, Served, read_until, serving
from tests.waiting import wait_until

# No time-out can end a call before a wait of the tests gives up: only the client's disconnect does.
NO_TIMEOUTS = "[timeouts]\nfirst_byte = 3600\nidle = 3600\n"
NUMBERS = count()


def _silent(provider: str, gate: Step) -> Reply:
    return Reply(raw=True, steps=(gate,))


def _headers_alone(provider: str, gate: Step) -> Reply:
    return streamed(gate)


def _opened(provider: str, gate: Step) -> Reply:
    return streamed(opening(provider), gate)


def _spoke(provider: str, gate: Step) -> Reply:
    return streamed(speaking(provider), gate)


def _half_a_body(provider: str, gate: Step) -> Reply:
    return Reply(steps=(b'{"half":', gate, b"1}"))


# What the provider sent before the client disconnected: the reply, whether a stream was requested, and whether the
# client has got its headers by then.
MOMENTS: dict[str, tuple[Callable[[str, Step], Reply], bool, bool]] = {
    "before the provider reported anything": (_silent, True, False),
    "after the provider's headers": (_headers_alone, True, False),
    "after the opening of a stream": (_opened, True, False),
    "in the middle of a stream": (_spoke, True, True),
    "before a whole answer": (_silent, False, False),
    "in the middle of a whole answer": (_half_a_body, False, False),
    "in the middle of a stream that is collected": (_spoke, False, False),
}


@pytest.fixture(scope="module")
def script() -> Script:
    return Script()


@pytest.fixture(scope="module")
def house(script: Script) -> Iterator[Served]:
    with serving(script, NO_TIMEOUTS) as served:
        yield served


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("pair", PAIRS, ids=" asks ".join)
def test_a_hang_up_cancels_the_call(house: Served, script: Script, pair: tuple[str, str], moment: str) -> None:
    client, provider = pair
    reply, stream, answered = MOMENTS[moment]
    name, gate = f"held-{next(NUMBERS)}", Gate()
    script.replies[name] = reply(provider, gate)
    with house.send(PATHS[client], question(client, provider, stream=stream, model=f"{NAMES[provider]}/{name}")) as end:
        gate.reached()
        if answered:
            read_until(end, b"\r\n\r\n")
    gate.deserted()


def test_a_reset_cancels_the_call_too(house: Served, script: Script) -> None:
    client, provider = PAIRS[1]
    gate = Gate()
    script.replies["reset"] = _spoke(provider, gate)
    with house.send(PATHS[client], question(client, provider, stream=True, model=f"{NAMES[provider]}/reset")) as end:
        gate.reached()
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    gate.deserted()


def test_many_hang_ups_at_once_cancel_every_call_and_leave_nothing_under_way(house: Served, script: Script) -> None:
    gate = Gate()
    ends: list[socket.socket] = []
    try:
        for client, provider in PAIRS * 10:
            script.replies["many"] = _spoke(provider, gate)
            ends.append(
                house.send(PATHS[client], question(client, provider, stream=True, model=f"{NAMES[provider]}/many"))
            )
            gate.reached(len(ends))
    finally:
        for end in ends:
            end.close()
    gate.deserted(len(ends))
    # What their calls took is counted first.
    house.process.log.wait('"model":"many"', len(ends))
    cancelled = 'dragoman_failures_total{client_protocol="openai-chat",provider="chat",kind="cancelled"}'
    assert house.metric(cancelled) >= 10
    assert house.is_idle()
    told = [line["failure"] for line in house.process.events("exchange") if line["model"] == "many"]
    assert told == ["cancelled"] * len(ends)
    wait_until(lambda: house.provider.open == 0, "no open connection at the provider")
