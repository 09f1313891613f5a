"""What commands show of a gateway that runs, and of one that was killed."""

from __future__ import annotations

import json
import signal

from dragoman.model.jsonvalue import JsonObject
from tests.cli.screens import on_screen, piped
from tests.gateway.harness import CHAT, PATHS
from tests.gateway.says import question
from tests.screen import fits
from tests.server.process import Served, serving
from tests.server.test_workers import Holding


def told(house: Served, *words: str) -> list[JsonObject]:
    """What a command tells programs, an object a line."""
    status, out, err = piped([*words, "--json", "--config", str(house.file)], house.directory)
    assert (status, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


def test_what_is_open_answered_and_crashed_is_shown_while_it_runs_and_after() -> None:
    provider = Holding()
    with serving(provider) as house:
        name = house.post(PATHS[CHAT], question(CHAT, CHAT)).header("x-request-id") or ""
        (found,) = told(house, "logs", name)
        assert (found["id"], found["outcome"], found["status"]) == (name, "answered", 200)
        assert [row["id"] for row in told(house, "logs")] == [name]
        (now,) = told(house, "top")
        assert now["open"] == 0
        connection = house.send(PATHS[CHAT], question(CHAT, CHAT, stream=True))
        provider.gate.reached()
        (now,) = told(house, "top")
        assert now["open"] == 1
        rows = now["rows"]
        assert isinstance(rows, list)
        assert {row["state"] for row in rows if isinstance(row, dict) and row["open"]} == {"streaming"}
        seen = on_screen(["top", "--once", "--config", str(house.file)], house.directory, columns=80)
        assert fits(seen.raw.replace("\r", "").splitlines(), 80)
        assert "1 open; in the last minute 1 turn, " in seen.plain
        house.process.send(signal.SIGKILL)
        house.process.wait()
        connection.close()
        assert [row["outcome"] for row in told(house, "logs")] == ["answered", "crashed"]
        (now,) = told(house, "top")
        assert now["open"] == 0
