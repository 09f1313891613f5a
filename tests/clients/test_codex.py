"""Codex, headless, through the gateway: the real program does its work on providers of every protocol.

It knows models by a table of its own, and offers each other tools: those it knows nothing of get a shell; `gpt-5.5` has
`apply_patch` and a search for tools beside it; newer ones write programs for one tool that runs them. A copy of such a
row under the name of the desk's model makes it do the same on every provider.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import time
import urllib.request
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from dragoman.model.jsonvalue import JsonObject, JsonValue
from tests.clients import sums_server
from tests.clients.cells import Claim, Client
from tests.clients.desk import LOCAL_MODEL, PATIENCE, Desk, Done, Received, npm_program
from tests.clients.evidence import entries, proofs
from tests.clients.tap import tapped
from tests.media import png
from tests.sdk.names import CHAT, RESPONSES

# Seconds since 1970: a login that has not expired.
IN_2100 = 4102444800
CLIENT = Client(
    name="Codex",
    package="@openai/codex",
    more=(
        "edit a file",
        "code mode",
        "namespaced tools",
        "tool search",
        "image from a tool",
        "subagent",
        "second turn",
        "compaction",
        "compaction by the provider",
        "context overflow",
        "broken stream",
        "compressed body",
        "WebSocket",
        "wrong key",
    ),
)
# Models of its own table, by what it does for them.
PLAIN, CODE = "gpt-5.5", "gpt-6.1-sol"
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["name", "count"],
    "additionalProperties": False,
}
PATCH = """call apply_patch <<END
*** Begin Patch
*** Update File: hello.txt
@@
-hi
+goodbye
*** End Patch
END"""
# The first time it says more than the limit of a compaction.
ONCE_LONG = 'call exec_command {"cmd": "if [ -e long ]; then echo short; else touch long; seq 1 6000; fi"}'
# Its end: ids of requests, which are chance, have no two such numbers.
_LONG = re.compile(r"5998\D{1,8}5999")
SUMS: JsonObject = {"command": sys.executable, "args": [sums_server.__file__]}


class Told:
    """What a run said: its messages, its errors and what it did."""

    def __init__(self, done: Done) -> None:
        self.done = done
        self.events = done.objects()
        items = [event["item"] for event in self.events if event.get("type") == "item.completed"]
        self.items = [item for item in items if isinstance(item, dict)]
        self.errors = [str(event.get("message")) for event in self.events if event.get("type") == "error"]

    def well(self, last: str = "") -> Told:
        """Assert that the run ended well, with these words."""
        assert self.done.status == 0, f"{self.done.out}\n{self.done.err}"
        assert self.events[-1]["type"] == "turn.completed", self.done.out
        assert not last or self.texts("agent_message")[-1] == last, self.done.out
        return self

    def texts(self, kind: str) -> list[JsonValue]:
        """The words of its items of a kind."""
        return [item.get("text") for item in self.items if item["type"] == kind]


class Agent:
    """Codex at the desk, on a provider of one protocol."""

    def __init__(self, desk: Desk, protocol: str, home: Path) -> None:
        self.desk, self.protocol, self.home = desk, protocol, home
        self.marker = desk.marker()
        self.place = home / "work"
        self.place.mkdir()
        self.model = desk.model(protocol)
        self.provider: JsonObject = {"name": "Dragoman", "env_key": "DRAGOMAN_KEY", "wire_api": "responses"}
        self.url = desk.url
        self.settings: dict[str, JsonValue] = {"model_provider": "dragoman", "check_for_update_on_startup": False}
        self.key = desk.key

    def knows(self, row: str) -> Agent:
        """Let it take the desk's model for one that it knows."""
        entry = {**rows(self.desk, self.home)[row], "slug": self.model, "display_name": self.model}
        file = self.home / "models.json"
        file.write_text(json.dumps({"models": [entry]}))
        self.settings["model_catalog_json"] = str(file)
        return self

    def run(self, script: str, *more: str, words: str = "") -> Told:
        """Give it a prompt with a script in it; `more` are arguments, `words` those before the prompt's."""
        prompt = f"{self.marker} {words}\n<mock>\n{script.strip()}\n</mock>"
        return self._run(["exec", *more, "--", prompt])

    def resume(self, script: str) -> Told:
        """Go on with the last conversation."""
        prompt = f"{self.marker}\n<mock>\n{script.strip()}\n</mock>"
        return self._run(["exec", "resume", "--last", "--", prompt])

    def _run(self, words: list[str]) -> Told:
        settings = {**self.settings, "model_providers.dragoman": {**self.provider, "base_url": f"{self.url}/v1"}}
        at = words.index("--")
        given = [word for name, value in settings.items() for word in ("-c", f"{name}={toml(value)}")]
        options = ["--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-m", self.model]
        whole: list[str | Path] = [npm_program("codex"), *words[:at], *options, *given, *words[at:]]
        variables = {"DRAGOMAN_KEY": self.key, "CODEX_HOME": str(self.home)}
        return Told(self.desk.run(whole, self.home, variables, place=self.place))

    def requests(self, *, refused: bool = False) -> list[Received]:
        """What the provider got; of its own protocol the client knows more than the SDK's types do."""
        return self.desk.requests(self.marker, checked=self.protocol != RESPONSES, refused=refused)


