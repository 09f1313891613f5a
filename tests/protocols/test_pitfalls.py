"""Pitfalls that show only from end to end, by their numbers in docs/internals/pitfalls.md."""

from __future__ import annotations

import json

import pytest

from dragoman.rules.capabilities import CapabilityRow
from dragoman.streaming import StreamPipeline
from dragoman.translate import TranslatedRequest, translate_request, translate_response

A, C, R = "anthropic-messages", "openai-chat", "openai-responses"


def told(out: TranslatedRequest) -> dict[str, object]:
    body = json.loads(out.body)
    assert isinstance(body, dict)
    return body


def dig(value: object, *path: str | int) -> object:
    for step in path:
        value = value[step]  # type: ignore[index]  # a wrong shape fails the test as it should
    return value


def chat(*messages: object, **members: object) -> dict[str, object]:
    return told(_chat(*messages, **members))


def _chat(*messages: object, **members: object) -> TranslatedRequest:
    body = json.dumps({"model": "claude-opus-4-5", "messages": list(messages), **members})
    return translate_request(body, source=C, target=A)


USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}


def call(call_id: str, arguments: str = "{}") -> dict[str, object]:
    return {"id": call_id, "type": "function", "function": {"name": "f", "arguments": arguments}}


def called(*calls: dict[str, object]) -> dict[str, object]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def result(call_id: str, text: str = "ok") -> dict[str, object]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def test_pitfall_008_no_turn_is_invented_for_alternation() -> None:
    body = chat(USER, {"role": "user", "content": "again"}, {"role": "assistant", "content": "yes"}, USER)
    roles = [dig(message, "role") for message in _list(body["messages"])]
    assert roles in (["user", "assistant", "user"], ["user", "user", "assistant", "user"])
    assert "Continue." not in json.dumps(body)


def _list(value: object) -> list[object]:
    assert isinstance(value, list)
    return value


def test_pitfall_012_instructions_alone_become_the_user_turn_and_are_reported() -> None:
    out = _chat({"role": "system", "content": "be brief"})
    assert dig(told(out), "messages", 0, "role") == "user"
    assert "be brief" in json.dumps(told(out)["messages"])
    assert out.losses


def test_pitfall_014_blank_text_is_like_empty_text() -> None:
    body = chat(
        USER, {"role": "assistant", "content": " "}, {"role": "user", "content": [{"type": "text", "text": "\n"}]}
    )
    assert '" "' not in json.dumps(body)
    assert dig(body, "messages", -1, "role") == "user"
    assert str(dig(body, "messages", -1)).strip()


def test_pitfall_015_null_content_beside_calls_is_only_the_calls() -> None:
    body = chat(USER, called(call("c1")), result("c1"), tools=[TOOL])
    assert [dig(block, "type") for block in _list(dig(body, "messages", 1, "content"))] == ["tool_use"]


def test_pitfall_023_results_come_before_the_users_text() -> None:
    body = chat(USER, called(call("c1"), call("c2")), result("c2"), USER, result("c1"), tools=[TOOL])
    answer = _list(dig(body, "messages", 2, "content"))
    assert [dig(block, "type") for block in answer] == ["tool_result", "tool_result", "text"]
    assert [dig(block, "tool_use_id") for block in answer[:2]] == ["c1", "c2"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("not json", {"_raw_arguments": "not json"}),
        ("[1]", {"_value": [1]}),
        ('"x"', {"_value": "x"}),
        ("null", {}),
        ("", {}),
        ('{"n":9007199254740993}', {"n": 9007199254740993}),
    ],
)
def test_pitfall_050_051_odd_arguments_keep_the_pair_alive(arguments: str, expected: object) -> None:
    body = chat(USER, called(call("c1", arguments)), result("c1"), tools=[TOOL])
    assert dig(body, "messages", 1, "content", 0, "input") == expected
    assert dig(body, "messages", 2, "content", 0, "tool_use_id") == "c1"


def sse(*events: dict[str, object], named: bool = True) -> bytes:
    return b"".join(
        (f"event: {event['type']}\n" if named else "").encode() + b"data: " + json.dumps(event).encode() + b"\n\n"
        for event in events
    )


START: dict[str, object] = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
}


