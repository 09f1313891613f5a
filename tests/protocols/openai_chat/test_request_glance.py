"""What a Chat request shows of itself."""

from __future__ import annotations

import json

import pytest

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.request_features import ConversationStart, RequestFeatures
from dragoman.protocols.openai_chat.request_glance import ChatGlance
from dragoman.wire.duplicate_keys import OBJECT

DATA = "data:image/png;base64," + "A" * 1000


def signs(**members: object) -> RequestFeatures:
    return ChatGlance(
        OBJECT.decode(json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}], **members}).encode())
    ).request_features()


def parts(*found: JsonObject) -> list[JsonObject]:
    return [{"role": "user", "content": list(found)}]


def test_a_plain_request_has_none() -> None:
    assert signs() == RequestFeatures()
    assert signs(tools=[], response_format={"type": "text"}, reasoning_effort="none") == RequestFeatures()


def test_each_sign_is_seen() -> None:
    assert signs(tools=[{"type": "function", "function": {"name": "f"}}]).tools
    assert signs(functions=[{"name": "f"}]).tools
    assert signs(reasoning_effort="low").thinking
    assert signs(response_format={"type": "json_schema", "json_schema": {"name": "x"}}).structured
    assert signs(response_format={"type": "json_object"}).structured
    assert signs(max_tokens=5).max_output == 5
    assert signs(max_tokens=5, max_completion_tokens=7).max_output == 7


def test_media_are_counted_and_are_no_text() -> None:
    image = signs(messages=parts({"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": DATA}}))
    assert image.images and not image.documents and image.media > 1000
    document = signs(messages=parts({"type": "file", "file": {"file_data": DATA}}))
    assert document.documents and not document.images and document.media > 1000


@pytest.mark.parametrize("text", ['{"type": "image_url"}', DATA])
def test_words_and_arguments_are_no_media(text: str) -> None:
    call: JsonObject = {"id": "c", "type": "function", "function": {"name": "f", "arguments": text}}
    said: list[JsonObject] = [
        {"role": "user", "content": text},
        {"role": "assistant", "content": [{"type": "text", "text": text}], "tool_calls": [call]},
    ]
    assert signs(messages=said) == RequestFeatures()


@pytest.mark.parametrize("body", [b'{"messages":1}', b'{"messages":[1]}', b'{"messages":[{"content":[1]}]}'])
def test_what_cannot_be_read_has_none(body: bytes) -> None:
    assert ChatGlance(OBJECT.decode(body)).request_features() == RequestFeatures()


def opening(**members: object) -> ConversationStart:
    return ChatGlance(OBJECT.decode(json.dumps({"model": "m", **members}))).conversation_start()


def test_a_conversation_is_known_by_its_beginning() -> None:
    system: JsonObject = {"role": "system", "content": "Be brief."}
    first: JsonObject = {"role": "user", "content": [{"type": "text", "text": "Hi"}]}
    later: JsonObject = {"role": "user", "content": "And now?"}
    assert opening(messages=[system, first]) == ConversationStart(instructions="Be brief.", text="Hi")
    assert opening(messages=[system, first, later]) == opening(messages=[system, first])
    assert (
        opening(messages=[system]) == opening(messages=1) == ChatGlance({}).conversation_start() == ConversationStart()
    )


def test_or_by_the_key_of_its_cache() -> None:
    assert opening(prompt_cache_key="c", messages=[]) == ConversationStart(cache_key="c")


def test_what_its_provider_keeps_is_seen() -> None:
    assert signs(messages=parts({"type": "file", "file": {"file_id": "file-1"}})).references_stored
    assert not signs(
        tools=[{"type": "function", "function": {"name": "f", "parameters": {"file_id": {}}}}]
    ).references_stored


@pytest.mark.parametrize(("n", "answers"), [(3, 3), (None, 1), (0, 1), ("3", 1), (-2, 1), (10**9, 128)])
def test_how_many_answers_are_asked_for_is_seen(n: object, answers: int) -> None:
    assert signs(n=n).choices == answers


@pytest.mark.parametrize(
    ("said", "tier"),
    [("flex", "flex"), ("priority", "priority"), ("auto", ""), ("default", ""), (None, ""), (7, ""), ("x" * 99, "")],
)
def test_the_tier_that_is_asked_for_is_seen(said: object, tier: str) -> None:
    assert signs(service_tier=said).tier == tier