def toml(value: JsonValue) -> str:
    """A value as TOML writes it on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(name)} = {toml(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(toml(one) for one in value) + "]"
    return json.dumps(value)


@cache
def rows(desk: Desk, home: Path) -> dict[str, JsonObject]:
    """Codex's own table of models."""
    told = desk.run([npm_program("codex"), "debug", "models", "--bundled"], home, {"CODEX_HOME": str(home)}).worked()
    return {row["slug"]: row for row in json.loads(told.out)["models"]}


@pytest.fixture
def agent(desk: Desk, protocol: str, home: Path) -> Agent:
    """Codex on a provider of the protocol."""
    return Agent(desk, protocol, home)


def declared(body: JsonObject) -> list[str]:
    """The names of the tools that a request declares, of groups those of their members."""
    tools = body.get("tools") or []
    assert isinstance(tools, list)
    names: list[str] = []
    for tool in tools:
        assert isinstance(tool, dict)
        members = tool.get("tools")
        inner = tool.get("function", tool)
        assert isinstance(inner, dict)
        if isinstance(members, list):
            names += [f"{tool['name']!s}.{one['name']!s}" for one in members if isinstance(one, dict)]
        else:
            names.append(str(inner.get("name") or tool.get("type")))
    return names


# What every client is asked.


def test_codex_runs_a_tool(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "tool")
    agent.run('call exec_command {"cmd": "echo hi > hello.txt"}\n---\nsay All done.').well("All done.")
    assert (agent.place / "hello.txt").read_text() == "hi\n"
    assert len(agent.requests()) == 2


def test_codex_thinks_and_its_proofs_come_back_unchanged(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "thinking")
    script = """
think I should look first.
call exec_command {"cmd": "echo one"}
---
think Once more.
call exec_command {"cmd": "echo two"}
---
say Thought through.
"""
    agent.settings |= {"model_reasoning_effort": "high", "model_reasoning_summary": "detailed"}
    told = agent.knows(PLAIN).run(script).well("Thought through.")
    assert told.texts("reasoning") == ["I should look first.", "Once more."]
    agent.resume("say Still thinking.").well("Still thinking.")
    first, second, third, fourth = agent.requests()
    one, two = proofs(first.answer), proofs(second.answer)
    assert one
    assert two
    assert proofs(second.body) == one
    assert proofs(third.body) == one + two
    # Chat servers are sent the reasoning of the present turn alone.
    assert proofs(fourth.body) in ([], one + two)
    assert agent.protocol == CHAT or proofs(fourth.body)


def test_codex_runs_tools_in_parallel(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "parallel tools")
    calls = "\n".join(f'call exec_command {{"cmd": "echo this is {name}"}}' for name in "abc")
    agent.run(f"{calls}\n---\nsay All three.").well("All three.")
    _, second = agent.requests()
    assert all(f"this is {name}\\n" in json.dumps(second.body) for name in "abc")


