"""An answer is sent whole or token by token, with its rests, and ends as it should."""

from __future__ import annotations

import json

import pytest

from dragoman.mock.answers.delivery import Delivery, at_once, deliver
from dragoman.mock.answers.models import Ending
from dragoman.mock.answers.response import build_response
from dragoman.mock.answers.signatures import MESSAGES
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.parts import Text
from dragoman.translate import derived_mint
from tests.mock.asking import request
from tests.mock.calling import PROTOCOLS
from tests.sdk.oracles import check_answer, check_stream


def delivered(
    protocol: str,
    *,
    stream: bool,
    pace: float = 0.0,
    ending: Ending = Ending.COMPLETE,
    text: str = "one two three four",
) -> Delivery | Failure:
    asked = request(protocol, "Go.", stream=stream)
    mint = derived_mint(b"")
    return deliver(build_response(asked, (Text(text=text),), mint), asked, mint, pace=pace, ending=ending)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_whole_answer_is_one_piece_after_the_time_of_all_its_tokens(protocol: str) -> None:
    found = delivered(protocol, stream=False, pace=0.5)
    assert isinstance(found, Delivery)
    assert found == at_once(found.body, 2.0)
    check_answer(protocol, json.loads(found.body))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_rests_before_each_token(protocol: str) -> None:
    found = delivered(protocol, stream=True, pace=0.5)
    assert isinstance(found, Delivery) and (found.streamed, found.wait, found.body) == (True, 0.0, b"")
    pieces = list(found.pieces)
    assert [rest for rest, _ in pieces if rest] == [0.5] * 4
    check_stream(protocol, b"".join(piece for _, piece in pieces))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_breaks_has_a_beginning(protocol: str) -> None:
    whole = delivered(protocol, stream=False, ending=Ending.BREAKS)
    assert isinstance(whole, Delivery) and whole.breaks
    assert list(whole.pieces) == [(0.0, whole.body[: len(whole.body) // 2])]
    streamed = delivered(protocol, stream=True, ending=Ending.BREAKS)
    assert isinstance(streamed, Delivery) and streamed.breaks
    said = b"".join(piece for _, piece in streamed.pieces)
    assert b"two" in said and b"three" not in said


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("text", ["one two three four", "one"])
def test_what_fails_says_so_before_it_is_whole(protocol: str, text: str) -> None:
    whole = delivered(protocol, stream=False, ending=Ending.FAILS, text=text)
    assert isinstance(whole, Failure) and whole.kind is FailureKind.OVERLOADED
    assert whole.status == (529 if protocol == MESSAGES else 503)
    streamed = delivered(protocol, stream=True, ending=Ending.FAILS, text=text)
    assert isinstance(streamed, Delivery) and not streamed.breaks
    told = check_stream(protocol, b"".join(piece for _, piece in streamed.pieces))
    assert told.error is not None and "Overloaded" in told.error
