"""Requests as real clients make them, of the shapes that were recorded; all that they say is invented."""

from __future__ import annotations

import json
from collections.abc import Sequence

from msgspec import Struct

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.session_hints import HintQuery
from dragoman.protocols.registry import codec_of
from dragoman.sessions.fact_extraction import body_facts, header_facts
from dragoman.sessions.facts import ExchangeFacts
from dragoman.sessions.rules import DISTINCTIVE_TOOLS, INSERTIONS, NAMING_MEMBERS, SPAWNING_TOOLS
from dragoman.wire.duplicate_keys import OBJECT

SOUGHT = HintQuery(
    key=b"a secret of thirty-two letters..",
    distinctive_tools=DISTINCTIVE_TOOLS,
    spawning=SPAWNING_TOOLS,
    naming=NAMING_MEMBERS,
    insertions=INSERTIONS,
)
SESSION = "5a2b0c1e-7d4f-4a3b-9c8d-000000000001"
CLAUDE_AGENT = "claude-cli/2.1.325 (external, cli)"
CODEX_AGENT = "codex_exec/0.166.0 (Linux 6.1; x86_64) unknown"
OPENCODE_AGENT = "opencode/1.18.33 ai-sdk/provider-utils/4.0.1 runtime/bun/1.3.0"
MESSAGES, CHAT, RESPONSES = "anthropic-messages", "openai-chat", "openai-responses"
# As many characters as were recorded.
MAIN_PROMPT = "You are the main thread of an invented agent. ".ljust(27_185, ".")
AGENT_PROMPT = "You are an agent for an invented task. ".ljust(2_877, ".")
TITLE_PROMPT = "Write a title of an invented kind. ".ljust(3_186, ".")
CLAUDE_TOOLS = ("Agent", "AskUserQuestion", "Bash", "Edit", "ListAgents", "Read", "Skill", "ToolSearch", "Write")
AGENT_TOOLS = ("Bash", "Edit", "Read", "Skill", "ToolSearch", "Write", "ReportFindings")
OPENCODE_TOOLS = ("bash", "edit", "read", "task", "question", "todowrite")


class Asked(Struct, frozen=True):
    """One request of a client."""

    headers: list[tuple[bytes, bytes]]
    body: JsonObject
    protocol: str = MESSAGES


def facts_of(asked: Asked, sought: HintQuery = SOUGHT) -> ExchangeFacts:
    """What a request shows."""
    facts, members = header_facts(asked.headers), OBJECT.decode(json.dumps(asked.body))
    is_named = facts.thread != "" and facts.session != ""
    hints = codec_of(asked.protocol).glance(members, False, False).session_hints(sought, is_named=is_named)
    return body_facts(facts, hints)


def headers(**said: str) -> list[tuple[bytes, bytes]]:
    """Headers by their names, in which an underscore is a hyphen."""
    return [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in said.items() if value]


