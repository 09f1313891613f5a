"""Invented exchanges on their journeys, and every kind of difference that a comparison can find."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from tools.replaying.explained import RULES, explained
from tools.replaying.journey import Difference, compared, journeys, listing_of, model_of, returned
from tools.replaying.protocols import CHAT, MESSAGES, RESPONSES, Object, written
from tools.replaying.recordings import Exchange
from tools.replaying.said import CALLS, FILTERED, LENGTH, STOP, Call, Counts, Said

MESSAGE: Object = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-5",
    "content": [
        {"type": "thinking", "thinking": "Perhaps.", "signature": "c2VhbA=="},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "sea"}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 5, "output_tokens": 7, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 0},
}
CHUNKS: list[Object] = [
    {"role": "assistant", "content": ""},
    {"content": "I lo"},
    {"content": "ok."},
    {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "look", "arguments": ""}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": '{"at":"sea"}'}}]},
]


def _stream() -> bytes:
    base: Object = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o"}
    events: list[Object] = [
        {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in CHUNKS
    ]
    events.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    return written(
        CHAT,
        [*events, {**base, "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}}],
        closed=True,
    )


def test_whole_answer() -> None:
    whole = json.dumps(MESSAGE).encode()
    tally = journeys(Exchange(file="a.json", protocol=MESSAGES, whole=whole, host="api.anthropic.com"))
    assert tally.differences == []
    # To two protocols, whole and as a stream, each with a second turn; the relay, and at home as a stream.
    assert (tally.translations, tally.streams) == (11, 3)


def test_stream() -> None:
    tally = journeys(Exchange(file="a.txt", protocol=CHAT, stream=_stream(), host="api.openai.com"))
    assert tally.differences == []
    assert tally.streams > 2


def test_error() -> None:
    body = json.dumps({"error": {"message": "no such model", "type": "invalid_request_error"}}).encode()
    assert journeys(Exchange(file="a.json", protocol=RESPONSES, whole=body, status=404)).differences == []


def test_request() -> None:
    request: Object = {"messages": [{"role": "user", "content": "hi"}]}
    tally = journeys(Exchange(file="a.json", protocol=CHAT, request=request))
    assert (tally.differences, tally.translations) == ([], 2)


def test_answer_that_is_none_is_a_difference() -> None:
    whole = json.dumps({"choices": [{"message": 1}]}).encode()
    assert {one.kind for one in journeys(Exchange(file="a", protocol=CHAT, whole=whole)).differences} == {"refusals"}


def test_who_answered() -> None:
    by_host = listing_of(Exchange(file="a", protocol=CHAT, host="api.deepseek.com"))
    by_name = listing_of(Exchange(file="packages/mistral/src/a.json", protocol=CHAT))
    assert by_host is not None and by_host.name == "deepseek"
    assert by_name is not None and by_name.name == "mistral"
    assert listing_of(Exchange(file="mistral/a.json", protocol=CHAT, host="nobody.test")) is None


def test_which_model() -> None:
    assert model_of(Exchange(file="a", protocol=CHAT, request={"model": "asked"}, whole=b'{"model":"told"}')) == "asked"
    assert model_of(Exchange(file="a", protocol=CHAT, whole=b'{"model":"told"}')) == "told"
    assert model_of(Exchange(file="a", protocol=CHAT, stream=b'data: {"model": "told"}\n\n')) == "told"


CALL = Call("c1", "f", {"x": 1})
SAID = Said(texts=["a ", "b"], reasoning="hm", calls=[CALL], end=STOP, counts=Counts(3, 2, None), seals=["s"])


def _said(**changes: object) -> Said:
    base: dict[str, object] = {
        "texts": ["a b"],
        "reasoning": "hm",
        "calls": [CALL],
        "end": CALLS,
        "counts": Counts(3, 2, 0),
        "seals": ["s"],
    }
    return Said(**{**base, **changes})  # type: ignore[arg-type]  # members by name, for brevity


@pytest.mark.parametrize(
    ("kind", "came"),
    [
        ("texts", _said(texts=["ab"])),
        ("reasonings", _said(reasoning="")),
        ("calls", _said(calls=[Call("c1", "f", {})])),
        ("calls", _said(calls=[])),
        ("ids", _said(calls=[Call("c2", "f", {"x": 1})])),
        ("ends", _said(end=LENGTH)),
        ("usages", _said(counts=Counts(3, 0, 0))),
        ("usages", _said(counts=None)),
        ("errors", _said(error="made up")),
    ],
)
def test_compared(kind: str, came: Said) -> None:
    assert [found for found, _, _ in compared(SAID, came)] == [kind]


@pytest.mark.parametrize("came", [_said(), _said(texts=["a \n\nb"]), _said(reasoning="h m")])
def test_compared_alike(came: Said) -> None:
    assert list(compared(SAID, came)) == []


def test_error_must_be_told_in_its_own_words() -> None:
    failed = Said(error="no such model")
    assert list(compared(failed, Said(error="Error: no such model."))) == []
    assert [kind for kind, _, _ in compared(failed, Said(error="Bad gateway"))] == ["errors"]
    assert [kind for kind, _, _ in compared(failed, Said(texts=["hi"]))] == ["errors"]


def test_end_with_calls_is_told_as_such_but_at_home() -> None:
    said, came = Said(calls=[CALL], end=STOP), Said(calls=[CALL], end=STOP)
    assert [kind for kind, _, _ in compared(said, came)] == ["ends"]
    assert list(compared(said, came, home=True)) == []
    assert list(compared(said, Said(calls=[CALL], end=CALLS), home=True)) == []


def test_refusal_may_end_as_filtered() -> None:
    assert list(compared(Said(texts=["no"], refused=True, end=STOP), Said(texts=["no"], end=FILTERED))) == []


@pytest.mark.parametrize(
    ("kind", "came", "results"),
    [
        ("second texts", _said(texts=[""]), ["c1"]),
        ("second calls", _said(calls=[Call("c2", "f", {"x": 1})]), ["c2"]),
        ("second results", _said(), ["c2"]),
        ("second seals", _said(seals=[]), ["c1"]),
        ("second reasonings", _said(reasoning=""), ["c1"]),
    ],
)
def test_returned(kind: str, came: Said, results: list[str]) -> None:
    assert [found for found, _, _ in returned(SAID, came, results, MESSAGES)] == [kind]
    assert list(returned(SAID, _said(), ["c1"], MESSAGES)) == []


def test_chat_asks_for_reasoning_beside_calls() -> None:
    plain = Said(texts=["a"], reasoning="hm", seals=["s"])
    assert list(returned(plain, Said(texts=["a"]), [], CHAT)) == []


def _difference(kind: str, said: str, came: str, pair: str = "openai-chat > anthropic-messages") -> Difference:
    return Difference(kind=kind, file="a", pair=pair, form="whole", said=said, came=came)


def test_explained() -> None:
    rule = explained(_difference("ends", "pause", "length"))
    assert rule in RULES
    assert explained(_difference("ends", "stop", "length")) is None
    assert explained(replace(_difference("texts", "a  ", "a"), calling=True)) is not None
    assert explained(_difference("texts", "a  ", "a")) is None
    assert explained(_difference("ids", "['f:0']", "['call_1']")) is not None
    assert explained(_difference("ids", "['call-1_2', 'b']", "['call_1', 'b']")) is None
    assert explained(_difference("texts", "a b", "ab")) is None
    usage = "Counts(input=7, output=1, cached=9)"
    assert explained(_difference("usages", usage, "Counts(input=16, output=1, cached=9)")) is not None
    assert explained(_difference("usages", usage, "Counts(input=7, output=1, cached=0)")) is None


def test_explained_by_what_the_answer_is() -> None:
    home = "anthropic-messages > anthropic-messages"
    assert explained(_difference("texts", "\n\na", "a", home)) is not None
    assert explained(_difference("texts", "\n\na", "a")) is None
    assert explained(_difference("texts", "a b", "a", home)) is None
    relay = "openai-chat > openai-chat"
    assert explained(_difference("relays", r"b'xdata: [DONE]\n'", r"b'data: [DONE]\n\n'", relay)) is not None
    assert explained(_difference("relays", r"b'data: [DONE]\n'", r"b'data: [DONE]'", relay)) is None
    seals = _difference("second seals", "['s']", "[]", "openai-responses > anthropic-messages")
    assert explained(seals) is None
    assert explained(replace(seals, mute=True)) is not None
    assert explained(replace(seals, mute=True, pair="anthropic-messages > anthropic-messages")) is None
