"""A request goes from target to target while nothing of an answer was said."""

from __future__ import annotations

import pytest

from dragoman.errors import TimedOut
from dragoman.gateway.exchange.states import State
from dragoman.gateway.exchange.steps import (
    Begin,
    Call,
    Done,
    Due,
    Failed,
    HangUp,
    Respond,
)
from dragoman.gateway.stored_responses.store_failures import NotKept
from tests.gateway.exchange.played import BODY, CONTENT, OPENING, Head, Played, kinds, played_by
from tests.gateway.harness import CHAT, MESSAGES, House


@pytest.mark.parametrize("opened", [False, True], ids=["nothing", "the status"])
def test_the_next_target_is_asked_while_nothing_of_an_answer_was_said(opened: bool) -> None:
    def story(house: House) -> None:
        play = Played(house, "chat/served")
        first = play.until_called(Begin(BODY))
        assert first.prepared.target.endpoint.protocol == MESSAGES
        play.more_targets()
        if opened:
            hear = play.hear()
            play.take(hear, OPENING)
            play.say(Due(15.0))
        second = play.until_called(Failed(TimedOut("too late")))
        assert second.prepared.target.endpoint.protocol == CHAT
        assert (play.account.record.provider, play.account.record.failure) == ("chat", "")
        play.say(Failed(TimedOut("too late again")))
        assert kinds(play.said)[-1] is HangUp and play.machine.state is State.OVER

    played_by(story)


def test_no_other_target_is_asked_once_there_was_content() -> None:
    def story(house: House) -> None:
        play = Played(house, "chat/served")
        play.until_called(Begin(BODY))
        play.more_targets()
        hear = play.hear()
        play.take(hear, OPENING + CONTENT)
        play.say(Failed(TimedOut("too late")))
        assert Call not in kinds(play.said) and play.machine.state is State.OVER

    played_by(story)


def test_no_other_target_is_asked_for_an_answer_that_was_paid_for() -> None:
    def story(house: House) -> None:
        play = Played(house, "chat/served")
        play.until_called(Begin(BODY))
        play.more_targets()
        play.say(Failed(NotKept()))
        assert Call not in kinds(play.said) and play.machine.state is State.OVER

    played_by(story)


def test_an_error_tells_nothing_of_an_earlier_call() -> None:
    def story(house: House) -> None:
        play = Played(house)
        play.until_called(Begin(BODY))
        limited = Head(429, b"application/json")
        limited.headers.append((b"retry-after", b"777"))
        play.say(Done(limited))
        assert play.machine.attempt.headers == limited.headers
        # Another key is tried, and never answered.
        play.machine._call()
        play.say(Failed(TimedOut("too late")))
        told = play.said[1]
        assert isinstance(told, Respond) and (b"retry-after", b"777") not in told.headers

    played_by(story)
