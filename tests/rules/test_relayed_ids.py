"""Ids of calls that another provider said: changed where this one refuses them, and every other byte stays."""

from __future__ import annotations

import json

import pytest

from dragoman.protocols.registry import codec_of
from dragoman.rules.ids import ANTHROPIC, ANY, CHAT, MISTRAL_LIKE, RESPONSES, IdRule, call_id
from tests.sdk import oracles

A, C, R = oracles.MESSAGES, oracles.CHAT, oracles.RESPONSES
LONG = "c" * 65


def body(protocol: str, *ids: str) -> bytes:
    """A turn of calls with these ids, and their results in the other order, in unusual spelling."""
    said = [json.dumps(one) for one in ids]
    if protocol == A:
        calls = ", ".join(
            f'{{"type":"tool_use","id" : {one},"name":"f","input":{{"id":{one},"n":1.0}}}}' for one in said
        )
        results = ",".join(
            f'{{"tool_use_id": {one} ,"type":"tool_result","content":"\\"tool_use_id\\":\\"a b\\""}}'
            for one in reversed(said)
        )
        return (
            f'{{ "messages":[{{"role":"user","content":"x"}}, {{"role":"assistant","content":[{calls}]}} ,'
            f'{{"role":"user","content":[{results}]}}],"x":1e400}}'
        ).encode()
    if protocol == C:
        calls = ", ".join(
            f'{{"id" : {one},"type":"function","function":{{"name":"f","arguments":"{{}}"}}}}' for one in said
        )
        results = ",".join(f'{{"role":"tool","tool_call_id": {one} ,"content":"x"}}' for one in reversed(said))
        return f'{{ "messages":[{{"role":"assistant","tool_calls":[{calls}]}} ,{results}],"x":1e400}}'.encode()
    calls = ", ".join(
        f'{{"type":"function_call","id":"fc_1","call_id" : {one},"name":"f","arguments":"{{}}"}}' for one in said
    )
    results = ",".join(f'{{"type":"function_call_output","call_id": {one} ,"output":"x"}}' for one in reversed(said))
    return f'{{ "input":[{calls} ,{results}],"x":1e400}}'.encode()


@pytest.mark.parametrize(
    ("protocol", "rule", "refused", "taken"),
    [
        (A, ANTHROPIC, "functions.add:0", "toolu_1"),
        (A, ANTHROPIC, LONG, "call_1"),
        (A, ANTHROPIC, "Zahl\u00e9", "call-5d-0"),
        (C, CHAT, LONG, "functions.add:0"),
        (C, MISTRAL_LIKE, "call_1", "a1B2c3D4e"),
        (R, RESPONSES, LONG, "functions.add:0"),
    ],
)
def test_item_10_ids_that_are_refused_are_changed_on_the_relay(
    protocol: str, rule: IdRule, refused: str, taken: str
) -> None:
    rename = codec_of(protocol).rename_calls
    sent = rename(body(protocol, taken, refused), rule)
    expected = body(protocol, taken, call_id(refused, rule))
    if protocol == A:
        # The arguments of a call are the client's own.
        inner = f'"input":{{"id":{json.dumps(refused)}'.encode()
        expected = expected.replace(f'"input":{{"id":"{call_id(refused, rule)}"'.encode(), inner)
    assert sent == expected
    assert rename(sent, rule) is sent


@pytest.mark.parametrize("protocol", [A, C, R])
@pytest.mark.parametrize("ids", [("toolu_1",), ("a1B2c3D4e", "a1B2c3D4f"), ("",), ()])
def test_item_10_ids_that_are_taken_keep_every_byte(protocol: str, ids: tuple[str, ...]) -> None:
    written = body(protocol, *ids)
    assert codec_of(protocol).rename_calls(written, ANTHROPIC) is written


@pytest.mark.parametrize("protocol", [A, C, R])
@pytest.mark.parametrize(
    "written",
    [
        b"{}",
        b'{"messages":"tool_use_id","input":null}',
        b'{"messages":[1,["x"]],"input":[1,["x"]],"x":{"tool_use_id":"a b","tool_call_id":"a b","call_id":"a b"}}',
        b'{"x":{"tool_use_id":"\\ud800","tool_call_id":"\\ud800","call_id":"\\ud800"},"input":[],"messages":[]}',
    ],
)
def test_what_is_no_call_is_let_be(protocol: str, written: bytes) -> None:
    for rule in (ANTHROPIC, MISTRAL_LIKE, ANY):
        assert codec_of(protocol).rename_calls(written, rule) == written
