"""Encodes tools and tool choice of other protocols for a Chat provider (mapping.md §7, §8, §13)."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.errors import RefusedError
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.losses import Ledger, Place, render_place
from dragoman.model.request import Request
from dragoman.model.tools import (
    ChoiceMode,
    CodeTool,
    ForeignTool,
    FunctionTool,
    McpTool,
    TextTool,
    ToolChoice,
    ToolRef,
    ToolSearchTool,
    ToolSpec,
    WebFetchTool,
    WebSearchTool,
)
from dragoman.protocols.codec import TargetModel
from dragoman.protocols.openai_chat.shapes import ANTHROPIC
from dragoman.protocols.openai_chat.tool_decoder import MODE_NAMES, write_custom, write_search
from dragoman.rules.extras import drop_extras, refused
from dragoman.rules.schemas import DEPTH_LIMIT, for_openai_strict, with_properties
from dragoman.rules.tool_table import ToolEntry, ToolTable, Wrapped
from dragoman.rules.translated_parts import ToolDeclarations
from dragoman.wire.json import encode_text

_NOT_WRAPPED = Wrapped.NOT


class EncodedTools(ToolDeclarations, kw_only=True):
    """The encoded tools of a request: declarations, the hosted search, and the table of names."""

    written: JsonList
    search: JsonObject | None = None

    def copy(self) -> EncodedTools:
        """A copy, from which tools may be removed."""
        return replace(self)


class ToolEncoder:
    def __init__(self, request: Request, target: TargetModel, ledger: Ledger) -> None:
        self._origin = request.origin
        self._target = target
        self._capabilities = target.capabilities
        self._ledger = ledger
        self._tools = EncodedTools(table=ToolTable(), written=[])
        self._unsupported: tuple[Feature, str, Place] | None = None

    def encode(self, tools: list[tuple[ToolSpec, Place]]) -> EncodedTools:
        for tool, at in tools:
            if type(tool) is FunctionTool:
                self._function(tool, at)
            else:
                self._other(tool, at)
        done = self._tools
        if self._unsupported is not None and not done.written and done.search is None:
            feature, name, at = self._unsupported
            raise RefusedError(feature.value, render_place(at), f"no {name} here, and no other tool is left")
        limit = self._capabilities.tool_limit
        if limit is not None and len(done.written) > limit:
            raise refused(Feature.FUNCTION_TOOL, ("tools",), f"{len(done.written)} tools are more than {limit}")
        return done

    def _other(self, tool: ToolSpec, at: Place) -> None:
        match tool:
            case TextTool():
                self._custom(tool, at)
            case WebSearchTool():
                self._search(tool, at)
            case McpTool():
                raise refused(Feature.MCP, at, f"this provider cannot call the MCP server {tool.label!r}")
            case WebFetchTool():
                self._drop(Feature.WEB_FETCH, "web fetch", at)
            case CodeTool():
                self._drop(Feature.CODE_EXECUTION, "code execution", at)
            case ToolSearchTool():
                self._drop(Feature.TOOL_SEARCH, "tool search", at)
            case ForeignTool():
                self._drop(Feature.HOSTED_TOOL, tool.name or tool.kind, at)

    def _drop(self, feature: Feature, name: str, at: Place) -> None:
        self._unsupported = self._unsupported or (feature, name, at)
        self._ledger.dropped(feature, at, f"this provider has no {name}")

    def _add(self, tool: FunctionTool | TextTool, wrapped: Wrapped, at: Place) -> ToolEntry | None:
        """Add a tool to the table; None if it was declared before."""
        if not tool.name:
            raise refused(Feature.TOOL_NAME, at, "a tool needs a name")
        table = self._tools.table
        before = len(table)
        entry = table.add(tool, wrapped)
        if len(table) == before:
            if entry.spec != tool:
                self._ledger.dropped(Feature.FUNCTION_TOOL, at, f"{tool.name!r} is declared twice; the first counts")
            return None
        if entry.wire != tool.name or tool.extras is not None or tool.callers is not None or tool.deferred:
            self._report(tool, entry, at)
        return entry

    def _report(self, tool: FunctionTool | TextTool, entry: ToolEntry, at: Place) -> None:
        ledger = self._ledger
        if tool.callers is not None and "direct" not in tool.callers:
            raise refused(Feature.TOOL_OPTIONS, at, f"{tool.name!r} excludes calls by the model itself")
        if tool.callers is not None and tool.callers != ("direct",):
            ledger.dropped(Feature.TOOL_OPTIONS, (*at, "callers"), "only direct calls are known here")
        if tool.deferred:
            ledger.dropped(Feature.TOOL_SEARCH, (*at, "deferred"), "all tools are declared at once")
        if tool.namespace is not None:
            ledger.approximated(Feature.NAMESPACE, (*at, "namespace"), f"declared as {entry.wire!r}")
        elif entry.wire != tool.name:
            ledger.approximated(Feature.TOOL_NAME, (*at, "name"), f"declared as {entry.wire!r}")
        if tool.extras is not None and "type" in tool.extras.fields:
            ledger.approximated(Feature.VENDOR_TOOL, at, "declared as a function with its documented parameters")
        else:
            drop_extras(tool.extras, at, ledger)

    def _function(self, tool: FunctionTool, at: Place) -> None:
        entry = self._add(tool, _NOT_WRAPPED, at)
        if entry is None:
            return
        if tool.cache is not None:
            self._ledger.dropped(Feature.CACHE_BREAKPOINT, (*at, "cache"), "tools carry no cache breakpoints here")
        function: JsonObject = {"name": entry.wire}
        description = tool.description
        if tool.examples:
            self._ledger.approximated(Feature.TOOL_OPTIONS, (*at, "examples"), "appended to the description")
            lines = [description or "", "Examples of arguments:", *(encode_text(one) for one in tool.examples)]
            description = "\n".join(line for line in lines if line)
        if description:
            function["description"] = description
        function["parameters"] = with_properties(tool.parameters)
        if tool.strict:
            self._strict(function, tool, at)
        if self._capabilities.typed_branches and isinstance(function["parameters"], dict):
            function["parameters"] = typed_branches(function["parameters"])
        self._tools.written.append({"type": "function", "function": function})

    def _strict(self, function: JsonObject, tool: FunctionTool, at: Place) -> None:
        """OpenAI's other protocol has the same flag. A schema of Messages must be made valid first (Z2)."""
        if self._origin != ANTHROPIC:
            function["strict"] = True
            return
        closed = for_openai_strict(with_properties(tool.parameters))
        function["strict"] = closed is not None
        if closed is not None:
            function["parameters"] = closed
        else:
            self._ledger.dropped(Feature.STRICT_SCHEMA, (*at, "strict"), "the schema is outside the strict subset")

    def _custom(self, tool: TextTool, at: Place) -> None:
        native = self._capabilities.custom_tools
        entry = self._add(tool, Wrapped.NOT if native else Wrapped.INPUT, at)
        if entry is None:
            return
        if native:
            self._tools.written.append({"type": "custom", "custom": write_custom(tool, entry.wire)})
            return
        self._ledger.approximated(Feature.CUSTOM_TOOL, at, "declared as a function with one string `input`")
        function: JsonObject = {"name": entry.wire}
        lines = [tool.description or ""]
        if tool.definition:
            lines.append(f"The input must follow this {tool.syntax} grammar:\n{tool.definition}")
        description = "\n\n".join(line for line in lines if line)
        if description:
            function["description"] = description
        function["parameters"] = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
        self._tools.written.append({"type": "function", "function": function})

    def _search(self, tool: WebSearchTool, at: Place) -> None:
        if not self._capabilities.search_model:
            self._drop(Feature.WEB_SEARCH, "web search", at)
            return
        for key, value in (
            ("allowed_domains", tool.allowed_domains),
            ("blocked_domains", tool.blocked_domains),
            ("max_uses", tool.max_uses),
            ("cache", tool.cache),
        ):
            if value is not None:
                self._ledger.dropped(Feature.WEB_SEARCH, (*at, key), f"search on this provider has no {key!r}")
        if tool.extras is not None and "type" in tool.extras.fields:
            self._ledger.approximated(Feature.WEB_SEARCH, at, "written as `web_search_options`")
        else:
            drop_extras(tool.extras, at, self._ledger)
        self._tools.search = write_search(tool)


