"""Whole and streamed tell the same answer, and what goes wrong goes wrong on the wire."""

from __future__ import annotations

import pytest

from dragoman.mint import system_mint
from dragoman.mock.answers.models import Ending
from dragoman.mock.answers.signatures import MESSAGES, RESPONSES
from dragoman.mock.script_player import Play
from dragoman.mock.turn import MockTurn, turn_of
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.parts import Text, Thinking, ToolCall
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
