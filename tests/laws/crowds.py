"""Crowds: requests of a given size that consist of very many small things of one or two kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.wire.json import encode
from tests.laws.strategies import CHAT, MESSAGES, RESPONSES

# One of many, by its number.
Member: TypeAlias = Callable[[int], JsonValue]
# A request, or members of one, by its size in bytes.
Crowd: TypeAlias = Callable[[int], JsonObject]

# A string that looks as if we had sealed it.
SEALED = "rsv1.abcdef"
CLOSED: JsonObject = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
GRAPH: JsonObject = {
    "type": "object",
    "properties": {"a": {"allOf": [{"$ref": "#/$defs/A"}] * 4}},
    "$defs": {
        "A": {"allOf": [{"$ref": "#/$defs/B"}] * 4},
        "B": {"allOf": [{"$ref": "#/$defs/C"}] * 4},
        "C": {"allOf": [{"$ref": "#/$defs/D"}] * 4},
        "D": {"type": "string"},
    },
}


def many(member: Member, size: int) -> JsonList:
    """Members that are about so long together."""
    pair = len(encode([member(1000), member(1001)])) / 2
    return [member(number) for number in range(int(size / pair) + 1)]


def named(size: int, value: JsonValue = 1) -> JsonObject:
    return {f"k{number}": value for number in range(size // 12)}


def turns(*said: JsonObject) -> Member:
    """Messages in turn, as they are."""
    return lambda i: said[i % len(said)]


def user(content: JsonValue) -> JsonObject:
    return {"role": "user", "content": content}


def assistant(*content: JsonObject) -> JsonObject:
    return {"role": "assistant", "content": [*content]}


def use(identity: str, name: str) -> JsonObject:
    return {"type": "tool_use", "id": identity, "name": name, "input": {}}


def used(identity: str) -> JsonObject:
    return user([{"type": "tool_result", "tool_use_id": identity, "content": "x"}])


def change(kind: str, **tool: JsonValue) -> JsonObject:
    return {"role": "system", "content": [{"type": kind, "tool": {**tool}}]}


def chat_call(identity: str, name: str) -> JsonObject:
    call: JsonObject = {"id": identity, "type": "function", "function": {"name": name, "arguments": "{}"}}
    return {"role": "assistant", "tool_calls": [call]}


def chat_result(identity: str) -> JsonObject:
    return {"role": "tool", "tool_call_id": identity, "content": "x"}


def item(kind: str, **members: JsonValue) -> JsonObject:
    return {"type": kind, **members}


def item_call(identity: str, name: str) -> JsonObject:
    return item("function_call", call_id=identity, name=name, arguments="{}")


def function(**members: JsonValue) -> JsonObject:
    return {"type": "function", "function": {**members}}


_THINKING: JsonObject = {"type": "thinking", "thinking": "x"}
_FOUND: JsonObject = {"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": SEALED}
_DETAIL: JsonObject = {"type": "reasoning.text", "text": "x", "signature": SEALED, "format": "anthropic-claude-v1"}

SAID: dict[str, dict[str, Member]] = {
    MESSAGES: {
        "tiny": turns(user("x")),
        "in turn": turns(user("x"), assistant({"type": "text", "text": "x"})),
        "calls": lambda i: assistant(use(f"c{i}", f"u{i}")),
        "one call": turns(assistant(use("c", "u"))),
        "results": lambda i: used(f"c{i}"),
        "calls and results": lambda i: used(f"c{i // 2}") if i % 2 else assistant(use(f"c{i // 2}", "u")),
        "one call and its result": turns(assistant(use("c", "u")), used("c")),
        "instructions": lambda i: {"role": "system", "content": "x"} if i else user("x"),
        "instructions in turn": turns(user("x"), {"role": "system", "content": "x"}),
        "unsigned": turns(assistant({**_THINKING, "signature": ""})),
        "sealed by us": turns(assistant({**_THINKING, "signature": SEALED})),
        "signed": turns(assistant({**_THINKING, "signature": "c2ln"})),
        "searches": lambda i: assistant(
            {"type": "server_tool_use", "id": f"s{i}", "name": "web_search", "input": {}},
            {"type": "web_search_tool_result", "tool_use_id": f"s{i}", "content": [_FOUND]},
        ),
        "marks": turns(user([{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}])),
        "pictures": turns(user([{"type": "image", "source": {"type": "url", "url": "http://a"}}])),
        "blanks": turns(user(" "), user([])),
        "tools removed": lambda i: change("tool_removal", type="tool_reference", name=f"t{i}"),
        "tools added": lambda i: change(
            "tool_addition", type="tool_definition", definition={"name": f"m{i}", "type": "memory_20250818"}
        ),
    },
    CHAT: {
        "tiny": turns(user("x")),
        "in turn": turns(user("x"), {"role": "assistant", "content": "x"}),
        "calls": lambda i: chat_call(f"c{i}", f"u{i}"),
        "results": lambda i: chat_result(f"c{i}"),
        "one result": turns(chat_result("c")),
        "calls and results": lambda i: chat_result(f"c{i // 2}") if i % 2 else chat_call(f"c{i // 2}", "u"),
        "one call and its result": turns(chat_call("c", "u"), chat_result("c")),
        "instructions": lambda i: {"role": "system", "content": "x"} if i else user("x"),
        "instructions in turn": turns(user("x"), {"role": "developer", "content": "x"}),
        "older calls": turns({"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}),
        "older results": turns({"role": "function", "name": "f", "content": "x"}),
        "names": lambda i: {**user("x"), "name": f"n{i}"},
        "details": turns({"role": "assistant", "content": "x", "reasoning_details": [_DETAIL]}),
        "reasoning": turns({"role": "assistant", "content": "x", "reasoning_content": "y"}),
    },
    RESPONSES: {
        "tiny": turns(user("x")),
        "in turn": turns(user("x"), {"role": "assistant", "content": "x"}),
        "calls": lambda i: item_call(f"c{i}", f"u{i}"),
        "results": lambda i: item("function_call_output", call_id=f"c{i}", output="x"),
        "calls and results": lambda i: (
            item("function_call_output", call_id=f"c{i // 2}", output="x") if i % 2 else item_call(f"c{i // 2}", "u")
        ),
        "one call and its result": turns(item_call("c", "u"), item("function_call_output", call_id="c", output="x")),
        "instructions": lambda i: {"role": "developer", "content": "x"} if i else user("x"),
        "instructions in turn": turns(user("x"), {"role": "developer", "content": "x"}),
        "reasoning": lambda i: item("reasoning", id=f"r{i}", summary=[], encrypted_content="x"),
        "sealed by us": lambda i: item("reasoning", id=f"r{i}", summary=[], encrypted_content=SEALED),
        "searches": lambda i: item(
            "web_search_call", id=f"w{i}", status="completed", action={"type": "search", "query": "q"}
        ),
        "free text": lambda i: item("custom_tool_call", call_id=f"c{i}", name="t", input="x"),
        "servers": lambda i: item("mcp_list_tools", id=f"m{i}", server_label=f"s{i}", tools=[]),
        "server calls": lambda i: item("mcp_call", id=f"m{i}", server_label="s", name="n", arguments="{}", output="x"),
    },
}

TOOLS: dict[str, dict[str, Member]] = {
    MESSAGES: {
        "functions": lambda i: {"name": f"t{i}", "input_schema": {"type": "object"}},
        "long names": lambda i: {"name": "x" * 70 + str(i), "input_schema": {}},
        "strict": lambda i: {"name": f"t{i}", "input_schema": CLOSED, "strict": True},
        "deferred": lambda i: {"name": f"t{i}", "input_schema": {}, "defer_loading": True},
        "searches": lambda i: {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
        "fetches": lambda i: {"type": "web_fetch_20250910", "name": "web_fetch", "max_uses": 3},
        "defined": lambda i: {"type": "memory_20250818", "name": f"m{i}"},
        "toolsets": lambda i: {"type": "browser_toolset_20260801"},
        "servers": lambda i: {"type": "mcp_toolset", "mcp_server_name": f"s{i}"},
    },
    CHAT: {
        "functions": lambda i: function(name=f"t{i}"),
        "long names": lambda i: function(name="x" * 70 + str(i)),
        "strict": lambda i: function(name=f"t{i}", parameters=CLOSED, strict=True),
        "graphs": lambda i: function(name=f"t{i}", parameters=GRAPH, strict=True),
        "free text": lambda i: {"type": "custom", "custom": {"name": f"t{i}"}},
    },
    RESPONSES: {
        "functions": lambda i: {"type": "function", "name": f"t{i}", "parameters": {}},
        "graphs": lambda i: {"type": "function", "name": f"t{i}", "parameters": GRAPH, "strict": True},
        "namespaces": lambda i: {
            "type": "namespace",
            "name": f"n{i}",
            "tools": [{"type": "function", "name": f"t{i}", "parameters": {}}],
        },
        "searches": lambda i: {"type": "web_search"},
        "servers": lambda i: {"type": "mcp", "server_label": f"s{i}", "server_url": "http://a"},
        "free text": lambda i: {"type": "custom", "name": f"t{i}"},
    },
}


def _chosen(tool: Member, size: int) -> JsonObject:
    return {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": many(tool, size)}}


def _closed(size: int) -> JsonObject:
    names = [f"k{number}" for number in range(size // 30)]
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": [*names]}


_LINE = "x-anthropic-billing-header: x"
MORE: dict[str, dict[str, Crowd]] = {
    MESSAGES: {
        "unknown": named,
        "stop strings": lambda size: {"stop_sequences": many(lambda i: f"s{i}", size)},
        "one stop string": lambda size: {"stop_sequences": ["a" * size]},
        "system": lambda size: {"system": many(lambda i: {"type": "text", "text": "x"}, size)},
        "telemetry": lambda size: {"system": many(lambda i: {"type": "text", "text": _LINE}, size)},
        "lines of telemetry": lambda size: {"system": (_LINE + "\n") * (size // 30)},
        "servers": lambda size: {"mcp_servers": many(lambda i: {"name": f"s{i}", "url": "http://a"}, size)},
        "schema": lambda size: {"output_config": {"format": {"type": "json_schema", "schema": _closed(size)}}},
    },
    CHAT: {
        "unknown": named,
        "stop strings": lambda size: {"stop": many(lambda i: f"s{i}", size)},
        "metadata": lambda size: {"metadata": named(size, "v")},
        "schema": lambda size: {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "x", "strict": True, "schema": _closed(size)},
            }
        },
        "allowed": lambda size: {
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": many(lambda i: function(name=f"t{i}"), size)},
            }
        },
    },
    RESPONSES: {
        "unknown": named,
        "include": lambda size: {"include": many(lambda i: f"k{i}", size)},
        "schema": lambda size: {"text": {"format": {"type": "json_schema", "name": "x", "schema": _closed(size)}}},
        "allowed": lambda size: _chosen(lambda i: {"type": "function", "name": f"t{i}"}, size),
        "allowed searches": lambda size: _chosen(lambda i: {"type": "web_search"}, size),
        "allowed servers": lambda size: _chosen(lambda i: {"type": "mcp", "server_label": f"s{i}"}, size),
    },
}
BASE: dict[str, JsonObject] = {
    MESSAGES: {"model": "claude-opus-5", "max_tokens": 100},
    CHAT: {"model": "gpt-5"},
    RESPONSES: {"model": "gpt-5"},
}
_KEY = {MESSAGES: "messages", CHAT: "messages", RESPONSES: "input"}


def crowds(protocol: str, *, every: bool) -> dict[str, Crowd]:
    """Requests of any size: of one kind, and of two kinds half and half; of pairs every one, or some."""
    base, key = BASE[protocol], _KEY[protocol]
    said, tools, more = SAID[protocol], TOOLS[protocol], MORE[protocol]

    def only(member: Member) -> Crowd:
        return lambda size: {**base, key: many(member, size)}

    def with_messages(tool: Member, member: Member) -> Crowd:
        return lambda size: {**base, "tools": many(tool, size // 2), key: many(member, size // 2)}

    def with_members(tool: Member, extra: Crowd) -> Crowd:
        return lambda size: {**base, "tools": many(tool, size // 2), key: [user("x")], **extra(size // 2)}

    def before(member: Member, other: Member) -> Crowd:
        return lambda size: {**base, key: many(member, size // 2) + many(other, size // 2)}

    made = {name: only(member) for name, member in said.items()}
    for first, tool in tools.items():
        for second in said if every else ("calls",):
            made[f"{first} with {second}"] = with_messages(tool, said[second])
        for second, extra in more.items() if every or first == "functions" else ():
            made[f"{first} with {second} beside"] = with_members(tool, extra)
    for first, member in said.items() if every else ():
        for second, other in said.items():
            made[f"{first} before {second}"] = before(member, other)
    return made
