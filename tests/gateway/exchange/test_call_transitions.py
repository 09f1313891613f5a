"""A request goes from target to target while nothing of an answer was said."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig
from dragoman.errors import TimedOut, Unreachable
from dragoman.gateway.exchange.events_commands import (
    Begin,
    CallTarget,
    Done,
    Drop,
    End,
    Finalize,
    HangUp,
    HeartbeatDue,
    Pause,
    Respond,
    Start,
    WaitFailed,
    Write,
)
from dragoman.gateway.exchange.states import State
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.store_failures import NotStored
from tests.gateway.exchange.played import BODY, CONTENT, OPENING, Head, Played, kinds, played_by
from tests.gateway.harness import CHAT, MESSAGES, RESPONSES, settings_for


@pytest.mark.parametrize("opened", [False, True], ids=["nothing", "the status"])
def test_the_next_target_is_asked_while_nothing_of_an_answer_was_said(opened: bool) -> None:
    def story(service: Runtime) -> None:
        play = Played(service, "chat/served")
        first = play.until_called(Begin(BODY))
        assert first.prepared.target.endpoint.protocol == MESSAGES
        play.more_targets()
        if opened:
            hear = play.hear()
            play.take(hear, OPENING)
            play.say(HeartbeatDue(15.0))
        second = play.until_called(WaitFailed(TimedOut("too late")))
        assert second.prepared.target.endpoint.protocol == CHAT
        assert (play.account.record.provider, play.account.record.failure) == ("chat", "")
        play.say(WaitFailed(TimedOut("too late again")))
        assert kinds(play.said)[-1] is HangUp and play.machine.state is State.OVER

    played_by(story)


def test_no_other_target_is_asked_once_there_was_content() -> None:
    def story(service: Runtime) -> None:
        play = Played(service, "chat/served")
        play.until_called(Begin(BODY))
        play.more_targets()
        hear = play.hear()
        play.take(hear, OPENING + CONTENT)
        play.say(WaitFailed(TimedOut("too late")))
        assert CallTarget not in kinds(play.said) and play.machine.state is State.OVER

    played_by(story)


def test_no_other_target_is_asked_for_an_answer_that_was_paid_for() -> None:
    def story(service: Runtime) -> None:
        play = Played(service, "chat/served")
        play.until_called(Begin(BODY))
        play.more_targets()
        play.say(WaitFailed(NotStored()))
        assert CallTarget not in kinds(play.said) and play.machine.state is State.OVER

    played_by(story)


def test_an_error_tells_nothing_of_an_earlier_call() -> None:
    def story(service: Runtime) -> None:
        play = Played(service)
        play.until_called(Begin(BODY))
        limited = Head(429, b"application/json")
        limited.headers.append((b"retry-after", b"777"))
        play.say(Done(limited))
        assert play.machine.attempt.headers == limited.headers
        # Another key is tried, and never answered.
        play.machine._call()
        play.say(WaitFailed(TimedOut("too late")))
        told = play.said[1]
        assert isinstance(told, Respond) and (b"retry-after", b"777") not in told.headers

    played_by(story)


# What no other protocol says, so that a strict client can be served by its own alone.
LOSSY = BODY.replace(b"messages/", b"chat/").replace(b'"stream"', b'"seed":3,"stream"')
STRICT = [(b"x-dragoman-strict", b"1")]


def test_a_target_that_cannot_be_asked_does_not_end_the_search() -> None:
    def story(service: Runtime) -> None:
        play = Played(service, "messages/served", "responses/served", "chat/other", headers=STRICT)
        play.until_called(Begin(LOSSY))
        play.more_targets()
        last = play.until_called(WaitFailed(TimedOut("too late")))
        assert last.prepared.target.model == "other"
        # What the others were about to wait for is not waited for.
        assert kinds(play.said) == [Drop, CallTarget]

    played_by(story)


def test_a_failure_after_the_last_target_that_cannot_be_asked_is_told_once() -> None:
    def story(service: Runtime) -> None:
        play = Played(service, "messages/served", "responses/served", headers=STRICT)
        play.until_called(Begin(LOSSY))
        play.more_targets()
        play.say(WaitFailed(TimedOut("too late")))
        assert kinds(play.said) == [Drop, Finalize, Respond, HangUp] and play.machine.state is State.OVER
        told = play.said[2]
        assert isinstance(told, Respond) and (told.status, b"too late" in told.body) == (504, True)

    played_by(story)


def test_a_failure_that_cannot_be_told_is_not_told_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    def story(service: Runtime) -> None:
        play = Played(service)
        play.until_called(Begin(BODY))

        def broken(*_: object, **__: object) -> None:
            raise TimedOut("not even that")

        monkeypatch.setattr(type(play.machine._responses), "failure", broken)
        with pytest.raises(TimedOut, match="not even that"):
            play.machine.handle(WaitFailed(TimedOut("too late")))

    played_by(story)


ASKED = b'{"model":"responses/served","stream":true,"store":false,"input":"Hello."}'
CREATED = b'event: response.created\ndata: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1",'
CREATED += b'"object":"response","status":"in_progress","model":"served","output":[]}}\n\n'
FAILED = CREATED.replace(b"response.created", b"response.failed").replace(b'"in_progress"', b'"failed"')
FAILED = FAILED.replace(b'"output":[]', b'"output":[],"error":{"code":"server_is_overloaded","message":"at capacity"}')


def test_pitfall_301_a_relayed_failure_of_which_nobody_heard_goes_to_the_next_target() -> None:
    def story(service: Runtime) -> None:
        play = Played(service, "chat/other", protocol=RESPONSES)
        play.until_called(Begin(ASKED))
        play.more_targets()
        play.take(play.hear(), CREATED + FAILED)
        assert (play.machine.state, kinds(play.said)) == (State.MISSED, [HangUp])
        second = play.until_called(Done())
        assert second.prepared.target.model == "other"
        assert play.account.record.attempts[0].kind == "overloaded"
        # It is the next one that is told, unless it fails as well.
        play.say(WaitFailed(TimedOut("too late")))
        assert play.machine.state is State.OVER

    played_by(story)


def test_a_relayed_failure_is_told_as_it_is_if_nothing_else_can_be_done() -> None:
    def story(service: Runtime) -> None:
        play = Played(service, protocol=RESPONSES)
        play.until_called(Begin(ASKED))
        play.take(play.hear(), CREATED + FAILED)
        assert kinds(play.said)[0] is Start and play.machine.state is State.ENDING
        assert b"".join(each.data for each in play.said if isinstance(each, Write)) == CREATED + FAILED

    played_by(story)


def test_a_relayed_failure_that_was_held_back_is_told_as_it_is_in_the_end() -> None:
    def story(service: Runtime) -> None:
        play = Played(service, "chat/other", protocol=RESPONSES)
        play.until_called(Begin(ASKED))
        play.more_targets()
        play.take(play.hear(), CREATED + FAILED)
        assert play.machine._retry_state is not None
        play.machine._retry_state._others = ()
        play.say(Done())
        assert kinds(play.said) == [Start, Finalize, Write, End, HangUp]
        assert b"".join(each.data for each in play.said if isinstance(each, Write)) == CREATED + FAILED

    played_by(story)


def test_of_a_failed_attempt_only_its_failure_is_kept() -> None:
    def story(service: Runtime) -> None:
        play = Played(service, "chat/served")
        first = play.until_called(Begin(BODY))
        failed = play.machine.attempt
        play.more_targets()
        second = play.until_called(WaitFailed(TimedOut("too late")))
        # Bodies may be large, and there may be many attempts.
        assert (failed.body, failed.prepared.translated.body) == (b"", b"")
        assert first.prepared.translated.body and second.prepared.translated.body
        play.say(WaitFailed(TimedOut("too late")))
        told = play.said[-2]
        assert isinstance(told, Respond) and dict(told.headers)[b"x-dragoman-route"].startswith(b"messages/served;")

    played_by(story)


@pytest.mark.parametrize(("retries", "more"), [(0, b""), (1, b"; attempts=2")])
def test_a_line_with_one_target_that_is_asked_again_tells_its_attempts(retries: int, more: bytes) -> None:
    line = RouteConfig(pattern="patient", targets=("messages/served",), retries=retries)

    def story(service: Runtime) -> None:
        play = Played(service, "chat/served")
        play.until_called(Begin(BODY.replace(b"messages/served", b"patient")))
        waits = play.say(WaitFailed(Unreachable("nobody is there")))
        if retries:
            assert isinstance(waits, Pause)
            play.until_called(Done())
            play.say(WaitFailed(Unreachable("nobody is there")))
        told = next(command for command in play.said if isinstance(command, Respond))
        assert dict(told.headers)[b"x-dragoman-route"] == b"messages/served; protocol=anthropic-messages" + more

    played_by(story, lambda port: replace(settings_for(port), routes=(line,)))
