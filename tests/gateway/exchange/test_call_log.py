"""Every call is in the record, with what became of it, whatever way it ended."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, Settings
from dragoman.errors import Overloaded
from dragoman.gateway.admission import Slot
from dragoman.gateway.exchange.attempt import Attempt, ResponseMode
from dragoman.gateway.exchange.call_log import Calls
from dragoman.gateway.observability.record import Record
from dragoman.gateway.runtime import Runtime
from dragoman.model.response import Usage
from dragoman.routing.attempt_outcome import AttemptOutcome
from tests.gateway.exchange.played import BODY, Played, played_by
from tests.gateway.harness import CHAT, PATHS, running, settings_for
from tests.gateway.routed import target_of
from tests.gateway.says import question
from tests.playbooks.stage import START
from tests.playbooks.test_playbooks import SCENES, played
from tests.virtual_time import run

# What the dialogues come to, by their names, for each call in turn.
KINDS = {
    "whole": ["answered"],
    "stream": ["answered"],
    "collected": ["answered"],
    "mislabelled": ["answered", "answered"],
    "refused": ["rate_limited"],
    "failed": ["connection_lost"],
    "key_unknown": ["invalid_key"],
    "key_refused": ["rate_limited", "answered", "answered", "answered"],
    "reasoning_refused": ["invalid_request", "answered"],
    "reasoning_refused_inside": ["invalid_request", "answered"],
    "reasoning_refused_with_200": ["invalid_request", "answered"],
    "refused_with_200": ["overloaded"],
    "error_first": ["overloaded"],
    "error_inside": ["stream_broken"],
    "empty": ["connection_lost", "connection_lost"],
    "unreachable": ["unreachable"],
    "cut": ["stream_broken"],
    "cut_before_content": ["stream_broken"],
    "cancelled": ["client_disconnected"],
    "cancelled_before_head": ["client_disconnected"],
    "dead_reader": ["client_disconnected"],
    "stopped": ["gateway_error"],
    "stopped_waiting": ["gateway_error"],
}


@pytest.mark.parametrize("name", KINDS)
def test_every_call_is_closed_once_with_its_kind(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records: list[Record] = []
    finish = Runtime.finish

    def finished(service: Runtime, record: Record) -> None:
        records.append(record)
        finish(service, record)

    monkeypatch.setattr(Runtime, "finish", finished)
    run(played(SCENES[f"chat_to_chat/{name}"], tmp_path), START)
    attempts = [attempt for record in records for attempt in record.attempts]
    assert [attempt.kind for attempt in attempts] == KINDS[name]
    for record in records:
        duration = (record.ended - record.started) * 1_000_000
        assert all(duration >= attempt.ended >= attempt.started for attempt in record.attempts)
    assert [attempt.maybe_billed for attempt in attempts] == [attempt.kind == "stream_broken" for attempt in attempts]
    # The place of a key is told, and never its text.
    assert {attempt.key for attempt in attempts} == ({0, 1} if name == "key_refused" else {0})


def test_a_call_that_could_not_be_made_is_one_too() -> None:
    async def story(service: Runtime) -> None:
        account = service.builder_of(Record(id="req_1", client_protocol=CHAT, path="", started=0.0, time=0))
        calls, target = Calls(service, account), target_of(service.routes, "chat/served", CHAT)
        attempt = Attempt(target, service.target_settings(target))
        assert calls.ended(attempt, AttemptOutcome.GATEWAY_ERROR) == ()
        calls.begin()
        account.record.attempts = calls.ended(attempt, AttemptOutcome.CONNECTION_LOST)
        [noted] = account.record.attempts
        assert (noted.provider, noted.kind, noted.key, noted.status) == ("chat", "connection_lost", -1, 0)
        assert calls.ended(attempt, AttemptOutcome.ANSWERED) == account.record.attempts

    played_by(story)


def test_a_call_that_waits_for_a_place_is_none_until_it_has_one() -> None:
    async def story(service: Runtime) -> None:
        account = service.builder_of(Record(id="req_1", client_protocol=CHAT, path="", started=0.0, time=0))
        calls, target = Calls(service, account), target_of(service.routes, "chat/served", CHAT)
        attempt = Attempt(target, service.target_settings(target))
        calls.begin()
        calls.queued()
        assert calls.ended(attempt, AttemptOutcome.QUEUE_FULL) == () and calls.count == 0
        calls.begin()
        calls.queued()
        calls.admitted()
        assert len(calls.ended(attempt, AttemptOutcome.ANSWERED)) == 1 and calls.count == 1

    played_by(story)


@pytest.mark.parametrize("mode", [ResponseMode.FULL, ResponseMode.COLLECTED, ResponseMode.STREAM])
def test_the_speed_of_a_response_that_is_sent_at_once_is_its_duration(mode: ResponseMode) -> None:
    """Its first content is sent at its end. Taken for that of a stream, no time would be left for its tokens."""

    async def story(service: Runtime) -> None:
        account = service.builder_of(Record(id="req_1", client_protocol=CHAT, path="", started=0.0, time=0))
        calls, target = Calls(service, account), target_of(service.routes, "chat/served", CHAT)
        attempt = Attempt(target, service.target_settings(target), mode=mode, usage=Usage(input=10, output=100))
        calls.begin()
        await asyncio.sleep(1.0)
        if mode is ResponseMode.STREAM:
            attempt.first = service.clock()
        await asyncio.sleep(4.0)
        attempt.first = attempt.first or service.clock()
        [ended] = calls.ended(attempt, AttemptOutcome.ANSWERED)
        speed = service.routing_state.speeds.speed(target.id, 0, service.clock())
        assert speed is not None
        if mode is ResponseMode.STREAM:
            assert speed.first_token == pytest.approx(1.0)
            assert speed.rate == pytest.approx(25.0)
        else:
            assert speed.first_token == 0.0
            assert speed.rate == pytest.approx(20.0)
            assert ended.first_content == ended.ended

    played_by(story)


def narrow(port: int) -> Settings:
    """A provider that has one call at a time and lets nobody wait."""
    made = settings_for(port)
    return replace(
        made, providers={**made.providers, "chat": replace(made.providers["chat"], concurrency=1, queue_size=0)}
    )


def test_a_target_without_a_place_is_told_as_such_and_is_no_attempt() -> None:
    with running((), narrow) as house:

        async def taken() -> Slot:
            found = house.app.runtime.admission.enter("chat", "somebody")
            assert isinstance(found, Slot)
            return found

        slot = house.run(taken())
        assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 503
        house.run(asyncio.sleep(0))
        [line] = [json.loads(line) for line in house.log.getvalue().splitlines()]
        assert (line["attempt_count"], line["queue_full"]) == (0, ["chat/served"])
        assert b"attempts_total{" not in house.get("/metrics").body
        slot.release()


def test_the_target_after_one_without_a_place_is_the_first_attempt() -> None:
    async def story(service: Runtime) -> None:
        play = Played(service)
        await play.begin(BODY.replace(b"messages/served", b"line"))
        play.exchange.calls.queued()
        await play.fail(Overloaded("too many", waited=0.0, retry_after=1))
        assert play.attempt.target.provider.name == "responses" and len(play.calls) == 2
        request = play.exchange.request
        assert request is not None and request.retry_state.tries == 1 and play.exchange.calls.count == 1
        assert play.record.queue_full == ("messages/served",)
        assert play.record.attempts == ()
        await play.leave()

    line = RouteConfig(pattern="line", targets=("messages/served", "responses/served"))
    played_by(story, lambda port: replace(settings_for(port), routes=(line,)))
