"""Claude Code, headless, through the gateway: the real program does its work on providers of every protocol."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from dragoman.model.jsonvalue import JsonObject, JsonValue
from tests.clients.cells import Claim, Client
from tests.clients.desk import LOCAL_MODEL, Desk, Done, Received, npm_program
from tests.clients.evidence import entries, proofs
from tests.media import png
from tests.sdk.names import CHAT, MESSAGES
from tests.waiting import wait_until

CLIENT = Client(
    name="Claude Code",
    package="@anthropic-ai/claude-code",
    more=(
        "edit a file",
        "subagent",
        "tool search",
        "web search",
        "compaction",
        "count_tokens",
        "model discovery",
        "billing line",
        "auto mode",
        "wrong key",
    ),
)
TOOLS = "Bash,Edit,Read,Agent,ToolSearch,WebSearch"
BILLING = "x-anthropic-billing-header:"
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}},
    "required": ["answer"],
    "additionalProperties": False,
}


def environment(desk: Desk, protocol: str, home: Path, key: str = "") -> dict[str, str]:
    """What Claude Code needs to use the gateway, and nothing that it could want from elsewhere."""
    model = desk.model(protocol)
    return {
        "ANTHROPIC_BASE_URL": desk.url,
        "ANTHROPIC_AUTH_TOKEN": key or desk.key,
        "ANTHROPIC_MODEL": model,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": model,
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


class Told:
    """What a run said: its last message, and the events on the way."""

    def __init__(self, done: Done) -> None:
        self.events = done.objects()
        results = [event for event in self.events if event.get("type") == "result"]
        assert results, f"Claude Code told no result:\n{done.out}\n{done.err}"
        self.result = results[-1]

    def well(self) -> Told:
        """Assert that the run ended well."""
        assert self.result["is_error"] is False, self.result
        return self

    def subtypes(self) -> list[JsonValue]:
        """The kinds of what it told about itself."""
        return [event.get("subtype") for event in self.events if event.get("type") == "system"]


class Agent:
    """Claude Code at the desk, on a provider of one protocol."""

    def __init__(self, desk: Desk, protocol: str, home: Path) -> None:
        self.desk, self.protocol, self.home = desk, protocol, home
        self.marker = desk.marker()
        self.place = home / "work"
        self.place.mkdir()

    def run(self, script: str, *more: str, key: str = "", given: Mapping[str, str] | None = None) -> Told:
        """Give it a prompt with a script in it; `more` are arguments."""
        prompt = script if script.startswith("/") else f"{self.marker} Do as told.\n<mock>\n{script.strip()}\n</mock>"
        words: list[str | Path] = [
            npm_program("claude"),
            *("-p", prompt, "--output-format", "stream-json", "--verbose", "--allowedTools", TOOLS),
            *more,
        ]
        variables = {**environment(self.desk, self.protocol, self.home, key), **(given or {})}
        return Told(self.desk.run(words, self.home, variables, place=self.place))

    def requests(self, *, refused: bool = False) -> list[Received]:
        """What the provider got, held against the types of its SDK unless it refused some of it."""
        return self.desk.requests(self.marker, checked=not refused, refused=refused)

    def path(self, name: str) -> str:
        """A file in its directory, as scripts name it."""
        return str(self.place / name)


@pytest.fixture
def agent(desk: Desk, protocol: str, home: Path) -> Agent:
    """Claude Code on a provider of the protocol."""
    return Agent(desk, protocol, home)


def test_claude_code_runs_a_tool(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "tool")
    told = agent.run('call Bash {"command": "echo hi > hello.txt"}\n---\nsay All done.').well()
    assert told.result["result"] == "All done."
    assert (agent.place / "hello.txt").read_text() == "hi\n"
    assert len(agent.requests()) == 2


def test_claude_code_edits_a_file(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "edit a file")
    file = agent.path("hello.txt")
    edit = json.dumps({"file_path": file, "old_string": "hi", "new_string": "goodbye"})
    script = f"""
call Bash {{"command": "echo hi > hello.txt"}}
---
call Read {json.dumps({"file_path": file})}
---
call Edit {edit}
---
say Edited.
"""
    assert agent.run(script).well().result["result"] == "Edited."
    assert Path(file).read_text() == "goodbye\n"


def test_claude_code_thinks_and_its_proofs_come_back_unchanged(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "thinking")
    script = """
