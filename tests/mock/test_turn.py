"""Whole and streamed tell the same answer, and what goes wrong goes wrong on the wire."""

from __future__ import annotations

import pytest

from dragoman.mint import system_mint
from dragoman.mock.answers.models import Ending
from dragoman.mock.answers.response import build_response
from dragoman.mock.answers.signatures import CHAT, MESSAGES, RESPONSES
from dragoman.mock.script_player import Play
from dragoman.mock.turn import MockTurn, finished, is_signed, sign, thinks, turn_of
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.parts import Part, Text, Thinking, ToolCall
from dragoman.model.response import Response
from tests.mock.asking import request
from tests.mock.calling import PROTOCOLS, declared
from tests.sdk.oracles import check_answer, check_stream

PARTS = (
    Thinking(text="Let me think about it."),
    Text(text="One two three four."),
    ToolCall(call_id="", name="f", arguments='{"city": "Rome"}'),
)


def told(protocol: str, play: Play, **more: object) -> MockTurn:
    found = turn_of(play, request(protocol, "Go.", **more), system_mint())
    assert isinstance(found, MockTurn)
    return found


def sent(turn: MockTurn) -> list[bytes]:
    return [piece for _, piece in turn.delivery.pieces]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_whole_answer_is_what_the_sdk_understands(protocol: str) -> None:
    found = told(protocol, Play(parts=PARTS), tools=declared(protocol, "f"))
    check_answer(protocol, {**found.body})
    assert not found.delivery.streamed and len(sent(found)) == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_comes_in_several_pieces_that_the_sdk_understands(protocol: str) -> None:
    found = told(protocol, Play(parts=PARTS), tools=declared(protocol, "f"), stream=True)
    assert found.delivery.streamed and len(sent(found)) > 8
    check_stream(protocol, b"".join(sent(found)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_an_empty_answer_is_one(protocol: str, stream: bool) -> None:
    found = told(protocol, Play(), stream=stream)
    check_answer(protocol, {**found.body})


def test_the_record_of_a_stream_has_the_ids_that_the_stream_told() -> None:
    found = told(RESPONSES, Play(parts=PARTS), tools=declared(RESPONSES, "f"), stream=True)
    stream = b"".join(sent(found)).decode()
    output = found.body["output"]
    assert isinstance(output, list) and len(output) == 3
    before_the_end = stream.partition('"response.completed"')[0]
    for item in output:
        assert isinstance(item, dict) and str(item["id"]) in before_the_end


def test_a_stream_of_messages_begins_with_the_count_of_its_input() -> None:
    found = told(MESSAGES, Play(parts=(Text(text="Hi."),)), stream=True)
    assert b'"input_tokens":4' in sent(found)[0]


def test_thoughts_are_left_out_where_the_model_may_not_think() -> None:
    found = told(MESSAGES, Play(parts=PARTS), thinking={"type": "disabled"}, tools=declared(MESSAGES, "f"))
    content = found.body["content"]
    assert isinstance(content, list) and len(content) == 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_break_ends_an_answer_in_its_middle(protocol: str) -> None:
    whole = told(protocol, Play(parts=PARTS, ending=Ending.BREAKS), tools=declared(protocol, "f"))
    assert whole.delivery.breaks and not sent(whole)[0].endswith(b"}")
    check_answer(protocol, {**whole.body})
    streamed = told(protocol, Play(parts=PARTS, ending=Ending.BREAKS), tools=declared(protocol, "f"), stream=True)
    assert streamed.delivery.breaks and 1 < len(sent(streamed)) < 10


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_answer_may_fail_after_its_beginning(protocol: str) -> None:
    play = Play(parts=PARTS, ending=Ending.FAILS)
    failure = turn_of(play, request(protocol, "Go."), system_mint())
    assert isinstance(failure, Failure) and failure.kind is FailureKind.OVERLOADED
    assert b"error" in sent(told(protocol, play, stream=True))[-1]


def test_rests_are_kept() -> None:
    assert told(MESSAGES, Play(parts=(Text(text="a b"),), wait=2.0, pace=0.5)).delivery.wait == 3.0
    assert told(MESSAGES, Play(parts=(Text(text="a b"),), wait=2.0, pace=0.5), stream=True).delivery.wait == 2.0
    failure = Failure(kind=FailureKind.INVALID, status=400, message="no")
    assert turn_of(Play(failure=failure), request(MESSAGES, "Go."), system_mint()) is failure


NONCE = "abcdefghijklmn"


def answered(protocol: str, *parts: Part, **more: object) -> Response:
    asked = request(protocol, "Go.", **more)
    mint = system_mint()
    return finished(build_response(asked, parts, mint), asked, mint)


def test_a_signature_belongs_to_its_text_alone() -> None:
    signature = sign("Hm.", NONCE)
    assert is_signed("Hm.", signature)
    assert not is_signed("Hm!", signature)
    assert not is_signed("Hm.", signature[:-1] + "x")
    assert not is_signed("Hm.", "")
    assert is_signed("whatever stands there", sign("", NONCE)), "what was not shown is not looked at"


def test_equal_thoughts_have_different_proofs() -> None:
    proofs = {_body(answered(MESSAGES, Thinking(text="Hm."), model="claude-sonnet-4-5"))["signature"] for _ in "ab"}
    assert len(proofs) == 2
    proofs = {_body(answered(RESPONSES, Thinking(text="Hm.")))["encrypted_content"] for _ in "ab"}
    assert len(proofs) == 2


def _body(response: Response) -> dict[str, object]:
    (part,) = response.parts
    assert isinstance(part, Thinking) and part.seal is not None
    return {**part.seal.body}


@pytest.mark.parametrize(
    ("model", "thinking", "shown"),
    [
        ("claude-sonnet-4-5", {"type": "enabled", "budget_tokens": 1024}, True),
        ("claude-opus-5", {"type": "adaptive"}, False),
        ("claude-opus-5", {"type": "adaptive", "display": "summarized"}, True),
        ("claude-sonnet-4-6", {"type": "adaptive", "display": "omitted"}, False),
        ("other", {"type": "enabled", "budget_tokens": 1024}, True),
    ],
)
def test_thoughts_are_shown_where_the_model_shows_them(model: str, thinking: object, shown: bool) -> None:
    body = _body(answered(MESSAGES, Thinking(text="Hm."), model=model, thinking=thinking))
    assert body["thinking"] == ("Hm." if shown else "")
    assert is_signed(str(body["thinking"]), str(body["signature"]))


def test_a_summary_is_told_only_where_it_is_asked_for() -> None:
    assert _body(answered(RESPONSES, Thinking(text="Hm.")))["summary"] == []
    told = _body(answered(RESPONSES, Thinking(text="Hm."), reasoning={"summary": "auto"}))
    assert told["summary"] == [{"type": "summary_text", "text": "Hm."}]


def test_a_model_thinks_unless_it_may_not() -> None:
    assert thinks(request(MESSAGES, "", model="claude-opus-5"))
    assert not thinks(request(MESSAGES, "", model="claude-sonnet-4-5"))
    assert not thinks(request(MESSAGES, "", thinking={"type": "disabled"}))
    assert thinks(request(MESSAGES, "", thinking={"type": "adaptive"}))
    assert thinks(request(CHAT, ""))
    assert not thinks(request(CHAT, "", reasoning_effort="none"))
    assert not thinks(request(RESPONSES, "", reasoning={"effort": "none"}))


def test_calls_of_one_turn_share_the_beginning_of_their_ids() -> None:
    first, second = answered(CHAT, *(ToolCall(call_id="", name="f", arguments="{}") for _ in "ab")).parts
    assert isinstance(first, ToolCall) and isinstance(second, ToolCall)
    assert first.call_id != second.call_id and first.call_id[:21] == second.call_id[:21]
