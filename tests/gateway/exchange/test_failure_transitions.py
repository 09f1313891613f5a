"""How an exchange fails is decided by what was told, and whoever goes settles it."""

from __future__ import annotations

import pytest

from dragoman.errors import TimedOut
from dragoman.gateway.exchange.events_commands import (
    Begin,
    ClientDisconnected,
    Done,
    End,
    Finalize,
    HangUp,
    HeartbeatDue,
    Respond,
    WaitFailed,
    Write,
)
from dragoman.gateway.exchange.states import SentState
from dragoman.gateway.runtime import Runtime
from dragoman.model.failure import Failure, FailureKind
from tests.gateway.exchange.played import BODY, CONTENT, OPENING, Played, kinds, played_by


def test_a_failure_is_told_by_what_was_told_before() -> None:
    def story(service: Runtime) -> None:
        nothing = Played(service)
        nothing.until_called(Begin(BODY))
        nothing.say(WaitFailed(TimedOut("too late")))
        assert kinds(nothing.said) == [Finalize, Respond, HangUp]

        for chunks in ((OPENING,), (OPENING, CONTENT)):
            play = Played(service)
            play.until_called(Begin(BODY))
            hear = play.hear()
            for chunk in chunks:
                play.take(hear, chunk)
            play.say(HeartbeatDue(15.0))
            play.say(WaitFailed(TimedOut("too late")))
            assert kinds(play.said)[0] is Finalize and kinds(play.said)[-2:] == [End, HangUp]
            told = b"".join(command.data for command in play.said if isinstance(command, Write))
            assert b"too late" in told
            assert play.machine.sent is SentState.ALL

    played_by(story)


@pytest.mark.parametrize("stopping", [False, True])
def test_whoever_goes_settles_the_exchange_in_every_state(stopping: bool) -> None:
    def story(service: Runtime) -> None:
        play = Played(service)
        play.until_called(Begin(BODY))
        play.say(ClientDisconnected(stopping))
        assert kinds(play.said) == ([Finalize, Respond, HangUp] if stopping else [Finalize, HangUp])
        settled = play.said[0]
        assert isinstance(settled, Finalize)
        assert settled.changes["failure"] == ("shutdown" if stopping else "cancelled")
        assert play.machine.handle(Done()) == []

    played_by(story)


def test_a_failure_is_told_as_its_own_target_failed() -> None:
    def story(service: Runtime) -> None:
        play = Played(service, "chat/other")
        play.until_called(Begin(BODY))
        missed = play.machine._missed(Failure(kind=FailureKind.BAD_GATEWAY, status=502, message="the first"))
        play.more_targets()
        play.until_called(WaitFailed(TimedOut("the second")))
        assert play.account.record.provider == "chat"
        play.machine._out = []
        play.machine._return_failure(missed)
        told = play.machine._out[1]
        assert isinstance(told, Respond) and b"the first" in told.body
        assert dict(told.headers)[b"x-dragoman-route"] == b"messages/served; protocol=anthropic-messages"
        assert play.account.record.provider == "messages"

    played_by(story)


@pytest.mark.parametrize(
    ("kind", "words", "header", "told"),
    [
        (FailureKind.RATE_LIMITED, "slow down", b"16.2", "slow down (try again in 17 s)"),
        (FailureKind.RATE_LIMITED, "try again in 5s", b"17", "try again in 5s"),
        (FailureKind.RATE_LIMITED, "slow down", b"soon", "slow down"),
        (FailureKind.INVALID, "no", b"17", "no"),
    ],
)
def test_pitfall_382_where_no_header_goes_out_any_more_the_words_tell_the_delay(
    kind: FailureKind, words: str, header: bytes, told: str
) -> None:
    def story(service: Runtime) -> None:
        play = Played(service)
        play.until_called(Begin(BODY))
        play.machine.attempt.headers = [(b"retry-after", header)]
        missed = play.machine._missed(Failure(kind=kind, status=429, message=words))
        assert play.machine._timed(missed).message == told

    played_by(story)
