"""What all moves share: work is done within the move, unless others would wait for it."""

from __future__ import annotations

import pytest

from dragoman.gateway.exchange.events_commands import Begin, CallTarget, Finalize, Offload
from dragoman.gateway.exchange.states import State
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.thread_offload import INLINE
from dragoman.routing.attempt_outcome import AttemptOutcome
from tests.gateway.exchange.played import BODY, Played, played_by


@pytest.mark.parametrize("large", [False, True])
def test_small_work_is_done_at_once_and_large_work_is_waited_for(large: bool) -> None:
    def story(service: Runtime) -> None:
        play = Played(service)
        body = BODY.replace(b"Hello.", b"x" * (INLINE + 1)) if large else BODY
        command = play.say(Begin(body))
        assert isinstance(command, Offload if large else CallTarget)
        assert play.machine.state is (State.READING if large else State.CALLING)

    played_by(story)


def test_what_is_settled_says_what_became_of_the_last_call() -> None:
    def story(service: Runtime) -> None:
        play = Played(service)
        play.until_called(Begin(BODY))
        play.machine._out = []
        play.machine._finalize(AttemptOutcome.CLIENT_DISCONNECTED, {"status": 499})
        [settled] = play.machine._out
        assert isinstance(settled, Finalize) and settled.changes["status"] == 499
        attempts = settled.changes["attempts"]
        assert isinstance(attempts, tuple) and [each.kind for each in attempts] == ["client_disconnected"]

    played_by(story)
