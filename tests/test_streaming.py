"""Streams from end to end: lanes, ends, breaks."""

from __future__ import annotations

import json
import time

import pytest
from anthropic._streaming import SSEDecoder as AnthropicDecoder
from openai._streaming import SSEDecoder as OpenaiDecoder

from dragoman import StreamTranslator, WireError, translate_request, translate_response
from dragoman.model.jsonvalue import JsonObject
from dragoman.protocols.codec import Mint
from dragoman.protocols.registry import PROTOCOLS
from tests.sdk.providers import Turn
from tests.sdk.providers import stream as stream_of

MESSAGES, CHAT, RESPONSES = (codec.name for codec in PROTOCOLS)


def sse(*events: dict[str, object], named: bool = True) -> bytes:
    frames = []
    for event in events:
        head = f"event: {event['type']}\n" if named else ""
        frames.append(f"{head}data: {json.dumps(event)}\n\n")
    return "".join(frames).encode()


CLAUDE = sse(
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 3, "output_tokens": 1},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "one ST"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "OP two"}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 5},
    },
    {"type": "message_stop"},
)


def chat_chunks(*deltas: dict[str, object], finish: str | None = "stop") -> list[dict[str, object]]:
    base: dict[str, object] = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    chunks = [{**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    if finish is not None:
        chunks.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    return chunks


def datas(stream: bytes) -> list[dict[str, object]]:
    found = []
    for line in stream.decode().splitlines():
        if line.startswith("data: {"):
            found.append(json.loads(line[6:]))
    return found


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_relayed_stream_is_byte_exact(size: int) -> None:
    stream = StreamTranslator(source=MESSAGES, target=MESSAGES)
    out = b"".join(stream.feed(CLAUDE[at : at + size]) for at in range(0, len(CLAUDE), size)) + stream.close()
    assert out == CLAUDE
    assert stream.failure is None
    assert stream.usage is not None
    assert stream.usage.output == 5


@pytest.mark.parametrize("missing", [1, 2])
def test_the_last_event_of_a_relayed_stream_gets_the_blank_line_that_it_lacks(missing: int) -> None:
    stream = StreamTranslator(source=MESSAGES, target=MESSAGES)
    out = stream.feed(CLAUDE[:-missing]) + stream.close()
    assert out == CLAUDE
    assert stream.failure is None


LAST = {
    MESSAGES: (CLAUDE, b""),
    CHAT: (sse(*chat_chunks({"content": "one"}), named=False), b"data: [DONE]"),
    RESPONSES: (
        sse({"type": "response.created", "response": {"id": "resp_1"}}),
        sse({"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": []}}).strip(),
    ),
}


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("missing", [0, 1, 2])
@pytest.mark.parametrize("protocol", LAST)
def test_item_22_a_relay_adds_no_more_than_the_last_event_lacks(
    protocol: str, missing: int, line_end: bytes, size: int
) -> None:
    before, last = LAST[protocol]
    whole = (before + last).strip().replace(b"\n", line_end) + 2 * line_end
    sent = whole[: len(whole) - missing * len(line_end)]
    stream = StreamTranslator(source=protocol, target=protocol)
    out = b"".join(stream.feed(sent[at : at + size]) for at in range(0, len(sent), size)) + stream.close()
    # A frame of one line without its end does not say what line ends look like.
    assert out == (sent + b"\n\n" if missing == 2 and protocol == CHAT else whole)
    assert stream.failure is None


@pytest.mark.parametrize("decoder", [AnthropicDecoder, OpenaiDecoder])
@pytest.mark.parametrize(("end", "heard"), [(b"", 0), (b"\n", 0), (b"\n\n", 1)])
def test_item_22_the_official_readers_drop_an_event_that_no_blank_line_ends(
    decoder: type[AnthropicDecoder] | type[OpenaiDecoder], end: bytes, heard: int
) -> None:
    events = list(decoder().iter_bytes(iter([b'data: {"type":"message_stop"}' + end])))
    assert len(events) == heard


@pytest.mark.parametrize("tail", [b": bye\n", b"\n", b"event: bye\n", b": bye"])
@pytest.mark.parametrize("protocol", [MESSAGES, CHAT])
def test_item_22_a_tail_that_says_nothing_is_passed_on_as_it_is(protocol: str, tail: bytes) -> None:
    before, _ = LAST[protocol]
    stream = StreamTranslator(source=protocol, target=protocol)
    assert stream.feed(before + tail) + stream.close() == before + tail
    assert stream.failure is None


def test_a_collected_chat_answer_has_all_of_its_text() -> None:
    chunks = chat_chunks({"content": "one "}, {"reasoning_content": "hm"}, {"content": "two"})
    stream = StreamTranslator(source=CHAT, target=CHAT, collect=True)
    stream.feed(sse(*chunks, named=False) + b"data: [DONE]\n\n")
    assert json.loads(stream.close())["choices"][0]["message"]["content"] == "one two"


@pytest.mark.parametrize("cut", [20, 200, 300, 500, 700])
def test_a_relayed_stream_that_breaks_off_ends_in_an_error(cut: int) -> None:
    stream = StreamTranslator(source=MESSAGES, target=MESSAGES)
    out = stream.feed(CLAUDE[:cut]) + stream.close()
    assert out.split(b"event: error")[0] in CLAUDE[:cut]
    last = datas(out)[-1]
    assert last["type"] == "error"
    assert b"message_stop" not in out
    assert stream.failure is not None


@pytest.mark.parametrize("target", [CHAT, RESPONSES])
def test_nothing_follows_the_terminator(target: str) -> None:
    stream = StreamTranslator(source=MESSAGES, target=target)
    out = stream.feed(CLAUDE)
    assert out.endswith(b"data: [DONE]\n\n")
    assert stream.finished
    assert stream.feed(CLAUDE) == b""
    assert stream.close() == b""
    assert stream.close() == b""


@pytest.mark.parametrize(("target", "mark"), [(MESSAGES, b"event: error"), (RESPONSES, b"response.failed")])
def test_pitfall_069_a_stream_cut_short_is_an_error_in_the_clients_form(target: str, mark: bytes) -> None:
    stream = StreamTranslator(source=CHAT, target=target)
    out = stream.feed(sse(*chat_chunks({"content": "half"}, finish=None), named=False)) + stream.close()
    assert mark in out
    assert b"ended unexpectedly" in out
    assert b"message_stop" not in out
    assert b"response.completed" not in out


@pytest.mark.parametrize("target", [MESSAGES, CHAT, RESPONSES])
@pytest.mark.parametrize(
    "garbage", [b"data: {oops\n\n", b"<html>bad gateway</html>", b"data: [1]\n\n", b'data: "x"\n\n', b""]
)
def test_garbage_is_never_a_finished_answer(target: str, garbage: bytes) -> None:
    source = CHAT if target != CHAT else MESSAGES
    stream = StreamTranslator(source=source, target=target)
    out = stream.feed(garbage) + stream.close()
    assert stream.failure is not None
    assert b"error" in out
    assert b"message_stop" not in out
    assert b"response.completed" not in out


def test_an_oversized_event_is_a_clear_error() -> None:
    stream = StreamTranslator(source=CHAT, target=MESSAGES, limit=1000)
    out = stream.feed(b"data: " + b"x" * 2000)
    out += stream.feed(b"x") + stream.close()
    assert b"event: error" in out
    assert stream.failure is not None


def test_a_stop_string_ends_the_stream_and_the_provider_may_be_cancelled() -> None:
    asked = translate_request(
        {"model": "m", "max_tokens": 9, "stop_sequences": ["STOP"], "messages": [{"role": "user", "content": "hi"}]},
        source=MESSAGES,
        target=RESPONSES,
    )
    assert asked.asked is not None
    assert asked.asked.stops == ("STOP",)
    stream = StreamTranslator(source=RESPONSES, target=MESSAGES, request=asked)
    answer: dict[str, object] = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": []}
    where: dict[str, object] = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    item: dict[str, object] = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "in_progress",
        "content": [],
    }
    out = stream.feed(
        sse(
            {"type": "response.created", "response": {**answer, "status": "in_progress"}, "sequence_number": 0},
            {"type": "response.output_item.added", "output_index": 0, "item": item, "sequence_number": 1},
            {"type": "response.output_text.delta", **where, "delta": "one ST", "logprobs": [], "sequence_number": 2},
            {"type": "response.output_text.delta", **where, "delta": "OP two", "logprobs": [], "sequence_number": 3},
        )
    )
    assert stream.finished
    events = datas(out)
    text = "".join(str(_member(event, "delta", "text")) for event in events if event["type"] == "content_block_delta")
    assert text == "one "
    final = next(event for event in events if event["type"] == "message_delta")
    assert _member(final, "delta", "stop_reason") == "stop_sequence"
    assert _member(final, "delta", "stop_sequence") == "STOP"


