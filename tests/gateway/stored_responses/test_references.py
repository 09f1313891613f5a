"""What a Responses request refers to, as far as its own bytes tell."""

from __future__ import annotations

import json

import pytest

from dragoman.gateway.stored_responses.references import (
    completed_by,
    items_of,
    named_in,
    references_in,
    referred_in,
    relied_on,
)
from dragoman.wire.duplicate_keys import OBJECT


def test_a_request_is_taken_apart_without_a_store() -> None:
    body = {
        "model": "m",
        "previous_response_id": "resp_1",
        "background": True,
        "input": [
            {"role": "user", "content": "x"},
            {"type": "item_reference", "id": "msg_1"},
            {"id": "msg_2"},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "reasoning", "id": "rs_2", "encrypted_content": "sealed"},
        ],
    }
    said = references_in(OBJECT.decode(json.dumps(body)))
    assert said.inputs is not None
    assert (said.previous, said.conversation, said.is_stored, said.background) == ("resp_1", None, True, True)
    assert (len(said.inputs), said.silent) == (5, False)
    assert said.referred == {1: "msg_1", 2: "msg_2"}
    assert said.looked_up == ("rs_1",)


@pytest.mark.parametrize("written", ['"conv_1"', '{"id":"conv_1"}'])
def test_what_is_not_to_be_kept_and_where_it_is_said(written: str) -> None:
    said = references_in(OBJECT.decode(f'{{"store":false,"conversation":{written}}}'))
    assert (said.conversation, said.is_stored, said.inputs, said.silent) == ("conv_1", False, None, True)


def test_text_alone_is_one_item() -> None:
    said = references_in(OBJECT.decode(b'{"input":"Hello."}'))
    assert said.inputs == [b'{"type":"message","role":"user","content":"Hello."}']
    assert (said.referred, said.looked_up) == ({}, ())


def test_what_cannot_be_read_is_told_by_whoever_reads_all_of_it() -> None:
    loose = references_in(OBJECT.decode(b'{"input":{},"previous_response_id":7}'))
    assert (loose.inputs, loose.previous) == (None, None)


def test_only_what_says_nothing_but_its_id_is_a_reference() -> None:
    assert referred_in(b'{"id":"a"}') == referred_in(b'{"type":"item_reference","id":"a"}') == "a"
    assert referred_in(b'{"id":"a","role":"user"}') is None
    assert named_in(b"7").id is None
    assert [item.id for item in items_of([b'{"id":"a"}'])] == ["a"]


@pytest.mark.parametrize(
    "held",
    [
        "",
        ',"encrypted_content":null',
        ',"encrypted_content":""',
        ',"encrypted_content":false',
        ',"encrypted_content":{}',
        ',"content":[]',
        ',"content":[null]',
        ',"content":[[]]',
        ',"content":{}',
        ',"content":0',
    ],
)
def test_what_holds_nothing_of_its_own_is_completed_by_its_id(held: str) -> None:
    item = f'{{"type":"reasoning","id":"rs_1","summary":[]{held}}}'.encode()
    assert completed_by(item) == relied_on(item) == "rs_1"


def test_what_says_everything_itself_relies_on_nobody() -> None:
    for item in (
        b'{"type":"reasoning","id":"rs_1","encrypted_content":"sealed"}',
        b'{"type":"reasoning","id":"rs_1","content":[{"type":"reasoning_text","text":"x"}]}',
        b'{"type":"compaction","id":"cmp_1","encrypted_content":"sealed"}',
        b'{"type":"image_generation_call","id":"ig_1","result":"aGk="}',
        b'{"type":"message","id":"msg_1","role":"user","content":"x"}',
    ):
        assert completed_by(item) is None and relied_on(item) is None
    assert relied_on(b'{"id":"a"}') == relied_on(b'{"type":"compaction","id":"a"}') == "a"
