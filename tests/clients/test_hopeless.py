"""The agents before a provider that nobody can ask: they end at once, and say what is wrong."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dragoman.model.jsonvalue import JsonObject
from tests.clients import test_claude_code as claude_code
from tests.clients import test_codex as codex
from tests.clients import test_opencode as opencode
from tests.clients.cells import PROTOCOLS
from tests.clients.desk import Desk, npm_program, opened_desk
from tests.sdk.names import CHAT, MESSAGES, RESPONSES
from tests.waiting import wait_until

# What is asked for, and what a client with a key is told of it.
ROWS = {
    "dead/qwen3": "dead refused the connection",
    "openai/gpt-5.1": "openai has no key here",
    "keyless/gpt-5.1": "keyless asks for a key, and the gateway has none for it",
}


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    """A desk with a provider at a port where nobody listens, and one that answers 401."""
    with socket.socket() as end:
        end.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{end.getsockname()[1]}/v1"
        tables = [
            f'[providers.{name}]\nprotocol = "openai-chat"\nbase_url = "{url}"\nauth = "none"'
            for name, url in (("dead", address), ("keyless", "{mock}/v1"))
        ]
        with opened_desk("\n".join(["", *tables])) as desk:
            yield desk


def run_claude_code(desk: Desk, home: Path) -> str:
    agent = claude_code.Agent(desk, MESSAGES, home)
    return str(agent.run("say Hello.").result)


def run_codex(desk: Desk, home: Path) -> str:
    agent = codex.Agent(desk, RESPONSES, home)
    return str(agent.run("say Hello.").errors)


def run_opencode(desk: Desk, home: Path, protocol: str = CHAT) -> str:
    place = home / "work"
    place.mkdir()
    package = next(row for row, spoken in opencode.ROWS.items() if spoken == protocol).rpartition("/")[2]
    words: list[str | Path] = [npm_program("opencode"), "run", "--format", "json", "--title", "A task", "-m"]
    variables = opencode.environment(desk, home)
    done = desk.run([*words, f"{package}/{desk.model(CHAT)}"], home, variables, place=place, given="Hello.")
    return done.out + done.err


def exchanges(desk: Desk) -> list[JsonObject]:
    """The log's lines of exchanges; warnings at the start are plain text."""
    lines = [json.loads(line) for line in desk.gateway.log.all() if line.startswith("{")]
    return [line for line in lines if line["event"] == "exchange"]


def asked_for(desk: Desk, model: str, before: int) -> list[JsonObject]:
    """The lines of exchanges with a model, which are written a moment after the response; at least one."""

    def logged() -> list[JsonObject]:
        return [line for line in exchanges(desk)[before:] if line["requested_model"] == model]

    return wait_until(logged, f"a line of an exchange with {model}")


AGENTS: dict[str, Callable[[Desk, Path], str]] = {
    "claude": run_claude_code,
    "codex": run_codex,
    "opencode": run_opencode,
}


# OpenCode takes five seconds to start.
CASES = [
    pytest.param(name, model, marks=pytest.mark.nightly if name == "opencode" and place else ())
    for name in AGENTS
    for place, model in enumerate(ROWS)
]


@pytest.mark.parametrize(("name", "model"), CASES)
def test_pitfall_648_an_agent_ends_at_once_and_names_the_provider(
    desk: Desk, name: str, model: str, home: Path
) -> None:
    before = len(exchanges(desk))
    desk.models = dict.fromkeys(PROTOCOLS, model)
    said = AGENTS[name](desk, home)
    assert ROWS[model] in said
    asked = asked_for(desk, model, before)
    assert len(asked) == 1, asked


@pytest.mark.parametrize("model", ["dead/qwen3", "keyless/gpt-5.1"])
def test_pitfall_648_opencode_ends_at_once_on_messages_too(desk: Desk, home: Path, model: str) -> None:
    before = len(exchanges(desk))
    desk.models = dict.fromkeys(PROTOCOLS, model)
    assert ROWS[model] in run_opencode(desk, home, MESSAGES)
    # On a busy machine OpenCode may get to ask for a title, too, before it ends.
    lines = [line for line in asked_for(desk, model, before) if line.get("thread") != "utility"]
    assert [line["status"] for line in lines] == [424], json.dumps(lines)


def test_claude_code_does_not_call_a_refused_key_temporary(desk: Desk, home: Path) -> None:
    model, before = "keyless/gpt-5.1", len(exchanges(desk))
    desk.models = dict.fromkeys(PROTOCOLS, model)
    said = run_claude_code(desk, home)
    # Else its line would be the next test's.
    assert asked_for(desk, model, before)
    assert "keyless" in said
    assert "temporary" not in said and "/login" not in said, said