def _member(event: dict[str, object], *path: str) -> object:
    value: object = event
    for step in path:
        assert isinstance(value, dict)
        value = value[step]
    return value


@pytest.mark.parametrize("target", [MESSAGES, CHAT, RESPONSES])
def test_a_stream_is_collected_for_a_client_that_did_not_ask_for_one(target: str) -> None:
    stream = StreamTranslator(source=MESSAGES, target=target, collect=True)
    assert stream.feed(CLAUDE) == b""
    body = stream.close()
    assert b"one STOP two" in body
    assert json.loads(body)["model"] == "m"
    assert stream.status == 200


def test_a_collected_stream_that_breaks_off_is_an_error_with_its_status() -> None:
    stream = StreamTranslator(source=MESSAGES, target=CHAT, collect=True)
    stream.feed(CLAUDE[:400])
    body = json.loads(stream.close())
    assert stream.status == 502
    assert "unexpectedly" in body["error"]["message"]


def test_pitfall_184_an_error_inside_a_stream_is_the_clients_error() -> None:
    stream = StreamTranslator(source=CHAT, target=MESSAGES)
    out = stream.feed(b'data: {"error":{"message":"overloaded","type":"server_error","code":503}}\n\n') + stream.close()
    assert datas(out)[-1]["type"] == "error"
    assert stream.failure is not None
    assert stream.failure.message == "overloaded"


