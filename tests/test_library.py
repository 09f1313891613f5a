"""The library as its users see it: names, members and what `docs/library.md` says of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import MappingProxyType
from typing import get_args

import pytest

import dragoman
from dragoman import (
    ProtocolName,
    StreamTranslator,
    WireError,
    translate_failure,
    translate_headers,
    translate_request,
    translate_response,
)
from dragoman.protocols.registry import PROTOCOL_NAMES

PAGE = (Path(__file__).parents[1] / "docs/library.md").read_text()
ANSWER = (
    b'data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":'
    b'{"role":"assistant","content":"A cat."},"finish_reason":null}]}\n\n'
    b'data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},'
    b'"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}\n\n'
    b"data: [DONE]\n\n"
)


def test_protocol_names_are_those_of_the_registry() -> None:
    assert get_args(ProtocolName) == PROTOCOL_NAMES


def test_a_stream_translator_has_the_members_that_the_page_lists_and_no_others() -> None:
    members = {name for name in dir(StreamTranslator) if not name.startswith("_")}
    listed = re.search(r"\| Member of `StreamTranslator` \| Meaning \|\n.*?\n\n", PAGE, re.DOTALL)
    assert listed is not None
    assert members == set(re.findall(r"^\| `(\w+)", listed[0], re.MULTILINE))


def test_every_public_name_is_on_the_page() -> None:
    assert [name for name in dragoman.__all__ if f"`{name}`" not in PAGE] == []


@pytest.mark.parametrize("collect", [False, True])
def test_a_stream_is_translated(collect: bool) -> None:
    question = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "What is it?"}]}
    out = translate_request(question, source="anthropic-messages", target="openai-chat")
    stream = StreamTranslator(source=out.target, target=out.source, request=out, collect=collect)
    assert stream.heartbeat == (b"" if collect else b'event: ping\ndata: {"type":"ping"}\n\n')
    told = b"".join([stream.feed(ANSWER[:40]), stream.feed(ANSWER[40:])])
    assert (told == b"") is collect
    assert stream.finished
    told += stream.close()
    assert stream.close() == b""
    assert b"A cat." in told
    assert stream.usage is not None
    assert (stream.usage.input, stream.usage.output, stream.status) == (5, 2, 200)
    assert (stream.failure, stream.resume, stream.losses) == (None, None, ())


def test_a_stream_that_breaks_off_fails_in_the_clients_form() -> None:
    stream = StreamTranslator(source="openai-chat", target="anthropic-messages", limit=1000)
    stream.feed(ANSWER[:40])
    assert b"event: error" in stream.close()
    assert stream.failure is not None


def test_any_mapping_is_a_body() -> None:
    body = MappingProxyType({"model": "m", "messages": [{"role": "user", "content": "hi"}]})
    out = translate_request(body, target="openai-responses")
    assert json.loads(out.body)["model"] == "m"
    with pytest.raises(WireError, match="a JSON value"):
        translate_request(MappingProxyType({"model": {1, 2}}), source="openai-chat", target="openai-responses")
    with pytest.raises(WireError, match="bytes, text or an object"):
        translate_request([body], source="openai-chat", target="openai-chat")  # type: ignore[arg-type]  # a list
    answer = MappingProxyType({"error": {"message": "busy", "type": "server_error"}})
    back = translate_response(answer, source="openai-chat", target="anthropic-messages", status=500)
    assert back.failure is not None
    assert back.failure.message == "busy"


def test_errors_and_headers_are_written_for_a_client() -> None:
    refused = translate_failure(WireError("/model", "string", "nothing"), target="openai-chat", request_id="req_1")
    assert refused.status == 400
    limits = translate_headers({"retry-after": "7"}, source="openai-chat", target="anthropic-messages", now=0)
    assert limits == {"retry-after": "7"}
