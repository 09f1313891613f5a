"""Attempts: targets, keys, refusals, and what of a failed one is left."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, Settings
from dragoman.errors import TimedOut, Unreachable
from dragoman.gateway.exchange.attempt import PreparedAttempt
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.store_failures import NotStored
from tests.gateway.exchange.played import BODY, CONTENT, JSON, OPENING, Played, played_by
from tests.gateway.harness import CHAT, MESSAGES, RESPONSES, settings_for

LINED = BODY.replace(b"messages/served", b"line")


def _line(*targets: str, retries: int = 0) -> Settings:
    return replace(settings_for(9), routes=(RouteConfig(pattern="line", targets=targets, retries=retries),))


@pytest.mark.parametrize("opened", [False, True], ids=["nothing", "the status"])
def test_the_next_target_is_called_while_no_content_was_sent(opened: bool) -> None:
    async def story(service: Runtime) -> None:
        play = Played(service)
        first = await play.begin(LINED)
        assert play.attempt.target.endpoint.protocol == MESSAGES
        if opened:
            first.respond()
            await play.quiet()
            first.send(OPENING)
            play.exchange.heartbeat_due()
        await play.fail(TimedOut("too late"))
        assert play.attempt.target.endpoint.protocol == CHAT and first.is_closed
        assert (play.record.provider, play.record.failure) == ("chat", "")
        await play.fail(TimedOut("too late again"))
        assert play.is_over and len(play.calls) == 2 and play.client.status == (200 if opened else 504)

    played_by(story, lambda _: _line("messages/served", "chat/served"))


@pytest.mark.parametrize("paid", [False, True])
def test_no_other_target_is_called_after_content_or_for_a_response_that_was_paid_for(paid: bool) -> None:
    async def story(service: Runtime) -> None:
        play = Played(service)
        call = await play.begin(LINED)
        if not paid:
            call.respond()
            await play.quiet()
            call.send(OPENING + CONTENT)
        await play.fail(NotStored() if paid else TimedOut("too late"))
        assert play.is_over and len(play.calls) == 1

    played_by(story, lambda _: _line("messages/served", "chat/served"))


def test_an_error_has_no_headers_of_an_earlier_call() -> None:
    def settings(port: int) -> Settings:
        made = settings_for(port)
        keyed = replace(made.providers["messages"], keys=("sk-one", "sk-two"))
        return replace(made, providers={**made.providers, "messages": keyed})

    async def story(service: Runtime) -> None:
        play = Played(service)
        call = await play.begin()
        limited = b'{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}'
        call.respond(429, JSON, limited, b"retry-after: 777")
        await play.quiet()
        assert len(play.calls) == 2 and play.attempt.headers == []
        await play.fail(TimedOut("too late"))
        assert play.is_over and b"retry-after" not in play.client.headers

    played_by(story, settings)


# What no other protocol can say, so that a strict client can be served by its own alone.
LOSSY = LINED.replace(b'"stream"', b'"seed":3,"stream"')
STRICT = [(b"x-dragoman-strict", b"1")]


def test_a_target_that_cannot_take_the_request_does_not_end_the_search() -> None:
    async def story(service: Runtime) -> None:
        play = Played(service, headers=STRICT)
        await play.begin(LOSSY)
        await play.fail(TimedOut("too late"))
        assert [call.request.url.rpartition("/v1")[2] for call in play.calls] == ["/chat/completions"] * 2
        assert play.attempt.target.model == "other"
        await play.leave()

    played_by(story, lambda _: _line("chat/served", "messages/served", "responses/served", "chat/other"))


def test_a_failure_before_targets_that_cannot_take_the_request_is_sent_once() -> None:
    async def story(service: Runtime) -> None:
        play = Played(service, headers=STRICT)
        await play.begin(LOSSY)
        await play.fail(TimedOut("too late"))
        assert play.is_over and (play.client.status, b"too late" in play.client.body) == (504, True)

    played_by(story, lambda _: _line("chat/served", "messages/served", "responses/served"))


ASKED = b'{"model":"line","stream":true,"store":false,"input":"Hello."}'
CREATED = b'event: response.created\ndata: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1",'
CREATED += b'"object":"response","status":"in_progress","model":"served","output":[]}}\n\n'
FAILED = CREATED.replace(b"response.created", b"response.failed").replace(b'"in_progress"', b'"failed"')
FAILED = FAILED.replace(b'"output":[]', b'"output":[],"error":{"code":"server_is_overloaded","message":"at capacity"}')


def test_pitfall_301_a_relayed_failure_that_was_not_sent_goes_to_the_next_target() -> None:
    async def story(service: Runtime) -> None:
        play = Played(service, protocol=RESPONSES)
        call = await play.begin(ASKED)
        call.respond()
        await play.quiet()
        call.send(CREATED + FAILED)
        await play.quiet()
        assert play.attempt.target.model == "other" and play.record.attempts[0].kind == "overloaded"
        assert not play.client.started
        await play.leave()

    played_by(story, lambda _: _line("responses/served", "chat/other"))


@pytest.mark.parametrize("others", [0, 1], ids=["no other target", "another one that fails"])
def test_a_relayed_failure_is_sent_as_it_is_if_nothing_else_can_be_done(others: int) -> None:
    async def story(service: Runtime) -> None:
        play = Played(service, protocol=RESPONSES)
        call = await play.begin(ASKED)
        call.respond()
        await play.quiet()
        call.send(CREATED + FAILED)
        await play.quiet()
        if others:
            play.calls[-1].respond(400, JSON, b'{"error":{"message":"no","type":"invalid_request_error"}}')
        else:
            call.end()
        await play.quiet()
        assert play.is_over and play.client.ended
        assert (play.client.status, play.client.body) == (200, CREATED + FAILED)

    played_by(story, lambda _: _line("responses/served", *["chat/other"] * others))


def test_of_a_failed_attempt_only_its_failure_is_held() -> None:
    async def story(service: Runtime) -> None:
        play = Played(service)
        await play.begin(LINED)
        failed = play.attempt
        await play.fail(TimedOut("too late"))
        # Bodies may be large, and there may be many attempts.
        assert isinstance(failed, PreparedAttempt)
        assert (failed.body, failed.prepared.translated.body) == (b"", b"")
        assert all(call.request.body for call in play.calls)
        await play.fail(TimedOut("too late"))
        assert play.client.headers[b"x-dragoman-route"].startswith(b"messages/served;")

    played_by(story, lambda _: _line("messages/served", "chat/served"))


@pytest.mark.parametrize(("retries", "more"), [(0, b""), (1, b"; attempts=2")])
def test_a_route_with_one_target_that_is_called_again_reports_its_attempts(retries: int, more: bytes) -> None:
    async def story(service: Runtime) -> None:
        play = Played(service)
        await play.begin(LINED)
        for _ in range(retries + 1):
            await play.fail(Unreachable("nobody is there"))
            # Before a target is called again there is a pause.
            await asyncio.sleep(60)
        assert play.is_over and len(play.calls) == retries + 1
        route = b"messages/served; protocol=anthropic-messages" + more
        assert play.client.headers[b"x-dragoman-route"] == route

    played_by(story, lambda _: _line("messages/served", retries=retries))
