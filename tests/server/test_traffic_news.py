"""Several processes on one port: what one finds out, the others know, and so does one that is started later."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from pathlib import Path

import pytest

from dragoman.model.jsonvalue import JsonObject
from tests.gateway.harness import CHAT, MESSAGES, PATHS, PROVIDER_KEY, Received, Reply, whole
from tests.gateway.says import question, tells
from tests.server.process import FIRST_PAUSE, PATIENCE, Served, provided, serving
from tests.server.workers import WorkerClient, each_worker, running_workers
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")

TWO = ("--workers", "2")
ANOTHER_KEY = "sk-another-0123456789abcdef"
PAIR = '"pair" = { targets = ["chat/served", "messages/served"], sticky = false }\n'
SOME = 5
CONSTANTS = {
    FIRST_PAUSE: 0.05,
    # Updates are broadcast often, and no target is out of suspicion before a test ends.
    "dragoman.gateway.routing_state_sync.POLL_INTERVAL": 0.05,
    "dragoman.gateway.workers.worker_channel._FLUSH_INTERVAL": 0.05,
    "dragoman.routing.health.SUSPICION": 3600.0,
    # A worker waits for what another one knows, however long it takes.
    "dragoman.gateway.workers.worker_channel._TIMEOUT": PATIENCE,
}


def standings(told: JsonObject) -> list[str]:
    """The health of the target that fails."""
    rows = told["targets"]
    assert isinstance(rows, list)
    return [str(row["health"]) for row in rows if isinstance(row, dict) and row["target"] == "chat/served"]


def resting(told: JsonObject) -> list[object]:
    """The positions of the keys in cooldown."""
    providers = told["providers"]
    assert isinstance(providers, list)
    (rows,) = [row["keys_in_cooldown"] for row in providers if isinstance(row, dict) and row["name"] == "chat"]
    assert isinstance(rows, list)
    return [row["key"] for row in rows if isinstance(row, dict)]


def wait_resting(clients: Iterable[WorkerClient]) -> None:
    """Wait until every worker knows that the first key is in cooldown."""
    wait_until(lambda: all(resting(client.get("/status")) == [0] for client in clients), "all know the cooldown")


def test_pitfall_343_a_target_that_fails_in_one_worker_is_behind_in_the_other() -> None:
    def script(received: Received) -> Reply:
        return whole({"error": {"message": "no"}}, 500) if received.target == PATHS[CHAT] else tells(MESSAGES)

    body = question(CHAT, CHAT, model="pair")
    with (
        serving(script, PAIR, arguments=TWO, constants=CONSTANTS) as house,
        each_worker(house.process.pid, running_workers(house.process.pid, 2), house.port) as (one, other),
    ):
        one.post(PATHS[CHAT], body)
        clients = (one, other)
        wait_until(
            lambda: [standings(client.get("/status")) for client in clients] == [["suspect"]] * 2, "both know it"
        )
        for client in clients:
            for _ in range(SOME):
                client.post(PATHS[CHAT], body)
        asked = [received.target for received in house.provider.received]
        assert asked.count(PATHS[CHAT]) == 1
        assert asked.count(PATHS[MESSAGES]) == 1 + 2 * SOME


def test_pitfall_350_a_worker_that_is_started_anew_knows_which_keys_rest() -> None:
    # Without a file: the other worker alone knows it.
    with provided(limited, "[storage]\nstore_responses = false\n") as house:
        give_two_keys(house)
        with house.started(*TWO, constants=CONSTANTS):
            first = running_workers(house.process.pid, 2)
            with each_worker(house.process.pid, first, house.port) as clients:
                clients[0].post(PATHS[CHAT], question(CHAT, CHAT))
                wait_resting(clients)
            # One after the other, so that each new one hears of it from one that has heard of it.
            gone: set[int] = set()
            for pid in sorted(first):
                os.kill(pid, signal.SIGKILL)
                gone.add(pid)
                with each_worker(
                    house.process.pid, running_workers(house.process.pid, 2, without=gone), house.port
                ) as clients:
                    wait_resting(clients)
                    calls = len(house.provider.received)
                    for client in clients:
                        client.post(PATHS[CHAT], question(CHAT, CHAT))
                    assert len(house.provider.received) == calls + len(clients)


@pytest.mark.parametrize(
    ("keep", "workers"),
    [(True, 1), (True, 2), (False, 2)],
    ids=["with a file, one worker", "with a file, two workers", "without"],
)
def test_pitfall_350_rests_outlive_a_restart_where_there_is_a_file(keep: bool, workers: int) -> None:
    arguments = ("--workers", str(workers))
    with provided(limited, "" if keep else "[storage]\nstore_responses = false\n") as house:
        give_two_keys(house)
        with house.started(*arguments, constants=CONSTANTS):
            assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
            assert house.stop() == 0
        with house.started(*arguments, constants=CONSTANTS):
            pids = running_workers(house.process.pid, 2) if workers > 1 else {house.process.pid}
            with each_worker(house.process.pid, pids, house.port) as clients:
                assert [resting(client.get("/status")) for client in clients] == [[0] if keep else []] * workers
            assert house.stop() == 0


def limited(received: Received) -> Reply:
    """A provider that limits the rate of one key."""
    if received.header("authorization") == f"Bearer {PROVIDER_KEY}":
        return whole({"error": {"message": "slow down"}}, 429, retry_after="600")
    return tells(CHAT)


def give_two_keys(house: Served) -> None:
    """Give the provider another key."""
    first, _, rest = house.file.read_text().partition("[providers.chat]")
    both = f'api_key = ["{PROVIDER_KEY}", "{ANOTHER_KEY}"]'
    house.replace_file(first + "[providers.chat]" + rest.replace(f'api_key = "{PROVIDER_KEY}"', both, 1))