def test_codex_takes_several_steps(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "several steps")
    steps = [f'say Step {number}.\ncall exec_command {{"cmd": "echo {number} >> log"}}' for number in range(4)]
    agent.run("\n---\n".join([*steps, "say Four steps."])).well("Four steps.")
    assert (agent.place / "log").read_text() == "0\n1\n2\n3\n"
    assert len(agent.requests()) == 5


def test_codex_gives_structured_output(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "structured output")
    file = agent.home / "schema.json"
    file.write_text(json.dumps(SCHEMA))
    told = agent.run("json", "--output-schema", str(file)).well()
    assert set(json.loads(str(told.texts("agent_message")[-1]))) == {"name", "count"}


def test_codex_shows_an_image(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "image")
    (agent.place / "red.png").write_bytes(png())
    agent.run("say It is red.", "--image", "red.png").well("It is red.")
    (request,) = agent.requests()
    assert base64.b64encode(png()).decode() in json.dumps(request.body)


def test_codex_waits_when_the_provider_is_busy(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "429 first")
    told = agent.run("fail 429\nsay At last.").well("At last.")
    assert "429" in told.errors[0]
    assert [request.status for request in agent.requests()] == [429, 200]


def test_codex_survives_an_empty_answer(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "empty response")
    agent.run("empty").well()
    agent.resume("say Here I am.").well("Here I am.")


# Tools of its own kinds.


def test_pitfall_154_codex_edits_a_file_by_a_free_text_patch(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "edit a file")
    (agent.place / "hello.txt").write_text("hi\n")
    told = agent.knows(PLAIN).run(f"{PATCH}\n---\nsay Edited.").well("Edited.")
    assert "file_change" in [item["type"] for item in told.items]
    assert (agent.place / "hello.txt").read_text() == "goodbye\n"
    # Its grammar reaches the model, as a grammar or in words.
    assert all("begin_patch: " in json.dumps(request.body) for request in agent.requests())


def test_pitfall_154_codex_edits_a_file_on_a_server_that_knows_functions_alone(desk: Desk, home: Path) -> None:
    agent = Agent(desk, CHAT, home)
    agent.model = LOCAL_MODEL
    (agent.place / "hello.txt").write_text("hi\n")
    agent.knows(PLAIN).run(f"think I see.\n{PATCH}\n---\nsay Edited.").well("Edited.")
    assert (agent.place / "hello.txt").read_text() == "goodbye\n"
    first, second = agent.requests()
    tools = first.body["tools"]
    assert isinstance(tools, list)
    assert {tool["type"] for tool in tools if isinstance(tool, dict)} == {"function"}
    assert proofs(second.body) == proofs(first.answer) == ["I see."]


def test_codex_writes_programs_for_its_tools(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "code mode")
    program = 'call functions__exec <<END\nawait tools.exec_command({cmd: "echo hi > hello.txt"});\ntext("ran");\nEND'
    agent.knows(CODE).run(f"{program}\n---\nsay Ran it.").well("Ran it.")
    assert (agent.place / "hello.txt").read_text() == "hi\n"
    first, second = agent.requests()
    # Its tools are declared by the conversation; only its own protocol says it that way.
    assert bool(declared(first.body)) == (agent.protocol != RESPONSES)
    assert "Script completed" in json.dumps(second.body)


def test_pitfall_156_157_codex_calls_tools_in_namespaces(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "namespaced tools")
    agent.settings["mcp_servers.sums"] = SUMS
    told = agent.run('call mcp__sums__add {"a": 1, "b": 2}\n---\nsay Three.').well("Three.")
    (called,) = [item for item in told.items if item["type"] == "mcp_tool_call"]
    assert (called["server"], called["tool"], called["status"]) == ("sums", "add", "completed")
    first, second = agent.requests()
    assert ("mcp__sums.add" if agent.protocol == RESPONSES else "mcp__sums__add") in declared(first.body)
    assert "the sum is 3" in json.dumps(second.body)


