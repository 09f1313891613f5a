"""The phases of a stream: its tables, and what it holds back, sends and ends with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from dragoman.errors import TimedOut
from dragoman.gateway.exchange import stream_delivery
from dragoman.gateway.exchange.stream_delivery import Phase, StreamDelivery
from dragoman.gateway.runtime import Runtime
from tests.gateway.exchange.played import CONTENT, END, OPENING, STOPPED, Played, played_by
from tests.playbooks.stage import START
from tests.playbooks.test_playbooks import SCENES, played
from tests.virtual_time import run


def test_the_tables_have_every_phase_in_which_their_event_can_come() -> None:
    page = (stream_delivery.__doc__ or "").partition("    phase ")[2]
    assert re.findall(r"^ {4}([A-Z]+) ", page, re.MULTILINE) == [phase.name for phase in Phase]
    # While the store is waited for alone, the provider has ended.
    assert stream_delivery._ON_CHUNK.keys() == set(Phase) - {Phase.STORING}
    assert stream_delivery._ON_END.keys() == set(Phase) - {Phase.STORING}


@contextmanager
def observed_phases() -> Iterator[set[Phase]]:
    """Collect the phases of every stream that is delivered meanwhile."""
    made: set[Phase] = set()

    def observe(delivery: StreamDelivery, name: str, value: object) -> None:
        if isinstance(value, Phase):
            made.add(value)
        object.__setattr__(delivery, name, value)

    with patch.object(StreamDelivery, "__setattr__", observe, create=True):
        yield made


DIALOGUES = ("chat_to_chat/stream", "chat_to_chat/failover_stream", "responses_to_chat/settling")


def test_dialogues_visit_every_phase(tmp_path: Path) -> None:
    with observed_phases() as made:
        for number, name in enumerate(DIALOGUES):
            folder = tmp_path / str(number)
            folder.mkdir()
            run(played(SCENES[name], folder), START)
    with observed_phases() as failed:
        played_by(_fails_before_content)
    assert made | failed == set(Phase)


async def _fails_before_content(service: Runtime) -> None:
    play = Played(service)
    call = await play.begin()
    call.respond()
    await play.quiet()
    call.send(b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n')
    await play.quiet()
    assert play.is_over and play.client.status == 503


@pytest.mark.parametrize("last", [b"", END])
def test_a_response_ends_once_with_the_report_that_was_requested(last: bytes) -> None:
    async def story(service: Runtime) -> None:
        play = Played(service, headers=[(b"x-dragoman-report", b"full")])
        call = await play.begin()
        call.respond()
        await play.quiet()
        for chunk in (OPENING + CONTENT, STOPPED + last):
            call.send(chunk)
        call.end()
        await play.quiet()
        assert play.is_over and play.client.ended
        assert sum(b": dragoman" in chunk for chunk in play.client.chunks) == 1

    played_by(story)


def test_the_usage_of_a_stream_that_fell_silent_before_content_is_recorded() -> None:
    async def story(service: Runtime) -> None:
        play = Played(service)
        call = await play.begin()
        call.respond()
        await play.quiet()
        call.send(OPENING)
        await play.fail(TimedOut("too late"))
        usage = play.record.usage
        assert usage is not None and (usage.input, usage.output) == (3, 1)

    played_by(story)


def test_a_slow_client_pauses_the_provider() -> None:
    async def story(service: Runtime) -> None:
        play = Played(service)
        call = await play.begin()
        call.respond()
        await play.quiet()
        call.send(OPENING + CONTENT)
        assert play.client.on_pause is not None and play.client.on_resume is not None
        play.client.on_pause()
        assert call.is_paused and play.attempt.is_slowed
        play.client.on_resume()
        assert not call.is_paused
        await play.leave()

    played_by(story)
