"""A request goes from target to target while nothing of an answer was said."""

from __future__ import annotations

import pytest

from dragoman.errors import TimedOut
from dragoman.gateway.exchange.states import State
from dragoman.gateway.exchange.steps import (
    Begin,
    Call,
    Due,
    Failed,
    HangUp,
)
from tests.gateway.exchange.played import BODY, CONTENT, OPENING, Played, kinds, played_by
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
