"""The workloads are what they promise: of the promised size, legal in their own dialect, and translatable everywhere.

Times are not asserted: they measure the machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

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
from bench.streams import FRAMES, STREAMS, frames
from bench.workloads import CHAT, MESSAGES, PROTOCOLS, RESPONSES, SCALES, answer, conversation, request
from dragoman.streaming import StreamTranslator
from dragoman.translate import LossLine, TranslatedRequest, translate_request, translate_response

REQUEST_TYPES: dict[str, TypeAdapter[object]] = {
    MESSAGES: TypeAdapter(MessageCreateParamsStreaming),
    CHAT: TypeAdapter(CompletionCreateParamsStreaming),
    RESPONSES: TypeAdapter(ResponseCreateParamsStreaming),
}
ANSWER_TYPES: dict[str, TypeAdapter[object]] = {
    MESSAGES: TypeAdapter(Message),
    CHAT: TypeAdapter(ChatCompletion),
    RESPONSES: TypeAdapter(Response),
}
EVENT_TYPES: dict[str, TypeAdapter[object]] = {
    MESSAGES: TypeAdapter(RawMessageStreamEvent),
    CHAT: TypeAdapter(ChatCompletionChunk),
    RESPONSES: TypeAdapter(ResponseStreamEvent),
}
SIZES = {"small": 2_000, "agent": 300_000, "large": 2_000_000}
DIRECTIONS = list(product(PROTOCOLS, PROTOCOLS))


def exhausted(value: object) -> object:
    """Go through every member: the SDK types' lists are checked only while somebody reads them."""
    if isinstance(value, Mapping):
        return {name: exhausted(member) for name, member in value.items()}
    if isinstance(value, list | tuple | Iterator):
        return [exhausted(member) for member in value]
    return value


@pytest.mark.parametrize(("workload", "protocol"), list(product(SCALES, PROTOCOLS)))
def test_a_request_has_the_promised_size(workload: str, protocol: str) -> None:
    assert SIZES[workload] * 0.85 <= len(request(workload, protocol)) <= SIZES[workload] * 1.15


@pytest.mark.parametrize(("workload", "protocol"), list(product(SCALES, PROTOCOLS)))
def test_a_request_is_legal_in_its_own_dialect(workload: str, protocol: str) -> None:
    said = json.decode(request(workload, protocol))
    understood = exhausted(REQUEST_TYPES[protocol].validate_python(said))
    assert isinstance(understood, dict)
    assert understood.keys() == said.keys()


def test_the_agent_has_100_messages_40_tools_and_a_long_prompt() -> None:
    said = json.decode(request("agent", MESSAGES))
    assert len(said["messages"]) == 100
    assert len(said["tools"]) == 40
    assert 14_000 <= sum(len(text) for text in conversation("agent").instructions) <= 16_000


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_answer_is_legal_and_holds_what_4_kb_hold(protocol: str) -> None:
    ANSWER_TYPES[protocol].validate_json(answer(protocol))
    # Responses repeats the question in its answer.
    assert 3_300 <= len(answer(protocol)) <= 6_500


@pytest.mark.parametrize(("stream", "protocol"), list(product(STREAMS, PROTOCOLS)))
def test_a_stream_has_200_legal_frames(stream: str, protocol: str) -> None:
    told = frames(stream, protocol)
    assert len(told) == FRAMES
    for frame in told:
        data = frame.split(b"data: ", 1)[1]
        if data != b"[DONE]\n\n":
            EVENT_TYPES[protocol].validate_json(data)
