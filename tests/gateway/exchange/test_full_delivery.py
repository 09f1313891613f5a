"""Responses that are sent at once."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.config.settings import Limits
from dragoman.gateway.byte_budget import ReaderCharge
from dragoman.gateway.exchange.full_delivery import _UNCHARGED
from dragoman.gateway.runtime import Runtime
from tests.gateway.exchange.played import CONTENT, END, JSON, OPENING, STOPPED, Played, played_by
from tests.gateway.harness import settings_for

ASKED = b'{"model":"messages/served","messages":[{"role":"user","content":"Hello."}]}'
RELAYED = ASKED.replace(b"messages/", b"chat/")
RESPONSE = b'{"id":"m","type":"message","role":"assistant","model":"served","content":[{"type":"text","text":"Hi"}],'
RESPONSE += b'"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":1}}'
CHAT_RESPONSE = b'{"id":"c","object":"chat.completion","created":1,"model":"served","choices":[{"index":0,"message":'
CHAT_RESPONSE += (
    b'{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}'
)


@pytest.mark.parametrize("arrived", [True, False], ids=["with its head", "behind its head"])
def test_a_response_is_translated_recorded_and_sent(arrived: bool) -> None:
    async def story(service: Runtime) -> None:
        play = Played(service)
        call = await play.begin(ASKED)
        call.respond(200, JSON, RESPONSE if arrived else None)
        await play.quiet()
        if not arrived:
            for piece in (RESPONSE[:30], RESPONSE[30:]):
                call.send(piece)
            call.end()
            await play.quiet()
        assert play.is_over and b'"content":"Hi"' in play.client.body
        usage = play.record.usage
        assert usage is not None and (usage.input, usage.output, play.record.stop_reason) == (3, 1, "end_turn")
        assert play.record.attempts[0].kind == "answered"

    played_by(story)


def test_a_relayed_response_is_sent_byte_for_byte() -> None:
    async def story(service: Runtime) -> None:
        play = Played(service)
        call = await play.begin(RELAYED)
        call.respond(200, JSON, CHAT_RESPONSE)
        await play.quiet()
        assert play.client.body == CHAT_RESPONSE and play.record.response_id == "c"

    played_by(story)


def test_events_under_another_content_type_are_read_as_what_they_are() -> None:
    async def story(service: Runtime) -> None:
        play = Played(service)
        call = await play.begin(ASKED)
        call.respond(200, JSON, b"\n" * 100 + OPENING + CONTENT + STOPPED + END)
        await play.quiet()
        assert play.client.headers[b"content-type"] == JSON and b'"content":"Hi"' in play.client.body

    played_by(story)


@pytest.mark.parametrize("body", [b"", b" ", b"\n" * 100])
def test_an_empty_response_is_an_error(body: bytes) -> None:
    async def story(service: Runtime) -> None:
        play = Played(service)
        call = await play.begin(ASKED)
        call.respond(200, JSON, body)
        await play.quiet()
        assert (play.client.status, b"was empty" in play.client.body) == (502, True)

    played_by(story)


@pytest.mark.parametrize("more", [0, 1], ids=["small", "large"])
def test_a_response_that_arrived_with_its_head_is_charged_if_it_is_large(more: int) -> None:
    body = CHAT_RESPONSE[:-1] + b" " * (_UNCHARGED - len(CHAT_RESPONSE) + more) + b"}"

    async def story(service: Runtime) -> None:
        opened: list[int] = []
        play = Played(service)
        open_charge = play.exchange.open_charge

        def observed() -> ReaderCharge:
            opened.append(1)
            return open_charge()

        play.exchange.open_charge = observed  # type: ignore[method-assign]
        call = await play.begin(RELAYED)
        call.respond(200, JSON, body)
        await play.quiet()
        assert play.client.body == body and len(opened) == more
        assert (service.buffered.size, service.buffered.held) == (0, 0)

    played_by(story)


def test_a_response_that_arrived_with_its_head_has_a_limit() -> None:
    async def story(service: Runtime) -> None:
        play = Played(service)
        call = await play.begin(RELAYED)
        call.respond(200, JSON, CHAT_RESPONSE)
        await play.quiet()
        assert (play.client.status, b"exceeds the limit" in play.client.body) == (502, True)

    limits = Limits(response_body=len(CHAT_RESPONSE) - 1)
    played_by(story, lambda port: replace(settings_for(port), limits=limits))
