"""The Responses service takes what agents send, and each of its rules refuses what breaks it."""

from __future__ import annotations

import pytest

from dragoman.mock.answers.signatures import RESPONSES, encrypted
from tests.mock.calling import CITY
from tests.mock.judging import Spoil, good, judged, spoiled
from tests.sdk.digging import Object, dig_object, dig_objects


def _items(body: Object) -> list[Object]:
    return dig_objects(body, "input")


def _tool(body: Object, at: int) -> Object:
    return dig_object(body, "tools", at)


def test_what_an_agent_sends_is_taken() -> None:
    assert judged(RESPONSES, good(RESPONSES)) == []
    assert judged(RESPONSES, {"model": "gpt-5", "input": "Hello."}) == []


SPOILED: list[tuple[str, Spoil]] = [
    ("Unknown parameter: 'messages'", lambda body: body.update(messages=[])),
    ("provide a model", lambda body: body.pop("model")),
    ("below the minimum", lambda body: body.update(max_output_tokens=15)),
    ("input: missing", lambda body: body.update(input=[])),
    ("store: not a boolean", lambda body: body.update(store="no")),
    ("include: 'everything'", lambda body: body.update(include=["everything"])),
    ("background: requires store", lambda body: body.update(background=True)),
    ("Mutually exclusive", lambda body: body.update(previous_response_id="a", conversation="b")),
    ("'temperature' is not supported", lambda body: body.update(temperature=1)),
    ("Invalid value: 'tool_result'", lambda body: _items(body)[0].update(type="tool_result")),
    ("Missing required parameter: 'input[2].name'", lambda body: _items(body)[2].pop("name")),
    ("role: 'tool'", lambda body: _items(body)[0].update(role="tool")),
    ("is not supported for user", lambda body: dig_object(body, "input", 1, "content", 0).update(type="output_text")),
    ("is not supported for assistant", lambda body: _items(body)[1].update(role="assistant")),
    ("too long", lambda body: _items(body)[2].update(id="fc_" + "1" * 62)),
    ("is no id of", lambda body: _items(body)[2].update(id="call_1")),
    ("invalid_encrypted_content", lambda body: _items(body).append({"type": "compaction", "encrypted_content": "x"})),
    ("has to be the last item", lambda body: _items(body).insert(0, {"type": "compaction_trigger"})),
    ("require tools.tool_search", lambda body: _tool(body, 0).update(defer_loading=True)),
    ("No tool call found", lambda body: _items(body).pop(3)),
    ("No tool output found for function call call_2", lambda body: _items(body).pop()),
    ("call id 'call_1' is not unique", lambda body: _items(body)[5].update(call_id="call_1")),
    ("arguments: empty", lambda body: _items(body)[2].update(arguments="")),
    ("Duplicate item", lambda body: [_items(body)[at].update(type="message", id="msg_1") for at in (0, 1)]),
    ("tools[0].type", lambda body: _tool(body, 0).update(type="bash")),
    ("root has to be an object", lambda body: _tool(body, 0).update(parameters={})),
    ("no name of a tool", lambda body: dig_object(body, "tools", 2, "tools", 0).update(name="a b")),
    ("neither text nor a grammar", lambda body: _tool(body, 1).update(format={"type": "grammar", "syntax": "ebnf"})),
    ("additionalProperties", lambda body: _tool(body, 0).update(strict=True)),
    ("additionalProperties", lambda body: dig_object(body, "text", "format").update(schema=CITY)),
    ("text.format.name", lambda body: dig_object(body, "text", "format").pop("name")),
    ("'text.style'", lambda body: dig_object(body, "text").update(style="x")),
]


@pytest.mark.parametrize(("words", "how"), SPOILED, ids=[words for words, _ in SPOILED])
def test_a_broken_rule_is_named(words: str, how: Spoil) -> None:
    found = spoiled(RESPONSES, how)
    assert any(words in reason for reason in found), found


def test_a_compaction_of_our_own_is_taken() -> None:
    body = good(RESPONSES)
    _items(body).append({"type": "compaction", "encrypted_content": encrypted("x")})
    assert judged(RESPONSES, body) == []


def test_sampling_is_taken_by_models_that_are_not_told_to_think() -> None:
    body: Object = {"input": "Hello.", "temperature": 0.5}
    assert judged(RESPONSES, {**body, "model": "gpt-4.1"}) == []
    assert judged(RESPONSES, {**body, "model": "gpt-5.1", "reasoning": {"effort": "none"}}) == []
    assert judged(RESPONSES, {**body, "model": "o3"}) != []