@pytest.mark.parametrize("size", [1, 9, 10_000])
def test_a_relay_passes_on_what_follows_the_terminal_frame(size: int) -> None:
    done: dict[str, object] = {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}}
    whole = sse(done).replace(b"\n", b"\r\n") + b"data: [DONE]\r\n\r\n"
    stream = StreamTranslator(source=RESPONSES, target=RESPONSES)
    out = b"".join(stream.feed(whole[at : at + size]) for at in range(0, len(whole), size)) + stream.close()
    assert out == whole


def test_a_relay_passes_on_the_providers_own_error_and_its_ending() -> None:
    error = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n'
    stream = StreamTranslator(source=MESSAGES, target=MESSAGES)
    assert stream.feed(error) + stream.feed(b": bye\n\n") + stream.close() == error + b": bye\n\n"
    assert stream.failure is not None


def test_a_heartbeat_has_the_clients_form() -> None:
    beats = {target: StreamTranslator(source=CHAT, target=target).heartbeat for target in (MESSAGES, RESPONSES)}
    assert beats[MESSAGES].startswith(b"event: ping\n")
    assert beats[RESPONSES].startswith(b": ")
    assert StreamTranslator(source=CHAT, target=MESSAGES, collect=True).heartbeat == b""


def test_bytes_may_come_in_any_form_but_text_is_no_stream() -> None:
    stream = StreamTranslator(source=MESSAGES, target=CHAT)
    out = stream.feed(memoryview(CLAUDE[:100])) + stream.feed(bytearray(CLAUDE[100:]))  # type: ignore[arg-type]  # both are taken
    assert out.endswith(b"data: [DONE]\n\n")
    with pytest.raises(WireError, match="expected bytes, found string"):
        StreamTranslator(source=MESSAGES, target=CHAT).feed("data")  # type: ignore[arg-type]  # wrong on purpose


