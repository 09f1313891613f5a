"""Repairs of a Messages request on the relay: what goes, and that every other byte stays."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import RefusedError
from dragoman.model.losses import Ledger
from dragoman.protocols.anthropic_messages import CODEC, NAME, relay
from dragoman.protocols.anthropic_messages.relay import (
    plain_end,
    resume_request,
    without_reasoning,
)
from dragoman.rules.envelope import Envelope, seal
from dragoman.wire.json import decode
from tests.protocols.glancing import foreseen

repair_request = foreseen(NAME, relay.repair_request)
without_telemetry = foreseen(NAME, relay.without_telemetry)


def envelope(kind: str = "item", origin: str = "r", **data: str) -> bytes:
    return seal(Envelope(origin=origin, model="m", vendor="u", kind=kind, data=dict(data))).encode()


OURS = envelope(type="reasoning")
HEAD = b'{ "model":"m", "x" : 1.0,\n "messages" : [ {"role":"user","content":"hi"} , '
TAIL = b' ,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":""}]}], "x":1e400 }'


def thinking(signature: bytes) -> bytes:
    return b'{"type" : "thinking","thinking":"hm", "signature": "' + signature + b'" }'


def told(ledger: Ledger) -> list[tuple[str, str, str]]:
    return [(loss.fate.value, loss.feature.value, loss.at) for loss in ledger.losses]


@pytest.mark.parametrize(
    "message",
    [
        b'{"role":"assistant","content":[' + thinking(b"EqQBCg") + b',{"type":"text","text":""}]}',
        b'{"role":"assistant","content":"the string \\"rsv1.abc\\" and \\"signature\\":\\"\\""}',
        b'{"role":"assistant","content":[{"type":"text","text":"rsv1.","x":"rsv1."}]}',
        b'{"role":"user","content":[' + thinking(OURS) + b"]}",
        b'{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"signature":""}}]}',
        b'{"role":"assistant","content":[{"type":"thinking","thinking":"hm"}]}',
        b'{"role":"assistant","content":[{"type":"thinking","signature":"","signature":"EqQB"}]}',
        b'{"content":[' + thinking(b"") + b"]}",
        b'"rsv1."',
        b'["rsv1."]',
    ],
    ids=[
        "a signature of the provider",
        "an envelope in a text",
        "an envelope elsewhere",
        "an envelope that is not the assistant's",
        "arguments named alike",
        "no signature at all",
        "the last of two signatures counts",
        "no role",
        "no message",
        "a list for a message",
    ],
)
def test_what_needs_no_repair_keeps_every_byte(message: bytes) -> None:
    ledger = Ledger()
    body = HEAD + message + TAIL
    assert repair_request(body, ledger) == body
    assert not len(ledger)


@pytest.mark.parametrize(
    ("block", "feature"),
    [
        (thinking(OURS), "thinking_signature"),
        (thinking(envelope(kind="thinking", origin="a", type="thinking")), "thinking_signature"),
        (thinking(b"rsv1.not-an-envelope"), "thinking_signature"),
        (thinking(b""), "thinking"),
        (b'{"type":"thinking","thinking":"","signature"\n:\t""}', "thinking"),
        (b'{"typ\\u0065":"redacted_thinking","data":"' + OURS + b'"}', "thinking_signature"),
    ],
    ids=["minted", "minted for a twin", "claims to be minted", "unsigned", "unsigned with spaces", "redacted"],
)
def test_pitfall_104_reasoning_that_cannot_be_opened_is_cut_out(block: bytes, feature: str) -> None:
    rest = b'{"type":"tool_use","id":"t","name":"f","input":{"n":1.0} }'
    ledger = Ledger()
    repaired = repair_request(
        HEAD + b'{ "content": [ ' + block + b" , " + rest + b' ],"role":"assistant"}' + TAIL, ledger
    )
    assert repaired == HEAD + b'{ "content": [ ' + rest + b' ],"role":"assistant"}' + TAIL
    assert told(ledger) == [("dropped", feature, "messages[1].parts[0]")]


def test_a_message_with_nothing_else_in_it_goes_too() -> None:
    ledger = Ledger()
    message = b'{"role":"assistant","content":[' + thinking(OURS) + b"," + thinking(b"") + b"]}"
    repaired = repair_request(HEAD + message + TAIL, ledger)
    assert repaired == HEAD + TAIL.removeprefix(b" ,")
    assert [loss.at for loss in ledger.losses] == ["messages[1].parts[0]", "messages[1].parts[1]"]


@pytest.mark.parametrize("blank", [b"", b" ", b"\\n\\n", b"\\u000a", b" \\t"])
def test_item_4_blank_texts_go_with_the_thinking_of_another_provider(blank: bytes) -> None:
    call = b'{"type":"tool_use","id":"t","name":"f","input":{"text":""}}'
    message = b'{"role":"assistant","content":[%b{"type":"text","text":"' + blank + b'"} , ' + call + b"]}"
    ledger = Ledger()
    sent = repair_request(HEAD + message % (thinking(OURS) + b",") + TAIL, ledger)
    assert json.loads(sent)["messages"][1]["content"] == [json.loads(call)]
    assert told(ledger) == [
        ("dropped", "thinking_signature", "messages[1].parts[0]"),
        ("dropped", "empty_text", "messages[1].parts[1]"),
    ]
    # A provider's own turn is as it said it.
    own = HEAD + message % (thinking(b"EqQB") + b",") + TAIL
    assert repair_request(own, Ledger()) == own


def test_messages_are_repaired_in_every_duplicate() -> None:
    guilty = b'[{"role":"assistant","content":[' + thinking(OURS) + b',{"type":"text","text":"x"}]}]'
    clean = b'[{"role":"assistant","content":[{"type":"text","text":"x"}]}]'
    body = b'{"messages":' + guilty + b',"m\\u0065ssages":' + guilty + b"}"
    assert repair_request(body, Ledger()) == b'{"messages":' + clean + b',"m\\u0065ssages":' + clean + b"}"


TEXT = b'{"type":"text", "text":"%b"}'
SUMMARY = b'{"role":"user","content":[{"type":"text","text":"Summary of the conversation so far:\\nwe met"}]}'


def compaction(signature: bytes, content: bytes = b"[compacted]") -> bytes:
    return b'{"type":"compaction","content":"' + content + b'","signature":"' + signature + b'"}'


@pytest.mark.parametrize(
    "block",
    [
        compaction(envelope("compaction", summary="we met")),
        compaction(envelope("compaction", type="compaction"), b"we met"),
        compaction(b"rsv1.not-an-envelope", b"we met"),
    ],
    ids=["summary in the envelope", "summary beside the envelope", "claims to be minted"],
)
def test_a_summary_of_ours_is_told_as_the_users_words(block: bytes) -> None:
    ledger = Ledger()
    message = b'{"role":"assistant", "id":"m1","content":[%b]}'
    repaired = repair_request(HEAD + message % (block + b", " + TEXT % b"so") + TAIL, ledger)
    assert repaired == HEAD + SUMMARY + b"," + message % (TEXT % b"so") + TAIL
    assert told(ledger) == [("approximated", "compaction", "messages[1].parts[0]")]
    assert repair_request(HEAD + message % block + TAIL, Ledger()) == HEAD + SUMMARY + TAIL


def test_a_summary_in_the_middle_parts_the_message() -> None:
    block = compaction(envelope("compaction", summary="we met"))
    message = b'{"role":"assistant","id":"m1","content":[%b]}' % b" , ".join(
        [TEXT % b"a", thinking(OURS), TEXT % b"b", block, TEXT % b"c"]
    )
    said = b'{"role":"assistant","content":[%b]}'
    expected = [said % b",".join([TEXT % b"a", TEXT % b"b"]), SUMMARY, said % (TEXT % b"c")]
    assert repair_request(HEAD + message + TAIL, Ledger()) == HEAD + b",".join(expected) + TAIL


def test_a_compaction_that_nobody_here_can_read_is_refused() -> None:
    body = (
        HEAD + b'{"role":"assistant","content":[' + compaction(envelope("compaction", type="compaction")) + b"]}" + TAIL
    )
    with pytest.raises(RefusedError) as refused:
        repair_request(body, Ledger())
    words = "the compacted conversation can be read only by who compacted it"
    assert str(refused.value) == f"messages[1].parts[0]: {words}"


def test_a_compaction_of_the_provider_stays() -> None:
    body = HEAD + b'{"role":"assistant","content":[' + compaction(b"EqQB", b"we met") + b',"rsv1."]}' + TAIL
    assert repair_request(body, Ledger()) == body


def test_a_search_of_another_provider_is_cut_out_with_its_result() -> None:
    call = b'{"type":"server_tool_use","id":"%b","name":"web_search","input":{"query":"q"}}'
    result = (
        b'{"type":"web_search_tool_result","tool_use_id":"%b","content":'
        b'[{"type":"web_search_result","url":"u","title":"","encrypted_content":"%b"}]}'
    )
    blocks = [call % b"s1", result % (b"s1", envelope("web", url="u")), call % b"s2", result % (b"s2", b"EqQB")]
    message = b'{"role":"assistant","content":[%b]}'
    ledger = Ledger()
    repaired = repair_request(HEAD + message % b",".join(blocks) + TAIL, ledger)
    assert repaired == HEAD + message % b",".join(blocks[2:]) + TAIL
    assert told(ledger) == [("dropped", "web_search", f"messages[1].parts[{part}]") for part in (0, 1)]


def test_a_search_of_the_provider_stays_whatever_its_sources_are_called() -> None:
    call = b'{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"q"}}'
    result = (
        b'{"type":"web_search_tool_result","tool_use_id":"s","content":'
        b'[{"type":"web_search_result","url":"u","title":"rsv1.","encrypted_content":"EqQB"}]}'
    )
    body = HEAD + b'{"role":"assistant","content":[' + call + b"," + result + b"]}" + TAIL
    ledger = Ledger()
    assert repair_request(body, ledger) == body
    assert not len(ledger)


def test_after_a_rejected_signature_all_sealed_thinking_goes() -> None:
    text = TEXT % b"thinking"
    blocks = [thinking(b"EqQB"), b'{"type":"redacted_thinking","data":"EmwK"}', text]
    message = b'{"role":"assistant","content":[%b]}'
    silent = message % thinking(b"EqQB")
    ledger = Ledger()
    body = HEAD + message % b", ".join(blocks) + b"," + silent + TAIL
    assert without_reasoning(body, ledger) == HEAD + message % text + b"," + TAIL.removeprefix(b" ,")
    assert told(ledger) == [
        ("dropped", "thinking_signature", "messages[1].parts[0]"),
        ("dropped", "thinking_signature", "messages[1].parts[1]"),
        ("dropped", "thinking_signature", "messages[2].parts[0]"),
    ]


@pytest.mark.parametrize("message", [b'{"role":"assistant","content":"thinking"}', b'{"role":"user","content":[]}'])
def test_without_thinking_there_is_nothing_to_try_again(message: bytes) -> None:
    ledger = Ledger()
    body = b'{"thinking":{"type":"adaptive"},"messages":[' + message + b"]}"
    assert without_reasoning(body, ledger) is None
    assert not len(ledger)


def test_a_body_of_another_shape_is_left_to_its_reader() -> None:
    for body in (b'{"messages":"\\"rsv1"}', b'{"a":"rsv1."}', b'{"messages":[{"role":"assistant","content":"rsv1."}]}'):
        assert repair_request(body, Ledger()) == body
        assert without_reasoning(body, Ledger()) is None


def test_usage_is_told_without_being_asked_for() -> None:
    assert CODEC.include_usage(b'{"stream":true}') is None
    assert CODEC.withhold_usage(b'data: {"choices":[],"usage":{}}\n\n') == b'data: {"choices":[],"usage":{}}\n\n'


def test_a_repaired_body_is_still_json() -> None:
    body = HEAD + b'{"role":"assistant","content":[' + thinking(OURS) + b"]}" + TAIL
    repaired = decode(repair_request(body, Ledger()))
    assert isinstance(repaired, dict)
    messages = repaired["messages"]
    assert isinstance(messages, list)
    assert len(messages) == 2


_KEPT = [
    {"type": "text", "text": 'a "quoted" ]}, word'},
    {"type": "tool_use", "id": "t", "name": "f", "input": {"signature": "", "x": [1.5, {}]}},
    {"type": "thinking", "thinking": "", "signature": "EqQB"},
]
_CUT = [
    {"type": "thinking", "thinking": "hm", "signature": OURS.decode()},
    {"type": "redacted_thinking", "data": OURS.decode()},
    {"signature": "", "type": "thinking", "thinking": "]}"},
]
_turns = st.lists(st.tuples(st.booleans(), st.lists(st.sampled_from(_KEPT + _CUT), max_size=5)), max_size=5)


@given(_turns, st.sampled_from([None, 0, 1]), st.booleans())
def test_a_repair_is_what_deleting_would_be(
    turns: list[tuple[bool, list[dict[str, object]]]], indent: int | None, sort: bool
) -> None:
    messages = [{"role": "assistant" if own else "user", "content": blocks} for own, blocks in turns]
    left = []
    for (own, blocks), message in zip(turns, messages, strict=True):
        kept = [block for block in blocks if block not in _CUT] if own else blocks
        if kept or not blocks:
            left.append({**message, "content": kept})
    body = json.dumps({"model": "m", "messages": messages, "x": 1}, indent=indent, sort_keys=sort).encode()
    ledger = Ledger()
    repaired = repair_request(body, ledger)
    assert json.loads(repaired) == {"model": "m", "messages": left, "x": 1}
    assert len(ledger) == sum(block in _CUT for own, blocks in turns for block in blocks if own)
    assert len(ledger) or repaired == body


@pytest.mark.parametrize(
    ("body", "resumed"),
    [
        (
            b'{"messages": [ {"role":"user","content":"hi"} ], "x":1.0}',
            b'{"messages": [ {"role":"user","content":"hi"} '
            b',{"role":"assistant","content":[{"type":"text","text":"so"}]}], "x":1.0}',
        ),
        (b'{"messages":[]}', b'{"messages":[{"role":"assistant","content":[{"type":"text","text":"so"}]}]}'),
    ],
    ids=["after the last message", "as the only message"],
)
def test_a_paused_turn_is_appended_and_nothing_else_changes(body: bytes, resumed: bytes) -> None:
    assert resume_request(body, [{"type": "text", "text": "so"}]) == resumed


DELTA = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{}}\n\n'


@pytest.mark.parametrize(
    ("chunk", "end"),
    [
        (DELTA * 3, len(DELTA) * 3),
        (DELTA + b"event: message_stop\ndata: {}\n\n" + DELTA, len(DELTA)),
        (b'event: error\ndata: {"type":"error"}\n\n', 0),
        (b"data: {}\n\n", 0),
        (DELTA + DELTA[:-1], len(DELTA)),
        (b": note\n" + DELTA, 0),
        (DELTA.replace(b"\ndata: {", b"\ndata: {\ndata: "), 0),
    ],
    ids=["deltas", "an end between", "an error", "no name", "half a frame", "a comment", "two lines of data"],
)
def test_only_whole_deltas_pass_unread(chunk: bytes, end: int) -> None:
    assert plain_end(chunk, 0) == end


LINE = b"x-anthropic-billing-header: cc_version=2.1.325.463; cch=1f2;"


@pytest.mark.parametrize(
    ("system", "kept"),
    [
        (
            b'[ {"type":"text","text":"' + LINE + b'"} , {"type":"text","text":"Be kind","x":1.0} ]',
            b'[ {"type":"text","text":"Be kind","x":1.0} ]',
        ),
        (b'[{"type":"text","text":"' + LINE + b'\\nBe kind"}]', b'[{"type":"text","text":"Be kind"}]'),
        (b'"' + LINE + b'\\nBe kind"', b'"Be kind"'),
    ],
    ids=["a block of its own", "the first line of a block", "the first line of a string"],
)
def test_pitfall_007_the_telemetry_line_goes_and_every_other_byte_stays(system: bytes, kept: bytes) -> None:
    ledger = Ledger()
    body = b'{ "model":"m" , "system": ' + system + b', "messages":[{"role":"user","content":"hi"}], "x":1e400 }'
    told_body = without_telemetry(body, ledger)
    assert told_body == body.replace(system, kept)
    assert told(ledger) == [("approximated", "telemetry_line", "instructions[0]")]


def test_a_system_prompt_of_the_telemetry_line_alone_goes() -> None:
    body = b'{"model":"m","system":"' + LINE + b'","messages":[]}'
    assert without_telemetry(body, Ledger()) == b'{"model":"m","messages":[]}'


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m","system":"Be kind","messages":[]}',
        b'{"model":"m","messages":[{"role":"user","content":"' + LINE + b'"}]}',
        b'{"model":"m","system":[{"type":"text","text":"Say ' + LINE + b'"}],"messages":[]}',
        b'{"model":"m","system":[1,{"type":"text"},"' + LINE + b'"],"messages":[]}',
        b'{"model":"m","system":7,"messages":["' + LINE + b'"]}',
    ],
    ids=["none", "words of the user", "in the middle of a line", "no block of text", "no system prompt"],
)
def test_a_body_without_the_telemetry_line_stays_as_it_is(body: bytes) -> None:
    ledger = Ledger()
    assert without_telemetry(body, ledger) is body
    assert told(ledger) == []


def test_item_22_a5_a_delta_of_no_text_is_no_content_and_one_that_ends_with_a_quotation_mark_is() -> None:
    def frame(member: str) -> bytes:
        return b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{%b}}\n\n' % member.encode()

    said = [
        '"text":"a"',
        '"partial_json":"\\""',
        '"text":":\\""',
        '"text": ": \\""',
        '"text":"\\\\"',
        '"later":{"x":[]}',
    ]
    silent = ['"text":""', '"thinking": ""', '"partial_json":""']
    for member in said:
        assert plain_end(frame(member), 0) == len(frame(member)), member
    for member in silent:
        assert plain_end(frame(member), 0) == 0, member
        assert plain_end(frame(said[0]) + frame(member), 0) == len(frame(said[0]))
