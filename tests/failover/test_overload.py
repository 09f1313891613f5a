"""A provider that is asked for more than it may be: as much is answered as before, and the others know at once."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from tests.failover.town import KEYS, WAYS, Ask, Heard, MoodyProvider, Town, is_told_to_come_back, town
from tests.gateway.harness import MESSAGES
from tests.gateway.says import comes_true
from tests.server.process import PATIENCE, Gate

CALLS, QUEUE, QUEUE_TIME, TAKES = 4, 8, 1.0, 0.05
LIMITS = f"concurrency = {CALLS}\nqueue = {QUEUE}\n"
LINES = '"both" = ["held/served", "free/served"]\n"full" = ["held/served", "single/served"]\n'
ASKED = 80
TIMES = 3
# Of the rate without a crowd. The machine may be busy with other things, now more and now less.
SHARE = 0.6
# What a deadline may be overrun by, for the same reason.
LATE = 10.0


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def house(gate: Gate) -> Iterator[Town]:
    """A provider that takes its time, three that hold everybody, and one without limits."""
    impatient = f'{LIMITS}queue_time = "{QUEUE_TIME:g} s"'
    slow = MoodyProvider("slow", MESSAGES, before=TAKES, more=impatient)
    brief = MoodyProvider("brief", before=gate, more=impatient)
    # Where nobody's time is over, whatever else the machine does.
    held = MoodyProvider("held", before=gate, more=f'{LIMITS}queue_time = "{PATIENCE:g} s"')
    single = MoodyProvider("single", before=gate, more=held.more.replace(f"concurrency = {CALLS}", "concurrency = 1"))
    with town([slow, brief, held, single, MoodyProvider("free")], LINES) as house:
        yield house


def _in_every_way(model: str, count: int, key: str = "one") -> list[Ask]:
    """Requests of every dialect, whole and streamed, in turn."""
    ways = [WAYS[place % len(WAYS)] for place in range(count)]
    return [Ask(model=model, client=client, stream=stream, key=key) for client, stream in ways]


def _at_capacity(house: Town, count: int) -> float:
    """Ask as many at a time as there may be; give the seconds that it took."""
    left = iter(_in_every_way("slow/served", count))

    async def one_after_the_other() -> None:
        for asked in left:
            assert (await house.asking(asked)).right

    async def all_of_them() -> float:
        begun = house.loop.time()
        await asyncio.gather(*(one_after_the_other() for _ in range(CALLS)))
        return house.loop.time() - begun

    return house.run(all_of_them())


def _within(house: Town, asked: list[Ask], seconds: float) -> tuple[list[Heard], float]:
    """Ask at a steady pace, whoever is still waiting; give the seconds until the last was answered."""

    async def one(place: int) -> Heard:
        await asyncio.sleep(seconds * place / len(asked))
        return await house.asking(asked[place])

    async def all_of_them() -> tuple[list[Heard], float]:
        begun = house.loop.time()
        told = await asyncio.gather(*(one(place) for place in range(len(asked))))
        return told, house.loop.time() - begun

    return house.run(all_of_them())


def test_three_times_the_load_is_answered_at_the_rate_that_can_be_carried(house: Town) -> None:
    slow = house.providers["slow"]
    alone = _at_capacity(house, ASKED)
    before = slow.calls
    told, crowded = _within(house, _in_every_way("slow/served", TIMES * ASKED), alone)
    answered = [heard for heard in told if heard.right]
    refused = [heard for heard in told if not heard.right]
    assert len(answered) / crowded >= SHARE * ASKED / alone
    # Nobody is asked in vain, and whoever is refused knows when to come back.
    assert slow.calls - before == len(answered)
    assert refused
    for heard in refused:
        assert is_told_to_come_back(heard) <= QUEUE_TIME + 1
    assert max(heard.seconds for heard in told) < QUEUE_TIME + TAKES + LATE
    assert house.comes_to("slow", 0, 0)


def test_a_full_queue_refuses_in_every_dialect_and_hinders_nobody_else(house: Town, gate: Gate) -> None:
    waits = house.begin(_in_every_way("held/served", CALLS))
    gate.reached(CALLS)
    waits_longer = house.begin(_in_every_way("held/served", QUEUE))
    assert house.comes_to("held", CALLS, QUEUE)
    refused = house.ask_all(_in_every_way("held/served", len(WAYS)))
    assert all([is_told_to_come_back(heard) for heard in refused])
    # Another provider is asked as if nothing were, and so is one that stands behind the full one.
    for model in ("free/served", "both"):
        assert {heard.route for heard in house.ask_all(_in_every_way(model, 4 * len(WAYS)))} == {"free/served"}
    # That there is no room is nothing that the target did.
    assert house.standings() == {}
    gate.open()
    assert all(heard.right for heard in [*waits.result(PATIENCE), *waits_longer.result(PATIENCE)])
    assert house.providers["held"].calls == CALLS + QUEUE
    assert house.comes_to("held", 0, 0)


@contextmanager
def _held_store(house: Town) -> Iterator[None]:
    """Let somebody else write to the file that things are kept in, for as long as this takes."""
    path = house.directory / ".local" / "state" / "dragoman" / "state.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield
        db.execute("ROLLBACK")


def test_pitfall_356_who_asks_whether_it_lives_and_is_ready_waits_for_nobody(house: Town, gate: Gate) -> None:
    waits = house.begin(_in_every_way("held/served", CALLS + QUEUE))
    assert house.comes_to("held", CALLS, QUEUE)
    with _held_store(house):
        # What runs in the background is written down before its client is told of it.
        kept = {"model": "free/served", "input": "Hello.", "background": True}
        with house.send("/v1/responses", kept, f"x-api-key: {KEYS['one']}") as stuck:
            under_way = CALLS + QUEUE + 1
            assert comes_true(lambda: house.status()["in_flight"] == under_way, PATIENCE)
            for _ in range(len(WAYS)):
                assert is_told_to_come_back(house.ask_one(Ask(model="held/served")))
                for path, words in (("/healthz", b"ok\n"), ("/readyz", b"ready\n")):
                    told = house.get(path)
                    assert (told.status, told.body) == (200, words)
            # All the others still wait, for a slot or for the store.
            assert house.status()["in_flight"] == under_way
            assert house.load("held") == (CALLS, QUEUE)
            stuck.setblocking(False)
            with pytest.raises(BlockingIOError):
                stuck.recv(1)
    gate.open()
    assert all(heard.right for heard in waits.result(PATIENCE))


def test_nothing_is_sent_for_those_whose_time_is_over(house: Town, gate: Gate) -> None:
    waits = house.begin(_in_every_way("brief/served", CALLS))
    gate.reached(CALLS)
    told = house.ask_all(_in_every_way("brief/served", QUEUE))
    for heard in told:
        assert is_told_to_come_back(heard)
        assert QUEUE_TIME <= heard.seconds < QUEUE_TIME + LATE
    assert house.comes_to("brief", CALLS, 0)
    gate.open()
    assert all(heard.right for heard in waits.result(PATIENCE))
    assert house.comes_to("brief", 0, 0)
    assert house.providers["brief"].calls == CALLS


def test_pitfall_325_nothing_is_sent_for_those_who_gave_up(house: Town, gate: Gate) -> None:
    waits = house.begin(_in_every_way("held/served", CALLS))
    gate.reached(CALLS)
    callers = []
    for asked in _in_every_way("held/served", QUEUE):
        callers.append(house.connect())
        callers[-1].sendall(house.written(asked))
    assert house.comes_to("held", CALLS, QUEUE)
    for caller in callers:
        caller.close()
    assert house.comes_to("held", CALLS, 0)
    gate.open()
    assert all(heard.right for heard in waits.result(PATIENCE))
    assert house.comes_to("held", 0, 0)
    assert house.providers["held"].calls == CALLS


def test_a_place_is_free_as_soon_as_its_client_has_left(house: Town) -> None:
    for client, stream in WAYS:
        with house.connect() as caller:
            caller.sendall(house.written(Ask(model="held/served", client=client, stream=stream)))
            assert house.comes_to("held", 1, 0)
        assert house.comes_to("held", 0, 0)
    assert comes_true(lambda: house.providers["held"].open == 0, PATIENCE)


def test_one_keys_crowd_does_not_keep_another_key_waiting(house: Town, gate: Gate) -> None:
    single = house.providers["single"]
    waits = house.begin([Ask(model="single/served", words="at once")])
    gate.reached()
    crowd = house.begin([Ask(model="single/served", words="of the crowd")] * QUEUE)
    assert house.comes_to("single", 1, QUEUE)
    # A full queue is that of the crowd, of which some have to leave it.
    others = house.begin([Ask(model="single/served", words="of another", key="two")] * 2)
    assert comes_true(lambda: sum('"status":503' in line for line in house.process.log.all()) == 2, PATIENCE)
    gate.open()
    assert all(heard.right for heard in [*waits.result(PATIENCE), *others.result(PATIENCE)])
    assert len([is_told_to_come_back(heard) for heard in crowd.result(PATIENCE) if not heard.right]) == 2
    # They take turns.
    assert single.words()[:5] == ["at once", "of the crowd", "of another", "of the crowd", "of another"]


def test_a_burst_goes_on_to_the_next_target_where_the_first_is_full(house: Town, gate: Gate) -> None:
    told = house.begin(_in_every_way("both", 10 * CALLS))
    gate.reached(CALLS)
    assert comes_true(lambda: house.providers["free"].calls == 9 * CALLS, PATIENCE)
    gate.open()
    assert all(heard.right for heard in told.result(PATIENCE))
    assert house.providers["held"].calls == CALLS


def test_where_one_queue_is_full_whoever_has_room_in_another_waits_there(house: Town, gate: Gate) -> None:
    waits = house.begin([*_in_every_way("held/served", CALLS + QUEUE), *_in_every_way("single/served", 1)])
    assert house.comes_to("held", CALLS, QUEUE) and house.comes_to("single", 1, 0)
    others = house.begin(_in_every_way("full", len(WAYS)))
    assert house.comes_to("single", 1, len(WAYS))
    gate.open()
    assert all(heard.right for heard in waits.result(PATIENCE))
    assert {(heard.route, heard.attempts) for heard in others.result(PATIENCE)} == {("single/served", 1)}
    assert house.standings() == {}


def test_a_line_whose_targets_are_all_full_refuses_at_once(house: Town, gate: Gate) -> None:
    waits = house.begin([*_in_every_way("held/served", CALLS + QUEUE), *_in_every_way("single/served", 1 + QUEUE)])
    assert house.comes_to("held", CALLS, QUEUE) and house.comes_to("single", 1, QUEUE)
    for heard in house.ask_all(_in_every_way("full", len(WAYS))):
        assert is_told_to_come_back(heard)
    assert house.standings() == {}
    gate.open()
    assert all(heard.right for heard in waits.result(PATIENCE))
