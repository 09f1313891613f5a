"""White space between texts survives every way, and is never a block of its own where that is refused."""

from __future__ import annotations

import json

import pytest

from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import Citation, Part, Text, ToolCall
from dragoman.rules.whitespace import with_blanks
from dragoman.streaming import StreamPipeline
from dragoman.translate import LossLine, TranslatedRequest, translate_request, translate_response
from dragoman.wire.json import decode_object

MESSAGES, CHAT, RESPONSES = "anthropic-messages", "openai-chat", "openai-responses"
SAID = ["It is 4.0.6.", "\n\n", "It came in July.", " ", "\n", "That is all.", "\n"]
WHOLE = "It is 4.0.6.\n\nIt came in July. \nThat is all."
QUESTION: dict[str, JsonObject] = {
    MESSAGES: {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "When?"}]},
    CHAT: {"model": "m", "messages": [{"role": "user", "content": "When?"}]},
    RESPONSES: {"model": "m", "input": "When?"},
}


def cited(text: str) -> JsonObject:
    """A block of an answer; sentences are cited, what stands between them is not."""
    if not text.strip():
        return {"type": "text", "text": text}
    place: JsonObject = {"type": "web_search_result_location", "url": "https://example.org/", "title": "Notes"}
    return {"type": "text", "text": text, "citations": [{**place, "cited_text": text, "encrypted_index": "Eo8B"}]}


def messages_answer() -> JsonObject:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [cited(text) for text in SAID],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def responses_answer() -> JsonObject:
    content: list[JsonValue] = [{"type": "output_text", "text": text, "annotations": []} for text in SAID]
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "completed",
        "output": [{"type": "message", "id": "m_1", "role": "assistant", "status": "completed", "content": content}],
        "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
    }


def stream_of(provider: str) -> bytes:
    events: list[JsonObject] = []
    if provider == MESSAGES:
        events.append({"type": "message_start", "message": {**messages_answer(), "content": [], "stop_reason": None}})
        for index, text in enumerate(SAID):
            block = cited(text)
            started: JsonObject = {"type": "text", "text": ""}
            events.append({"type": "content_block_start", "index": index, "content_block": started})
            delta: JsonObject = {"type": "text_delta", "text": text}
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
            citations = block.get("citations")
            for citation in citations if isinstance(citations, list) else []:
                delta = {"type": "citations_delta", "citation": citation}
                events.append({"type": "content_block_delta", "index": index, "delta": delta})
            events.append({"type": "content_block_stop", "index": index})
        stop: JsonObject = {"stop_reason": "end_turn", "stop_sequence": None}
        events += [{"type": "message_delta", "delta": stop, "usage": {"output_tokens": 1}}, {"type": "message_stop"}]
    else:
        events.append({"type": "response.created", "response": {**responses_answer(), "output": []}})
        events.append({"type": "response.completed", "response": responses_answer()})
    return "".join(f"event: {one['type']!s}\ndata: {json.dumps(one)}\n\n" for one in events).encode()


def asked(client: str, provider: str, **members: JsonValue) -> TranslatedRequest:
    return translate_request({**QUESTION[client], **members}, source=client, target=provider)


def answered(client: str, provider: str, *, streamed: bool) -> tuple[JsonObject, tuple[LossLine, ...]]:
    """The whole answer that the client has, at once or gathered from its stream."""
    if not streamed:
        body = json.dumps(messages_answer() if provider == MESSAGES else responses_answer()).encode()
        told = translate_response(body, source=provider, target=client, request=asked(client, provider))
        return decode_object(told.body), told.losses
    translator = StreamPipeline(source=provider, target=client, request=asked(client, provider, stream=True))
    frames = translator.feed(stream_of(provider)) + translator.close()
    back = StreamPipeline(source=client, target=client, collect=True)
    whole = back.feed(frames) + back.close()
    return decode_object(whole), translator.losses


