"""The agents on a line whose first target fails: they finish a task with a tool in it, and notice nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.clients import test_claude_code as claude_code
from tests.clients import test_codex as codex
from tests.clients import test_opencode as opencode
from tests.clients.cells import one_by_day
from tests.clients.desk import MODELS, Desk, npm_program, opened_desk
from tests.failover.faults import FAULTS
from tests.failover.provider import FaultyProvider
from tests.sdk.names import CHAT, MESSAGES, RESPONSES
from tests.server.process import PATIENCE, looping

# What is wrong with the first target, and the protocol that it speaks, by that of the one behind it.
FIRST: Mapping[str, tuple[str, str]] = {
    MESSAGES: ("an error first", CHAT),
    CHAT: ("529", RESPONSES),
    RESPONSES: ("an opening, then a cut", MESSAGES),
}


@pytest.fixture(scope="module")
def failing() -> Iterator[Mapping[str, FaultyProvider]]:
    """The first target of each line, by the protocol of the second."""
    providers = {
        second: FaultyProvider(f"bad-{second}", protocol, FAULTS[fault]) for second, (fault, protocol) in FIRST.items()
    }
    with looping() as loop:
        for provider in providers.values():
            asyncio.run_coroutine_threadsafe(provider.start(), loop).result(PATIENCE)
        yield providers
        for provider in providers.values():
            asyncio.run_coroutine_threadsafe(provider.stop(), loop).result(PATIENCE)


@pytest.fixture(scope="module")
def desk(failing: Mapping[str, FaultyProvider]) -> Iterator[Desk]:
    """A desk of which every model has a first target that fails."""
    more = ["", "[models]", *(f'"first-fails/{name}/*" = ["bad-{name}/*", "{MODELS[name]}"]' for name in FIRST)]
    for provider in failing.values():
        table = {
            "protocol": provider.protocol,
            "base_url": provider.base_url,
            "api_key": provider.key,
            "models": "served",
        }
        more += [f"[providers.{provider.name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    with opened_desk("\n".join(more)) as desk:
        yield desk


def lines_for(client: str) -> dict[str, str]:
    """What a client asks for: targets of its own, so that nothing is known of them."""
    return {protocol: f"first-fails/{protocol}/{client}" for protocol in FIRST}


@one_by_day(CHAT)
def test_claude_code_does_not_notice_that_the_first_target_fails(
    desk: Desk, failing: Mapping[str, FaultyProvider], protocol: str, home: Path
) -> None:
    tried = failing[protocol].connections
    desk.models = lines_for("claude")
    agent = claude_code.Agent(desk, protocol, home)
    told = agent.run('call Bash {"command": "echo hi > hello.txt"}\n---\nsay All done.').well()
    assert told.result["result"] == "All done."
    assert "api_retry" not in told.subtypes()
    assert (agent.place / "hello.txt").read_text() == "hi\n"
    assert [request.status for request in agent.requests()] == [200, 200]
    assert failing[protocol].connections > tried


@one_by_day(MESSAGES)
def test_codex_does_not_notice_that_the_first_target_fails(
    desk: Desk, failing: Mapping[str, FaultyProvider], protocol: str, home: Path
) -> None:
    tried = failing[protocol].connections
    desk.models = lines_for("codex")
    agent = codex.Agent(desk, protocol, home)
    told = agent.run('call exec_command {"cmd": "echo hi > hello.txt"}\n---\nsay All done.').well("All done.")
    assert told.errors == []
    assert (agent.place / "hello.txt").read_text() == "hi\n"
    assert [request.status for request in agent.requests()] == [200, 200]
    assert failing[protocol].connections > tried


@one_by_day(RESPONSES)
def test_opencode_does_not_notice_that_the_first_target_fails(
    desk: Desk, failing: Mapping[str, FaultyProvider], protocol: str, home: Path
) -> None:
    tried = failing[protocol].connections
    desk.models = lines_for("opencode")
    marker, place = desk.marker(), home / "work"
    place.mkdir()
    package = opencode.ABROAD[protocol].rpartition("/")[2]
    words: list[str | Path] = [npm_program("opencode"), "run", "--format", "json", "--title", "A task", "-m"]
    call = json.dumps({"command": "echo hi > hello.txt", "description": "Greets"})
    prompt = f"{marker} Do as told.\n<mock>\ncall bash {call}\n---\nsay All done.\n</mock>"
    variables = opencode.environment(desk, home)
    done = desk.run([*words, f"{package}/{desk.model(protocol)}"], home, variables, place=place, given=prompt).worked()
    parts = [event["part"] for event in done.objects() if event["type"] == "text"]
    assert [part["text"] for part in parts if isinstance(part, dict)] == ["All done."]
    assert "error" not in [event["type"] for event in done.objects()]
    assert (place / "hello.txt").read_text() == "hi\n"
    assert [request.status for request in desk.requests(marker)] == [200, 200]
    assert failing[protocol].connections > tried
