"""Repairs of a Chat request and of its stream on the relay: what goes, and that every other byte stays."""

from __future__ import annotations

import pytest

from dragoman.model.losses import Ledger
from dragoman.protocols.openai_chat import NAME, relay
from dragoman.protocols.openai_chat.relay import (
    include_usage,
    plain_end,
    rename_cap,
    sign_calls,
    withhold_usage,
    without_reasoning,
)
from dragoman.rules.envelope import Envelope, seal
from tests.protocols.glancing import foreseen

repair_request = foreseen(NAME, relay.repair_request)

OURS = seal(Envelope(origin="r", model="m", vendor="u", kind="item", data={"type": "reasoning"})).encode()
HEAD = b'{"messages":[{"role":"user","content":"hi"} , '
TAIL = b' ], "model" : "m", "temperature":1.0}'
MESSAGE = b'{"role":"assistant", "content":"yes","reasoning_details":[%b] , "tool_calls":[]}'
ENTRY = b'{"type":"reasoning.encrypted", "data":"%b","format":"%b"}'
NATIVE = b'{"type":"reasoning.text","text":"hm","signature":"EqQB"}'


def told(ledger: Ledger) -> list[tuple[str, str, str]]:
    return [(loss.fate.value, loss.feature.value, loss.at) for loss in ledger.losses]


@pytest.mark.parametrize(
    "message",
    [
        MESSAGE % NATIVE,
        MESSAGE % b'{"text":"\\"rsv1.","x":"rsv1."}',
        MESSAGE % b'"rsv1."',
        b'{"role":"user","content":"rsv1."}',
        b'"rsv1."',
    ],
    ids=["the provider's", "an envelope elsewhere", "no entry", "a text", "no message"],
)
def test_what_needs_no_repair_keeps_every_byte(message: bytes) -> None:
    ledger = Ledger()
    assert repair_request(HEAD + message + TAIL, ledger) == HEAD + message + TAIL
    assert not len(ledger)


@pytest.mark.parametrize(
    ("entry", "at"),
    [
        (ENTRY % (OURS, b"unknown"), "messages[1].parts[0]"),
        (ENTRY % (OURS, b"gw-turn-v1"), "messages[1].turn"),
        (b'{"signature":"' + OURS + b'"}', "messages[1].parts[0]"),
        (b'{"type":"reasoning.text","format":"anthropic-claude-v1","model":"claude-opus-5"}', "messages[1].parts[0]"),
    ],
    ids=["reasoning", "a turn", "a signature", "another protocol's proof"],
)
def test_entries_that_were_minted_for_another_are_cut_out(entry: bytes, at: str) -> None:
    ledger = Ledger()
    assert (
        repair_request(HEAD + MESSAGE % (NATIVE + b" , " + entry) + TAIL, ledger)
        == HEAD + MESSAGE % (NATIVE + b" ") + TAIL
    )
    assert told(ledger) == [("dropped", "thinking_signature", at)]


def test_the_text_goes_with_the_proof_that_we_minted_and_a_routers_own_entries_stay() -> None:
    minted = b'{"format":"openai-responses-v1","model":"gpt-5","data":"x"}'
    thought = b'{"role":"assistant","reasoning_content":"hm","content":"yes","reasoning_details":[%b]}'
    assert repair_request(HEAD + thought % minted + TAIL, Ledger()) == (
        HEAD + b'{"role":"assistant","content":"yes"}' + TAIL
    )
    routed = thought % b'{"format":"anthropic-claude-v1","signature":"x"}'
    assert repair_request(HEAD + routed + TAIL, Ledger()) == HEAD + routed + TAIL


def test_the_member_goes_with_its_last_entry_and_the_message_with_its_last_word() -> None:
    entry = ENTRY % (OURS, b"unknown")
    spoken = repair_request(HEAD + MESSAGE % entry + TAIL, Ledger())
    assert spoken == HEAD + b'{"role":"assistant", "content":"yes","tool_calls":[]}' + TAIL
    silent = b'{"role":"assistant","content":null,"reasoning_details":[' + entry + b"]}"
    assert (
        repair_request(HEAD + silent + TAIL, Ledger()) == b'{"messages":[{"role":"user","content":"hi"}  ]' + TAIL[2:]
    )


