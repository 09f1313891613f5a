"""The workloads are what they promise: of the promised size, legal in their own protocol, and translatable everywhere.

Times are not asserted: they measure the machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import product
from typing import Any

import pytest
from anthropic.types import Message, RawMessageStreamEvent
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from msgspec import json
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses import Response, ResponseStreamEvent
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter

from bench import run
from bench.cases import asked, cases
from bench.replay import replayed
from bench.streams import FRAMES, STREAMS, frames
from bench.workloads import CHAT, MESSAGES, MODELS, PROTOCOLS, RESPONSES, SCALES, answer, conversation, request
from dragoman.streaming import StreamPipeline
from dragoman.translate import LossLine, translate_request, translate_response

REQUEST_TYPES = {
    MESSAGES: MessageCreateParamsStreaming,
    CHAT: CompletionCreateParamsStreaming,
    RESPONSES: ResponseCreateParamsStreaming,
}
ANSWER_TYPES = {MESSAGES: Message, CHAT: ChatCompletion, RESPONSES: Response}
EVENT_TYPES = {MESSAGES: RawMessageStreamEvent, CHAT: ChatCompletionChunk, RESPONSES: ResponseStreamEvent}
TYPES: dict[str, dict[str, Any]] = {"request": REQUEST_TYPES, "answer": ANSWER_TYPES, "event": EVENT_TYPES}
SIZES = {"small": 2_000, "agent": 300_000, "large": 2_000_000}
# Made of many small messages, whose frame weighs differently in each protocol.
HISTORY = {MESSAGES: 1_500_000, CHAT: 1_130_000, RESPONSES: 1_640_000}
DIRECTIONS = list(product(PROTOCOLS, PROTOCOLS))
# What a translation may lose of a conversation that the provider has never seen: its own marks and options, and
# reasoning that another issued.
REQUEST_LOSSES = {
    (MESSAGES, CHAT): {"thinking_display", "cache_breakpoint", "thinking", "cache_key"},
    (MESSAGES, RESPONSES): {"cache_breakpoint", "thinking_signature", "cache_key"},
    (CHAT, MESSAGES): {"thinking_signature"},
    (CHAT, RESPONSES): {"thinking_signature"},
    (RESPONSES, MESSAGES): {"thinking_signature"},
    (RESPONSES, CHAT): {"thinking_display", "thinking"},
}


@cache
def adapter(kind: str, protocol: str) -> TypeAdapter[object]:
    # Making one takes half a second, which nobody who only collects the tests should wait for.
    return TypeAdapter(TYPES[kind][protocol])


def features(losses: Iterable[LossLine]) -> set[str]:
    return {loss["feature"] for loss in losses}


def exhausted(value: object) -> object:
    """Go through every member: the SDK types' lists are checked only while somebody reads them."""
    if isinstance(value, Mapping):
        return {name: exhausted(member) for name, member in value.items()}
    if isinstance(value, list | tuple | Iterator):
        return [exhausted(member) for member in value]
    return value


@pytest.mark.parametrize(("workload", "protocol"), list(product(SCALES, PROTOCOLS)))
def test_a_request_has_the_promised_size(workload: str, protocol: str) -> None:
    size = HISTORY[protocol] if workload == "history" else SIZES[workload]
    assert size * 0.85 <= len(request(workload, protocol)) <= size * 1.15


@pytest.mark.parametrize(("workload", "protocol"), list(product(SCALES, PROTOCOLS)))
def test_a_request_is_legal_in_its_own_protocol(workload: str, protocol: str) -> None:
    said = json.decode(request(workload, protocol))
    understood = exhausted(adapter("request", protocol).validate_python(said))
    assert isinstance(understood, dict)
    assert understood.keys() == said.keys()


def test_the_agent_has_100_messages_40_tools_and_a_long_prompt() -> None:
    said = json.decode(request("agent", MESSAGES))
    assert len(said["messages"]) == 100
    assert len(said["tools"]) == 40
    assert 14_000 <= sum(len(text) for text in conversation("agent").instructions) <= 16_000


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_answer_is_legal_and_holds_what_4_kb_hold(protocol: str) -> None:
    adapter("answer", protocol).validate_json(answer(protocol))
    # Responses repeats the question in its answer.
    assert 3_300 <= len(answer(protocol)) <= 6_500


@pytest.mark.parametrize(("stream", "protocol"), list(product(STREAMS, PROTOCOLS)))
def test_a_stream_has_200_legal_frames(stream: str, protocol: str) -> None:
    told = frames(stream, protocol)
    assert len(told) == FRAMES
    for frame in told:
        data = frame.split(b"data: ", 1)[1]
        # The types know neither the terminator nor pings: the SDKs pass over both.
        if data != b"[DONE]\n\n" and not frame.startswith(b"event: ping\n"):
            adapter("event", protocol).validate_json(data)


@pytest.mark.parametrize("workload", SCALES)
@pytest.mark.parametrize(("source", "target"), DIRECTIONS)
def test_a_request_loses_only_what_must_be_lost(workload: str, source: str, target: str) -> None:
    translated = asked(source, target, workload)
    if source == target:
        assert translated.body == request(workload, source)
    assert features(translated.losses) <= REQUEST_LOSSES.get((source, target), set())


@pytest.mark.parametrize(("source", "target"), DIRECTIONS)
def test_a_replay_gives_the_provider_its_reasoning_back(source: str, target: str) -> None:
    body = replayed(source, target)
    exhausted(adapter("request", source).validate_python(json.decode(body)))
    translated = translate_request(body, source=source, target=target, model=MODELS[target])
    allowed = REQUEST_LOSSES.get((source, target), set()) - {"thinking_signature"}
    assert features(translated.losses) <= allowed
    # Chat servers take reasoning back only beside calls; every step that has some is among those.
    steps = [step for turn in conversation("agent").turns for step in turn.steps if step.calls]
    assert all(_begins(step.thinking) in translated.body for step in steps)


def _begins(text: str) -> bytes:
    """The beginning of a text as it stands in JSON."""
    return json.encode(text[:40])[1:-1]


@pytest.mark.parametrize(("source", "target"), DIRECTIONS)
def test_an_answer_is_translated_without_loss(source: str, target: str) -> None:
    translated = translate_response(answer(source), source=source, target=target, request=asked(target, source))
    assert not translated.failed
    adapter("answer", target).validate_json(translated.body)
    assert features(translated.losses) == set()


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize(("source", "target"), DIRECTIONS)
def test_a_stream_is_translated_alike_in_one_chunk_and_in_many(stream: str, source: str, target: str) -> None:
    told = frames(stream, source)
    many = StreamPipeline(source=source, target=target, request=asked(target, source))
    one = StreamPipeline(source=source, target=target, request=asked(target, source))
    assert b"".join(map(many.feed, told)) + many.close() == one.feed(b"".join(told)) + one.close()
    assert many.failure is None
    assert many.usage is not None
    assert features(many.losses) == set()


def test_the_workloads_are_the_same_every_time() -> None:
    first = request("agent", CHAT)
    request.cache_clear()
    conversation.cache_clear()
    assert request("agent", CHAT) == first


def test_words_choose_directions_and_workloads() -> None:
    assert {case.direction for case in cases(("a-c",))} == {"A→C"}
    assert {case.workload for case in cases(("A→C", "text"))} == {"text/frames", "text/whole"}
    assert cases(("nothing",)) == []


def test_a_quick_look_prints_a_row_for_each_direction(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--quick", "--only", "small"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 2 + len(DIRECTIONS) + 1
    assert printed[2].startswith("| A→A ")
