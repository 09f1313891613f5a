"""A provider that is asked for more than it may be: as much is answered as before, and the others know at once."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager

import pytest

from tests.failover.town import KEYS, WAYS, Ask, Heard, MoodyProvider, Town, is_told_to_come_back, town
from tests.server.process import PATIENCE, Gate, read_until
from tests.waiting import wait_until

CALLS, QUEUE = 4, 8
# Seconds that a request may wait in the queue of a provider that keeps it waiting for long.
BRIEF = 0.2
LIMITS = f"concurrency = {CALLS}\nqueue_size = {QUEUE}\n"
# As long as nobody's time is over, whatever else the machine does.
LONG = f'{LIMITS}queue_timeout = "{PATIENCE:g} s"'
LINES = '"both" = ["held/served", "free/served"]\n"full" = ["held/served", "single/served"]\n'
HELD = ("brief", "held", "single")
ROUNDS, TIMES = 6, 3


class Turnstile:
    """A step that holds replies, and lets as many go as it is told to."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._free = asyncio.Semaphore(0)

    async def __call__(self) -> None:
        """Wait, as a step of a reply."""
        await self._free.acquire()

    def let_go(self, count: int = 1) -> None:
        """Let replies go on that are held, or come later."""
        for _ in range(count):
            self._loop.call_soon_threadsafe(self._free.release)


@pytest.fixture(scope="module")
def shared() -> Iterator[Town]:
    """A provider that answers at the pace of a test, three that hold everybody, and one without limits."""
    brief = MoodyProvider("brief", more=f'{LIMITS}queue_timeout = "{BRIEF:g} s"')
    single = MoodyProvider("single", more=LONG.replace(f"concurrency = {CALLS}", "concurrency = 1"))
    providers = [brief, single, *(MoodyProvider(name, more=LONG) for name in ("paced", "held")), MoodyProvider("free")]
    with town(providers, LINES) as house:
        yield house


@pytest.fixture
def house(shared: Town, gate: Gate) -> Iterator[Town]:
    for provider in shared.providers.values():
        provider.received.clear()
    for name in HELD:
        shared.providers[name].before = gate
    yield shared
    shared.recover()
    for name in shared.providers:
        shared.comes_to(name, 0, 0)


@pytest.fixture
def gate() -> Gate:
    return Gate()


def _in_every_way(model: str, count: int, key: str = "one") -> list[Ask]:
    """Requests of every protocol, whole and streamed, in turn."""
    ways = [WAYS[place % len(WAYS)] for place in range(count)]
    return [Ask(model=model, client=client, stream=stream, key=key) for client, stream in ways]


def _come(begun: Sequence[Future[list[Heard]]], count: int) -> None:
    """Wait until so many of the replies have come."""
    wait_until(lambda: sum(one.done() for one in begun) == count, f"{count} of {len(begun)} replies have come")


def test_three_times_the_load_is_answered_at_the_rate_that_can_be_carried(house: Town) -> None:
    paced, turnstile = house.providers["paced"], Turnstile(house.loop)
    paced.before = turnstile
    asked = _in_every_way("paced/served", CALLS + QUEUE + TIMES * ROUNDS)
    begun = [house.begin([one]) for one in asked[: CALLS + QUEUE]]
    for done in range(ROUNDS):
        house.comes_to("paced", CALLS, QUEUE)
        turnstile.let_go()
        # One is answered, and one that waited has its slot at once.
        house.comes_to("paced", CALLS, QUEUE - 1)
        begun += [house.begin([one]) for one in asked[len(begun) : len(begun) + TIMES]]
        # Of three that come meanwhile one waits, and the others are refused while all slots are taken.
        _come(begun, TIMES * (done + 1))
    house.comes_to("paced", CALLS, QUEUE)
    turnstile.let_go(CALLS + QUEUE)
    told = [heard for one in begun for heard in house.replies(one)]
    refused = [heard for heard in told if not heard.right]
    # Nobody is asked in vain, and whoever is refused knows when to come back.
    assert paced.calls == len(told) - len(refused) == CALLS + QUEUE + ROUNDS
    assert all(is_told_to_come_back(heard) <= PATIENCE + 1 for heard in refused)


def test_a_full_queue_refuses_in_every_protocol_and_hinders_nobody_else(house: Town, gate: Gate) -> None:
    waits = house.begin(_in_every_way("held/served", CALLS))
    gate.reached(CALLS)
    waits_longer = house.begin(_in_every_way("held/served", QUEUE))
    house.comes_to("held", CALLS, QUEUE)
    refused = house.ask_all(_in_every_way("held/served", len(WAYS)))
    assert all([is_told_to_come_back(heard) for heard in refused])
    # Another provider is asked as if nothing were, and so is one that stands behind the full one.
    for model in ("free/served", "both"):
        assert {heard.route for heard in house.ask_all(_in_every_way(model, 4 * len(WAYS)))} == {"free/served"}
    # That there is no room is nothing that the target did.
    assert house.standings() == {}
    gate.open()
    assert all(heard.right for heard in [*house.replies(waits), *house.replies(waits_longer)])
    assert house.providers["held"].calls == CALLS + QUEUE
    house.comes_to("held", 0, 0)


@contextmanager
def _held_store(house: Town) -> Iterator[Callable[[], None]]:
    """Let somebody else write to the file that things are kept in, until the function that this gives is called."""
    path = house.directory / ".local" / "state" / "dragoman" / "state.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield db.rollback