def test_a_long_frame_in_small_reads_costs_in_proportion() -> None:
    frame = b'data: {"id":"' + b"x" * 400_000 + b'"}\n\n'
    spent = []
    for size in (400, 100):
        stream = StreamTranslator(source=CHAT, target=CHAT)
        began = time.process_time()
        out = b"".join(stream.feed(frame[at : at + size]) for at in range(0, len(frame), size))
        spent.append(time.process_time() - began)
        assert out == frame
    # Four times the reads cost about four times as much; sixteen times would be searching everything again.
    assert spent[1] < 12 * spent[0]


@pytest.mark.parametrize("protocol", ["anthropic-messages", "openai-chat", "openai-responses"])
@pytest.mark.parametrize("size", [1, 7, 100, 5000, 10**6])
def test_a_relay_that_skims_passes_every_byte_and_still_knows_the_end(protocol: str, size: int) -> None:
    stops = {"anthropic-messages": "end_turn", "openai-chat": "stop", "openai-responses": "completed"}
    said = stream_of(protocol, Turn(stop=stops[protocol], text="Hello there, " * 50))
    translator = StreamTranslator(source=protocol, target=protocol)
    out = b"".join(translator.feed(said[at : at + size]) for at in range(0, len(said), size)) + translator.close()
    assert out == said
    assert translator.finished
    assert translator.failure is None
    assert translator.usage is not None
    assert (translator.usage.input, translator.usage.output) == (11, 7)


