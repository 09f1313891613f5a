"""Programs in `node/`, each of which uses an SDK in several ways; and what must be true of each of their scenarios.

A program is started once for a provider of one protocol, and runs all scenarios of all its rows (ways to use the SDK)
at once; tests ask for what came of one.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from dragoman.model.jsonvalue import JsonObject, JsonValue
from tests.clients.desk import Desk, Received
from tests.clients.evidence import proofs
from tests.clients.installing import NODE, PACKAGES
from tests.media import png
from tests.sdk.names import CHAT

PLACE = Path(__file__).parent / "node"
PICTURE = base64.b64encode(png()).decode()
TRIESTE, GRAZ, WIEN = (
    'call get_weather {"city": "Trieste"}',
    'call get_time {"city": "Graz"}',
    'call get_time {"city": "Wien"}',
)
Scripts = Mapping[str, str]
# What the provider is told to do, by scenario; the value of `json` is made by the schema that is asked for.
SCRIPTS: Scripts = {
    "tool": f"{TRIESTE}\n---\nsay It is sunny.",
    "streaming": f"{TRIESTE}\n---\nsay It is sunny.",
    "thinking": f"think I look first.\n{TRIESTE}\n---\nthink And again.\nsay It is sunny.\n---\nsay It stays so.",
    "parallel tools": f"{TRIESTE}\n{GRAZ}\n---\nsay Both.",
    "several steps": f"{TRIESTE}\n---\n{GRAZ}\n---\n{WIEN}\n---\nsay All.",
    "structured output": "json",
    "image": "say A red square.",
    "429 first": "fail 429\nsay At last.",
    "empty response": "empty",
    "stored state": "say One.\n---\nsay Two.",
    "token count": "say Never asked.",
}
CITY: JsonObject = {"name": "mock", "population": 1}


class Outcome(Struct, frozen=True, kw_only=True):
    """What a program saw in one scenario, and by which word the provider's side of it is found."""

    marker: str
    told: JsonObject

    @property
    def seen(self) -> JsonObject:
        """What it saw; it must have come so far."""
        seen = self.told.get("seen")
        assert isinstance(seen, dict), self.told.get("error")
        return seen

    def more(self, name: str) -> JsonValue:
        """Something that only some scenarios are about."""
        more = self.seen["more"]
        assert isinstance(more, dict)
        return more.get(name)


class Programs:
    """Runs programs, and keeps what came of them."""

    def __init__(self, desk: Desk, home: Path) -> None:
        self.desk, self._home = desk, home
        self._known: dict[tuple[str, str], dict[tuple[str, str], Outcome]] = {}

    def outcomes(self, program: str, protocol: str, rows: Mapping[str, Scripts]) -> dict[tuple[str, str], Outcome]:
        """What came of each row and scenario on a provider of the protocol; all are run when the first is asked for."""
        key = (program, protocol)
        if key not in self._known:
            self._known[key] = self._run(program, self.desk.model(protocol), rows)
        return self._known[key]

    def _run(self, program: str, model: str, rows: Mapping[str, Scripts]) -> dict[tuple[str, str], Outcome]:
        scripts = {(row, name): script for row, own in rows.items() for name, script in own.items()}
        markers = {key: self.desk.marker() for key in scripts}
        jobs = [
            {
                "row": row,
                "scenario": scenario,
                "model": model,
                "prompt": f"{markers[row, scenario]} <mock>\n{script}\n</mock>",
                "image": PICTURE,
            }
            for (row, scenario), script in scripts.items()
        ]
        words: list[str | Path] = [NODE, "--import", (PLACE / "resolving.mjs").as_uri(), PLACE / f"{program}.mjs"]
        given = {"GATEWAY_URL": self.desk.url, "GATEWAY_KEY": self.desk.key, "PACKAGES": str(PACKAGES)}
        told = self.desk.run(words, self._home, given, given=json.dumps(jobs)).worked().objects()
        by_key = {(str(one["row"]), str(one["scenario"])): one for one in told}
        return {key: Outcome(marker=markers[key], told=by_key[key]) for key in scripts}


