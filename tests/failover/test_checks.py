"""Providers that are checked while their targets rest: a rest ends soon after an outage, and for nothing else."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from dragoman.config.finding import state_folder
from dragoman.routing.health import LONGEST_REST
from dragoman.routing.outcomes import Kind
from dragoman.routing.standing import Level
from dragoman.routing.target_health import Notice
from tests.failover.sayings import Asked, Says
from tests.failover.town import KEYS, Ask, MoodyProvider, Town, down, town
from tests.gateway.harness import CHAT, MESSAGES, RESPONSES, Received, Reply, whole
from tests.gateway.says import comes_true
from tests.sdk.digging import Object, dig_objects
from tests.server.process import PATIENCE
from tests.store.opened import opened

EVERY = 1.0
CHECKED = f'check_every = "{EVERY:g} s"'
LINE = '"line" = ["bad/served", "good/served"]\n"other" = ["bad/other", "good/served"]'
CROWD = 12
RESTING = {"bad/served": "resting", "bad/other": "resting"}


class ListedProvider(MoodyProvider):
    """A provider with a list of models, which has a mood of its own."""

    def __init__(self, name: str, dialect: str, more: str = CHECKED) -> None:
        super().__init__(name, dialect, more=more)
        self.list_mood: Says = self.well
        self.lists = 0

    @property
    def calls(self) -> int:
        """How many requests came that cost something."""
        return len(self.received) - self.lists

    def _reply(self, received: Received) -> Reply:
        if received.method != "GET":
            return super()._reply(received)
        self.lists += 1
        assert received.target.partition("?")[0] == "/v1/models"
        if self.list_mood == self.well:
            return whole({"object": "list", "data": [{"id": "another"}]})
        return self.list_mood(Asked(dialect=self.dialect, stream=False, count=0))


def _worn_out(directory: Path) -> None:
    """Have both targets of the bad one rest for longer than all of this takes, as a gateway before has left them."""
    folder, now = state_folder({"HOME": str(directory)}), time.time()
    assert folder is not None
    folder.mkdir(parents=True)
    with opened(folder / "state.db") as tables:
        for target in RESTING:
            rest = Notice(target, Level.RESTING, now + LONGEST_REST, 0.0, 7, now, Kind.NO_ANSWER, now)
            tables.rests.keep(f"target {target}", rest.until, msgspec.msgpack.encode(rest))


def _left(row: Object) -> float:
    seconds = row["seconds"]
    assert isinstance(seconds, (int, float))
    return seconds


def _counted(house: Town, result: str) -> float:
    lines = house.get("/metrics", x_api_key=KEYS["one"]).body.decode().splitlines()
    start = f'dragoman_checks_total{{provider="bad",result="{result}"}} '
    return next((float(line.removeprefix(start)) for line in lines if line.startswith(start)), 0.0)


def _told(house: Town) -> list[tuple[object, object]]:
    return [(line["result"], line["rests_ended"]) for line in house.process.events("a provider was checked")]


@pytest.mark.parametrize(("dialect", "workers"), [(MESSAGES, 1), (CHAT, 2), (RESPONSES, 1)])
def test_a_rest_ends_soon_after_an_outage(dialect: str, workers: int) -> None:
    bad, good = ListedProvider("bad", dialect), MoodyProvider("good", MESSAGES)
    bad.mood = bad.list_mood = down
    begun = time.monotonic()
    with town([bad, good], LINE, f"[server]\nworkers = {workers}\n", before=_worn_out) as house:
        assert house.standings() == RESTING
        assert comes_true(lambda: _counted(house, "failing") >= 3, PATIENCE)
        # One worker asks, and no client is ever sent there.
        assert bad.lists <= (time.monotonic() - begun) / EVERY + 2
        assert {house.ask_one(Ask(model="line")).route for _ in range(CROWD)} == {"good/served"}
        assert bad.calls == 0
        bad.mood = bad.list_mood = bad.well
        assert comes_true(lambda: _told(house) == [("failing", 0), ("alive", 2)], PATIENCE)

        def is_over() -> bool:
            rows = {row["target"]: row for row in dig_objects(house.status(), "targets")}
            return all((rows[target]["standing"], _left(rows[target])) == ("resting", 0) for target in RESTING)

        # Each worker knows soon, and it is a client's request that finds out.
        assert comes_true(is_over, PATIENCE)
        assert bad.calls == 0
        assert comes_true(lambda: house.ask_one(Ask(model="line")).route == "bad/served", PATIENCE)
        assert comes_true(lambda: house.standings().get("bad/served") == "ramping", PATIENCE)
        assert _counted(house, "alive") >= 1
        check = next(row for row in dig_objects(house.status(), "providers") if row["name"] == "bad")["check"]
        assert isinstance(check, dict) and (check["every"], check["found"]) == (EVERY, "alive")


def test_a_list_that_works_ends_no_rest_of_conversations_that_fail() -> None:
    bad, good = ListedProvider("bad", CHAT), MoodyProvider("good", MESSAGES)
    bad.mood = down
    with town([bad, good], LINE, before=_worn_out) as house:
        assert comes_true(lambda: _counted(house, "alive") >= 3, PATIENCE)
        assert {house.ask_one(Ask(model="line")).route for _ in range(CROWD)} == {"good/served"}
        assert (bad.calls, house.standings()) == (0, RESTING)
        assert _told(house) == [("alive", 0)]


def test_a_change_of_the_file_begins_and_ends_checks() -> None:
    bad, good = ListedProvider("bad", CHAT, more=""), MoodyProvider("good", MESSAGES)
    bad.mood = bad.list_mood = down
    with town([bad, good], LINE, before=_worn_out) as house:
        assert (bad.lists, house.standings()) == (0, RESTING)
        bad.more = CHECKED
        house.configure(LINE)
        assert comes_true(lambda: _counted(house, "failing") >= 1, PATIENCE)
        bad.more = ""
        house.configure(LINE)
        house.process.log.wait("the configuration was changed", 2)
        asked = bad.lists
        bad.mood = bad.list_mood = bad.well
        # Nobody asks, and the rest goes on.
        assert {house.ask_one(Ask(model="line")).route for _ in range(CROWD)} == {"good/served"}
        assert (bad.lists, house.standings()) == (asked, RESTING)
