"""What a Messages request shows of itself."""

from __future__ import annotations

import json

import pytest

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.request_features import ConversationStart, RequestFeatures
from dragoman.protocols.anthropic_messages.request_glance import MessagesGlance
from dragoman.wire.duplicate_keys import OBJECT

BASE64: JsonObject = {"type": "base64", "media_type": "image/png", "data": "A" * 1000}


def signs(**members: object) -> RequestFeatures:
    return MessagesGlance(
        OBJECT.decode(json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}], **members}).encode())
    ).request_features()


def blocks(*found: JsonObject) -> list[JsonObject]:
    return [{"role": "user", "content": list(found)}]


def test_a_plain_request_has_none_but_its_cap() -> None:
    assert signs(max_tokens=9) == RequestFeatures(max_output=9)
    assert signs(tools=[], thinking={"type": "disabled"}) == RequestFeatures()


def test_each_sign_is_seen() -> None:
    assert signs(tools=[{"name": "f", "input_schema": {}}]).tools
    assert signs(thinking={"type": "enabled", "budget_tokens": 1024}).thinking
    assert signs(thinking={"type": "adaptive"}).thinking
    assert signs(output_config={"format": {"type": "json_schema", "schema": {}}}).structured
    assert signs(output_format={"type": "json_schema", "schema": {}}).structured
    assert not signs(output_config={"effort": "low"}).structured


def test_media_are_counted_wherever_they_stand() -> None:
    image = signs(messages=blocks({"type": "image", "source": BASE64}))
    assert image.images and image.media > 1000
    inner: JsonObject = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image", "source": BASE64}]}
    assert signs(messages=blocks(inner)).images
    document = signs(messages=blocks({"type": "document", "source": BASE64}))
    assert document.documents and document.media > 1000


def test_the_text_of_a_document_is_text() -> None:
    plain: JsonObject = {"type": "text", "media_type": "text/plain", "data": "A" * 1000}
    found = signs(messages=blocks({"type": "document", "source": plain}))
    assert found.documents and found.media == 0


def test_what_a_tool_is_given_is_no_media() -> None:
    call: JsonObject = {"type": "tool_use", "id": "t", "name": "f", "input": {"type": "image", "source": BASE64}}
    assert signs(messages=[{"role": "assistant", "content": [call]}]) == RequestFeatures()


@pytest.mark.parametrize("body", [b'{"messages":1}', b'{"messages":[1]}', b'{"messages":[{"content":[1]}]}'])
def test_what_cannot_be_read_has_none(body: bytes) -> None:
    assert MessagesGlance(OBJECT.decode(body)).request_features() == RequestFeatures()


def opening(**members: object) -> ConversationStart:
    return MessagesGlance(OBJECT.decode(json.dumps({"model": "m", **members}))).conversation_start()


def test_a_conversation_is_known_by_its_beginning() -> None:
    marked: JsonObject = {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}
    plain: JsonObject = {"type": "text", "text": "Hi"}
    begun = opening(system="Be brief.", messages=[{"role": "user", "content": [marked]}])
    assert begun == ConversationStart(instructions="Be brief.", text="Hi")
    later: JsonObject = {"role": "user", "content": "And now?"}
    assert opening(system="Be brief.", messages=[{"role": "user", "content": [plain]}, later]) == begun
    assert opening(messages=[]) == MessagesGlance({}).conversation_start() == ConversationStart()


def test_what_its_provider_keeps_is_seen() -> None:
    assert signs(messages=blocks({"type": "document", "source": {"type": "file", "file_id": "f"}})).references_stored
    assert not signs(tools=[{"name": "f", "input_schema": {"properties": {"container": {}}}}]).references_stored
    assert signs(container="container_1").references_stored


@pytest.mark.parametrize(
    ("said", "tier"),
    [({"speed": "fast"}, "speed-fast"), ({"speed": "standard"}, ""), ({"service_tier": "auto"}, ""), ({}, "")],
)
def test_the_speed_that_is_asked_for_is_seen_as_a_tier(said: JsonObject, tier: str) -> None:
    assert signs(**said).tier == tier