def test_pitfall_356_who_asks_whether_it_lives_and_is_ready_waits_for_nobody(house: Town, gate: Gate) -> None:
    waits = house.begin(_in_every_way("held/served", CALLS + QUEUE))
    gate.reached(CALLS)
    house.comes_to("held", CALLS, QUEUE)
    # What runs in the background is written down before its client is told of it.
    kept = {"model": "free/served", "input": "Hello.", "background": True}
    with _held_store(house) as release, house.send("/v1/responses", kept, f"x-api-key: {KEYS['one']}") as stuck:
        under_way = CALLS + QUEUE + 1
        wait_until(lambda: house.status()["in_flight"] == under_way, f"{under_way} exchanges are under way")
        for _ in range(3):
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
        release()
        stuck.settimeout(PATIENCE)
        assert read_until(stuck, b"\r\n").startswith(b"HTTP/1.1 200 ")
    wait_until(lambda: house.providers["free"].calls == 1, "the response in the background is asked for")
    gate.open()
    assert all(heard.right for heard in house.replies(waits))


def test_nothing_is_sent_for_those_whose_time_is_over(house: Town, gate: Gate) -> None:
    waits = house.begin(_in_every_way("brief/served", CALLS))
    gate.reached(CALLS)
    told = house.ask_all(_in_every_way("brief/served", QUEUE))
    for heard in told:
        assert is_told_to_come_back(heard)
    house.comes_to("brief", CALLS, 0)
    gate.open()
    assert all(heard.right for heard in house.replies(waits))
    house.comes_to("brief", 0, 0)
    assert house.providers["brief"].calls == CALLS


def test_pitfall_325_nothing_is_sent_for_those_who_gave_up(house: Town, gate: Gate) -> None:
    waits = house.begin(_in_every_way("held/served", CALLS))
    gate.reached(CALLS)
    callers = []
    for asked in _in_every_way("held/served", QUEUE):
        callers.append(house.connect())
        callers[-1].sendall(house.written(asked))
    house.comes_to("held", CALLS, QUEUE)
    for caller in callers:
        caller.close()
    house.comes_to("held", CALLS, 0)
    gate.open()
    assert all(heard.right for heard in house.replies(waits))
    house.comes_to("held", 0, 0)
    assert house.providers["held"].calls == CALLS


def test_a_place_is_free_as_soon_as_its_client_has_left(house: Town) -> None:
    for client, stream in WAYS:
        with house.connect() as caller:
            caller.sendall(house.written(Ask(model="held/served", client=client, stream=stream)))
            house.comes_to("held", 1, 0)
        house.comes_to("held", 0, 0)
    wait_until(lambda: house.providers["held"].open == 0, "all calls have ended")


def test_one_keys_crowd_does_not_keep_another_key_waiting(house: Town, gate: Gate) -> None:
    single = house.providers["single"]
    waits = house.begin([Ask(model="single/served", words="at once")])
    gate.reached()
    crowd = [house.begin([Ask(model="single/served", words="of the crowd")]) for _ in range(QUEUE)]
    house.comes_to("single", 1, QUEUE)
    # A full queue is that of the crowd, of which some have to leave it.
    others = house.begin([Ask(model="single/served", words="of another", key="two")] * 2)
    _come(crowd, 2)
    gate.open()
    assert all(heard.right for heard in [*house.replies(waits), *house.replies(others)])
    told = [heard for one in crowd for heard in house.replies(one)]
    assert len([is_told_to_come_back(heard) for heard in told if not heard.right]) == 2
    # They take turns.
    assert single.words()[:5] == ["at once", "of the crowd", "of another", "of the crowd", "of another"]


def test_a_burst_goes_on_to_the_next_target_where_the_first_is_full(house: Town, gate: Gate) -> None:
    told = house.begin(_in_every_way("both", 10 * CALLS))
    gate.reached(CALLS)
    wait_until(lambda: house.providers["free"].calls == 9 * CALLS, "the others went on to the next target")
    gate.open()
    assert all(heard.right for heard in house.replies(told))
    assert house.providers["held"].calls == CALLS


def test_where_one_queue_is_full_whoever_has_room_in_another_waits_there(house: Town, gate: Gate) -> None:
    waits = house.begin([*_in_every_way("held/served", CALLS + QUEUE), *_in_every_way("single/served", 1)])
    gate.reached(CALLS + 1)
    house.comes_to("held", CALLS, QUEUE)
    house.comes_to("single", 1, 0)
    others = house.begin(_in_every_way("full", len(WAYS)))
    house.comes_to("single", 1, len(WAYS))
    gate.open()
    assert all(heard.right for heard in house.replies(waits))
    assert {(heard.route, heard.attempts) for heard in house.replies(others)} == {("single/served", 1)}
    assert house.standings() == {}


def test_a_line_whose_targets_are_all_full_refuses_at_once(house: Town, gate: Gate) -> None:
    waits = house.begin([*_in_every_way("held/served", CALLS + QUEUE), *_in_every_way("single/served", 1 + QUEUE)])
    gate.reached(CALLS + 1)
    house.comes_to("held", CALLS, QUEUE)
    house.comes_to("single", 1, QUEUE)
    for heard in house.ask_all(_in_every_way("full", len(WAYS))):
        assert is_told_to_come_back(heard)
    assert house.standings() == {}
    gate.open()
    assert all(heard.right for heard in house.replies(waits))