def test_codex_searches_its_tools(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "tool search")
    agent.settings["mcp_servers.sums"] = SUMS
    script = """
call tool_search {"query": "add numbers"}
---
call mcp__sums__add {"a": 20, "b": 22}
---
say Found it.
"""
    told = agent.knows(PLAIN).run(script).well("Found it.")
    assert [item["status"] for item in told.items if item["type"] == "mcp_tool_call"] == ["completed"]
    first, second, third = agent.requests()
    assert "tool_search" in declared(first.body)
    assert "mcp__sums__add" not in declared(first.body)
    # What it found can be called from now on.
    assert agent.protocol == RESPONSES or "mcp__sums__add" in declared(second.body)
    assert "the sum is 42" in json.dumps(third.body)


def test_codex_looks_at_an_image_by_a_tool(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "image from a tool")
    (agent.place / "red.png").write_bytes(png())
    agent.run(f"call view_image {json.dumps({'path': 'red.png'})}\n---\nsay It is red.").well("It is red.")
    _, second = agent.requests()
    assert base64.b64encode(png()).decode() in json.dumps(second.body)


def test_codex_sends_a_subagent(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "subagent")
    inner = f'{agent.marker} <mock>\ncall exec_command {{"cmd": "echo found > found"}}\n---\nsay It is there.\n</mock>'
    spawn = json.dumps({"message": inner}).replace("<", "\\u003c")
    wait = 'call exec_command {"cmd": "until [ -e found ]; do sleep 0.1; done; echo seen"}'
    told = agent.run(f"call multi_agent_v1__spawn_agent {spawn}\n---\n{wait}\n---\nsay It found it.").well()
    # When the other one ends, it may be told so and answer that, too.
    assert "It found it." in told.texts("agent_message")
    assert (agent.place / "found").exists()


def test_pitfall_160_older_versions_have_a_shell_of_the_protocols_own(agent: Agent) -> None:
    # This one offers it no longer, so it is asked for as they did.
    script = 'call local_shell {"command": ["echo", "hi"]}\n---\nsay All done.'
    history: list[JsonValue] = [{"role": "user", "content": f"{agent.marker}\n<mock>\n{script}\n</mock>"}]
    (call,) = answered(agent, history)
    assert (call["type"], call["status"]) == ("local_shell_call", "completed")
    action = call["action"]
    assert isinstance(action, dict)
    assert (action["type"], action["command"]) == ("exec", ["echo", "hi"])
    output: JsonObject = {"type": "local_shell_call_output", "id": call["call_id"], "output": "hi\n"}
    (message,) = answered(agent, [*history, call, output])
    assert "All done." in str(message["content"])
    assert len(agent.requests()) == 2


