"""The client's side of a stream: ends, and answers that are told whole."""

from __future__ import annotations

import json

import pytest

from dragoman.streaming import StreamPipeline
from tests.streaming.support import CHAT, CLAUDE, CONTINUED, DOUBTFUL, MESSAGES, RESPONSES, chat_chunks, sse


def test_a_collected_chat_answer_has_all_of_its_text() -> None:
    chunks = chat_chunks({"content": "one "}, {"reasoning_content": "hm"}, {"content": "two"})
    stream = StreamPipeline(source=CHAT, target=CHAT, collect=True)
    stream.feed(sse(*chunks, named=False) + b"data: [DONE]\n\n")
    assert json.loads(stream.close())["choices"][0]["message"]["content"] == "one two"


@pytest.mark.parametrize("target", [CHAT, RESPONSES])
def test_nothing_follows_the_terminator(target: str) -> None:
    stream = StreamPipeline(source=MESSAGES, target=target)
    out = stream.feed(CLAUDE)
    assert out.endswith(b"data: [DONE]\n\n")
    assert stream.finished
    assert stream.feed(CLAUDE) == b""
    assert stream.close() == b""
    assert stream.close() == b""


@pytest.mark.parametrize("target", [MESSAGES, CHAT, RESPONSES])
def test_a_stream_is_collected_for_a_client_that_did_not_ask_for_one(target: str) -> None:
    stream = StreamPipeline(source=MESSAGES, target=target, collect=True)
    assert stream.feed(CLAUDE) == b""
    body = stream.close()
    assert b"one STOP two" in body
    assert json.loads(body)["model"] == "m"
    assert stream.status == 200


def test_a_collected_stream_that_breaks_off_is_an_error_with_its_status() -> None:
    stream = StreamPipeline(source=MESSAGES, target=CHAT, collect=True)
    stream.feed(CLAUDE[:400])
    body = json.loads(stream.close())
    assert stream.status == 502
    assert "unexpectedly" in body["error"]["message"]


@pytest.mark.parametrize("case", [case for case in DOUBTFUL if case != CONTINUED])
def test_item_7_such_calls_are_never_told_to_others(case: str) -> None:
    protocol, said = DOUBTFUL[case]
    translator = StreamPipeline(source=protocol, target=CHAT if protocol != CHAT else MESSAGES)
    told = translator.feed(said) + translator.close()
    assert translator.failure is not None and b'"error"' in told
