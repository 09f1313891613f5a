"""Tool loops on real sockets: every pair of protocols, whole and streamed, in front of a provider that is strict."""

from __future__ import annotations

import json

import pytest

from tests.gateway.harness import CHAT, MESSAGES, PROTOCOLS, RESPONSES
from tests.gateway.sdk.desk import MODELS, Desk
from tests.sdk.providers import Call, Turn
from tests.sdk.test_conversations import CALLED, CALLS, ENDED, FINAL, REASONING
from tests.sdk.users import PIXEL, RESULTS, Heard, chat_loop, messages_loop, responses_loop

WAYS = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
# Which of the three calls a model makes: with arguments, without any, several at once.
MADE = {"one call": (0,), "a call without arguments": (1,), "parallel calls": (0, 1, 2)}


def loop(desk: Desk, client: str, model: str, streamed: bool) -> Heard:
    """A program of the client's protocol: a question, the tools it is asked to run, the answer."""
    if client == MESSAGES:
        return messages_loop(desk.anthropic, streamed, model)
    return {CHAT: chat_loop, RESPONSES: responses_loop}[client](desk.openai, streamed, model)


@WAYS
@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("provider", PROTOCOLS)
@pytest.mark.parametrize("client", PROTOCOLS)
def test_a_tool_loop_comes_to_its_end(desk: Desk, client: str, provider: str, made: str, streamed: bool) -> None:
    calls = tuple(CALLS[provider][index] for index in MADE[made])
    first = Turn(stop=CALLED[provider], text="Let me look.", calls=calls)
    with desk.scripted(first, Turn(stop=ENDED[provider], text=FINAL)) as strict:
        heard = loop(desk, client, MODELS[provider], streamed)
    _check(heard, calls, "", "Let me look.")
    _check_results(json.dumps(strict.asked[1], ensure_ascii=False), calls, client)


@WAYS
@pytest.mark.parametrize("provider", PROTOCOLS)
@pytest.mark.parametrize("client", PROTOCOLS)
def test_calls_alone_make_a_turn(desk: Desk, client: str, provider: str, streamed: bool) -> None:
    first = Turn(stop=CALLED[provider], calls=CALLS[provider])
    with desk.scripted(first, Turn(stop=ENDED[provider], text=FINAL)):
        heard = loop(desk, client, MODELS[provider], streamed)
    _check(heard, CALLS[provider], "", "")


@WAYS
@pytest.mark.parametrize("provider", PROTOCOLS)
@pytest.mark.parametrize("client", PROTOCOLS)
def test_calls_after_reasoning_come_back_with_it(desk: Desk, client: str, provider: str, streamed: bool) -> None:
    first = Turn(stop=CALLED[provider], reasoning=REASONING, text="Let me look.", calls=CALLS[provider])
    with desk.scripted(first, Turn(stop=ENDED[provider], text=FINAL)):
        heard = loop(desk, client, MODELS[provider], streamed)
    _check(heard, CALLS[provider], REASONING, "Let me look.")


def _check(heard: Heard, calls: tuple[Call, ...], reasoning: str, text: str) -> None:
    assert heard.calls == [(call.id, call.name, json.loads(call.arguments or "{}")) for call in calls]
    assert (heard.reasoning, heard.text, heard.final) == (reasoning, text, FINAL)


def _check_results(asked: str, calls: tuple[Call, ...], client: str) -> None:
    for call in calls:
        assert call.id in asked
        if call.name in RESULTS:
            assert RESULTS[call.name] in asked
        elif client != CHAT:
            assert PIXEL in asked