think I should look first.
call Bash {"command": "echo one"}
---
think Once more.
call Bash {"command": "echo two"}
---
say Thought through.
"""
    told = agent.run(script).well()
    shown = [str(event.get("message")) for event in told.events if event.get("type") == "assistant"]
    assert any("I should look first." in message for message in shown)
    first, second, third = agent.requests()
    one, two = proofs(first.answer), proofs(second.answer)
    assert one
    assert two
    assert proofs(second.body) == one
    assert proofs(third.body) == one + two


def test_claude_code_runs_tools_in_parallel(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "parallel tools")
    for name in ("a", "b"):
        (agent.place / name).write_text(f"This is {name}.")
    calls = "\n".join(f"call Read {json.dumps({'file_path': agent.path(name)})}" for name in ("a", "b"))
    agent.run(f'{calls}\ncall Bash {{"command": "echo c > c"}}\n---\nsay Read both.').well()
    _, second = agent.requests()
    assert all(f"This is {name}." in str(second.body) for name in ("a", "b"))
    assert (agent.place / "c").exists()


def test_claude_code_takes_several_steps(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "several steps")
    steps = [f'say Step {number}.\ncall Bash {{"command": "echo {number} >> log"}}' for number in range(4)]
    told = agent.run("\n---\n".join([*steps, "say Four steps."])).well()
    assert told.result["result"] == "Four steps."
    assert (agent.place / "log").read_text() == "0\n1\n2\n3\n"
    bodies = [request.body for request in agent.requests()]
    assert len(bodies) == 5
    # What was said before stands at the same place, so that prefix caches hit.
    assert all(_opening(later)[: len(_opening(body))] == _opening(body) for body, later in pairwise(bodies))


def _opening(body: JsonObject) -> list[str]:
    """Everything before the latest turn, without marks that move."""
    told = [json.dumps(body.get("tools")), json.dumps(body.get("instructions"))]
    for entry in entries(body):
        if entry.get("role") == "assistant" or entry.get("type") in ("reasoning", "function_call"):
            break
        content = entry.get("content")
        parts = content if isinstance(content, list) else [{"text": content}]
        told += [str(part.get("text")) for part in parts if isinstance(part, dict)]
    return told


def test_claude_code_gives_structured_output(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "structured output")
    told = agent.run('call StructuredOutput {"answer": 42}', "--json-schema", json.dumps(SCHEMA)).well()
    assert told.result["structured_output"] == {"answer": 42}


def test_claude_code_reads_an_image(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "image")
    (agent.place / "red.png").write_bytes(png())
    agent.run(f"call Read {json.dumps({'file_path': agent.path('red.png')})}\n---\nsay It is red.").well()
    _, second = agent.requests()
    assert base64.b64encode(png()).decode() in json.dumps(second.body)


def test_claude_code_waits_when_the_provider_is_busy(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "429 first")
    told = agent.run("fail 429\nsay At last.").well()
    assert told.result["result"] == "At last."
    (retry,) = [event for event in told.events if event.get("subtype") == "api_retry"]
    assert (retry["error_status"], retry["retry_delay_ms"]) == (429, 1000)
    assert [request.status for request in agent.requests()] == [429, 200]


def test_claude_code_survives_an_empty_answer(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "empty response")
    told = agent.run("empty\n---\nsay Here I am.").well()
    assert len(agent.requests()) == 2
    assert told.result["stop_reason"] == "end_turn"


def test_claude_code_sends_a_subagent(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "subagent")
    inner = f'{agent.marker} <mock>\ncall Bash {{"command": "echo found > found"}}\n---\nsay It is there.\n</mock>'
    order = {"description": "look", "prompt": inner, "subagent_type": "general-purpose", "run_in_background": False}
    call = json.dumps(order).replace("<", "\\u003c")
    told = agent.run(f"call Agent {call}\n---\nsay It found it.").well()
    assert told.result["result"] == "It found it."
    assert (agent.place / "found").exists()
    assert len(agent.requests()) == 4
    assert "It is there." in str(agent.requests()[-1].body)


def test_pitfall_643_claude_code_searches_its_tools(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "tool search")
    agent.run('call ToolSearch {"query": "select:WebSearch"}\n---\nsay Found it.').well()
    first, second = agent.requests()
    assert "WebSearch" not in _tool_names(first.body)
    # What it found can be called from now on.
    assert "WebSearch" in _tool_names(second.body)


def _tool_names(body: JsonObject) -> list[JsonValue]:
    tools = body["tools"]
    assert isinstance(tools, list)
    functions = [tool.get("function", tool) for tool in tools if isinstance(tool, dict)]
    return [function.get("name") for function in functions if isinstance(function, dict)]


def test_claude_code_searches_the_web_where_the_provider_can(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "web search")
    script = """
