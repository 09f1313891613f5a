"""Encodes the tool choice of other protocols for a Messages provider (mapping.md §8)."""

from __future__ import annotations

from msgspec import Struct

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.request import Request
from dragoman.model.tools import ChoiceMode, CodeTool, McpTool, ToolChoice, ToolRef, ToolSearchTool, WebSearchTool
from dragoman.protocols.anthropic_messages.encode_context import RequestEncodeContext
from dragoman.protocols.anthropic_messages.tool_encoder import EncodedTools, declared_name
from dragoman.rules.extras import refused


def encode_choice(request: Request, offers: EncodedTools, writing: RequestEncodeContext) -> JsonObject | None:
    """The tool choice. A choice that the provider does not support may reduce the tools instead (§8)."""
    choice = request.tool_choice
    if not offers.declarations:
        _drop_choice(request, writing)
        return None
    if choice is None:
        return {"type": "auto", "disable_parallel_tool_use": True} if request.parallel_calls is False else None
    writing.drop(choice.extras, ("tool_choice",))
    word = _WORDS.get(choice.mode)
    if word is not None:
        encoded: JsonObject = {"type": word}
    elif choice.mode is ChoiceMode.ALLOWED:
        encoded = _allowed(choice, offers, writing)
    else:
        encoded = _named(choice.tool, offers, writing)
    if not writing.target.capabilities.forced_choice and encoded["type"] in ("any", "tool"):
        encoded = _unforced(encoded, offers, writing)
    if request.parallel_calls is False and encoded["type"] != "none":
        encoded["disable_parallel_tool_use"] = True
    return encoded


def _drop_choice(request: Request, writing: RequestEncodeContext) -> None:
    if request.tool_choice is not None:
        writing.ledger.dropped(Feature.TOOL_CHOICE, ("tool_choice",), "there are no tools to choose from")
    if request.parallel_calls is not None:
        writing.ledger.dropped(Feature.PARALLEL_CALLS, ("parallel_calls",), "there are no tools to call")


def _unforced(encoded: JsonObject, offers: EncodedTools, writing: RequestEncodeContext) -> JsonObject:
    if encoded["type"] == "tool":
        name = encoded["name"]
        offers.restrict_to({name if isinstance(name, str) else None}, writing)
        note = "this model cannot be forced: it is offered this tool alone"
    else:
        note = "this model cannot be forced to call a tool"
    writing.ledger.approximated(Feature.TOOL_CHOICE, ("tool_choice",), note)
    return {"type": "auto"}


_WORDS = {ChoiceMode.AUTO: "auto", ChoiceMode.NONE: "none", ChoiceMode.REQUIRED: "any"}


def _named(tool: ToolRef | None, offers: EncodedTools, writing: RequestEncodeContext) -> JsonObject:
    # Toolsets and their members cannot be forced.
    name = _wire_name(tool, _offered(offers), writing) if tool is not None and tool.kind != "mcp" else None
    if name is None:
        tool_label = tool.name or tool.kind if tool is not None else ""
        raise refused(Feature.TOOL_CHOICE, ("tool_choice",), f"{tool_label!r} must be called and cannot be offered")
    return {"type": "tool", "name": name}


def _allowed(choice: ToolChoice, offers: EncodedTools, writing: RequestEncodeContext) -> JsonObject:
    offered = _offered(offers)
    names = {_wire_name(tool, offered, writing) for tool in choice.allowed}
    if not offers.restrict_to(names - {None}, writing):
        raise refused(Feature.ALLOWED_TOOLS, ("tool_choice", "allowed"), "none of the allowed tools is offered")
    writing.ledger.approximated(Feature.ALLOWED_TOOLS, ("tool_choice",), "only the allowed tools are offered")
    return {"type": "any" if choice.required else "auto"}


# Hosted types of other protocols, by the prefix of their name, and the specification they were decoded to.
_HOSTED_KINDS: tuple[tuple[str, type], ...] = (
    ("web_search", WebSearchTool),
    ("code_interpreter", CodeTool),
    ("tool_search", ToolSearchTool),
)


class _Offered(Struct, frozen=True):
    """The tools that can be chosen: names, labels of servers, and the first hosted tool of each type."""

    names: frozenset[str | None]
    labels: frozenset[str]
    hosted: dict[type, str | None]


def _offered(offers: EncodedTools) -> _Offered:
    hosted: dict[type, str | None] = {}
    for spec, declaration, _ in offers.declarations:
        hosted.setdefault(type(spec), declared_name(declaration))
    return _Offered(
        names=frozenset(declared_name(declaration) for _, declaration, _ in offers.declarations),
        labels=frozenset(spec.label for spec, _, _ in offers.declarations if isinstance(spec, McpTool)),
        hosted=hosted,
    )


def _wire_name(tool: ToolRef, offered: _Offered, writing: RequestEncodeContext) -> str | None:
    """The wire name of a chosen tool; None if it is not offered."""
    if tool.kind == "mcp":
        label = (tool.native or {}).get("server_label", tool.name)
        return label if isinstance(label, str) and label in offered.labels else None
    for beginning, spec_type in _HOSTED_KINDS:
        if tool.kind.startswith(beginning):
            return offered.hosted.get(spec_type)
    entry = writing.table.entry(tool.name or tool.kind, tool.namespace)
    return entry.wire if entry is not None and entry.wire in offered.names else None
