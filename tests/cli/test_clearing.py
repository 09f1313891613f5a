"""`dragoman status` in front of a gateway with two workers: a rest is shown, and ended in both."""

from __future__ import annotations

import json
import re

from dragoman import __version__
from dragoman.model.jsonvalue import JsonObject
from tests.cli.screens import piped
from tests.gateway.harness import CHAT, PATHS, Received, Reply, whole
from tests.gateway.says import question
from tests.server.process import Served, serving
from tests.server.workers import WorkerClient, each_worker, running_workers
from tests.waiting import wait_until


def asked(house: Served, *words: str) -> tuple[int, str, str]:
    """Run the command: exit status and what was said."""
    where = f"http://127.0.0.1:{house.port}"
    return piped(["status", "--gateway", where, *words], house.directory, {"DRAGOMAN_KEY": ""})


def test_pitfall_345_a_target_is_reset_by_a_command() -> None:
    def failing(received: Received) -> Reply:
        return whole({"error": {"message": "broken"}}, 500)

    with (
        serving(failing, arguments=("--workers", "2")) as house,
        each_worker(house.process.pid, running_workers(house.process.pid, 2), house.port) as clients,
    ):
        # Each worker counts by itself, so that one of them has seen enough.
        for _ in range(9):
            assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 500
        wait_until(lambda: standings(clients) == {"cooldown"}, "both workers have the target rest")
        _, out, _ = asked(house)
        where = f"http://127.0.0.1:{house.port}"
        assert out.startswith(f"dragoman {__version__} at {where}: 2 workers, 0 requests under way\n")
        line = next(line for line in out.splitlines() if line.startswith("chat/served"))
        # Since when is not said of what was a moment ago.
        assert re.search(
            r"cooldown for another [0-9.]+ s(, since [0-9.]+ s ago)?: connection_lost [0-9.]+ s ago", line
        ), line
        status, out, err = asked(house, "--reset", "chat/served")
        assert (status, err) == (0, "")
        assert out == "chat/served is healthy again (was cooldown, 0 keys in cooldown)\n"
        # The other worker is told, too.
        wait_until(lambda: standings(clients) == {"healthy"}, "the target is healthy in both workers")
        status, out, err = asked(house, "--reset", "chat/served", "--json")
        assert json.loads(out) == {"target": "chat/served", "health": "healthy", "keys": 0}
        assert asked(house, "--reset", "chat/served")[1].startswith("no failure was recorded for chat/served")
        status, out, err = asked(house, "--reset", "nobody/served")
        assert (status, out) == (1, "")
        assert "does not reset the target: there is no such target" in err


def standings(clients: list[WorkerClient]) -> set[object]:
    """What the target is to the workers."""
    return {row["health"] for client in clients for row in _rows(client)}


def _rows(client: WorkerClient) -> list[JsonObject]:
    rows = client.get("/status")["targets"]
    assert isinstance(rows, list)
    return [row for row in rows if isinstance(row, dict)] or [{"health": "unheard of"}]