def encode_choice(choice: ToolChoice, tools: EncodedTools, target: TargetModel, ledger: Ledger) -> JsonValue:
    drop_extras(choice.extras, ("tool_choice",), ledger)
    if not target.capabilities.forced_choice and is_forced(choice):
        ledger.approximated(Feature.TOOL_CHOICE, ("tool_choice",), "this model cannot be forced: auto")
        if choice.mode is ChoiceMode.NAMED and choice.tool is not None:
            _restrict_to(tools, (choice.tool,))
        return "auto"
    if choice.mode in MODE_NAMES:
        return MODE_NAMES[choice.mode]
    chosen = choice.allowed if choice.mode is ChoiceMode.ALLOWED else (choice.tool,) if choice.tool is not None else ()
    if not target.capabilities.named_choice and _restrict_to(tools, chosen):
        ledger.approximated(Feature.TOOL_CHOICE, ("tool_choice",), "nothing else is declared: only words are taken")
        return MODE_NAMES[ChoiceMode.REQUIRED if is_forced(choice) else ChoiceMode.AUTO]
    if choice.mode is ChoiceMode.ALLOWED:
        refs: JsonList = []
        for index, ref in enumerate(choice.allowed):
            written = _encode_ref(ref, tools, target)
            if written is None:
                place = ("tool_choice", "allowed", index)
                ledger.dropped(Feature.ALLOWED_TOOLS, place, f"this provider has no {ref.name or ref.kind!r}")
            else:
                refs.append(written)
        return {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "required" if choice.required else "auto", "tools": refs},
        }
    ref = choice.tool or ToolRef(kind="")
    written = _encode_ref(ref, tools, target)
    if written is None:
        raise refused(
            Feature.TOOL_CHOICE, ("tool_choice",), f"this provider cannot be made to use {ref.name or ref.kind!r}"
        )
    return written