def answered(agent: Agent, history: list[JsonValue]) -> list[JsonObject]:
    """The items that answer a conversation."""
    body = {"model": agent.model, "store": False, "tools": [{"type": "local_shell"}], "input": history}
    headers = {"authorization": f"Bearer {agent.key}", "content-type": "application/json"}
    asked = urllib.request.Request(f"{agent.url}/v1/responses", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(asked, timeout=PATIENCE) as reply:
        items: list[JsonObject] = json.load(reply)["output"]
    return items


# Conversations.


def test_codex_goes_on_with_a_conversation(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "second turn")
    agent.run('call exec_command {"cmd": "echo one"}\n---\nsay The first.').well("The first.")
    agent.resume('call exec_command {"cmd": "echo two"}\n---\nsay The second.').well("The second.")
    requests = agent.requests()
    assert len(requests) == 4
    assert "The first." in json.dumps(entries(requests[-1].body))


def test_codex_compacts_a_conversation_that_grew_long(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "compaction")
    agent.settings["model_auto_compact_token_limit"] = 8000
    agent.knows(PLAIN).run(f"{ONCE_LONG}\n---\nsay The work so far.").well("The work so far.")
    _, compacting, after, _ = agent.requests()
    assert "CONTEXT CHECKPOINT COMPACTION" in json.dumps(compacting.body)
    assert not _LONG.search(json.dumps(after.body))
    assert "The work so far." in json.dumps(entries(after.body)[-1])


def test_pitfall_161_codex_has_a_conversation_compacted(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "compaction by the provider")
    # By this name it takes the provider for one that compacts.
    agent.provider["name"] = "OpenAI"
    agent.settings["model_auto_compact_token_limit"] = 8000
    agent.knows(PLAIN).run(f"{ONCE_LONG}\n---\nsay The work so far.").well("The work so far.")
    _, compacting, after, *_ = agent.requests()
    assert _LONG.search(json.dumps(compacting.body))
    assert not _LONG.search(json.dumps(after.body))
    if agent.protocol == RESPONSES:
        # Only the provider can read what it made.
        assert proofs(after.body) == proofs(compacting.answer) != []
    else:
        assert not declared(compacting.body)
        assert "The work so far." in json.dumps(entries(after.body)[-1])


def test_codex_compacts_when_the_provider_says_that_it_is_too_much(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "context overflow")
    agent.knows(PLAIN).run("say Hello.", words="first").well("Hello.")
    told = agent.resume("overflow\nsay A summary.")
    assert "ran out of room" in told.errors[0]
    agent.resume("say Fine again.").well("Fine again.")
    requests = agent.requests(refused=True)
    assert "CONTEXT CHECKPOINT COMPACTION" in json.dumps(requests[-2].body)
    assert "A summary." in json.dumps(requests[-1].body)


# The wire.


def test_pitfall_096_a_stream_that_breaks_is_told_and_asked_again(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "broken stream")
    told = agent.run("break\nsay Whole at last.").well("Whole at last.")
    assert "ended unexpectedly" in told.errors[0]


def test_pitfall_199_codex_compresses_what_it_sends(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "compressed body")
    # It does so for an account of its maker's; the token is what the gateway is shown as the key.
    claims: JsonObject = {"email": "a@example.com", "exp": IN_2100}
    token = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (b"{}", _json(claims), b"-"))
    tokens = {"id_token": token, "access_token": agent.key, "refresh_token": "-", "account_id": "-"}
    today = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    (agent.home / "auth.json").write_text(json.dumps({"tokens": tokens, "last_refresh": today}))
    agent.provider = {"name": "OpenAI", "requires_openai_auth": True}
    agent.settings |= {"chatgpt_base_url": f"{agent.url}/nothing/", "features.apps": False, "features.plugins": False}
    with tapped(agent.desk.url) as tap:
        agent.url = tap.url
        agent.run("say Small.").well("Small.")
        assert "content-encoding: zstd" in tap.asked[-1]
        # It asks for a table of models in a form of its own, and does without.
        assert any(head.startswith("get /v1/models?client_version=") for head in tap.asked)
    assert len(agent.requests()) == 1


def _json(value: JsonValue) -> bytes:
    return json.dumps(value).encode()


def test_codex_falls_back_from_websockets_at_once(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "WebSocket")
    agent.provider["supports_websockets"] = True
    with tapped(agent.desk.url) as tap:
        agent.url = tap.url
        told = agent.run('call exec_command {"cmd": "echo hi"}\n---\nsay Over HTTP.').well("Over HTTP.")
        assert told.errors == []
        asked = [head.splitlines()[0] for head in tap.asked]
        assert asked == ["get /v1/responses http/1.1", *["post /v1/responses http/1.1"] * 2]
        assert tap.answered[0].startswith("http/1.1 426 ")


def test_codex_says_that_a_key_is_wrong(agent: Agent, cell: Claim) -> None:
    cell(CLIENT, "wrong key")
    agent.key = "dg-wrong"
    # It would try five times, since a new login might help.
    agent.provider |= {"request_max_retries": 0, "stream_max_retries": 0}
    told = agent.run("say Hello.")
    assert told.done.status != 0
    assert "401" in told.errors[-1]
    assert agent.requests() == []
