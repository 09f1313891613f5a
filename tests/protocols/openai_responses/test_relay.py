"""Repairs of a Responses request on the relay: what goes, and that every other byte stays."""

from __future__ import annotations

import pytest

from dragoman.errors import RefusedError
from dragoman.model.losses import Ledger
from dragoman.protocols.openai_responses import CODEC, NAME, relay
from dragoman.protocols.openai_responses.relay import (
    without_reasoning,
    without_storage,
)
from dragoman.rules.envelope import Envelope, seal
from tests.protocols.glancing import foreseen

repair_request = foreseen(NAME, relay.repair_request)


def envelope(kind: str, origin: str = "a", **data: str) -> bytes:
    return seal(Envelope(origin=origin, model="m", vendor="u", kind=kind, data=dict(data))).encode()


HEAD = b'{ "model":"m" ,"input":[ {"role":"user","content":"hi"}, '
TAIL = b' , {"type":"function_call","call_id":"c","name":"f","arguments":"{}"} ], "temperature": 1.0 }'
REASONING = b'{"type":"reasoning","id":"rs_1","summary":[ ],"encrypted_content":"%b"}'
COMPACTION = b'{"id":"cmp_1","type":"compaction","encrypted_content":"%b"}'


def told(ledger: Ledger) -> list[tuple[str, str, str]]:
    return [(loss.fate.value, loss.feature.value, loss.at) for loss in ledger.losses]


@pytest.mark.parametrize(
    "item",
    [
        REASONING % b"gAAAAB",
        COMPACTION % b"gAAAAB",
        b'{"type":"message","role":"user","content":"\\"rsv1.\\"","x":"rsv1."}',
        b'{"type":"message","encrypted_content":"rsv1."}',
        b'"rsv1."',
    ],
    ids=["the provider's reasoning", "the provider's compaction", "a text", "no proof", "no item"],
)
def test_what_needs_no_repair_keeps_every_byte(item: bytes) -> None:
    ledger = Ledger()
    assert repair_request(HEAD + item + TAIL, ledger) == HEAD + item + TAIL
    assert not len(ledger)


@pytest.mark.parametrize(
    "token",
    [envelope("thinking", type="thinking"), envelope("item", "r", type="reasoning"), b"rsv1z.not-an-envelope"],
    ids=["another's", "a twin's", "claims to be minted"],
)
def test_pitfall_109_reasoning_of_another_issuer_is_cut_out(token: bytes) -> None:
    ledger = Ledger()
    assert repair_request(HEAD + REASONING % token + TAIL, ledger) == HEAD + TAIL.removeprefix(b" , ")
    assert told(ledger) == [("dropped", "thinking_signature", "messages[1].parts[0]")]


@pytest.mark.parametrize(
    "token",
    [envelope("compaction", summary="we met"), envelope("compaction", type="compaction", content="we met")],
    ids=["a summary of ours", "a block that can be read"],
)
def test_a_readable_compaction_is_told_as_the_users_words(token: bytes) -> None:
    ledger = Ledger()
    summary = (
        b'{"type":"message","role":"user","content":'
        b'[{"type":"input_text","text":"Summary of the conversation so far:\\nwe met"}]}'
    )
    assert repair_request(HEAD + COMPACTION % token + TAIL, ledger) == HEAD + summary + TAIL
    assert told(ledger) == [("approximated", "compaction", "messages[1].parts[0]")]


def test_a_compaction_that_nobody_here_can_read_is_refused() -> None:
    with pytest.raises(RefusedError, match=r"messages\[1\]\.parts\[0\]: only its issuer can read"):
        repair_request(HEAD + COMPACTION % b"rsv1.x" + TAIL, Ledger())


def test_after_rejected_content_all_encrypted_reasoning_goes() -> None:
    ledger = Ledger()
    open_reasoning = b'{"type":"reasoning","id":"rs_2","content":[{"type":"reasoning_text","text":"hm"}]}'
    items = b",".join([REASONING % b"gAAA", open_reasoning, COMPACTION % b"gAAA", REASONING % b"gBBB"])
    left = b",".join([open_reasoning, COMPACTION % b"gAAA"])
    assert without_reasoning(HEAD + items + TAIL, ledger) == HEAD + left + b"," + TAIL.removeprefix(b" , ")
    assert told(ledger) == [
        ("dropped", "thinking_signature", "messages[1].parts[0]"),
        ("dropped", "thinking_signature", "messages[4].parts[0]"),
    ]


def test_item_5_reasoning_by_its_id_alone_goes_with_the_ids_that_ask_for_it() -> None:
    ledger = Ledger()
    reference = b'{"type":"item_reference","id":"%b"}'
    message = b'{%b"type":"message","role":"assistant","content":[]}'
    call = b'{%b"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}'
    items = [
        b'{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":null}',
        reference % b"rs_2",
        message % b'"id":"msg_1", ',
        call % b'"id":"fc_1",',
        reference % b"msg_2",
    ]
    left = [message % b"", call % b"", reference % b"msg_2"]
    assert without_reasoning(HEAD + b",".join(items) + TAIL, ledger) == HEAD + b",".join(left) + TAIL
    assert told(ledger) == [
        ("dropped", "thinking_signature", "messages[1].parts[0]"),
        ("dropped", "thinking_signature", "messages[2].parts[0]"),
        ("dropped", "item_reference", "messages[3].parts[0]"),
        ("dropped", "item_reference", "messages[4].parts[0]"),
    ]


@pytest.mark.parametrize(
    "body",
    [
        b'{"input":"reasoning","include":["reasoning.encrypted_content"]}',
        b'{"input":[{"type":"reasoning","summary":[]}]}',
        b'{"input":["encrypted_content"]}',
        b"{}",
    ],
)
def test_without_encrypted_reasoning_there_is_nothing_to_try_again(body: bytes) -> None:
    assert without_reasoning(body, Ledger()) is None


def test_usage_is_told_without_being_asked_for() -> None:
    assert CODEC.include_usage(b'{"stream":true}') is None
    assert CODEC.withhold_usage(b"data: {}\n\n") == b"data: {}\n\n"


def test_no_frame_passes_unread() -> None:
    assert CODEC.plain_end(b'event: response.output_text.delta\ndata: {"delta":"x"}\n\n', 0) == 0


@pytest.mark.parametrize("own", [b"item_1", b"rs_" + b"x" * 62])
def test_item_10_ids_that_only_another_server_gives_go_after_a_refusal(own: bytes) -> None:
    written = b'{"type":"reasoning",%b"content":[{"type":"reasoning_text","text":"hm"}]}'
    ledger = Ledger()
    sent = without_reasoning(HEAD + written % (b'"id":"' + own + b'",') + TAIL, ledger)
    assert sent == HEAD + written % b"" + TAIL
    assert len(ledger) == 1
    assert without_reasoning(HEAD + written % b'"id":"rs_1",' + TAIL, Ledger()) is None


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        (b'{"input": "x"}', b'{"input": "x","include":["reasoning.encrypted_content"],"store":false}'),
        (
            b'{"store": true, "include": ["a"], "input": "x"}',
            b'{"store": false, "include": ["a","reasoning.encrypted_content"], "input": "x"}',
        ),
        (
            b'{"include": ["reasoning.encrypted_content"], "store": false}',
            b'{"include": ["reasoning.encrypted_content"], "store": false}',
        ),
        (b'{"include": null}', b'{"include": ["reasoning.encrypted_content"],"store":false}'),
    ],
)
def test_an_answer_that_is_kept_elsewhere_is_asked_for_as_one_that_can_go_on(body: bytes, sent: bytes) -> None:
    assert without_storage(body) == sent