def test_after_rejected_proof_all_details_go() -> None:
    ledger = Ledger()
    body = HEAD + MESSAGE % NATIVE + b"," + MESSAGE % (NATIVE + b"," + NATIVE) + TAIL
    spoken = b'{"role":"assistant", "content":"yes","tool_calls":[]}'
    assert without_reasoning(body, ledger) == HEAD + spoken + b"," + spoken + TAIL
    assert told(ledger) == [("dropped", "thinking_signature", f"messages[{number}].parts[0]") for number in (1, 2)]


CALL = b'{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}%b}'
CALLING = b'{"role":"assistant","content":null%b,"tool_calls":[%b]}'


@pytest.mark.parametrize(
    "member",
    [
        b'"thinking_blocks":[{"signature":"x"}]',
        b'"reasoning_opaque":"x"',
        b'"reasoning_items":[{"id":"rs_1","encrypted_content":"x"}]',
        b'"provider_specific_fields":{"thinking_blocks":[{"signature":"x"}]}',
        b'"provider_specific_fields":{"thought_signatures":["x"],"reasoning_items":[]}',
    ],
)
def test_item_5_proofs_of_all_spellings_go(member: bytes) -> None:
    ledger = Ledger()
    body = HEAD + CALLING % (b"," + member, CALL % b"") + TAIL
    assert without_reasoning(body, ledger) == HEAD + CALLING % (b"", CALL % b"") + TAIL
    assert told(ledger) == [("dropped", "thinking_signature", "messages[1].parts[0]")]


@pytest.mark.parametrize("whose", [b"google", b"vertex"])
def test_item_5_a_refused_proof_of_a_call_makes_room_for_none(whose: bytes) -> None:
    proof = b',"extra_content":{"%b":{"thought_signature":"%b"}}'
    ledger = Ledger()
    body = HEAD + CALLING % (b"", CALL % (proof % (whose, b"EqQB")) + b"," + CALL % b"") + TAIL
    unproven = CALL % (proof % (whose, b"skip_thought_signature_validator")) + b"," + CALL % b""
    assert without_reasoning(body, ledger) == HEAD + CALLING % (b"", unproven) + TAIL
    assert told(ledger) == [("dropped", "thinking_signature", "messages[1].parts[0]")]
    assert without_reasoning(HEAD + CALLING % (b"", unproven) + TAIL, Ledger()) is None


def test_item_5_what_stands_beside_a_proof_stays() -> None:
    beside = b',"provider_specific_fields":{%b"citations": [1.0]}'
    sent = without_reasoning(HEAD + CALLING % (beside % b'"thinking_blocks":[1],', CALL % b"") + TAIL, Ledger())
    assert sent == HEAD + CALLING % (b',"provider_specific_fields":{"citations":[1.0]}', CALL % b"") + TAIL
    assert without_reasoning(HEAD + CALLING % (beside % b"", CALL % b"") + TAIL, Ledger()) is None


def test_item_5_signed_parts_of_the_content_go() -> None:
    signed = b'{"type":"thinking","thinking":[{"type":"text","text":"hm"}],"signature":"x"}'
    hidden = b'{"type":"redacted_thinking","data":"x"}'
    plain = b'{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}'
    spoken = b'{"role":"assistant","content":[%b{"type":"text","text":"Hi."}]}'
    ledger = Ledger()
    body = HEAD + spoken % (signed + b"," + hidden + b"," + plain + b",") + TAIL
    assert without_reasoning(body, ledger) == HEAD + spoken % (plain + b",") + TAIL
    assert told(ledger) == [("dropped", "thinking_signature", "messages[1].parts[0]")]
    assert without_reasoning(HEAD + spoken % (plain + b",") + TAIL, Ledger()) is None


@pytest.mark.parametrize(
    "proof",
    [
        b',"thought_signature" : "%b"',
        b',"provider_specific_fields":{"thought_signature":"%b","n":1.0}',
        b',"extra_content":{"google":{"thought_signature":"%b"},"n":1.0}',
    ],
)
def test_item_5_proofs_of_calls_under_any_name_make_room_for_none(proof: bytes) -> None:
    stand_in = b"skip_thought_signature_validator"
    inner = b'{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"%b}}'
    for call in (CALL, inner):
        body = HEAD + CALLING % (b"", call % (proof % b"EqQB")) + TAIL
        sent = HEAD + CALLING % (b"", call % (proof % stand_in)) + TAIL
        assert without_reasoning(body, Ledger()) == sent
        assert without_reasoning(sent, Ledger()) is None
        assert sign_calls(body, Ledger()) is None
        assert sign_calls(sent, Ledger()) is None