def _restrict_to(tools: EncodedTools, chosen: tuple[ToolRef, ...]) -> bool:
    """Remove all but the chosen tools, if any of them is declared."""
    names = {tools.table.wire(ref.name or "", ref.namespace) for ref in chosen}
    remaining = [tool for tool in tools.written if _wire_name(tool) in names]
    if remaining:
        tools.written, tools.text = remaining, None
    return bool(remaining)


def is_forced(choice: ToolChoice) -> bool:
    return choice.mode in (ChoiceMode.REQUIRED, ChoiceMode.NAMED, ChoiceMode.HOSTED) or choice.required


def _encode_ref(ref: ToolRef, tools: EncodedTools, target: TargetModel) -> JsonObject | None:
    table = tools.table
    entry = table.entry(ref.name, ref.namespace) if ref.name else table.entry(ref.kind)
    if entry is None:
        if ref.kind not in ("function", "custom", "tool") or not ref.name:
            return None
        return {"type": "function", "function": {"name": table.wire(ref.name, ref.namespace)}}
    custom = isinstance(entry.spec, TextTool) and target.capabilities.custom_tools
    kind = "custom" if custom else "function"
    return {"type": kind, kind: {"name": entry.wire}}


def _wire_name(tool: JsonValue) -> str | None:
    match tool:
        case {"function": {"name": str(name)}} | {"custom": {"name": str(name)}}:
            return name
    return None


# Members that hold values, not schemas.
_VALUES = frozenset({"enum", "const", "default", "examples"})


def typed_branches(schema: JsonObject) -> JsonObject:
    """The same schema with every `type` moved into the branches next to it, and tuples as `prefixItems`."""
    return _rewritten(schema, 0)


def _rewritten(schema: JsonObject, depth: int) -> JsonObject:
    if depth > DEPTH_LIMIT:
        return schema
    written: JsonObject = {}
    for name, value in schema.items():
        inner = value if name in _VALUES else _inner(value, depth)
        written["prefixItems" if name == "items" and isinstance(value, list) else name] = inner
    branches, kind = written.get("anyOf"), written.get("type")
    if isinstance(branches, list) and isinstance(kind, str | list):
        del written["type"]
        written["anyOf"] = [_typed(branch, kind) for branch in branches]
    return written


def _inner(value: JsonValue, depth: int) -> JsonValue:
    if isinstance(value, dict):
        return _rewritten(value, depth + 1)
    if isinstance(value, list):
        return [_rewritten(item, depth + 1) if isinstance(item, dict) else item for item in value]
    return value


def _typed(branch: JsonValue, kind: JsonValue) -> JsonValue:
    # A reference has its type at its target, and a nested branch in its branches.
    if not isinstance(branch, dict) or branch.keys() & {"type", "$ref", "anyOf"}:
        return branch
    return {"type": kind, **branch}
