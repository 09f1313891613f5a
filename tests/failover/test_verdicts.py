"""The verdicts on replies: what is right passes, and whatever is wrong with one is found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.failover.faults import FAULTS
from tests.failover.house import GATEWAY_KEY, HEALTHY, Case, FailingHouse, Told, name_of
from tests.failover.provider import FaultyProvider
from tests.failover.verdicts import Ended, verdict_on
from tests.gateway.harness import CHAT, MESSAGES, PROTOCOLS, RESPONSES, Answer, HouseLoop
from tests.gateway.says import SAID, error_body, error_frame, frames, speaking, turn
from tests.sdk.providers import answer, stream

FAULT = "500"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[FailingHouse]:
    """A house in which nothing runs."""
    loop = HouseLoop()
    names = {name_of(fault, protocol): (protocol, fault) for fault in (FAULT, "good") for protocol in PROTOCOLS}
    providers = {
        name: FaultyProvider(name, protocol, FAULTS.get(fault, FAULTS["a slow start"]))
        for name, (protocol, fault) in names.items()
    }
    yield FailingHouse(loop, providers, tmp_path)
    loop.close()


def _reply(client: str, body: bytes, status: int = 200, *, streamed: bool = True, complete: bool = True) -> Told:
    kind = "text/event-stream" if status == 200 and streamed else "application/json"
    headers = [("content-type", kind), ("request-id", "req_of_the_provider"), ("x-request-id", "req_1")]
    case = Case(fault=FAULT, client=client, provider=CHAT, stream=streamed)
    return Told(case, Answer(status, headers, body, complete))


def _whole(client: str, text: str) -> bytes:
    return json.dumps(answer(client, turn(client, text))).encode()


@pytest.mark.parametrize("client", PROTOCOLS)
@pytest.mark.parametrize(("text", "ended"), [(SAID, Ended.RIGHT), (HEALTHY, Ended.OTHER)])
def test_a_right_answer_passes(house: FailingHouse, client: str, text: str, ended: Ended) -> None:
    assert verdict_on(house, _reply(client, stream(client, turn(client, text)))).ended is ended
    assert verdict_on(house, _reply(client, _whole(client, text), streamed=False)).ended is ended


@pytest.mark.parametrize("client", PROTOCOLS)
def test_an_error_in_the_clients_form_passes(house: FailingHouse, client: str) -> None:
    body = json.dumps(error_body(client, "api_error", "no")).encode()
    assert verdict_on(house, _reply(client, body, 502)).ended is Ended.TOLD


@pytest.mark.parametrize("client", [MESSAGES, CHAT])
def test_an_error_in_a_stream_passes(house: FailingHouse, client: str) -> None:
    verdict = verdict_on(house, _reply(client, speaking(client) + error_frame(client, "api_error", "no")))
    assert (verdict.ended, verdict.text) == (Ended.BROKEN, SAID[: len(verdict.text)])
    assert verdict.text


def _repeated(client: str) -> bytes:
    told = frames(client)
    place = next(place for place, frame in enumerate(told) if b"Guten" in frame)
    return b"".join([*told[: place + 1], *told[place:]])


def _of_two(client: str) -> bytes:
    """Words of one provider, then the whole answer of another."""
    return speaking(client) + stream(client, turn(client, HEALTHY))


# Of a stream, by the client that gets it.
WRONG: dict[str, Callable[[str], bytes]] = {
    "words twice": _repeated,
    "the words of two": _of_two,
    "an opening twice": lambda client: frames(client)[0] + b"".join(frames(client)),
    "no end": speaking,
    "an error after the end": lambda client: b"".join(frames(client)) + error_frame(client, "api_error", "no"),
    "a key": lambda client: stream(client, turn(client, f"sk-of-{name_of(FAULT, CHAT)}-0123456789abcdef")),
    "the client's key": lambda client: stream(client, turn(client, GATEWAY_KEY)),
    "a stack": lambda client: stream(client, turn(client, "Traceback (most recent call last)")),
    "other words": lambda client: stream(client, turn(client, "I never said this.")),
    "nothing": lambda client: b"",
}


@pytest.mark.parametrize("client", PROTOCOLS)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_stream_is_found(house: FailingHouse, client: str, wrong: str) -> None:
    with pytest.raises((AssertionError, KeyError)):
        verdict_on(house, _reply(client, WRONG[wrong](client)))


@pytest.mark.parametrize(
    ("client", "member"),
    [
        (CHAT, b"chatcmpl-0123456789abcdefABCDEF"),
        (RESPONSES, b"resp_0123456789abcdefABCDEF"),
        (CHAT, b"served"),
        (RESPONSES, b"served"),
    ],
)
def test_two_ids_or_two_models_are_found(house: FailingHouse, client: str, member: bytes) -> None:
    first, *rest = frames(client)
    with pytest.raises(AssertionError):
        verdict_on(house, _reply(client, first.replace(member, b"another") + b"".join(rest)))


@pytest.mark.parametrize("client", PROTOCOLS)
def test_a_wrong_reply_is_found(house: FailingHouse, client: str) -> None:
    foreign = CHAT if client == MESSAGES else MESSAGES
    wrong = [
        _reply(client, json.dumps(error_body(foreign, "api_error", "no")).encode(), 502),
        _reply(client, b"<html></html>", 502),
        _reply(client, _whole(client, "I never said this."), streamed=False),
        _reply(client, _whole(foreign, SAID), streamed=False),
        _reply(client, _whole(client, SAID), streamed=False, complete=False),
    ]
    for told in wrong:
        with pytest.raises((AssertionError, KeyError, ValueError)):
            verdict_on(house, told)
