"""Rewriting entries of a list in its own bytes."""

from __future__ import annotations

import json

import pytest

from dragoman.model.jsonvalue import JsonValue
from dragoman.model.losses import Ledger
from dragoman.protocols.anthropic_messages import relay as messages_relay
from dragoman.protocols.openai_chat import relay as chat_relay
from dragoman.protocols.openai_responses import relay as responses_relay
from dragoman.rules.ids import ANTHROPIC, ANY, CHAT, MISTRAL_LIKE, RESPONSES, IdRule, call_id
from dragoman.rules.repairs import has_envelope, is_ours, rename_ids, rewritten
from tests.protocols.glancing import needs_repair
from tests.sdk import names

BODY = b'{ "n": 1.0, "list": [ "one" , "two", "three" ], "list": ["two"] }'


def _says_two(body: bytes, start: int, end: int) -> bool:
    return body.find(b"two", start, end) >= 0


@pytest.mark.parametrize(
    ("instead", "expected"),
    [
        ([], b'{ "n": 1.0, "list": [ "one" , "three" ], "list": [] }'),
        ([b"2"], b'{ "n": 1.0, "list": [ "one" , 2, "three" ], "list": [2] }'),
        ([b"2", b"22"], b'{ "n": 1.0, "list": [ "one" , 2,22, "three" ], "list": [2,22] }'),
        (None, None),
    ],
    ids=["cut out", "replaced by one", "replaced by several", "left alone"],
)
def test_only_suspect_entries_are_rewritten(instead: list[bytes] | None, expected: bytes | None) -> None:
    seen: list[tuple[bytes, int]] = []

    def rewrite(entry: bytes, number: int) -> list[bytes] | None:
        seen.append((entry, number))
        return instead

    assert rewritten(BODY, "list", _says_two, rewrite) == expected
    assert seen == [(b'"two"', 1), (b'"two"', 0)]


def test_a_body_that_needs_nothing_is_not_taken_apart() -> None:
    def rewrite(entry: bytes, number: int) -> list[bytes] | None:
        raise AssertionError("not asked for")

    assert rewritten(b"not even JSON", "list", _says_two, rewrite) is None


def test_an_envelope_is_seen_within_its_bounds() -> None:
    body = b'["rsv1.abc","rsv1z.abc"]'
    assert has_envelope(body, 0, len(body))
    assert has_envelope(body, 12, len(body))
    assert not has_envelope(body, 1, 5)
    assert not has_envelope(b'["a rsv1.abc"]', 0, 14)


@pytest.mark.parametrize(
    ("token", "ours"),
    [("rsv1.abc", True), ("rsv1z.", True), ("rsv2.abc", False), ("", False), (None, False), (["rsv1.abc"], False)],
)
def test_an_envelope_is_ours_by_its_beginning(token: JsonValue, ours: bool) -> None:
    assert is_ours(token) is ours


A, C, R = names.MESSAGES, names.CHAT, names.RESPONSES
LONG = "c" * 65
IDS = {A: messages_relay.CALL_IDS, C: chat_relay.CALL_IDS, R: responses_relay.CALL_IDS}


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
    ledger = Ledger()
    sent = rename_ids(body(protocol, taken, refused), rule, IDS[protocol], ledger)
    expected = body(protocol, taken, call_id(refused, rule))
    if protocol == A:
        # The arguments of a call are the client's own.
        inner = f'"input":{{"id":{json.dumps(refused)}'.encode()
        expected = expected.replace(f'"input":{{"id":"{call_id(refused, rule)}"'.encode(), inner)
    assert sent == expected
    call_ids = "mistral" if rule is MISTRAL_LIKE else "standard"
    assert needs_repair(protocol, body(protocol, taken, refused), call_ids)
    assert not needs_repair(protocol, sent, call_ids)
    assert rename_ids(sent, rule, IDS[protocol], ledger) is sent
    assert not len(ledger)


@pytest.mark.parametrize("protocol", [A, C, R])
@pytest.mark.parametrize("ids", [("toolu_1",), ("a1B2c3D4e", "a1B2c3D4f"), ("",), ()])
def test_item_10_ids_that_are_taken_keep_every_byte(protocol: str, ids: tuple[str, ...]) -> None:
    written = body(protocol, *ids)
    assert rename_ids(written, ANTHROPIC, IDS[protocol], Ledger()) is written


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
        assert rename_ids(written, rule, IDS[protocol], Ledger()) == written


@pytest.mark.parametrize("protocol", [A, C, R])
@pytest.mark.parametrize("said", ["call_0", "functions.add:0"])
def test_item_10_an_id_that_is_said_in_every_turn_is_told_apart(protocol: str, said: str) -> None:
    one = json.loads(body(protocol, said).replace(b"1e400", b"1").replace(said.encode(), b"THE_ID"))
    where = "input" if protocol == R else "messages"
    twice = json.dumps({**one, where: one[where] * 2}).encode().replace(b"THE_ID", said.encode())
    ledger = Ledger()
    sent = rename_ids(twice, ANTHROPIC, IDS[protocol], ledger)
    assert needs_repair(protocol, twice) and not needs_repair(protocol, sent)
    entries = json.loads(sent)[where]
    first, second = entries[: len(one[where])], entries[len(one[where]) :]
    for turn, given in ((first, call_id(said, ANTHROPIC)), (second, call_id(f"{said}_2", ANTHROPIC))):
        assert _named(turn) == [given, given]
    assert [loss.feature.value for loss in ledger.losses] == ["call_id"]
    assert rename_ids(sent, ANTHROPIC, IDS[protocol], Ledger()) is sent
    assert rename_ids(twice, ANY, IDS[protocol], Ledger()) is twice


def _named(turn: list[dict[str, object]]) -> list[object]:
    """The ids of a turn's calls and results."""
    found: list[object] = []
    for entry in turn:
        content, calls = entry.get("content"), entry.get("tool_calls")
        for part in (content if isinstance(content, list) else [], calls if isinstance(calls, list) else []):
            found += [one.get("tool_use_id") or one.get("id") for one in part]
        found += [entry[name] for name in ("tool_call_id", "call_id") if name in entry]
    return found


def test_a_second_result_of_one_call_is_the_providers_to_judge() -> None:
    written = (
        b'{"messages":[{"role":"assistant","tool_calls":[{"id":"a"}]},{"role":"tool","tool_call_id":"a"},'
        b'{"role":"tool","tool_call_id":"a"}]}'
    )
    assert rename_ids(written, CHAT, IDS[C], Ledger()) == written
