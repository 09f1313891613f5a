"""What all parts of an exchange share: work on bytes, the record, the store, and the release of everything."""

from __future__ import annotations

import asyncio
import threading

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, Settings
from dragoman.errors import DragomanError, TimedOut
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.thread_offload import INLINE
from dragoman.model.request_features import ConversationStart
from dragoman.protocols.openai_chat.request_glance import ChatGlance
from dragoman.routing.attempt_outcome import AttemptOutcome
from tests.gateway.exchange.played import BODY, CONTENT, JSON, OPENING, Played, played_by
from tests.gateway.harness import RESPONSES, settings_for


@pytest.mark.parametrize("large", [False, True])
def test_small_work_is_done_at_once_and_large_work_in_a_thread(large: bool) -> None:
    async def story(service: Runtime) -> None:
        thread = await Played(service).exchange.work(INLINE + large, threading.get_ident)
        assert (thread != threading.get_ident()) is large

    played_by(story, threads=True)


def test_a_large_body_waits_for_a_thread_before_its_target_is_called() -> None:
    async def story(service: Runtime) -> None:
        play = Played(service)
        call = await play.begin(BODY.replace(b"Hello.", b"x" * (INLINE + 1)))
        assert b"x" * (INLINE + 1) in call.request.body
        await play.leave()

    played_by(story)


def test_a_finalized_record_has_the_outcome_of_the_last_call() -> None:
    async def story(service: Runtime) -> None:
        play = Played(service)
        await play.begin()
        play.exchange.finalize(AttemptOutcome.CLIENT_DISCONNECTED, status=499)
        assert (play.record.status, [each.kind for each in play.record.attempts]) == (499, ["client_disconnected"])
        await play.leave()

    played_by(story)


@pytest.mark.parametrize("large", [False, True])
def test_the_start_of_a_large_conversation_is_read_before_its_targets_are_chosen(
    large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plays: list[Played] = []
    read: list[int] = []

    def conversation_start(glance: ChatGlance) -> ConversationStart:
        read.append(len(plays[0].calls))
        return ConversationStart()

    def settings(port: int) -> Settings:
        route = RouteConfig(pattern="several", targets=("chat/first", "chat/second"))
        return replace(settings_for(port), routes=(route,))

    async def story(service: Runtime) -> None:
        play = Played(service)
        plays.append(play)
        text = b"x" * (INLINE if large else 1)
        await play.begin(b'{"model":"several","messages":[{"role":"user","content":"%b"}]}' % text)
        await play.fail(TimedOut("too late"))
        play.calls[-1].respond(200, JSON, b'{"choices":[{"message":{"content":"Hi"}}]}')
        await play.quiet()
        assert (play.is_over, play.client.status, len(play.calls)) == (True, 200, 2)
        # That of a small one is read when another target than the first has answered.
        assert read == [0 if large else 2]

    monkeypatch.setattr(ChatGlance, "conversation_start", conversation_start)
    played_by(story, settings)


def test_a_response_that_is_not_stored_waits_for_no_store() -> None:
    async def story(service: Runtime) -> None:
        exchange, errors = Played(service, protocol=RESPONSES).exchange, list[DragomanError | None]()
        async with asyncio.timeout(0):
            exchange.store_streamed(b"data: {}\n\n", errors.append)
            await exchange.await_stored()
            await exchange.last_moments()
        assert errors == [None]

    played_by(story)


def test_a_heartbeat_commits_the_status_and_nothing_that_is_held() -> None:
    async def story(service: Runtime) -> None:
        play = Played(service)
        call = await play.begin()
        call.respond()
        await play.quiet()
        call.send(OPENING)
        assert not play.client.started
        play.exchange.heartbeat_due()
        assert (play.client.status, play.client.body) == (200, b": keep-alive\n\n")
        call.send(CONTENT)
        _, opening, content = play.client.chunks
        assert b'"role":"assistant"' in opening and b"Hi" in content
        await play.leave()

    played_by(story)


def test_heartbeats_go_on_until_all_is_sent() -> None:
    async def story(service: Runtime) -> None:
        play = Played(service)
        call = await play.begin()
        call.respond()
        await play.quiet()
        play.exchange.heartbeat_due()
        await play.fail(TimedOut("too late"))
        assert play.is_over and play.client.ended
        chunks = len(play.client.chunks)
        play.exchange.heartbeat_due()
        assert len(play.client.chunks) == chunks

    played_by(story)


def test_nothing_is_held_after_the_end() -> None:
    async def story(service: Runtime) -> None:
        play = Played(service)
        call = await play.begin()
        call.respond()
        await play.quiet()
        call.send(OPENING + CONTENT)
        play.exchange.open_charge().add(100)
        assert play.exchange.stream is not None and play.client.on_pause is not None
        await play.leave()
        exchange = play.exchange
        assert (exchange.stream, exchange.charge, exchange.slot, exchange.limits.alive) == (None, None, None, None)
        assert call.is_closed and play.client.on_pause is None and play.client.on_resume is None
        assert (service.buffered.size, service.buffered.held) == (0, 0)

    played_by(story)
