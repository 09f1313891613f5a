"""Failures: what follows one, and how the client learns of the last."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig
from dragoman.errors import TimedOut
from dragoman.gateway.exchange.client_responses import SentState
from dragoman.gateway.exchange.failing import _timed, missed_of, return_failure
from dragoman.gateway.runtime import Runtime
from dragoman.model.failure import Failure, FailureKind
from tests.gateway.exchange.played import BODY, CONTENT, OPENING, Played, played_by
from tests.gateway.harness import settings_for


@pytest.mark.parametrize("chunks", [(), (OPENING,), (OPENING, CONTENT)], ids=["nothing", "the status", "content"])
def test_a_failure_is_sent_by_what_was_sent_before(chunks: tuple[bytes, ...]) -> None:
    async def story(service: Runtime) -> None:
        play = Played(service)
        call = await play.begin()
        if chunks:
            call.respond()
            await play.quiet()
            for chunk in chunks:
                call.send(chunk)
            play.exchange.heartbeat_due()
        await play.fail(TimedOut("too late"))
        assert play.is_over and play.client.ended and b"too late" in play.client.body
        assert play.client.status == (200 if chunks else 504)
        assert play.exchange.sent is SentState.ALL and play.builder.is_finalized
        assert play.record.attempts[0].kind == ("stream_broken" if len(chunks) == 2 else play.record.attempts[0].kind)

    played_by(story)


@pytest.mark.parametrize("stopping", [False, True])
@pytest.mark.parametrize("is_streaming", [False, True])
def test_a_client_that_leaves_and_a_gateway_that_stops_finalize_the_exchange(
    stopping: bool, is_streaming: bool
) -> None:
    async def story(service: Runtime) -> None:
        play = Played(service)
        call = await play.begin()
        if is_streaming:
            call.respond()
            await play.quiet()
            call.send(OPENING + CONTENT)
        service.draining = stopping
        assert play.task is not None
        play.client.gone = not stopping
        play.task.cancel()
        await play.quiet()
        assert play.is_over and call.is_closed
        assert play.record.failure == ("shutdown" if stopping else "cancelled")
        assert play.record.status == (200 if is_streaming else 503 if stopping else 499)
        assert play.client.ended is stopping

    played_by(story)


def test_a_failure_is_sent_as_its_own_target_failed() -> None:
    line = RouteConfig(pattern="line", targets=("messages/served", "chat/other"))

    async def story(service: Runtime) -> None:
        play = Played(service)
        await play.begin(BODY.replace(b"messages/served", b"line"))
        failure = Failure(kind=FailureKind.BAD_GATEWAY, status=502, message="the first")
        missed = missed_of(play.exchange, failure)
        await play.fail(TimedOut("the second"))
        assert play.record.provider == "chat"
        await return_failure(play.exchange, missed)
        assert b"the first" in play.client.body and play.record.provider == "messages"
        assert play.client.headers[b"x-dragoman-route"].startswith(b"messages/served; protocol=anthropic-messages")
        await play.leave()

    played_by(story, lambda port: replace(settings_for(port), routes=(line,)))


def test_a_failure_that_cannot_be_sent_is_not_sent_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(service: Runtime) -> None:
        play = Played(service)
        await play.begin()

        def broken(*_: object, **__: object) -> None:
            raise TimedOut("not even that")

        monkeypatch.setattr(type(play.exchange.responses), "failure", broken)
        await play.fail(TimedOut("too late"))
        assert play.task is not None and play.is_over
        with pytest.raises(TimedOut, match="not even that"):
            play.task.result()

    played_by(story)


@pytest.mark.parametrize(
    ("kind", "words", "header", "sent"),
    [
        (FailureKind.RATE_LIMITED, "slow down", b"16.2", "slow down (try again in 17 s)"),
        (FailureKind.RATE_LIMITED, "try again in 5s", b"17", "try again in 5s"),
        (FailureKind.RATE_LIMITED, "slow down", b"soon", "slow down"),
        (FailureKind.INVALID, "no", b"17", "no"),
    ],
)
def test_pitfall_382_where_no_header_can_be_sent_the_text_has_the_delay(
    kind: FailureKind, words: str, header: bytes, sent: str
) -> None:
    async def story(service: Runtime) -> None:
        play = Played(service)
        await play.begin()
        play.attempt.headers = [(b"retry-after", header)]
        missed = missed_of(play.exchange, Failure(kind=kind, status=429, message=words))
        assert _timed(play.exchange, missed).message == sent
        await play.leave()

    played_by(story)


def test_a_client_that_stalls_is_cut_off_without_an_error() -> None:
    async def story(service: Runtime) -> None:
        play = Played(service)
        call = await play.begin()
        call.respond()
        await play.quiet()
        call.send(OPENING + CONTENT)
        sent, play.client.paused = play.client.body, True
        await play.fail(TimedOut("too late"))
        assert play.is_over and play.client.aborted and play.client.body == sent
        assert (play.record.failure, play.record.attempts[0].kind) == ("timeout", "client_disconnected")

    played_by(story)
