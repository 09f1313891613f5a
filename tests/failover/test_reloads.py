"""The file is read again in the middle of trouble: what was learned of targets stays, and so do places and queues."""

from __future__ import annotations

import signal

from tests.failover.town import WAYS, Ask, MoodyProvider, Town, down, town
from tests.gateway.harness import CHAT, MESSAGES
from tests.sdk.digging import Object, dig_objects
from tests.server.process import PATIENCE, Gate

CHANGED = "configuration reloaded"
CALLS, QUEUE = 4, 8
LIMITS = f'concurrency = {CALLS}\nqueue_size = {QUEUE}\nqueue_timeout = "{PATIENCE:g} s"'
# So often that rests are long: each is twice as long as the one before.
WORN = 9
TURNS = 8
REQUESTS = 20


def _reload(house: Town, lines: str, times: int = 1) -> None:
    """Have the file read, which has one more line."""
    house.configure(lines + f'"more-{times}" = "free/served"\n')
    house.process.send(signal.SIGHUP)
    house.process.log.wait(CHANGED, times)


def _targets(house: Town) -> dict[str, Object]:
    return {str(one["target"]): one for one in dig_objects(house.status(), "targets")}


def test_a_reload_leaves_places_and_queues_as_they_are() -> None:
    gate = Gate()
    held = MoodyProvider("held", before=gate, more=LIMITS)
    lines = '"line" = ["held/served", "free/served"]\n'
    with town([held, MoodyProvider("free")], lines) as house:
        asked = [Ask(model="held/served", client=client, stream=stream) for client, stream in WAYS * 2]
        under_way = house.begin(asked)
        gate.reached(CALLS)
        house.comes_to("held", CALLS, QUEUE)
        for times in (1, 2):
            _reload(house, lines, times)
            assert house.load("held") == (CALLS, QUEUE)
            assert house.ask_one(Ask(model="line")).route == "free/served"
        assert held.calls == CALLS
        gate.open()
        assert all(heard.right for heard in house.replies(under_way))
        assert held.calls == len(asked)


def test_a_reload_that_gives_more_room_lets_in_who_waits() -> None:
    gate = Gate()
    held = MoodyProvider("held", before=gate, more=LIMITS)
    with town([held, MoodyProvider("free")], "") as house:
        under_way = house.begin([Ask(model="held/served")] * (CALLS + QUEUE))
        gate.reached(CALLS)
        house.comes_to("held", CALLS, QUEUE)
        held.more = LIMITS.replace(f"concurrency = {CALLS}", f"concurrency = {CALLS + 2}")
        _reload(house, "")
        house.comes_to("held", CALLS + 2, QUEUE - 2)
        gate.reached(CALLS + 2)
        gate.open()
        assert all(heard.right for heard in house.replies(under_way))


def test_a_reload_forgets_no_rest_and_no_conversation() -> None:
    names = ("a", "b", "free")
    lines = (
        '"alone" = ["bad/served", "bad/other"]\n"line" = ["bad/served", "free/served"]\n'
        '"spread" = { policy = "weighted", targets = { "a/served" = 1, "b/served" = 1, "free/served" = 1 } }\n'
    )
    bad = MoodyProvider("bad", MESSAGES)
    bad.mood = down
    with town([bad, *(MoodyProvider(name, CHAT, keys=3) for name in names)], lines, steered=True) as house:
        for _ in range(WORN):
            assert not house.ask_one(Ask(model="alone")).right
        worn, before = bad.calls, _targets(house)
        assert before["bad/served"]["health"] == "cooldown"
        first = house.ask_one(Ask(model="spread", words="from the beginning"))
        told = []
        for turn in range(1, TURNS):
            _reload(house, lines, turn)
            after = _targets(house)["bad/served"]
            assert after["health"] == "cooldown"
            assert 0 < float(str(after["seconds"])) <= float(str(before["bad/served"]["seconds"]))
            assert house.ask_one(Ask(model="line")).route == "free/served"
            told.append(house.ask_one(Ask(model="spread", words="from the beginning", turns=turn)))
        assert bad.calls == worn
        assert {heard.route for heard in told} == {first.route}
        used = sum((house.providers[name].used for name in names), start=type(bad.used)())
        # One key has had all of the conversation; the others answered for the one that rests.
        assert max(used.values()) >= TURNS


def test_a_reload_in_the_middle_of_a_failover_is_not_noticed() -> None:
    gate = Gate()
    bad = MoodyProvider("bad", before=gate)
    bad.mood = down
    lines = '"line" = ["bad/served", "free/served"]\n'
    with town([bad, MoodyProvider("free", MESSAGES)], lines, steered=True) as house:
        under_way = house.begin([Ask(model="line", client=client, stream=stream) for client, stream in WAYS])
        gate.reached(len(WAYS))
        _reload(house, lines)
        gate.open()
        told = house.replies(under_way)
        assert {(heard.right, heard.route, heard.attempts) for heard in told} == {(True, "free/served", 2)}
        # What they found out before counts after it: one rest of so many failures.
        assert house.standings() == {"bad/served": "cooldown"}


def test_a_reload_fills_no_budget() -> None:
    bad = MoodyProvider("bad")
    bad.mood = down
    lines = '"patient" = { to = "bad/served", retries = 1 }\n'
    with town([bad, MoodyProvider("free")], lines, steered=True) as house:
        house.ask_all([Ask(model="patient")] * REQUESTS)
        spent = bad.calls
        assert REQUESTS < spent < 2 * REQUESTS
        _reload(house, lines)
        house.ask_all([Ask(model="patient")] * REQUESTS)
        assert bad.calls - spent == REQUESTS