call ToolSearch {"query": "select:WebSearch"}
---
call WebSearch {"query": "kittens"}
---
say Searched.
"""
    told = agent.run(script).well()
    assert told.result["result"] == "Searched."
    results = [str(event.get("message")) for event in told.events if event.get("type") == "user"]
    # Chat Completions has no such tool for this model: the agent is told so, and goes on.
    words = "no web search here" if agent.protocol == CHAT else 'Web search results for query: "kittens"'
    assert any(words in result for result in results)


def test_pitfall_190_claude_code_compacts_when_the_provider_says_that_it_is_too_much(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "compaction")
    told = agent.run('call Bash {"command": "echo one"}\n---\noverflow\nsay A summary.').well()
    assert "compact_boundary" in told.subtypes()
    (boundary,) = [event for event in told.events if event.get("subtype") == "compact_boundary"]
    metadata = boundary["compact_metadata"]
    assert isinstance(metadata, dict)
    assert metadata["trigger"] == "auto"
    assert "This session is being continued" in str([event for event in told.events if event.get("type") == "user"])


def test_pitfall_182_claude_code_counts_tokens(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "count_tokens")
    told = agent.run("/context").well()
    lines = str(told.result["result"]).splitlines()
    counts = [line for line in lines if line.startswith("| System prompt |")]
    # Where counting fails the row is not there.
    assert counts, told.result
    assert not counts[0].startswith("| System prompt | 0 ")


def test_pitfall_209_641_claude_code_discovers_models(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "model discovery")
    agent.run("say Hello.", given={"CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY": "1"}).well()
    cached = json.loads((agent.home / ".claude/cache/gateway-models.json").read_text())
    assert cached["baseUrl"] == agent.desk.url
    shown = [model["id"] for model in cached["models"]]
    assert agent.desk.model(MESSAGES) in shown
    # What has another maker's name is there under one that it shows, and can be asked for by it.
    other = next(name for name in shown if name.startswith("claude:r/"))
    told = agent.run("say Hello again.", "--model", other).well()
    assert told.result["result"] == "Hello again."


def test_pitfall_007_the_billing_line_reaches_anthropic_alone(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "billing line")
    agent.run("say Hello.").well()
    (request,) = agent.requests()
    if agent.protocol == MESSAGES:
        system = request.body["system"]
        assert isinstance(system, list)
        assert isinstance(system[0], dict)
        assert str(system[0]["text"]).startswith(BILLING)
    else:
        assert BILLING not in json.dumps(request.body)


def test_claude_code_checks_calls_by_itself_where_the_provider_does_not(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "auto mode")
    told = agent.run('call Bash {"command": "echo hi > hello.txt"}\n---\nsay Done.', "--permission-mode", "auto").well()
    assert told.result["result"] == "Done."
    asked = [("safeguards" in request.body, request.status) for request in agent.requests(refused=True)]
    # A provider of the same protocol is asked and knows nothing of it; for the others the gateway says so.
    assert asked == [*([(True, 400)] if agent.protocol == MESSAGES else []), (False, 200), (False, 200)]


def _sessions(agent: Agent) -> dict[str, list[dict[str, object]]]:
    """Lines of the log about the agent's model, by session."""
    sessions: dict[str, list[dict[str, object]]] = {}
    for line in agent.desk.gateway.log.all():
        told = json.loads(line) if line.startswith("{") else {}
        if told.get("requested_model") == agent.desk.model(agent.protocol) and told.get("session"):
            sessions.setdefault(told["session"], []).append(told)
    return sessions


def _newer(
    sessions: dict[str, list[dict[str, object]]], before: dict[str, list[dict[str, object]]]
) -> list[list[dict[str, object]]]:
    return [lines for session, lines in sessions.items() if session not in before]


def test_the_losses_of_claude_code_are_bookkeeping(agent: Agent) -> None:
    """A run of six calls showed 36 names of losses, which left no room for cost and thread in the log."""
    steps = [f'think Step {n}.\nsay Step {n}.\ncall Bash {{"command": "echo {n}"}}' for n in range(5)]
    before = _sessions(agent)
    agent.run("\n---\n".join([*steps, "say Done."])).well()
    assert len(agent.requests(refused=True)) >= 6
    # The log is written a moment after the exchange.
    wait_until(lambda: any(len(lines) >= 6 for lines in _newer(_sessions(agent), before)), "six lines of the session")
    (mine,) = _newer(_sessions(agent), before)
    if agent.protocol == MESSAGES:
        assert not any("bookkeeping_losses" in line for line in mine)
    else:
        assert sum(int(str(line.get("bookkeeping_losses", 0))) for line in mine) >= 36
    assert [line["losses"] for line in mine] == [0] * len(mine)


def test_claude_code_gives_up_at_once_with_a_wrong_key(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "wrong key")
    told = agent.run("say Hello.", key="dg-wrong")
    assert (told.result["is_error"], told.result["api_error_status"]) == (True, 401)
    assert "api_retry" not in told.subtypes()
    assert agent.requests() == []


def test_claude_code_works_on_a_server_of_chat_completions_that_nobody_knows(desk: Desk, home: Path) -> None:
    agent = Agent(desk, CHAT, home)
    names = ("ANTHROPIC_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL")
    script = 'call Bash {"command": "echo hi > hello.txt"}\n---\nsay All done.'
    assert agent.run(script, given=dict.fromkeys(names, LOCAL_MODEL)).well().result["result"] == "All done."
    assert (agent.place / "hello.txt").exists()
    assert [request.body["model"] for request in agent.requests()] == ["qwen3", "qwen3"]