def messages_stream(*events: dict[str, object], stop: str = "end_turn") -> bytes:
    delta: dict[str, object] = {"stop_reason": stop, "stop_sequence": None}
    return sse(
        START,
        *events,
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    )


def block(start: dict[str, object], *deltas: dict[str, object]) -> list[dict[str, object]]:
    return [
        {"type": "content_block_start", "index": 0, "content_block": start},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
    ]


def streamed(data: bytes, source: str, target: str) -> bytes:
    stream = StreamPipeline(source=source, target=target)
    return stream.feed(data) + stream.close()


@pytest.mark.parametrize(
    ("given", "deltas", "arguments"),
    [
        ({}, ['{"a"', ":1}"], '{"a":1}'),
        ({}, [], "{}"),
        ({"a": 1}, [], '{"a":1}'),
        ({"a": 1}, ['{"a":2}'], '{"a":2}'),
    ],
)
def test_pitfall_047_the_input_of_a_start_is_used_only_if_nothing_follows(
    given: dict[str, object], deltas: list[str], arguments: str
) -> None:
    opening: dict[str, object] = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": given}
    pieces: list[dict[str, object]] = [{"type": "input_json_delta", "partial_json": piece} for piece in deltas]
    out = streamed(messages_stream(*block(opening, *pieces), stop="tool_use"), A, C)
    assert "".join(_arguments(out)) == arguments


def _arguments(stream: bytes) -> list[str]:
    found: list[str] = []
    for line in stream.decode().splitlines():
        if line.startswith("data: {"):
            for choice in json.loads(line[6:])["choices"]:
                found += [part["function"].get("arguments", "") for part in choice["delta"].get("tool_calls", [])]
    return found


CHAT_STREAM = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m",'
    b'"choices":[{"index":0,"delta":{"role":"assistant","content":"h\xc3\xa9llo"},"finish_reason":"stop"}]}\n\n'
    b"data: [DONE]\n\n"
)


def test_pitfall_077_082_a_messages_stream_names_its_events_and_has_no_done() -> None:
    out = streamed(CHAT_STREAM, C, A)
    for frame in out.decode().strip().split("\n\n"):
        event, data = frame.split("\n")
        assert event == f"event: {json.loads(data[6:])['type']}"
    assert b"[DONE]" not in out


def thinking_turn(body: str) -> tuple[str, dict[str, object]]:
    """A Chat client echoes what a Claude provider thought; the next request to that provider."""
    asked = translate_request(
        json.dumps({"model": "claude-opus-4-5", "messages": [USER], "tools": [TOOL], "reasoning_effort": "low"}),
        source=C,
        target=A,
    )
    answer = translate_response(body, source=A, target=C, request=asked)
    message = json.loads(answer.body)["choices"][0]["message"]
    calls = message["tool_calls"]
    again = chat(USER, message, result(calls[0]["id"]), tools=[TOOL], reasoning_effort="low")
    return json.dumps(message), again