@pytest.mark.parametrize("protocol", ["anthropic-messages", "openai-chat"])
def test_a_relay_that_skims_tells_a_cut(protocol: str) -> None:
    said = stream_of(protocol, Turn(stop="end_turn", text="Hello there, " * 50))
    cut = said[: len(said) // 2]
    translator = StreamTranslator(source=protocol, target=protocol)
    out = translator.feed(cut) + translator.close()
    whole = cut[: cut.rfind(b"\n\n") + 2]
    assert out.startswith(whole)
    assert b"error" in out[len(whole) :]
    assert translator.failure is not None


@pytest.mark.parametrize("protocol", ["anthropic-messages", "openai-chat"])
def test_a_relay_that_skims_hears_an_error_among_deltas(protocol: str) -> None:
    errors = {
        "anthropic-messages": b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"no"}}\n\n',
        "openai-chat": b'data: {"error":{"message":"no","type":"server_error"}}\n\n',
    }
    said = stream_of(protocol, Turn(stop="end_turn", text="Hello there, " * 50))
    middle = said.find(b"\n\n", len(said) // 2) + 2
    translator = StreamTranslator(source=protocol, target=protocol)
    out = translator.feed(said[:middle] + errors[protocol] + said[middle:])
    assert translator.failure is not None
    assert out == said[:middle] + errors[protocol] + said[middle:]


@pytest.mark.parametrize("protocol", [MESSAGES, CHAT, RESPONSES])
@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize(
    "stream",
    [b": keep-alive\n\n\n", b"\n", b"\n\n\n", b": one\n\n\n\n: two\n\n\n", b": one\r\n\r\n\r\n: two\n\r\n", b"\r\r\r"],
)
def test_three_newlines_are_passed_on_as_three_newlines(protocol: str, size: int, stream: bytes) -> None:
    translator = StreamTranslator(source=protocol, target=protocol)
    assert b"".join(translator.feed(stream[at : at + size]) for at in range(0, len(stream), size)) == stream


@pytest.mark.parametrize("target", [codec.name for codec in PROTOCOLS])
@pytest.mark.parametrize("source", [codec.name for codec in PROTOCOLS])
def test_an_error_of_megabytes_is_told_by_its_beginning(source: str, target: str) -> None:
    words = "no room for this " * 200_000
    error: dict[str, object] = {"type": "error", "error": {"type": "overloaded_error", "message": words}}
    if source == "openai-responses":
        error = {"type": "error", "code": "server_error", "message": words, "param": None, "sequence_number": 0}
    translator = StreamTranslator(source=source, target=target)
    told = translator.feed(sse(error, named=source != "openai-chat")) + translator.close()
    assert translator.failure is not None
    assert b"no room for this" in told
    assert len(told) < 64 * 1024


@pytest.mark.parametrize("collect", [False, True])
@pytest.mark.parametrize("target", [codec.name for codec in PROTOCOLS])
@pytest.mark.parametrize("source", [codec.name for codec in PROTOCOLS])
@pytest.mark.parametrize("silence", [b":\n\n", b"a\n\n", b"event: ping\n\n", b":\r\n\r\n"])
def test_a_flood_of_comments_costs_next_to_nothing(silence: bytes, source: str, target: str, collect: bool) -> None:
    flood = silence * (256 * 1024 // len(silence))
    said = stream_of(source, Turn(stop="end_turn", text="Hello there, " * 50))
    for before in (b"", said[: said.find(b"\n\n", len(said) // 2) + 2]):
        translator = StreamTranslator(source=source, target=target, collect=collect)
        translator.feed(before)
        began = time.thread_time()
        out = translator.feed(flood)
        # A fifth of a second before, when every one of them was read.
        assert time.thread_time() - began < 0.05
        assert out == (flood if source == target and not collect else b"")


STOPS: dict[str, list[str]] = {
    MESSAGES: ["end_turn", "max_tokens", "tool_use", "refusal", "model_context_window_exceeded", "pause_turn", "odd"],
    CHAT: ["stop", "length", "tool_calls", "content_filter", "odd"],
    RESPONSES: ["completed", "incomplete"],
}


def whole_answer(protocol: str, stop: str) -> dict[str, object]:
    if protocol == MESSAGES:
        content: list[dict[str, object]] = [{"type": "text", "text": "Hello."}]
        if stop == "tool_use":
            content.append({"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"a": 1}})
        usage: dict[str, object] = {"input_tokens": 3, "output_tokens": 1}
        body: dict[str, object] = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "usage": usage}
        return {**body, "content": content, "stop_reason": stop, "stop_sequence": None}
    if protocol == CHAT:
        message: dict[str, object] = {"role": "assistant", "content": "Hello."}
        if stop == "tool_calls":
            call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
            message["tool_calls"] = [call]
        choice = {"index": 0, "message": message, "finish_reason": stop}
        return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    text = {"type": "output_text", "text": "Hello.", "annotations": []}
    item = {"type": "message", "id": "m_1", "role": "assistant", "status": stop, "content": [text]}
    answer = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": [item], "status": stop}
    return {**answer, "incomplete_details": {"reason": "max_output_tokens"} if stop == "incomplete" else None}


QUESTIONS: dict[str, dict[str, object]] = {
    MESSAGES: {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], "stream": True},
    CHAT: {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True},
    RESPONSES: {"model": "m", "input": "Hi", "stream": True},
}


@pytest.mark.parametrize("client", [MESSAGES, CHAT, RESPONSES])
@pytest.mark.parametrize(("provider", "stop"), [(name, stop) for name, stops in STOPS.items() for stop in stops])
def test_item_18_a_whole_answer_is_told_as_the_stream_that_was_asked_for(provider: str, stop: str, client: str) -> None:
    if provider == client:
        return
    request = translate_request(json.dumps(QUESTIONS[client]), source=client, target=provider)
    body = json.dumps(whole_answer(provider, stop), indent=1).encode()
    mint = Mint(token=lambda length: "A" * length, now=lambda: 1)
    told = translate_response(body, source=provider, target=client, request=request, stream=True, mint=mint)
    for size in (len(body), 1):
        translator = StreamTranslator(source=provider, target=client, request=request, mint=mint)
        frames = b"".join(translator.feed(body[at : at + size]) for at in range(0, len(body), size))
        assert frames == b""
        assert translator.call_ended() + translator.close() == told.body
    assert b"Hello." in told.body


@pytest.mark.parametrize("client", [MESSAGES, CHAT, RESPONSES])
def test_item_18_an_error_in_place_of_a_stream_is_one(client: str) -> None:
    translator = StreamTranslator(source=MESSAGES, target=client, collect=client == MESSAGES)
    body = b'{"type":"error","error":{"type":"overloaded_error","message":"too busy"}}'
    assert b"too busy" in translator.feed(body) + translator.close()
    assert translator.failure is not None and translator.failure.message == "too busy"


def call_fragments(*calls: JsonObject) -> bytes:
    chunks = [{"id": "c", "choices": [{"index": 0, "delta": {"tool_calls": [call]}}]} for call in calls]
    said = b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks)
    return (
        said + b'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\ndata: [DONE]\n\n'
    )


def opened(index: int, call_id: str, arguments: str, name: str = "f") -> JsonObject:
    return {"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}


def events_of(*events: JsonObject) -> bytes:
    return b"".join(b"event: %b\ndata:%b\n\n" % (str(one["type"]).encode(), json.dumps(one).encode()) for one in events)


def input_delta(index: int, text: str) -> JsonObject:
    return {"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": text}}


def tool_start(index: int, call_id: str) -> JsonObject:
    block: JsonObject = {"type": "tool_use", "id": call_id, "name": "f", "input": {}}
    return {"type": "content_block_start", "index": index, "content_block": block}


MESSAGE_START: JsonObject = {
    "type": "message_start",
    "message": {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {}},
}
MESSAGE_ENDS: tuple[JsonObject, ...] = (
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
)
ITEM: JsonObject = {"type": "function_call", "id": "i", "call_id": "a", "name": "f", "arguments": ""}
# Whose arguments are put where they belong; the others nobody can put together.
CONTINUED = "a call that begins with the rest of another's"
DOUBTFUL: dict[str, tuple[str, bytes]] = {
    CONTINUED: (CHAT, call_fragments(opened(0, "a", '{"x":'), opened(1, "b", "1}"))),
    "two values for one call": (CHAT, call_fragments(opened(0, "a", '{"x":1}'), opened(0, "a", '{"x":2}'))),
    "arguments of no call": (
        CHAT,
        call_fragments({"index": 0, "function": {"arguments": '{"x":2}'}}, opened(1, "a", "")),
    ),
    "two values for one block": (
        MESSAGES,
        events_of(
            MESSAGE_START, tool_start(0, "a"), input_delta(0, '{"x":1}'), input_delta(0, '{"x":2}'), *MESSAGE_ENDS
        ),
    ),
    "arguments at the index of no block": (
        MESSAGES,
        events_of(MESSAGE_START, tool_start(0, "a"), tool_start(1, "b"), input_delta(7, '{"x":2}'), *MESSAGE_ENDS),
    ),
    "arguments that end differently": (
        RESPONSES,
        events_of(
            {"type": "response.created", "response": {"id": "r", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": ITEM},
            {"type": "response.function_call_arguments.delta", "item_id": "i", "output_index": 0, "delta": '{"x":1}'},
            {"type": "response.output_item.done", "output_index": 0, "item": {**ITEM, "arguments": '{"x":2}'}},
            {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}},
        ),
    ),
}


@pytest.mark.parametrize("cut", [1, 1_000_000], ids=["byte by byte", "at once"])
@pytest.mark.parametrize("case", DOUBTFUL)
def test_item_7_calls_that_nobody_can_put_together_are_relayed_as_they_came(case: str, cut: int) -> None:
    protocol, said = DOUBTFUL[case]
    translator = StreamTranslator(source=protocol, target=protocol)
    out = b"".join(translator.feed(said[at : at + cut]) for at in range(0, len(said), cut))
    assert out + translator.close() == said


@pytest.mark.parametrize("case", [case for case in DOUBTFUL if case != CONTINUED])
def test_item_7_such_calls_are_never_told_to_others(case: str) -> None:
    protocol, said = DOUBTFUL[case]
    translator = StreamTranslator(source=protocol, target=CHAT if protocol != CHAT else MESSAGES)
    told = translator.feed(said) + translator.close()
    assert translator.failure is not None and b'"error"' in told