def test_item_5_calls_whose_proof_is_missed_get_what_stands_for_one() -> None:
    proof = b',"extra_content":{"google":{"thought_signature":"%b"}}'
    ledger = Ledger()
    proven = CALLING % (b"", CALL % (proof % b"EqQB") + b"," + CALL % b"")
    body = HEAD + proven + b"," + CALLING % (b"", CALL % b"" + b"," + CALL % b"") + TAIL
    stand_in = CALL % (proof % b"skip_thought_signature_validator") + b"," + CALL % b""
    assert sign_calls(body, ledger) == HEAD + proven + b"," + CALLING % (b"", stand_in) + TAIL
    assert told(ledger) == [("invented", "thinking_signature", "messages[2]")]
    assert sign_calls(HEAD + proven + TAIL, Ledger()) is None
    assert sign_calls(HEAD + CALLING % (b"", stand_in) + TAIL, Ledger()) is None


@pytest.mark.parametrize("message", [MESSAGE % b"", b'{"role":"user","content":"\\"reasoning_details\\""}'])
def test_without_details_there_is_nothing_to_try_again(message: bytes) -> None:
    assert without_reasoning(HEAD + message + TAIL, Ledger()) is None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"stream":true }', b'{"stream":true,"stream_options":{"include_usage":true} }'),
        (
            b'{"stream":true,"stream_options" : null}',
            b'{"stream":true,"stream_options" : {"include_usage":true}}',
        ),
        (
            b'{"stream_options":{ "include_obfuscation":false },"stream":true}',
            b'{"stream_options":{ "include_obfuscation":false,"include_usage":true },"stream":true}',
        ),
        (b'{"stream_options":{},"stream":true}', b'{"stream_options":{"include_usage":true},"stream":true}'),
        (
            b'{"stream":true,"stream_options":{"include_usage" : false}}',
            b'{"stream":true,"stream_options":{"include_usage" : true}}',
        ),
        (
            b'{"stream":false,"stream":true,"stream_options":{"include_usage":true},"stream_options":{}}',
            b'{"stream":false,"stream":true,"stream_options":{"include_usage":true},"stream_options":{"include_usage":true}}',
        ),
        (b'{"stream":true,"stream_options":{"include_usage":true}}', None),
        (b'{"stream":true,"stream_options":{"include_us\\u0061ge":true}}', None),
        (b'{"stream":true,"stream_options":"nonsense"}', None),
        (b'{"stream":false}', None),
        (b'{"stream":1}', None),
        (b"{}", None),
    ],
)
def test_pitfall_070_usage_is_asked_for_where_it_is_not_told(body: bytes, expected: bytes | None) -> None:
    assert include_usage(body) == expected


def frame(data: bytes, end: bytes = b"\n") -> bytes:
    return b"data: " + data + end + end


WORD = b'{"id":"x","choices":[{"index":0,"delta":{"content":"\\"choices\\":[]"}}],"usage":null}'
USAGE = b'{"id":"x","choices" : [ ],"usage":{"prompt_tokens":1,"completion_tokens":2}}'
FILTERED = b'{"id":"","choices":[],"prompt_filter_results":[],"usage":null}'


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
def test_pitfall_070_only_the_usage_chunk_is_withheld(end: bytes) -> None:
    first = [frame(FILTERED, end), b": comment" + end + end, frame(WORD, end)]
    last = [frame(b"[DONE]", end)]
    whole = [*first, b"event: message" + end + b"id: 7" + end + frame(USAGE, end), *last]
    assert withhold_usage(b"".join(whole)) == b"".join(first + last)
    assert b"".join(map(withhold_usage, whole)) == b"".join(first + last)


@pytest.mark.parametrize(
    "frames",
    [
        frame(FILTERED),
        frame(WORD),
        frame(b'{"choices":[],"usage":{}'),
        frame(b'{"choices":[{"delta":{}}],"x":{"choices":[]},"usage":{}}'),
        b': "choices":[]\n\n',
        b"",
    ],
    ids=["filter results", "a word", "broken JSON", "another list of choices", "a comment", "nothing"],
)
def test_every_other_frame_passes(frames: bytes) -> None:
    assert withhold_usage(frames) == frames