THOUGHT: dict[str, object] = {"type": "thinking", "thinking": "  Höm \n", "signature": "EosnCkYICxIMMb3L+/="}
HIDDEN: dict[str, object] = {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3p"}


def claude_answer(*blocks: dict[str, object]) -> str:
    use = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
    return json.dumps(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-4-5",
            "content": [*blocks, use],
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
    )


def test_pitfall_103_105_thinking_comes_back_first_unchanged_and_in_order() -> None:
    _, again = thinking_turn(claude_answer(THOUGHT, HIDDEN))
    assert _list(dig(again, "messages", 1, "content"))[:2] == [THOUGHT, HIDDEN]


def test_pitfall_106_thinking_never_carries_a_cache_mark() -> None:
    _, again = thinking_turn(claude_answer(THOUGHT, HIDDEN))
    for one in _list(dig(again, "messages", 1, "content")):
        if dig(one, "type") in ("thinking", "redacted_thinking"):
            assert isinstance(one, dict)
            assert "cache_control" not in one


@pytest.mark.parametrize(("model", "sent"), [("claude-opus-5", None), ("claude-sonnet-4-5", 1)])
def test_pitfall_125_126_sampling_is_dropped_or_clamped_by_model(model: str, sent: int | None) -> None:
    body = json.dumps({"model": model, "messages": [USER], "temperature": 1.7})
    out = translate_request(body, source=C, target=A)
    assert told(out).get("temperature") == sent
    assert any(loss["at"] == "sampling.temperature" for loss in out.losses)


@pytest.mark.parametrize(
    ("stop", "sent"), [("END", ["END"]), (["", " ", "END"], ["END"]), (["", "\n"], None), ("", None)]
)
def test_pitfall_128_blank_stop_strings_are_left_out(stop: object, sent: object) -> None:
    out = _chat(USER, stop=stop)
    assert told(out).get("stop_sequences") == sent


def test_pitfall_130_only_the_user_id_goes_into_metadata() -> None:
    out = _chat(USER, metadata={"team": "red"}, user="ada")
    assert told(out)["metadata"] == {"user_id": "ada"}
    assert any(loss["feature"] == "metadata" for loss in out.losses)


def test_pitfall_150_structured_output_is_never_a_forced_tool() -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object", "properties": {}}}}
    for wanted in ({"type": "json_object"}, schema):
        body = chat(USER, tools=[TOOL], response_format=wanted)
        assert [dig(tool, "name") for tool in _list(body["tools"])] == ["f"]
        assert "tool_choice" not in body


def test_pitfall_151_an_endpoint_without_schemas_gets_an_instruction() -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object", "properties": {}}}}
    body = json.dumps({"model": "claude-opus-4-5", "messages": [USER], "response_format": schema})
    row = CapabilityRow(protocol=A, changes={"output_schema": False})
    out = translate_request(body, source=C, target=A, capability_rows=(row,))
    assert "format" not in json.dumps(told(out).get("output_config", {}))
    assert "single JSON object" in json.dumps(told(out)["system"])
    assert any(loss["feature"] == "output_schema" for loss in out.losses)


PNG = "iVBORw0KGgo="


def image(url: str) -> dict[str, object]:
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}


def test_pitfall_167_a_data_url_with_parameters_is_taken_apart() -> None:
    source = dig(chat(image(f"data:image/png;charset=utf-8;base64,{PNG}")), "messages", 0, "content", 0, "source")
    assert source == {"type": "base64", "media_type": "image/png", "data": PNG}


def test_pitfall_168_an_address_is_passed_on_and_never_fetched() -> None:
    address = "https://example.org/cat.png"
    assert dig(chat(image(address)), "messages", 0, "content", 0, "source") == {"type": "url", "url": address}


def test_pitfall_174_the_clients_own_marks_stay_where_they_are() -> None:
    marked = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
    body = json.dumps({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": [marked]}]})
    assert translate_request(body, source=A, target=A).body == body.encode()


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
def test_pitfall_192_193_196_any_cut_and_any_line_ending_tell_the_same(ending: bytes) -> None:
    whole = streamed(CHAT_STREAM, C, A)
    data = CHAT_STREAM.replace(b"\n", ending)
    stream = StreamPipeline(source=C, target=A)
    out = b"".join(stream.feed(data[at : at + 1]) for at in range(len(data))) + stream.close()
    assert out == whole
    assert "héllo".encode() in out


def test_pitfall_194_the_space_after_data_is_optional() -> None:
    assert streamed(CHAT_STREAM.replace(b"data: ", b"data:"), C, A) == streamed(CHAT_STREAM, C, A)


def test_pitfall_195_comments_are_no_events() -> None:
    noisy = b": OPENROUTER PROCESSING\n\n:\n\n" + CHAT_STREAM.replace(b"data: [", b": still here\n\ndata: [")
    assert streamed(noisy, C, A) == streamed(CHAT_STREAM, C, A)


def test_pitfall_197_the_last_event_needs_no_blank_line_and_events_are_bounded() -> None:
    assert streamed(CHAT_STREAM.rstrip(b"\n"), C, A) == streamed(CHAT_STREAM, C, A)
    stream = StreamPipeline(source=C, target=A, limit=64)
    assert b"event: error" in stream.feed(CHAT_STREAM) + stream.close()


def test_pitfall_198_data_lines_are_joined_and_only_line_ends_end_lines() -> None:
    odd = CHAT_STREAM.replace(b"h\xc3\xa9llo", "a\u2028b\u0085c".encode()).replace(b',"choices"', b',\ndata: "choices"')
    out = streamed(b"\xef\xbb\xbf" + odd, C, A)
    assert "a\u2028b\u0085c".encode() in out
    assert b"event: error" not in out
