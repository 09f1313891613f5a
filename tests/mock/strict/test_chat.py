"""A Chat service takes what agents send, and each of its rules refuses what breaks it."""

from __future__ import annotations

import pytest

from dragoman.mock.answers.signatures import CHAT
from dragoman.mock.strict.common import Issued
from tests.mock.calling import CITY
from tests.mock.judging import Spoil, good, judged, spoiled
from tests.sdk.digging import Object, dig_object, dig_objects


def _messages(body: Object) -> list[Object]:
    return dig_objects(body, "messages")


def _call(body: Object) -> Object:
    return dig_object(body, "messages", 2, "tool_calls", 0)


def test_what_an_agent_sends_is_taken() -> None:
    assert judged(CHAT, good(CHAT)) == []


SPOILED: list[tuple[str, Spoil]] = [
    ("Unrecognized request argument supplied: top_k", lambda body: body.update(top_k=1)),
    ("provide a model", lambda body: body.pop("model")),
    ("when stream is enabled", lambda body: body.pop("stream")),
    ("at most 4 sequences", lambda body: body.update(model="gpt-4.1", stop=["a"] * 5)),
    ("top_logprobs", lambda body: body.update(top_logprobs=1)),
    ("'max_tokens' is not supported", lambda body: body.update(max_tokens=1)),
    ("'stop' is not supported", lambda body: body.update(stop="a")),
    ("'temperature' does not support", lambda body: body.update(temperature=0.5)),
    ("too short", lambda body: body.update(messages=[])),
    ("role: 'model'", lambda body: _messages(body)[0].update(role="model")),
    ("unknown member", lambda body: _messages(body)[2].update(reasoning_details=[])),
    ("got null", lambda body: _messages(body)[1].update(content=None)),
    ("tool_calls: empty array", lambda body: _messages(body)[2].update(content="x", tool_calls=[])),
    ("is not supported for developer", lambda body: _messages(body)[0].update(content=[{"type": "image_url"}])),
    ("must be a response", lambda body: _messages(body)[3].update(tool_call_id="call_2")),
    ("without response", lambda body: _messages(body).pop()),
    ("without response", lambda body: _messages(body).insert(3, {"role": "user", "content": "x"})),
    ("too long", lambda body: _call(body).update(id="c" * 41)),
    ("type None", lambda body: _call(body).pop("type")),
    ("is not unique", lambda body: dig_objects(body, "messages", 2, "tool_calls").append(_call(body))),
    ("tools: empty", lambda body: body.update(tools=[])),
    ("too many", lambda body: body.update(tools=dig_objects(body, "tools") * 65)),
    ("tools[0].type", lambda body: dig_object(body, "tools", 0).update(type="web_search")),
    ("no name of a tool", lambda body: dig_object(body, "tools", 0, "function").update(name="a.b")),
    ("no name of a tool", lambda body: dig_object(body, "tools", 1, "custom").update(name="a.b")),
    ("when tools are specified", lambda body: body.pop("tools")),
    ("additionalProperties", lambda body: dig_object(body, "response_format", "json_schema").update(schema=CITY)),
]


@pytest.mark.parametrize(("words", "how"), SPOILED, ids=[words for words, _ in SPOILED])
def test_a_broken_rule_is_named(words: str, how: Spoil) -> None:
    found = spoiled(CHAT, how)
    assert any(words in reason for reason in found), found


def test_a_model_that_does_not_think_takes_sampling() -> None:
    body: Object = {"messages": [{"role": "user", "content": "Go."}], "temperature": 0, "stop": "x"}
    assert judged(CHAT, {**body, "model": "gpt-4.1", "max_tokens": 1}) == []
    del body["stop"]
    assert judged(CHAT, {**body, "model": "gpt-5.1"}) == []
    assert judged(CHAT, {**body, "model": "gpt-5"}) != []


def test_a_compatible_server_knows_the_core_alone() -> None:
    body: Object = {"model": "llama-4", "max_tokens": 9, "messages": [{"role": "user", "content": "Go."}]}
    assert judged(CHAT, body) == []
    for more in ({"store": False}, {"max_completion_tokens": 1}, {"verbosity": "low"}):
        assert judged(CHAT, {**body, **more})
    assert judged(CHAT, {**body, "messages": [{"role": "developer", "content": "x"}]})


def test_reasoning_comes_back_as_it_was_said_or_not_at_all() -> None:
    issued = Issued()
    issued.record_completion({"choices": [{"message": {"reasoning_content": "Hm."}}]})
    body = good(CHAT)
    for told, taken in (("Hm.", True), ("", True), ("Hm!", False), (3, False)):
        _messages(body)[2]["reasoning_content"] = told
        assert (judged(CHAT, body, issued) == []) is taken


def test_what_the_sdk_leaves_in_a_message_is_taken() -> None:
    body = good(CHAT)
    _messages(body)[2].update(annotations=[], parsed=None, audio=None, function_call=None, refusal=None)
    assert judged(CHAT, body) == []
