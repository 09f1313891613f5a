"""Providers that are checked while their targets rest: a rest ends soon after an outage, and for nothing else.

All tests share a gateway with two workers, whose time stands still until a test moves it: one interval, one check.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from dragoman.config.config_file import state_directory
from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.routing.health_entry import HealthUpdate
from dragoman.routing.health_state import HealthLevel
from tests.failover.sayings import Asked
from tests.failover.town import KEYS, Ask, MoodyProvider, Town, down, town
from tests.gateway.harness import CHAT, MESSAGES, PROTOCOLS, Received, Reply, whole
from tests.gateway.says import NAMES
from tests.sdk.digging import Object, dig_objects
from tests.store.opened import opened
from tests.waiting import wait_until

EVERY = 2.0
CHECKED = f'health_check_interval = "{EVERY:g} s"'
WORKERS = 2
CROWD = 12
# Providers that are down, by protocol; one whose list works though it does not answer; one that is checked later.
DOWN = {protocol: f"down-{NAMES[protocol]}" for protocol in PROTOCOLS}
LISTED, LATER = "listed", "later"
BAD = (*DOWN.values(), LISTED, LATER)
# Only targets that a line names are in `/status`.
LINES = "".join(
    f'"{name}" = ["{name}/served", "good/served"]\n"{name}-other" = ["{name}/other", "good/served"]\n' for name in BAD
)
# Seconds since 1970: a time that is over, and one that is far off.
BEFORE, FAR = 1_700_000_000.0, 4_000_000_000.0


class ListedProvider(MoodyProvider):
    """A provider with a list of models, which has a mood of its own."""

    def __init__(self, name: str, protocol: str, more: str = CHECKED) -> None:
        super().__init__(name, protocol, more=more)
        self.mood = self.list_mood = down
        self.lists = 0

    @property
    def calls(self) -> int:
        """How many requests came that cost something."""
        return len(self.received) - self.lists

    def heal(self) -> None:
        """Answer, and list models."""
        self.mood = self.list_mood = self.well

    def _reply(self, received: Received) -> Reply:
        if received.method != "GET":
            return super()._reply(received)
        self.lists += 1
        assert received.target.partition("?")[0] == "/v1/models"
        if self.list_mood == self.well:
            return whole({"object": "list", "data": [{"id": "another"}]})
        return self.list_mood(Asked(protocol=self.protocol, stream=False, count=0))


class Bad:
    """One of the bad providers, and what the gateway reports of it."""

    def __init__(self, house: Town, name: str) -> None:
        provider = house.providers[name]
        assert isinstance(provider, ListedProvider)
        self.house = house
        self.provider = provider
        self.targets = _targets(name)

    def counted(self, result: str) -> float:
        """How many checks had a result, by the metrics."""
        lines = self.house.get("/metrics", x_api_key=KEYS["one"]).body.decode().splitlines()
        start = f'dragoman_health_checks_total{{provider="{self.provider.name}",result="{result}"}} '
        return next((float(line.removeprefix(start)) for line in lines if line.startswith(start)), 0.0)

    def check(self, result: str) -> None:
        """Move the time by one interval, and wait for the check that is due."""
        before = self.counted(result)
        self.house.clock.advance(EVERY)
        wait_until(lambda: self.counted(result) > before, f"one more check of {self.provider.name} is {result}")

    def logged(self) -> list[tuple[object, object]]:
        """The results in the log, with the number of rests that each ended."""
        lines = self.house.process.events("provider health check")
        return [(line["result"], line["cooldowns_ended"]) for line in lines if line["provider"] == self.provider.name]

    def rows(self) -> list[Object]:
        """The targets, as `/status` has them."""
        return [row for row in dig_objects(self.house.status(), "targets") if row["target"] in self.targets]

    def is_avoided(self) -> None:
        """Assert that it rests, and that no client is sent there."""
        asked = Ask(model=self.provider.name)
        assert {self.house.ask_one(asked).route for _ in range(CROWD)} == {"good/served"}
        assert self.provider.calls == 0
        assert [row["health"] for row in self.rows()] == ["cooldown", "cooldown"]


def _targets(name: str) -> tuple[str, str]:
    return f"{name}/served", f"{name}/other"


def _worn_out(directory: Path) -> None:
    """Have the targets of the bad ones rest for longer than all of this takes, as a gateway before has left them."""
    folder = state_directory({"HOME": str(directory)})
    assert folder is not None
    folder.mkdir(parents=True)
    with opened(folder / "state.db") as tables:
        for target in (target for name in BAD for target in _targets(name)):
            rest = HealthUpdate(
                target, HealthLevel.COOLDOWN, FAR, 0.0, 7, BEFORE, AttemptOutcome.CONNECTION_LOST, BEFORE
            )
            tables.cooldowns.persist(f"target {target}", rest.until, msgspec.msgpack.encode(rest))


@pytest.fixture(scope="module")
def house() -> Iterator[Town]:
    failing = [ListedProvider(name, protocol) for protocol, name in DOWN.items()]
    listed, later = ListedProvider(LISTED, CHAT), ListedProvider(LATER, CHAT, more="")
    listed.list_mood = listed.well
    providers = [*failing, listed, later, MoodyProvider("good", MESSAGES)]
    more = f"[server]\nworkers = {WORKERS}\n"
    with town(providers, LINES, more, before=_worn_out, steered=True) as house:
        yield house


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_rest_ends_soon_after_an_outage(house: Town, protocol: str) -> None:
    bad = Bad(house, DOWN[protocol])
    wait_until(lambda: bad.counted("failing") >= 1, "the first check")
    for _ in range(3):
        bad.check("failing")
    # One worker asks: at first, and once for each interval.
    assert bad.provider.lists <= 1 + house.clock.moves
    bad.is_avoided()
    bad.provider.heal()
    bad.check("alive")
    wait_until(lambda: bad.logged() == [("failing", 0), ("alive", 2)], "the log has both results")
    # Each worker knows soon, and it is a client's request that finds out.
    wait_until(lambda: [row["seconds"] for row in bad.rows()] == [0, 0], "the rests are over")
    assert bad.provider.calls == 0
    route = f"{bad.provider.name}/served"
    wait_until(lambda: house.ask_one(Ask(model=bad.provider.name)).route == route, "a client is sent there")
    wait_until(lambda: house.standings().get(route) == "slow_start", "the target is in slow start")
    check = next(row for row in dig_objects(house.status(), "providers") if row["name"] == bad.provider.name)["check"]
    assert isinstance(check, dict) and (check["every"], check["found"]) == (EVERY, "alive")


def test_a_list_that_works_ends_no_rest_of_conversations_that_fail(house: Town) -> None:
    bad = Bad(house, LISTED)
    wait_until(lambda: bad.counted("alive") >= 1, "the first check")
    for _ in range(2):
        bad.check("alive")
    bad.is_avoided()
    assert bad.logged() == [("alive", 0)]


def test_a_change_of_the_file_begins_and_ends_checks(house: Town) -> None:
    bad, other = Bad(house, LATER), Bad(house, LISTED)
    wait_until(lambda: other.counted("alive") >= 1, "the first check of another provider")
    other.check("alive")
    assert bad.provider.lists == 0
    bad.is_avoided()
    bad.provider.more = CHECKED
    _reload(house, 1)
    wait_until(lambda: bad.counted("failing") >= 1, "a check")
    bad.check("failing")
    bad.provider.more = ""
    _reload(house, 2)
    asked = bad.provider.lists
    bad.provider.heal()
    # Others are checked, and it is not; so its rest goes on.
    for _ in range(2):
        other.check("alive")
    assert bad.provider.lists == asked
    bad.is_avoided()


def _reload(house: Town, times: int) -> None:
    house.configure(LINES, f"[server]\nworkers = {WORKERS}\n")
    house.process.send(signal.SIGHUP)
    house.process.log.wait("configuration reloaded", WORKERS * times)
