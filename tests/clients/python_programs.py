"""Programs in `python/`, each of which uses a client in one or several ways; and what must be true of each scenario.

A program is started once, since its imports take seconds, and runs all scenarios of all its rows (ways to use the
client) on the providers of all protocols; tests read the outcome of one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from dragoman.model.jsonvalue import JsonValue
from tests.clients.cells import PROTOCOLS, Client
from tests.clients.desk import Desk, Received, python_of
from tests.clients.evidence import proofs
from tests.clients.node_programs import PICTURE, Outcome
from tests.sdk.names import CHAT, MESSAGES, RESPONSES

PLACE = Path(__file__).parent / "python"
# This very Python: the SDKs that the project itself is tested with.
OWN = "own"

PARIS = 'call get_weather {"city": "Paris"}'
OSLO = 'call get_time {"city": "Oslo"}'
ROME = 'call get_time {"city": "Rome"}'
ALL_THREE: list[JsonValue] = [["get_weather", "Paris"], ["get_time", "Oslo"], ["get_time", "Rome"]]
THOUGHTS = "Paris comes first.", "Now it is known."
TURNS = f"think {THOUGHTS[0]}\n{PARIS}\n---\nthink {THOUGHTS[1]}\nsay Paris is sunny.\n---\nsay Still sunny."
CITY = '{"name": "Paris", "population": 2100000}'
# What the provider is told to do, by scenario.
SCRIPTS: Mapping[str, str] = {
    "tool": f"{PARIS}\n---\nsay Paris is sunny.",
    "thinking": TURNS,
    "parallel tools": f"{PARIS}\n{OSLO}\n{ROME}\n---\nsay All three.",
    "several steps": f"{PARIS}\n---\n{OSLO}\n---\n{ROME}\n---\nsay All three.",
    "structured output": f"say {CITY}",
    "structured output by tool": f"call City {CITY}",
    "image": "say A red square.",
    "429 first": "fail 429\nsay It was worth the wait.",
    "empty response": "empty\nsay Something after all.",
    "stored": TURNS,
    "conversation": TURNS,
    "session": TURNS,
}


# The protocol of each way to use a client, by the name that it has in its program.
SPEAKS: Mapping[str, str] = {
    "messages": MESSAGES,
    "tool runner": MESSAGES,
    "anthropic": MESSAGES,
    "chat": CHAT,
    "openai": CHAT,
    "responses": RESPONSES,
}


class Row(Struct, frozen=True, kw_only=True):
    """A way to use a client: its program and the name that it has there, and what it is like."""

    client: Client
    program: str
    name: str
    # The environment that has it: one of the installed clients, or this one.
    python: str = "python"
    # Where the usual script does not do.
    scripts: Mapping[str, str] = {}
    # Where proofs of reasoning come back with the conversation.
    carries: tuple[str, ...] = PROTOCOLS

    @property
    def speaks(self) -> str:
        """The protocol in which it asks."""
        return SPEAKS[self.name]

    def script(self, scenario: str) -> str:
        """What the provider is told to do."""
        return self.scripts.get(scenario) or SCRIPTS[scenario]


class Programs:
    """Runs programs, and keeps what came of them."""

    def __init__(self, desk: Desk, home: Path, rows: Mapping[str, Row]) -> None:
        self.desk, self._home, self._rows = desk, home, rows
        # By program; then by row, scenario and model.
        self._outcomes: dict[str, dict[tuple[str, str, str], Outcome]] = {}

    def outcome(self, row: Row, protocol: str, scenario: str) -> Outcome:
        """The outcome of a scenario; the first request for one runs all of its program."""
        if row.program not in self._outcomes:
            self._outcomes[row.program] = self._run(row.program, row.python)
        return self._outcomes[row.program][row.name, scenario, self.desk.model(protocol)]

    def _run(self, program: str, python: str) -> dict[tuple[str, str, str], Outcome]:
        rows = [row for row in self._rows.values() if row.program == program]
        models = [self.desk.model(protocol) for protocol in PROTOCOLS]
        markers: dict[tuple[str, str, str], str] = {
            (row.name, scenario, model): self.desk.marker()
            for model in models
            for row in rows
            for scenario in row.client.scenarios
        }
        jobs = [
            {
                "row": row.name,
                "scenario": scenario,
                "model": model,
                "prompt": f"{markers[row.name, scenario, model]}\n<mock>\n{row.script(scenario)}\n</mock>",
                "image": PICTURE if scenario == "image" else "",
            }
            for model in models
            for row in rows
            for scenario in row.client.scenarios
        ]
        interpreter = sys.executable if python == OWN else python_of(python)
        home = self._home / program
        home.mkdir()
        given = {"GATEWAY_URL": self.desk.url, "GATEWAY_KEY": self.desk.key, "PYTHONDONTWRITEBYTECODE": "1"}
        done = self.desk.run([interpreter, PLACE / f"{program}.py"], home, given, given=json.dumps(jobs)).worked()
        printed = {(str(one["row"]), str(one["scenario"]), str(one["model"])): one for one in done.objects()}
        return {key: Outcome(marker=marker, told=printed[key]) for key, marker in markers.items()}


# What must be true of each scenario, on both sides


def requests(desk: Desk, row: Row, outcome: Outcome) -> list[Received]:
    """What the provider got of a scenario, held against the types of its SDK where the gateway wrote it.

    On the relay it is the client's own, and clients send more than the types know.
    """
    found = desk.requests(outcome.marker, checked=False)
    if found and found[0].protocol != row.speaks:
        found = desk.requests(outcome.marker)
    for one in found:
        # The list grows while it is read: what goes on from an answer may name nothing but its id.
        name = one.answer.get("id") if isinstance(one.answer, dict) else None
        later = desk.requests(str(name), checked=False) if name else []
        found += [other for other in later if other not in found]
    return found


def statuses(found: list[Received]) -> list[int]:
    """How the provider answered."""
    return [request.status for request in found]


def _ran(outcome: Outcome) -> list[JsonValue]:
    ran = outcome.seen["ran"]
    assert isinstance(ran, list)
    return ran


def _tool(desk: Desk, row: Row, outcome: Outcome) -> None:
    assert (outcome.seen["text"], _ran(outcome)) == ("Paris is sunny.", [["get_weather", "Paris"]])
    first, second = requests(desk, row, outcome)
    assert "The weather in a city." in str(first.body["tools"])
    assert "sunny in Paris" in str(second.body)


def _thinking(desk: Desk, row: Row, outcome: Outcome) -> None:
    _tool(desk, row, outcome)
    # Some show each thought on a line of its own.
    assert "".join(str(outcome.seen["thinking"]).split("\n")) == "".join(THOUGHTS)
    first, second = requests(desk, row, outcome)
    assert proofs(first.answer)
    if "previous_message_id" not in str(second.body.get("thread")):
        assert proofs(second.body) == (proofs(first.answer) if first.protocol in row.carries else [])


def _parallel(desk: Desk, row: Row, outcome: Outcome) -> None:
    assert outcome.seen["text"] == "All three."
    # Some run them at once, in whatever order.
    assert sorted(map(str, _ran(outcome))) == sorted(map(str, ALL_THREE))
    _, second = requests(desk, row, outcome)
    for result in ("sunny in Paris", "noon in Oslo", "noon in Rome"):
        assert result in str(second.body)


def _steps(desk: Desk, row: Row, outcome: Outcome) -> None:
    assert (outcome.seen["text"], _ran(outcome)) == ("All three.", ALL_THREE)
    assert "noon in Rome" in str(requests(desk, row, outcome)[3].body)


def _structured(desk: Desk, row: Row, outcome: Outcome) -> None:
    assert outcome.seen["value"] == json.loads(CITY)
    (request,) = requests(desk, row, outcome)
    formats = [request.body.get(name) for name in ("output_config", "response_format", "text")]
    assert "population" in str(formats)


def _structured_by_tool(desk: Desk, row: Row, outcome: Outcome) -> None:
    assert outcome.seen["value"] == json.loads(CITY)
    (request,) = requests(desk, row, outcome)
    assert "population" in str(request.body["tools"])


def _image(desk: Desk, row: Row, outcome: Outcome) -> None:
    assert outcome.seen["text"] == "A red square."
    (request,) = requests(desk, row, outcome)
    assert PICTURE in str(request.body)


def _limited(desk: Desk, row: Row, outcome: Outcome) -> None:
    assert outcome.seen["text"] == "It was worth the wait."
    assert statuses(requests(desk, row, outcome)) == [429, 200]


def _empty(desk: Desk, row: Row, outcome: Outcome) -> None:
    assert outcome.seen["text"] == ""
    assert statuses(requests(desk, row, outcome)) == [200]


PROVES: Mapping[str, Callable[[Desk, Row, Outcome], None]] = {
    "tool": _tool,
    "thinking": _thinking,
    "parallel tools": _parallel,
    "several steps": _steps,
    "structured output": _structured,
    "structured output by tool": _structured_by_tool,
    "image": _image,
    "429 first": _limited,
    "empty response": _empty,
}