def conversation(desk: Desk, marker: str) -> list[Received]:
    """What the provider got with the marker in it, and what refers to its answers to that by their ids."""
    found = desk.requests(marker)
    for one in found:
        # The list grows while it is read.
        name = one.answer.get("id") if isinstance(one.answer, dict) else None
        found += [later for later in desk.requests(str(name)) if later not in found] if name else []
    return found


# What must be true of each scenario, on both sides


def _tool(desk: Desk, outcome: Outcome) -> None:
    assert (outcome.seen["text"], outcome.seen["ran"]) == ("It is sunny.", [["get_weather", "Trieste"]])
    first, second = conversation(desk, outcome.marker)
    assert "The weather in a city." in str(first.body["tools"])
    assert "sunny in Trieste" in str(second.body)


def _streaming(desk: Desk, outcome: Outcome) -> None:
    _tool(desk, outcome)
    output = outcome.more("output")
    assert isinstance(output, int)
    assert output > 0
    assert all(request.body["stream"] is True for request in conversation(desk, outcome.marker))


def _parallel(desk: Desk, outcome: Outcome) -> None:
    ran = outcome.seen["ran"]
    assert outcome.seen["text"] == "Both."
    assert isinstance(ran, list)
    assert sorted(map(str, ran)) == ["['get_time', 'Graz']", "['get_weather', 'Trieste']"]
    _, second = conversation(desk, outcome.marker)
    assert "sunny in Trieste" in str(second.body)
    assert "noon in Graz" in str(second.body)


def _steps(desk: Desk, outcome: Outcome) -> None:
    ran = [["get_weather", "Trieste"], ["get_time", "Graz"], ["get_time", "Wien"]]
    assert (outcome.seen["text"], outcome.seen["ran"]) == ("All.", ran)
    assert "noon in Wien" in str(conversation(desk, outcome.marker)[3].body)


def _structured(desk: Desk, outcome: Outcome) -> None:
    assert outcome.seen["value"] == CITY
    assert "population" in str(conversation(desk, outcome.marker)[0].body)


def _image(desk: Desk, outcome: Outcome) -> None:
    assert outcome.seen["text"] == "A red square."
    # On the relay an image may go without `detail`, which the types demand and the service does not.
    (request,) = desk.requests(outcome.marker, checked=False)
    assert PICTURE in str(request.body)


def _limited(desk: Desk, outcome: Outcome) -> None:
    assert outcome.seen["text"] == "At last."
    assert [request.status for request in desk.requests(outcome.marker)] == [429, 200]


def _empty(desk: Desk, outcome: Outcome) -> None:
    assert outcome.seen["text"] in ("", None)
    assert outcome.more("finish") in ("stop", "end_turn", "completed")
    assert [request.status for request in desk.requests(outcome.marker)] == [200]


PROVES: Mapping[str, Callable[[Desk, Outcome], None]] = {
    "tool": _tool,
    "streaming": _streaming,
    "parallel tools": _parallel,
    "several steps": _steps,
    "structured output": _structured,
    "image": _image,
    "429 first": _limited,
    "empty response": _empty,
}


def prove_thinking(desk: Desk, outcome: Outcome, *, carried: bool = True) -> None:
    """Reasoning is shown, and its proof is back at the provider in the next request of the turn, byte for byte."""
    assert outcome.seen["thinking"] == "I look first.And again."
    first, second, *later = conversation(desk, outcome.marker)
    one, two = proofs(first.answer), proofs(second.answer)
    assert one
    assert two
    assert proofs(second.body) == (one if carried else [])
    for request in later:
        # Chat servers take reasoning within a turn: that of earlier ones is sent by Chat clients alone.
        assert proofs(request.body) in (
            [one + two, one] if request.protocol == CHAT else [one + two if carried else []]
        )
