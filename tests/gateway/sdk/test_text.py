"""Text, stop reasons and token counts: every pair of protocols, by every way of its SDK."""

from __future__ import annotations

import pytest

from tests.gateway.harness import CHAT, MESSAGES, PROTOCOLS, RESPONSES
from tests.gateway.pairwise import pairwise
from tests.gateway.sdk.desk import MODELS, Desk
from tests.gateway.sdk.speakers import EVENTS, WAYS, WHOLE, Content, Counts, ask
from tests.sdk.digging import Object
from tests.sdk.providers import Turn
from tests.sdk.test_conversations import ENDED

TEXT = 'Grüße, 世界 🌍!\n\u2028 "quoted" \\ and a tab\t.'
QUESTION = Content(text="Say hello to the world.")
# The same counts as each service tells them.
COUNTED: dict[str, Object] = {
    MESSAGES: {
        "input_tokens": 11,
        "cache_creation_input_tokens": 5,
        "cache_read_input_tokens": 7,
        "output_tokens": 13,
        "output_tokens_details": {"thinking_tokens": 3},
    },
    CHAT: {
        "prompt_tokens": 23,
        "completion_tokens": 13,
        "total_tokens": 36,
        "prompt_tokens_details": {"cached_tokens": 7},
        "completion_tokens_details": {"reasoning_tokens": 3},
    },
    RESPONSES: {
        "input_tokens": 23,
        "output_tokens": 13,
        "total_tokens": 36,
        "input_tokens_details": {"cached_tokens": 7, "cache_write_tokens": 5},
        "output_tokens_details": {"reasoning_tokens": 3},
    },
}
# Why a turn ends, in every protocol's own word.
STOPS = {
    "the end": ENDED,
    "the cap": {MESSAGES: "max_tokens", CHAT: "length", RESPONSES: "incomplete:max_output_tokens"},
    "a refusal": {MESSAGES: "refusal", CHAT: "content_filter", RESPONSES: "incomplete:content_filter"},
}

PAIRS = [(client, provider) for client in PROTOCOLS for provider in PROTOCOLS]
every_pair = pytest.mark.parametrize(("client", "provider"), PAIRS)
every_way = pytest.mark.parametrize("way", WAYS)


@every_way
@every_pair
def test_text_and_counts_arrive_as_they_were_said(desk: Desk, client: str, provider: str, way: str) -> None:
    turn = Turn(stop=ENDED[provider], text=TEXT, usage=COUNTED[provider])
    with desk.scripted(turn) as strict:
        told = ask(desk, client, MODELS[provider], QUESTION, way)
    assert (told.text, told.stop) == (TEXT, ENDED[client])
    if way != WHOLE:
        assert "".join(told.pieces) == TEXT
        assert len(told.pieces) > 1
    if (client, way) != (CHAT, EVENTS):
        assert told.counts == Counts(input=23, cached=7, output=13, thinking=3)
    # On the relay the name is the provider's own; elsewhere it is the one that was asked for.
    assert told.model == ("served" if client == provider else MODELS[provider])
    assert QUESTION.text in str(strict.asked[0])
    assert strict.asked[0].get("stream", False) is (way != WHOLE)


@pytest.mark.parametrize(("client", "provider", "stop", "way"), pairwise(PROTOCOLS, PROTOCOLS, list(STOPS), WAYS))
def test_a_turn_ends_for_the_same_reason(desk: Desk, client: str, provider: str, stop: str, way: str) -> None:
    with desk.scripted(Turn(stop=STOPS[stop][provider], text="As far as")):
        told = ask(desk, client, MODELS[provider], QUESTION, way)
    assert (told.text, told.stop) == ("As far as", STOPS[stop][client])


@every_pair
def test_one_client_asks_again_and_again_on_its_connection(desk: Desk, client: str, provider: str) -> None:
    turns = [Turn(stop=ENDED[provider], text=f"Answer {count}.") for count in range(6)]
    with desk.scripted(*turns):
        told = [ask(desk, client, MODELS[provider], QUESTION, WAYS[count % 3]).text for count in range(6)]
    assert told == [turn.text for turn in turns]