def test_a_line_end_that_was_cut_stays_with_its_frame() -> None:
    before, usage = frame(WORD, b"\r\n"), frame(USAGE, b"\r\n")
    pieces = (before[:-1], before[-1:] + usage, frame(b"[DONE]", b"\r\n"))
    assert b"".join(map(withhold_usage, pieces)) == before + pieces[2]


def test_a_usage_chunk_spread_over_lines_or_cut_off_at_its_end_is_withheld_too() -> None:
    assert withhold_usage(b'data: {"choices":\ndata: [],"usage":{}}\n\n' + frame(WORD)) == frame(WORD)
    assert withhold_usage(frame(WORD) + b"data: " + USAGE) == frame(WORD)


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        (b'{"max_tokens" : 9, "n":1.0}', b'{"max_completion_tokens":9, "n":1.0}'),
        (b'{"max_tokens":9, "max_completion_tokens":7}', b'{"max_completion_tokens":7}'),
        (b'{"max_completion_tokens":7}', b'{"max_completion_tokens":7}'),
        (b'{"messages":[{"content":"\\"max_tokens\\"","max_tokens":1}]}',) * 2,
    ],
    ids=["the older", "both", "the newer", "elsewhere"],
)
def test_pitfall_124_a_cap_is_renamed_and_every_other_byte_stays(body: bytes, sent: bytes) -> None:
    assert rename_cap(body) == sent


CHUNK = b'data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}],"usage":null}\n\n'


@pytest.mark.parametrize(
    ("chunk", "end"),
    [
        (CHUNK * 3, len(CHUNK) * 3),
        (CHUNK + CHUNK.replace(b'"finish_reason":null', b'"finish_reason": "stop"') + CHUNK, len(CHUNK)),
        (CHUNK + CHUNK.replace(b'"usage":null', b'"usage" : {"prompt_tokens":1}'), len(CHUNK)),
        (CHUNK + b'data: {"error":{"message":"x"}}\n\n', len(CHUNK)),
        (CHUNK + b"data: [DONE]\n\n", len(CHUNK)),
        (CHUNK + CHUNK[:-1], len(CHUNK)),
        (b": note\n\n" + CHUNK, 0),
        (CHUNK.replace(b'"x"', b'"data: {"'), len(CHUNK) + 6),
    ],
    ids=["content", "a finish", "usage", "an error", "the end", "half a frame", "a comment", "a frame in the text"],
)
def test_only_whole_chunks_of_content_pass_unread(chunk: bytes, end: int) -> None:
    assert plain_end(chunk, 0) == end


def test_a_finish_after_text_that_looks_like_a_frame_is_read() -> None:
    chunk = CHUNK + CHUNK.replace(b'"x"', b'"data: {"').replace(b'"finish_reason":null', b'"finish_reason":"stop"')
    assert plain_end(chunk, 0) == len(CHUNK)
    assert plain_end(chunk, len(CHUNK)) == len(CHUNK)


def test_item_22_a5_a_chunk_of_which_no_choice_says_anything_is_no_content() -> None:
    def chunk(*deltas: str) -> bytes:
        return b'data: {"choices":[%b]}\n\n' % ",".join('{"delta":' + delta + "}" for delta in deltas).encode()

    silent = ["{}", "{ }", '{"content":""}', '{"role": "assistant", "content": null, "tool_calls": []}']
    said = ['{"content":"a"}', '{"role":"assistant","content":"\\"delta\\":{}"}', '{"tool_calls":[{"index":0}]}']
    for delta in silent:
        assert plain_end(chunk(delta), 0) == 0, delta
        assert plain_end(chunk(said[0]) + chunk(delta), 0) == len(chunk(said[0]) + chunk(delta))
    for delta in said:
        assert plain_end(chunk(delta), 0) == len(chunk(delta)), delta
        assert plain_end(chunk("{}", delta), 0) == len(chunk("{}", delta)), delta
    for nothing in (b'data: {"choices":[]}\n\n', b"data: {}\n\n", b": still here\n\n", b"\n\n", b'data: {"delta"'):
        assert plain_end(nothing, 0) == 0
