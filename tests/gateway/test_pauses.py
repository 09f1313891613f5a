"""A Messages provider that pauses is asked to go on; clients of the other protocols see one answer (mapping.md §13)."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from tests.gateway.harness import CHAT, PATHS, RESPONSES, Received, Reply, running, stream, whole
from tests.sdk.digging import Object, dig_objects

SEARCH: Object = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
FIRST: list[Object] = [{"type": "text", "text": "Let me look. ", "citations": None}, SEARCH]
LAST: list[Object] = [{"type": "text", "text": "Found it.", "citations": None}]
ASKED: dict[str, Object] = {
    CHAT: {
        "model": "messages/claude-opus-5",
        "messages": [{"role": "user", "content": "look"}],
        "web_search_options": {},
    },
    RESPONSES: {"model": "messages/claude-opus-5", "input": "look", "tools": [{"type": "web_search"}]},
}


def message(content: list[Object], stop: str) -> Object:
    """What the provider says as a whole."""
    return {
        "id": "msg_0123456789abcdefABCDEF",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5",
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 3},
    }


def events(content: list[Object], stop: str) -> bytes:
    """The same as a stream."""
    told: list[Object] = [{"type": "message_start", "message": {**message([], stop), "stop_reason": None}}]
    for index, block in enumerate(content):
        empty = {**block, "text": ""} if block["type"] == "text" else {**block, "input": {}}
        told.append({"type": "content_block_start", "index": index, "content_block": empty})
        if block["type"] == "text":
            delta: Object = {"type": "text_delta", "text": block["text"]}
        else:
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        told.append({"type": "content_block_delta", "index": index, "delta": delta})
        told.append({"type": "content_block_stop", "index": index})
    ending = {"stop_reason": stop, "stop_sequence": None}
    told.append({"type": "message_delta", "delta": ending, "usage": {"input_tokens": 10, "output_tokens": 3}})
    told.append({"type": "message_stop"})
    return b"".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in told)


def provider(pauses: int, *, streamed: bool) -> list[Reply]:
    """A provider that pauses so many times."""
    turns = [(FIRST, "pause_turn")] * pauses + [(LAST, "end_turn")]
    return [stream(events(*turn)) if streamed else whole(message(*turn)) for turn in turns]


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", [CHAT, RESPONSES])
def test_an_answer_that_paused_is_told_as_one(client: str, streamed: bool) -> None:
    with running(provider(1, streamed=streamed)) as house:
        told = house.post(PATHS[client], {**ASKED[client], "stream": streamed})
        first, second = (received.json() for received in house.provider.received)
    assert told.status == 200, told.body
    assert b"Let me look." in told.body
    assert b"Found it." in told.body
    # The counts of both calls: 20 in, 6 out.
    tokens = b'"input_tokens":20' if client == RESPONSES else b'"prompt_tokens":20'
    assert tokens in told.body or (client == CHAT and streamed)
    assert told.body.count(b'"finish_reason":"stop"') + told.body.count(b"event: response.completed") <= 1
    assert b"pause" not in told.body
    before, after = dig_objects(first, "messages"), dig_objects(second, "messages")
    assert after[:-1] == before
    assert after[-1]["role"] == "assistant"
    assert [block["type"] for block in dig_objects(after[-1], "content")] == ["text", "server_tool_use"]
    assert {key: value for key, value in second.items() if key != "messages"} == {
        key: value for key, value in first.items() if key != "messages"
    }


@pytest.mark.parametrize("asked", [False, True], ids=["whole asked", "stream asked"])
@pytest.mark.parametrize(
    "forms", [("whole", "stream"), ("stream", "whole"), ("whole", "whole"), ("mislabelled", "whole")]
)
@pytest.mark.parametrize("client", [CHAT, RESPONSES])
def test_item_18_a_pause_is_resumed_in_whatever_form_it_comes(client: str, forms: tuple[str, str], asked: bool) -> None:
    replies = []
    for form, turn in zip(forms, [(FIRST, "pause_turn"), (LAST, "end_turn")], strict=True):
        reply = whole(message(*turn)) if form == "whole" else stream(events(*turn))
        if form == "mislabelled":
            reply = replace(reply, headers=(("content-type", "application/json"),))
        replies.append(reply)
    with running(replies) as house:
        told = house.post(PATHS[client], {**ASKED[client], "stream": asked})
        assert len(house.provider.received) == 2
    assert told.status == 200, told.body
    assert told.body.count(b"Let me look.") >= 1
    assert told.body.count(b"Found it.") >= 1
    assert b'"finish_reason":"length"' not in told.body
    assert b"response.incomplete" not in told.body
    assert (b"data: [DONE]" in told.body) is asked


# A full response under each content type, and a stream under those of other things.
FORMS = ("full", "full as events", "full as text", "stream", "stream as json", "stream as text")
LABELS = {"events": "text/event-stream", "text": "text/plain", "json": "application/json"}


def in_form(form: str, content: list[Object], stop: str) -> Reply:
    """What the provider sends, in a form and under a content type."""
    kind, _, label = form.partition(" as ")
    reply = whole(message(content, stop)) if kind == "full" else stream(events(content, stop))
    return replace(reply, headers=(("content-type", LABELS[label]),)) if label else reply


def assert_continued(client: str, asked: Object, paused: str, continued: str) -> None:
    """The provider is called twice, and the client gets one complete response of both."""
    replies = [in_form(paused, FIRST, "pause_turn"), in_form(continued, LAST, "end_turn")]
    with running(replies) as house:
        told = house.post(PATHS[client], asked)
        assert len(house.provider.received) == 2
    assert told.status == 200, told.body
    assert b"Let me look." in told.body
    assert b"Found it." in told.body
    assert b'"finish_reason":"length"' not in told.body
    assert b'"status":"incomplete"' not in told.body


@pytest.mark.parametrize("asked", [False, True], ids=["full response", "stream"])
@pytest.mark.parametrize("continued", FORMS)
@pytest.mark.parametrize("paused", FORMS)
def test_a_pause_is_continued_whatever_its_content_type_names(paused: str, continued: str, asked: bool) -> None:
    for client in (CHAT, RESPONSES):
        assert_continued(client, {**ASKED[client], "stream": asked}, paused, continued)


@pytest.mark.parametrize("form", ["full", "full as events", "full as text"])
@pytest.mark.parametrize("client", [CHAT, RESPONSES])
def test_a_full_response_that_paused_is_continued_whatever_tools_were_declared(client: str, form: str) -> None:
    asked = {name: value for name, value in ASKED[client].items() if name not in ("tools", "web_search_options")}
    assert_continued(client, {**asked, "stream": True}, form, "stream")


@pytest.mark.parametrize("form", ["full as events", "stream"])
def test_a_pause_is_continued_where_the_conversation_declared_the_tool(form: str) -> None:
    declared: Object = {"type": "additional_tools", "role": "developer", "tools": [{"type": "web_search"}]}
    question: Object = {"role": "user", "content": "look"}
    asked: Object = {"model": "messages/claude-opus-5", "input": [declared, question], "stream": True}
    assert_continued(RESPONSES, asked, form, "stream")


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_item_18_a_pause_that_comes_whole_is_told_to_its_own_client_as_it_is(streamed: bool) -> None:
    asked = {"model": "messages/claude-opus-5", "max_tokens": 9, "messages": [{"role": "user", "content": "look"}]}
    with running([whole(message(FIRST, "pause_turn"))]) as house:
        told = house.post("/v1/messages", {**asked, "stream": streamed})
        assert len(house.provider.received) == 1
    assert b"pause_turn" in told.body


def test_a_stream_for_a_client_that_did_not_ask_for_one_is_resumed_too() -> None:
    with running(provider(1, streamed=True)) as house:
        told = house.post(PATHS[CHAT], ASKED[CHAT])
    assert told.status == 200
    assert b"Let me look." in told.body
    assert b"Found it." in told.body


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_after_ten_resumes_a_pause_is_the_end(streamed: bool) -> None:
    with running(provider(20, streamed=streamed)) as house:
        told = house.post(PATHS[CHAT], {**ASKED[CHAT], "stream": streamed})
        assert len(house.provider.received) == 11
    assert b'"finish_reason":"length"' in told.body


def test_a_refusal_to_go_on_ends_the_stream_in_the_clients_own_form() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "too busy"}}
    with running([stream(events(FIRST, "pause_turn")), whole(error, status=529)]) as house:
        told = house.post(PATHS[CHAT], {**ASKED[CHAT], "stream": True})
    assert told.status == 200
    assert b"too busy" in told.body
    assert b"[DONE]" not in told.body


def test_a_relayed_pause_is_the_clients_own_business() -> None:
    def script(received: Received) -> Reply:
        return whole(message(FIRST, "pause_turn"))

    with running(script) as house:
        body = {"model": "messages/claude-opus-5", "max_tokens": 9, "messages": [{"role": "user", "content": "look"}]}
        told = house.post("/v1/messages", body)
        assert len(house.provider.received) == 1
    assert told.json()["stop_reason"] == "pause_turn"
