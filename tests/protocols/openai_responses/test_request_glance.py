"""What a Responses request shows of itself."""

from __future__ import annotations

import json

import pytest

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.request_features import ConversationStart, RequestFeatures
from dragoman.protocols.openai_responses.request_glance import ResponsesGlance
from dragoman.wire.duplicate_keys import OBJECT

DATA = "data:image/png;base64," + "A" * 1000


def signs(**members: object) -> RequestFeatures:
    return ResponsesGlance(
        OBJECT.decode(json.dumps({"model": "m", "input": "Hi", **members}).encode())
    ).request_features()


def test_a_plain_request_has_none() -> None:
    assert signs() == RequestFeatures()
    assert signs(tools=[], text={"format": {"type": "text"}}, reasoning={"effort": "none"}) == RequestFeatures()


def test_each_sign_is_seen() -> None:
    assert signs(tools=[{"type": "function", "name": "f"}]).tools
    assert signs(reasoning={"effort": "low"}).thinking
    assert signs(reasoning={"summary": "auto"}).thinking
    assert signs(text={"format": {"type": "json_schema", "name": "x", "schema": {}}}).structured
    assert signs(max_output_tokens=7).max_output == 7


def test_media_are_counted_wherever_they_stand() -> None:
    image: JsonObject = {"type": "input_image", "image_url": DATA}
    found = signs(input=[{"type": "message", "role": "user", "content": [image]}])
    assert found.images and found.media > 1000
    assert signs(input=[{"type": "function_call_output", "call_id": "c", "output": [image]}]).images
    file: JsonObject = {"type": "input_file", "file_data": DATA, "filename": "a.pdf"}
    assert signs(input=[{"role": "user", "content": [file]}]).documents


def test_what_a_tool_is_given_is_no_media() -> None:
    assert signs(input=[{"type": "function_call", "call_id": "c", "name": "f", "arguments": DATA}]) == RequestFeatures()


@pytest.mark.parametrize("body", [b'{"input":1}', b'{"input":[1]}', b'{"input":[{"content":[1]}]}'])
def test_what_cannot_be_read_has_none(body: bytes) -> None:
    assert ResponsesGlance(OBJECT.decode(body)).request_features() == RequestFeatures()


def opening(**members: object) -> ConversationStart:
    return ResponsesGlance(OBJECT.decode(json.dumps({"model": "m", **members}))).conversation_start()


def test_a_conversation_is_known_by_its_beginning() -> None:
    first: JsonObject = {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
    system: JsonObject = {"role": "developer", "content": "Be brief."}
    assert opening(instructions="Be brief.", input=[first]) == ConversationStart(instructions="Be brief.", text="Hi")
    assert opening(input=[system, first, first]) == ConversationStart(instructions="Be brief.", text="Hi")
    assert opening(input="Hi") == ConversationStart(text="Hi")
    assert opening(input=[{"type": "reasoning"}]) == ResponsesGlance({}).conversation_start() == ConversationStart()


def test_or_by_the_key_of_its_cache() -> None:
    assert opening(prompt_cache_key="c", input="Hi") == ConversationStart(cache_key="c")


def test_what_its_provider_keeps_is_seen() -> None:
    assert signs(input=[{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]).references_stored
    assert not signs(tools=[{"type": "code_interpreter", "container": {"type": "auto"}}]).references_stored
    assert signs(tools=[{"type": "code_interpreter", "container": "cntr_1"}]).references_stored
    assert signs(tools=[{"type": "file_search", "vector_store_ids": ["vs_1"]}]).references_stored


@pytest.mark.parametrize(
    ("said", "tier"), [("flex", "flex"), ("priority", "priority"), ("auto", ""), ("default", ""), (None, ""), (7, "")]
)
def test_the_tier_that_is_asked_for_is_seen(said: object, tier: str) -> None:
    assert signs(service_tier=said).tier == tier
