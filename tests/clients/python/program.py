"""What every client program does: read jobs, run them one by one, and print what each of them saw.

The gateway's address and key are in the environment; jobs come as one JSON list on standard input, and one JSON object
per job goes to standard output. A job names a row (a way to use the client), a scenario, a model and a prompt.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

URL = os.environ["GATEWAY_URL"]
KEY = os.environ["GATEWAY_KEY"]
WEATHER = "The weather in a city."
TIME = "The time of day in a city."


@dataclass(frozen=True)
class Job:
    """One run of a client."""

    row: str
    scenario: str
    model: str
    prompt: str
    # A picture, as base64 of a PNG.
    image: str = ""


@dataclass
class Seen:
    """What the client made of the answers."""

    text: str = ""
    thinking: str = ""
    # Tools that were run, each with what it was given.
    ran: list[list[str]] = field(default_factory=list)
    value: Any = None
    # Whatever else a scenario is about.
    more: dict[str, Any] = field(default_factory=dict)


class Tools:
    """The tools of every client, and what was asked of them."""

    def __init__(self) -> None:
        self.ran: list[list[str]] = []

    def run(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Run a tool by its name."""
        return {"get_weather": self.get_weather, "get_time": self.get_time}[name](**arguments)

    def get_weather(self, city: str) -> str:
        """The weather in a city."""
        self.ran.append(["get_weather", city])
        return f"sunny in {city}"

    def get_time(self, city: str) -> str:
        """The time of day in a city."""
        self.ran.append(["get_time", city])
        return f"noon in {city}"


CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
DECLARED = {"get_weather": WEATHER, "get_time": TIME}

Scenarios = Mapping[str, Callable[[Job], Seen]]


def main(rows: Mapping[str, Scenarios]) -> None:
    """Run the jobs."""
    for given in json.load(sys.stdin):
        job = Job(**given)
        told: dict[str, Any] = {"row": job.row, "scenario": job.scenario, "model": job.model}
        try:
            told["seen"] = rows[job.row][job.scenario](job).__dict__
        except Exception:
            # The edge of the program: the test shows it.
            told["error"] = traceback.format_exc()
        print(json.dumps(told), flush=True)
