"""Server-sent events of the admin API: what opens and ends, without gaps, to those who may read all records."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.gateway.admin.framework import AdminError
from dragoman.gateway.admin.live_events import (
    COMMENT_SECONDS,
    IDLE_SECONDS,
    MAX_STREAMS,
    MAX_STREAMS_OF_KEY,
    EventRing,
    LiveEvents,
)
from dragoman.gateway.runtime import Runtime
from tests.gateway.admin.event_streams import EventStream, listening
from tests.gateway.admin.recorded_gateway import ask, error_of, settings_with_roles, text_of
from tests.gateway.harness import House, running
from tests.waiting import LIMIT, wait_until


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with running(settings=lambda port: settings_with_roles(port, str(tmp_path / "state.db"))) as house:

        async def start() -> None:
            house.app.runtime.usage_recorder.start()

        async def stop() -> None:
            await house.app.runtime.usage_recorder.close(LIMIT)

        house.run(start())
        try:
            yield house
        finally:
            house.run(stop())


def events_for(house: House, name: str = "vera", last: str | None = None) -> AbstractContextManager[EventStream]:
    """A stream of events for a name."""
    return listening(house, text_of(name), last)


def converse(house: House, name: str = "bob") -> None:
    """One exchange of a key."""
    body = {"model": "echo/text", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    assert house.post("/v1/messages", body, authorization=f"Bearer {text_of(name)}").status == 200


def test_an_exchange_is_opened_and_finalized_as_the_list_has_it(house: House) -> None:
    with events_for(house) as stream:
        assert stream.status == 200
        assert stream.headers["content-type"] == "text/event-stream"
        assert stream.headers["cache-control"] == "no-store"
        begin, name, data = stream.event()
        assert (name, data) == ("resync", {})
        converse(house)
        events = [stream.event(), stream.event()]
    assert [name for _, name, _ in events] == ["opened", "finalized"]
    numbers = [int(id.rpartition("-")[2]) for id in (begin, *(event[0] for event in events))]
    assert numbers == [0, 1, 2]
    opened, finalized = events[0][2], events[1][2]
    assert (opened["outcome"], opened["key"], opened["id"]) == ("open", "bob", finalized["id"])
    number = finalized["id"]
    assert isinstance(number, str)
    listed = ask(house, f"/exchanges/{number}")
    assert isinstance(listed, dict)
    assert {**finalized, "session": None, "thread": None} == {**listed, "session": None, "thread": None}


def test_a_client_goes_on_where_its_connection_was_lost(house: House) -> None:
    with events_for(house) as first, events_for(house, "ada") as second:
        first.event()
        second.event()
        converse(house)
        expected = [second.event(), second.event()]
        cut = first.event()[0]
    # Another stream may have begun in between.
    with events_for(house, last=cut) as again:
        assert again.event() == expected[1]
    with events_for(house, last=expected[1][0]) as again:
        converse(house)
        assert [again.event()[1], again.event()[1]] == ["opened", "finalized"]


@pytest.mark.parametrize("last", ["", "other-1", "-1", "1", "x-y", "\xff-1", "%s-99", "%s-" + "9" * 30, "%s--1"])
def test_an_id_of_another_ring_or_of_none_leads_to_a_resync(house: House, last: str) -> None:
    with events_for(house) as stream:
        epoch = stream.event()[0].rpartition("-")[0]
    with events_for(house, last=last.replace("%s", epoch)) as again:
        assert again.event()[1] == "resync"


def test_a_ring_that_no_longer_has_an_event_says_so() -> None:
    ring = EventRing("e", most=3)
    for number in range(1, 6):
        ring.add(b"event: %d\n\n" % number)
    assert [ring.position_of(f"e-{number}") for number in range(7)] == [None, None, 2, 3, 4, 5, None]
    assert ring.after(2, 2) == [b"id: e-3\nevent: 3\n\n", b"id: e-4\nevent: 4\n\n"]
    assert ring.after(5, 9) == []
    assert ring.resync().startswith(b"id: e-5\nevent: resync\n")


def test_large_events_leave_the_ring_earlier() -> None:
    ring = EventRing("e", most_bytes=100)
    for _ in range(5):
        ring.add(b"x" * 40)
    assert (ring.last, ring.position_of("e-2"), ring.position_of("e-3")) == (5, None, 3)
    ring.add(b"x" * 200)
    assert (ring.position_of("e-5"), ring.position_of("e-6")) == (None, 6)


def test_a_silent_stream_gets_a_comment(house: House) -> None:
    with events_for(house) as stream:
        stream.event()
        house.pass_time(COMMENT_SECONDS + 1)
        assert stream.block() == [":"]


@pytest.mark.parametrize("name", ["alice", "bob"])
def test_clients_get_no_events(house: House, name: str) -> None:
    assert error_of(ask(house, "/events", name, 403))["type"] == "forbidden"


def test_a_stream_ends_when_its_key_is_revoked(house: House) -> None:
    with events_for(house) as stream, events_for(house, "ada") as other:
        stream.event()
        other.event()

        async def revoke() -> None:
            former = house.app.runtime
            keys = tuple(key for key in former.settings.keys if key.name != "vera")
            settings = replace(former.settings, keys=keys)
            house.app.runtime = Runtime(settings, former.metrics, former.log, former.state, former=former)

        house.run(revoke())
        assert stream.block() == []
        converse(house)
        assert other.event()[1] == "opened"


def test_a_stream_ends_when_the_gateway_shuts_down(house: House) -> None:
    with events_for(house) as stream:
        stream.event()
        house.app.runtime.draining = True
        assert stream.block() == []


def test_nothing_is_read_without_streams_and_the_next_one_has_another_epoch(house: House) -> None:
    with events_for(house) as stream:
        first = stream.event()[0]
    assert house.app.admin is not None
    events = house.app.admin.services.events

    wait_until(lambda: not events.streams, "the gateway sees the end of the connection")
    house.pass_time(IDLE_SECONDS + 1)
    assert events._follower is None
    with events_for(house, last=first) as stream:
        assert stream.event()[1] == "resync"


def test_only_so_many_streams_are_open_in_one_worker_and_for_one_key(house: House) -> None:
    async def refusal(events: LiveEvents, key: str) -> str:
        with pytest.raises(AdminError) as raised:
            await events.join(house.app.runtime.settings.storage.path, key)
        assert raised.value.status == 429
        return raised.value.message

    async def join_all() -> None:
        events, path = LiveEvents(), house.app.runtime.settings.storage.path
        keys = [f"key{number // MAX_STREAMS_OF_KEY}" for number in range(MAX_STREAMS)]
        for key in keys:
            await events.join(path, key)
        assert "of this key" in await refusal(events, keys[0])
        assert "of this key" not in await refusal(events, "other")
        events.leave(keys[0])
        await events.join(path, keys[0])
        for key in keys:
            events.leave(key)
        assert (events.streams, events._streams) == (0, {})
        events.close()

    house.run(join_all())
