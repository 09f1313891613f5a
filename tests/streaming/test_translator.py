"""The translator of one answer, from the first byte to the last."""

from __future__ import annotations

import pytest

from dragoman.errors import WireError
from dragoman.streaming import StreamPipeline
from dragoman.translate import translate_request
from tests.streaming.support import CHAT, CLAUDE, MESSAGES, RESPONSES, datas, member, sse


def test_a_stop_string_ends_the_stream_and_the_provider_may_be_cancelled() -> None:
    asked = translate_request(
        {"model": "m", "max_tokens": 9, "stop_sequences": ["STOP"], "messages": [{"role": "user", "content": "hi"}]},
        source=MESSAGES,
        target=RESPONSES,
    )
    assert asked.context is not None
    assert asked.context.stops == ("STOP",)
    stream = StreamPipeline(source=RESPONSES, target=MESSAGES, request=asked)
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
    text = "".join(str(member(event, "delta", "text")) for event in events if event["type"] == "content_block_delta")
    assert text == "one "
    final = next(event for event in events if event["type"] == "message_delta")
    assert member(final, "delta", "stop_reason") == "stop_sequence"
    assert member(final, "delta", "stop_sequence") == "STOP"


def test_a_heartbeat_has_the_clients_form() -> None:
    beats = {target: StreamPipeline(source=CHAT, target=target).heartbeat for target in (MESSAGES, RESPONSES)}
    assert beats[MESSAGES].startswith(b"event: ping\n")
    assert beats[RESPONSES].startswith(b": ")
    assert StreamPipeline(source=CHAT, target=MESSAGES, collect=True).heartbeat == b""


def test_bytes_may_come_in_any_form_but_text_is_no_stream() -> None:
    stream = StreamPipeline(source=MESSAGES, target=CHAT)
    out = stream.feed(memoryview(CLAUDE[:100])) + stream.feed(bytearray(CLAUDE[100:]))  # type: ignore[arg-type]  # both are taken
    assert out.endswith(b"data: [DONE]\n\n")
    with pytest.raises(WireError, match="expected bytes, found text"):
        StreamPipeline(source=MESSAGES, target=CHAT).feed("data")  # type: ignore[arg-type]  # wrong on purpose