def texts(client: str, body: JsonObject) -> list[str]:
    if client == CHAT:
        (choice,) = _objects(body["choices"])
        assert isinstance(choice["message"], dict)
        return [str(choice["message"]["content"])]
    if client == RESPONSES:
        (message,) = _objects(body["output"])
        return [str(part["text"]) for part in _objects(message["content"])]
    return [str(block["text"]) for block in _objects(body["content"])]


def _objects(found: JsonValue) -> list[JsonObject]:
    assert isinstance(found, list)
    return [one for one in found if isinstance(one, dict)]


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("provider", "client"), [(MESSAGES, CHAT), (MESSAGES, RESPONSES), (RESPONSES, CHAT), (RESPONSES, MESSAGES)]
)
def test_item_12_white_space_between_sentences_is_told(provider: str, client: str, streamed: bool) -> None:
    body, losses = answered(client, provider, streamed=streamed)
    found = texts(client, body)
    assert "".join(found) == (WHOLE + "\n" if client == CHAT else WHOLE)
    assert all(text.strip() for text in found)
    dropped = [line["at"] for line in losses if line["feature"] == "empty_text"]
    assert dropped == ([] if client == CHAT else ["parts[6]"])


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_item_12_citations_point_at_their_sentences(streamed: bool) -> None:
    body, _ = answered(RESPONSES, MESSAGES, streamed=streamed)
    (message,) = _objects(body["output"])
    (part,) = _objects(message["content"])
    text, annotations = str(part["text"]), _objects(part["annotations"])
    spans = [text[int(str(one["start_index"])) : int(str(one["end_index"]))] for one in annotations]
    assert [span.strip() for span in spans] == ["It is 4.0.6.", "It came in July.", "That is all."]


@pytest.mark.parametrize("client", [CHAT, RESPONSES])
def test_item_12_the_answer_goes_back_without_blank_blocks(client: str) -> None:
    body, _ = answered(client, MESSAGES, streamed=False)
    echo: list[JsonValue]
    if client == CHAT:
        (choice,) = _objects(body["choices"])
        echo = [{"role": "user", "content": "When?"}, choice["message"], {"role": "user", "content": "Sure?"}]
    else:
        echo = [{"role": "user", "content": "When?"}, *_objects(body["output"]), {"role": "user", "content": "Sure?"}]
    request = asked(client, MESSAGES, **{"messages" if client == CHAT else "input": echo})
    assistant = _objects(decode_object(request.body)["messages"])[1]
    content = assistant["content"]
    blocks = [content] if isinstance(content, str) else [str(block["text"]) for block in _objects(content)]
    assert "".join(blocks) == WHOLE
    assert all(block.strip() for block in blocks)


@pytest.mark.parametrize("client", [CHAT, RESPONSES])
def test_item_12_blank_parts_of_a_question_are_joined(client: str) -> None:
    kind = "text" if client == CHAT else "input_text"
    content: JsonValue = [{"type": kind, "text": text} for text in ("One", "\n", "two")]
    asking: JsonObject = {"messages" if client == CHAT else "input": [{"role": "user", "content": content}]}
    request = asked(client, MESSAGES, **asking)
    (message,) = _objects(decode_object(request.body)["messages"])
    assert [block["text"] for block in _objects(message["content"])] == ["One", "\ntwo"]
    assert request.losses == () or "empty_text" not in [line["feature"] for line in request.losses]


def test_item_12_spans_move_with_their_text() -> None:
    citation = Citation(origin="x", native={}, url="u", span=(0, 1))
    call = ToolCall(call_id="c", name="f", arguments="{}")
    parts: list[Part] = [Text(text="a"), Text(text=" "), Text(text="b", citations=(citation,)), Text(text="\n"), call]
    found = with_blanks(parts)
    assert [(index, part.text) for index, part in found if isinstance(part, Text)] == [(0, "a"), (2, " b"), (3, "\n")]
    moved = found[1][1]
    assert isinstance(moved, Text) and moved.citations[0].span == (1, 2)