def claude(
    messages: Sequence[JsonObject],
    *,
    system: str = MAIN_PROMPT,
    tools: Sequence[str] = CLAUDE_TOOLS,
    session: str = SESSION,
    nonce: str = "1",
    user_id: str | None = None,
    **said: str,
) -> Asked:
    """Claude Code 2.1.325; other headers are those that begin with `x-claude-code-`."""
    hints = {f"x_claude_code_{name}": value for name, value in said.items()}
    told = user_id if user_id is not None else json.dumps({"device_id": "d", "account_uuid": "", "session_id": session})
    body: JsonObject = {
        "model": "claude-opus-5",
        "max_tokens": 32_000,
        "stream": True,
        "metadata": {"user_id": told},
        "system": [
            {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1.325.{nonce}; cch={nonce};"},
            {"type": "text", "text": system, "cache_control": {"type": "ephemeral"}},
        ],
        "tools": [{"name": name, "description": "invented", "input_schema": {"type": "object"}} for name in tools],
        "messages": [*messages],
    }
    return Asked(headers(user_agent=CLAUDE_AGENT, x_app="cli", x_claude_code_session_id=session, **hints), body)


def older_claude(messages: Sequence[JsonObject], *, session: str = SESSION, **more: object) -> Asked:
    """Claude Code of March 2026: it says its session in the body, and nothing else."""
    user_id = f"user_{'0a' * 32}_account_{SESSION}_session_{session}"
    made = claude(messages, session="", user_id=user_id, **more)  # type: ignore[arg-type]  # as the other takes them
    return Asked([(b"user-agent", b"claude-cli/2.1.71 (external, cli)"), (b"x-app", b"cli")], made.body)


def codex(
    items: Sequence[JsonObject],
    *,
    session: str = "s1",
    thread: str = "s1",
    parent: str = "",
    kind: str = "turn",
    window: int = 0,
    tools: Sequence[str] = ("shell", "apply_patch"),
) -> Asked:
    """Codex 0.166.0."""
    turn: JsonObject = {
        "session_id": session,
        "thread_id": thread,
        "agent_name": "worker" if parent else "root",
        "turn_id": "t1",
        "window_number": window,
        "request_kind": kind,
        "thread_source": "subagent" if parent else "user",
    }
    if parent:
        turn |= {"subagent_kind": "thread_spawn", "parent_thread_id": parent}
    if kind == "compaction":
        turn["compaction"] = {"trigger": "manual", "reason": "user", "phase": "start", "strategy": "summary"}
    said = headers(
        user_agent=CODEX_AGENT,
        originator="codex_exec",
        session_id=session,
        thread_id=thread,
        x_client_request_id=thread,
        x_codex_window_id=f"{thread}:{window}",
        x_codex_turn_metadata=json.dumps(turn),
        x_codex_parent_thread_id=parent,
        x_openai_subagent="collab_spawn" if parent else "",
    )
    body: JsonObject = {
        "model": "gpt-5.1-codex",
        "instructions": "You are an invented program.",
        "input": [*items],
        "tools": [{"type": "function", "name": name} for name in tools] if kind == "turn" else [],
        "prompt_cache_key": thread,
        "client_metadata": turn,
    }
    return Asked(said, body, RESPONSES)


def opencode(
    items: Sequence[JsonObject],
    *,
    session: str = "ses_main",
    parent: str = "",
    tools: Sequence[str] = OPENCODE_TOOLS,
) -> Asked:
    """OpenCode 1.18.33."""
    said = headers(
        user_agent=OPENCODE_AGENT, x_session_id=session, x_session_affinity=session, x_parent_session_id=parent
    )
    body: JsonObject = {
        "model": "gpt-5.1",
        "instructions": "You are another invented program.",
        "input": [*items],
        "tools": [{"type": "function", "name": name} for name in tools],
    }
    return Asked(said, {**body, "prompt_cache_key": session} if tools else body, RESPONSES)


def older_opencode(
    items: Sequence[JsonObject], *, session: str, tools: Sequence[str] = OPENCODE_TOOLS, cached: bool = False
) -> Asked:
    """OpenCode of March 2026: no word of a parent."""
    made = opencode(items, session=session, tools=tools)
    if cached:
        return Asked(headers(user_agent=OPENCODE_AGENT), made.body, RESPONSES)
    said = [(b"user-agent", OPENCODE_AGENT.encode()), (b"originator", b"opencode"), (b"session_id", session.encode())]
    return Asked(said, {**made.body, "prompt_cache_key": None}, RESPONSES)


def plain(messages: Sequence[JsonObject], *, agent: str = "python-httpx/0.28", tools: Sequence[str] = ()) -> Asked:
    """A program that says nothing of itself, on Chat."""
    functions: list[JsonObject] = [{"type": "function", "function": {"name": name}} for name in tools]
    body: JsonObject = {"model": "gpt-5.1", "messages": [*messages]}
    return Asked(headers(user_agent=agent), {**body, "tools": [*functions]} if tools else body, CHAT)


# What is said


def user(text: str) -> JsonObject:
    """Words of a person, in any protocol."""
    return {"role": "user", "content": text}


def assistant(text: str) -> JsonObject:
    """Words of a model, in any protocol."""
    return {"role": "assistant", "content": text}


def call(call_id: str, tool: str = "Bash", **arguments: str) -> JsonObject:
    """A call of a model, in Messages."""
    return {"role": "assistant", "content": [{"type": "tool_use", "id": call_id, "name": tool, "input": {**arguments}}]}


def result(call_id: str, text: str = "done") -> JsonObject:
    """What a tool gave, in Messages."""
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": text}]}


def called(call_id: str, tool: str = "shell", **arguments: str) -> JsonObject:
    """A call of a model, in Responses."""
    return {"type": "function_call", "call_id": call_id, "name": tool, "arguments": json.dumps(arguments)}


def output(call_id: str, text: str = "done") -> JsonObject:
    """What a tool gave, in Responses."""
    return {"type": "function_call_output", "call_id": call_id, "output": text}
