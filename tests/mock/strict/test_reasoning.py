"""Reasoning comes back with its proof, unchanged, and before what it led to."""

from __future__ import annotations

import json

import pytest

from dragoman.mock.answers.signatures import RESPONSES, encrypted
from dragoman.mock.strict.checks import record_response
from dragoman.mock.strict.common import Issued
from dragoman.wire.json import decode_object
from tests.mock.judging import Spoil, judged
from tests.sdk.digging import Object, dig_object, dig_objects

REASONING: Object = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "Hm."}],
    "encrypted_content": encrypted("1\nHm."),
}
CALL: Object = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"}


def issued() -> Issued:
    known = Issued()
    record_response(RESPONSES, decode_object(json.dumps({"output": [REASONING, CALL, {**CALL, "id": "fc_9"}]})), known)
    return known


def good() -> Object:
    result = {"type": "function_call_output", "call_id": "call_1", "output": "1"}
    items = [{"role": "user", "content": "Go."}, REASONING, CALL, result]
    body: Object = json.loads(json.dumps({"model": "gpt-5", "store": False, "input": items}))
    return body


def _item(body: Object, at: int) -> Object:
    return dig_object(body, "input", at)


def test_what_was_said_is_taken_back_with_and_without_memory() -> None:
    assert judged(RESPONSES, good(), issued()) == []
    assert judged(RESPONSES, good()) == []


def test_ids_may_be_left_out_or_be_those_of_another_store() -> None:
    body = good()
    _item(body, 2)["id"] = "fc_of_a_store"
    assert judged(RESPONSES, body, issued()) == []
    for at in (1, 2):
        del _item(body, at)["id"]
    assert judged(RESPONSES, body, issued()) == []


SPOILED: list[tuple[str, Spoil]] = [
    ("not persisted", lambda body: _item(body, 1).pop("encrypted_content")),
    ("invalid_encrypted_content", lambda body: _item(body, 1).update(encrypted_content="gAAAAABx")),
    ("belongs to another item", lambda body: _item(body, 1).update(encrypted_content=encrypted("2\nHm."))),
    ("not found", lambda body: _item(body, 1).update(id="rs_2", encrypted_content="x")),
    ("summary", lambda body: _item(body, 1).update(summary=[])),
    ("required following item", lambda body: dig_objects(body, "input").insert(2, {"role": "user", "content": "x"})),
    ("required following item", lambda body: dig_objects(body, "input").append(dig_objects(body, "input").pop(1))),
    ("required following item", lambda body: _item(body, 2).update(id="fc_9")),
    ("required following item", lambda body: _item(body, 2).update(type="custom_tool_call", id=None, input="x")),
    ("required 'reasoning' item", lambda body: dig_objects(body, "input").pop(1)),
]


@pytest.mark.parametrize(("words", "how"), SPOILED, ids=[f"{at} {words}" for at, (words, _) in enumerate(SPOILED)])
def test_what_came_back_otherwise_is_named(words: str, how: Spoil) -> None:
    body = good()
    how(body)
    found = judged(RESPONSES, body, issued())
    assert any(words in reason for reason in found), found
