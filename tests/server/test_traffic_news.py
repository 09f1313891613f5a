"""Several processes on one port: what one finds out, the others know, and so does one that is started later."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from dragoman.model.jsonvalue import JsonObject
from dragoman.routing.health import SUSPICION
from tests.gateway.harness import CHAT, MESSAGES, PATHS, PROVIDER_KEY, Received, Reply, whole
from tests.gateway.says import question, tells
from tests.server.process import PATIENCE, Process, Served, serving
from tests.server.workers import running_workers

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")

TWO = ("--workers", "2")
ANOTHER_KEY = "sk-another-0123456789abcdef"
PAIR = '"pair" = { targets = ["chat/served", "messages/served"], sticky = false }\n'
# Enough for both workers to be among those who are asked.
MANY = 30


def standings(told: JsonObject) -> list[str]:
    """What is thought of the target that fails."""
    rows = told["targets"]
    assert isinstance(rows, list)
    return [str(row["standing"]) for row in rows if isinstance(row, dict) and row["target"] == "chat/served"]


def resting(told: JsonObject) -> list[object]:
    """The places of the keys that rest."""
    providers = told["providers"]
    assert isinstance(providers, list)
    (rows,) = [row["resting"] for row in providers if isinstance(row, dict) and row["name"] == "chat"]
    assert isinstance(rows, list)
    return [row["key"] for row in rows if isinstance(row, dict)]


def statuses(house: Served) -> list[JsonObject]:
    """What those say who happen to be asked."""
    return [json.loads(house.get("/status").body) for _ in range(MANY)]


def agreed(house: Served, workers: int = 2) -> None:
    """Wait until everybody knows that something is wrong.

    One worker may be the one that answers every time. So the second passes in which the others are told, and after it
    all of them are asked for their counters again and again: whoever gives them has read what came before.
    """
    told_by = time.monotonic() + 1.0
    deadline = time.monotonic() + PATIENCE
    while True:
        late = time.monotonic() >= told_by
        found = statuses(house)
        if late and all(
            told["workers"] == workers and (standings(told) == ["suspect"] or resting(told)) for told in found
        ):
            return
        assert time.monotonic() < deadline, found


def test_pitfall_343_a_target_that_fails_in_one_worker_is_behind_in_the_other() -> None:
    def script(received: Received) -> Reply:
        return whole({"error": {"message": "no"}}, 500) if received.target == PATHS[CHAT] else tells(MESSAGES)

    with serving(script, PAIR, arguments=TWO) as house:
        running_workers(house.process.pid, 2)
        serves_again(house)
        body = question(CHAT, CHAT, model="pair")
        began = time.monotonic()
        assert house.post(PATHS[CHAT], body).status == 200
        agreed(house)
        for _ in range(MANY):
            assert house.post(PATHS[CHAT], body).status == 200
        asked = [received.target for received in house.provider.received]
        # Whenever a suspicion is over, on a slow machine, each worker may find out anew.
        suspicions = int((time.monotonic() - began) / SUSPICION)
        assert 1 <= asked.count(PATHS[CHAT]) <= 1 + 2 * suspicions
        assert asked.count(PATHS[MESSAGES]) == 1 + MANY


def test_pitfall_350_a_worker_that_is_started_anew_knows_which_keys_rest() -> None:
    with serving(limited, arguments=TWO) as house:
        pids = running_workers(house.process.pid, 2)
        give_two_keys(house)
        house.process.log.wait("the configuration was changed", 2)
        assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
        agreed(house)
        # One after the other, so that each new one hears of it from one that has heard of it.
        for count, pid in enumerate(sorted(pids), 1):
            os.kill(pid, signal.SIGKILL)
            house.process.log.wait("a worker died and is started anew", count)
            running_workers(house.process.pid, 2, without=set(sorted(pids)[:count]))
            serves_again(house)
            agreed(house)
        assert {tuple(resting(told)) for told in statuses(house)} == {(0,)}
        calls = len(house.provider.received)
        for _ in range(MANY):
            assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
        assert len(house.provider.received) == calls + MANY


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("keep", [True, False], ids=["with a file", "without"])
def test_pitfall_350_rests_outlive_a_restart_where_there_is_a_file(keep: bool, workers: int) -> None:
    arguments = ("--workers", str(workers))
    with serving(limited, "" if keep else "[storage]\nkeep = false\n", arguments=arguments) as house:
        give_two_keys(house)
        house.process.log.wait("the configuration was changed", workers)
        assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
        agreed(house, workers)
        assert house.stop() == 0
        again = Process(["--config", str(house.file), "--port", "0", *arguments], house.directory)
        try:
            house.port = again.listening()
            assert {tuple(resting(told)) for told in statuses(house)} == {(0,) if keep else ()}
            assert again.stop() == 0
        finally:
            again.end()


def limited(received: Received) -> Reply:
    """A provider that has had enough of one key."""
    if received.header("authorization") == f"Bearer {PROVIDER_KEY}":
        return whole({"error": {"message": "slow down"}}, 429, retry_after="600")
    return tells(CHAT)


def give_two_keys(house: Served) -> None:
    """Change the configuration: the provider has another key."""
    first, _, rest = house.file.read_text().partition("[providers.chat]")
    both = f'api_key = ["{PROVIDER_KEY}", "{ANOTHER_KEY}"]'
    house.file.write_text(first + "[providers.chat]" + rest.replace(f'api_key = "{PROVIDER_KEY}"', both, 1))


def serves_again(house: Served) -> None:
    """Wait until both workers are there for each other."""
    deadline = time.monotonic() + PATIENCE
    while json.loads(house.get("/status").body)["workers"] != 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
