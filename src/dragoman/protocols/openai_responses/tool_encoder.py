"""Encodes tools and tool choice of other protocols for a Responses provider (§7, §8, §13)."""

from __future__ import annotations

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.losses import Ledger, Place
from dragoman.model.request import Request
from dragoman.model.tools import (
    ChoiceMode,
    CodeTool,
    ForeignTool,
    FunctionTool,
    McpTool,
    TextTool,
    ToolRef,
    ToolSearchTool,
    ToolSpec,
    WebFetchTool,
    WebSearchTool,
)
from dragoman.protocols.codec import TargetModel
from dragoman.protocols.openai_responses.tool_decoder import encode_mcp, grammar
from dragoman.rules.extras import drop_extras, refused
from dragoman.rules.schemas import for_openai_strict, with_properties
from dragoman.rules.tool_table import ToolTable, Wrapped
from dragoman.rules.translated_parts import ToolDeclarations
from dragoman.wire.json import encode_text

_INPUT_SCHEMA: JsonObject = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}


class EncodedTools(ToolDeclarations, kw_only=True):
    """The encoded tools, their names at the provider, and their requirements of the request."""

    tools: JsonList
    searches: bool = False
    max_tool_calls: int | None = None


class ToolEncoder:
    def __init__(self, request: Request, target: TargetModel, ledger: Ledger) -> None:
        self._request = request
        self._target = target
        self._ledger = ledger
        self._table = ToolTable()
        self._written = EncodedTools(tools=[], table=self._table)
        self._lost: str | None = None
        # Deferred tools without a search over them are rejected.
        self._defers = target.capabilities.hosted_tools and any(
            isinstance(tool, ToolSearchTool) for tool in request.tools
        )
        self._hosted = sum(not isinstance(tool, FunctionTool | TextTool) for tool in request.tools)
        self._searches = any(isinstance(tool, WebSearchTool) for tool in request.tools)

    def write(self, tools: list[tuple[ToolSpec, Place]]) -> EncodedTools:
        """All tools, each with its location in the request. A request whose tools are all unknown is rejected."""
        for tool, at in tools:
            one = self._function(tool, at) if type(tool) is FunctionTool else self._tool(tool, at)
            if one is not None:
                self._written.tools.append(one)
        if tools and not self._written.tools and self._lost is not None:
            raise refused(
                Feature.HOSTED_TOOL,
                ("tools",),
                f"this provider has no tool like {self._lost!r}, and no other was given",
            )
        return self._written

    def _tool(self, tool: ToolSpec, at: Place) -> JsonObject | None:
        if isinstance(tool, FunctionTool):
            return self._function(tool, at)
        if not isinstance(tool, TextTool | ForeignTool) and tool.cache is not None:
            self._lose_breakpoint(at)
        match tool:
            case TextTool():
                return self._custom(tool, at)
            case ForeignTool():
                self._lose(tool.name or tool.kind, at)
                return None
        if not self._target.capabilities.hosted_tools:
            self._lose(type(tool).__name__, at)
            return None
        match tool:
            case WebSearchTool():
                return self._search(tool, at)
            case WebFetchTool():
                return self._fetch(tool, at)
            case CodeTool():
                return self._code(tool, at)
            case McpTool():
                return self._mcp(tool, at)
            case ToolSearchTool():
                self._ledger.approximated(Feature.TOOL_SEARCH, at, "the provider has one kind of tool search")
                return {"type": "tool_search"}

    def _lose_breakpoint(self, at: Place) -> None:
        self._ledger.dropped(Feature.CACHE_BREAKPOINT, (*at, "cache"), "tools carry no cache breakpoints here")

    def _lose(self, name: str, at: Place) -> None:
        self._lost = name
        self._ledger.dropped(Feature.HOSTED_TOOL, at, f"this provider has no tool like {name!r}")

    def _function(self, tool: FunctionTool, at: Place) -> JsonObject | None:
        ledger = self._ledger
        entry = self._table.add(tool)
        if entry.spec is not tool:
            ledger.dropped(Feature.FUNCTION_TOOL, at, f"{tool.name!r} is declared twice; the first one counts")
            return None
        if tool.cache is not None:
            self._lose_breakpoint(at)
        if entry.wire != tool.name:
            grouped = tool.namespace is not None
            feature, place = (Feature.NAMESPACE, at) if grouped else (Feature.TOOL_NAME, (*at, "name"))
            ledger.approximated(feature, place, f"called {entry.wire!r} there")
        if tool.extras is not None:
            if "type" in tool.extras.fields:
                ledger.approximated(Feature.VENDOR_TOOL, at, "a vendor's own tool is declared as a function")
            else:
                drop_extras(tool.extras, at, ledger)
        if tool.callers is not None:
            self._check_callers(tool.callers, at)
        written: JsonObject = {"type": "function", "name": entry.wire}
        description = self._exemplified(tool, at) if tool.examples else tool.description
        if description is not None:
            written["description"] = description
        parameters = with_properties(tool.parameters)
        strict = tool.strict is True
        if strict and self._request.origin == "anthropic-messages":
            closed = for_openai_strict(parameters)
            strict = closed is not None
            parameters = closed or parameters
            if not strict:
                ledger.dropped(Feature.STRICT_SCHEMA, (*at, "strict"), "the schema is outside OpenAI's strict subset")
        written["parameters"] = parameters
        # Without it, the provider would try strict mode and change optional arguments (pitfall 142).
        written["strict"] = strict
        if tool.deferred:
            self._defer(written, at)
        return written

    def _defer(self, written: JsonObject, at: Place) -> None:
        if self._defers:
            written["defer_loading"] = True
        else:
            # The client searches by itself, and has sent the results to the model.
            self._ledger.dropped(Feature.TOOL_SEARCH, (*at, "deferred"), "all tools are declared at once")

    def _exemplified(self, tool: FunctionTool, at: Place) -> str:
        self._ledger.approximated(Feature.TOOL_OPTIONS, (*at, "examples"), "examples are told in the description")
        lines = [encode_text(example) for example in tool.examples]
        opening = [tool.description] if tool.description else []
        return "\n\n".join([*opening, "Examples:\n" + "\n".join(lines)])

    def _check_callers(self, callers: tuple[str, ...], at: Place) -> None:
        if "direct" not in callers:
            raise refused(Feature.TOOL_OPTIONS, (*at, "callers"), "a tool that may not be called directly")
        if callers != ("direct",):
            self._ledger.dropped(Feature.TOOL_OPTIONS, (*at, "callers"), "only direct calls are known here")

    def _custom(self, tool: TextTool, at: Place) -> JsonObject:
        wrapped = not self._target.capabilities.custom_tools
        entry = self._table.add(tool, Wrapped.INPUT if wrapped else Wrapped.NOT)
        drop_extras(tool.extras, at, self._ledger)
        if tool.callers is not None:
            self._check_callers(tool.callers, at)
        written: JsonObject = {"type": "function" if wrapped else "custom", "name": entry.wire}
        if wrapped:
            self._ledger.approximated(
                Feature.CUSTOM_TOOL, at, "a free-text tool is declared as a function of one string"
            )
            texts = [text for text in (tool.description, tool.definition) if text]
            if texts:
                written["description"] = "\n\n".join(texts)
            return {**written, "parameters": _INPUT_SCHEMA, "strict": False}
        if tool.description is not None:
            written["description"] = tool.description
        if tool.definition is not None:
            written["format"] = grammar(tool)
        if tool.deferred:
            self._defer(written, at)
        return written

    def _search(self, tool: WebSearchTool, at: Place) -> JsonObject:
        ledger = self._ledger
        if tool.extras is not None and "type" not in tool.extras.fields:
            drop_extras(tool.extras, at, ledger)
        if self._request.origin == "anthropic-messages":
            ledger.approximated(Feature.WEB_SEARCH, at, "the provider's own web search stands for it")
        if tool.blocked_domains is not None:
            ledger.dropped(Feature.WEB_SEARCH, (*at, "blocked_domains"), "domains cannot be blocked here")
        self._limit(tool.max_uses, at)
        self._written.searches = True
        written: JsonObject = {"type": "web_search"}
        if tool.allowed_domains:
            written["filters"] = {"allowed_domains": list(tool.allowed_domains)}
        location = tool.location
        if location is not None:
            inner = location.get("approximate")
            # Chat nests the location under its type.
            written["user_location"] = {"type": "approximate", **inner} if isinstance(inner, dict) else location
        if tool.context_size is not None:
            written["search_context_size"] = tool.context_size
        return written

    def _limit(self, uses: int | None, at: Place) -> None:
        """`max_uses` of one tool becomes `max_tool_calls` of the request if there is no other hosted tool."""
        if uses is None:
            return
        if self._hosted == 1:
            self._written.max_tool_calls = uses
            self._ledger.approximated(Feature.MAX_TOOL_CALLS, (*at, "max_uses"), "the limit stands on the request")
        else:
            self._ledger.dropped(Feature.MAX_TOOL_CALLS, (*at, "max_uses"), "there is no limit for one tool of several")

    def _fetch(self, tool: WebFetchTool, at: Place) -> JsonObject | None:
        if self._searches:
            self._ledger.dropped(Feature.WEB_FETCH, at, "the provider's web search opens pages by itself")
            return None
        self._ledger.approximated(Feature.WEB_FETCH, at, "the provider's web search opens pages")
        self._written.searches = True
        self._limit(tool.max_uses, at)
        written: JsonObject = {"type": "web_search"}
        if tool.allowed_domains:
            written["filters"] = {"allowed_domains": list(tool.allowed_domains)}
        return written

    def _code(self, tool: CodeTool, at: Place) -> JsonObject:
        if tool.container is not None or tool.file_ids:
            raise refused(Feature.CONTAINER, at, "a container and its files belong to the provider that keeps them")
        self._ledger.approximated(Feature.CODE_EXECUTION, at, "the provider's code interpreter stands for it")
        return {"type": "code_interpreter", "container": {"type": "auto"}}

    def _mcp(self, tool: McpTool, at: Place) -> JsonObject:
        if tool.extras is not None and "type" not in tool.extras.fields:
            drop_extras(tool.extras, at, self._ledger)
        self._ledger.approximated(Feature.MCP, at, "the provider calls the server in its own way")
        members = McpTool(
            label=tool.label,
            url=tool.url,
            authorization=tool.authorization,
            headers=tool.headers,
            allowed_tools=tool.allowed_tools,
            # Other protocols have no approval: their providers call at once.
            approval=tool.approval or "never",
            deferred=tool.deferred or None,
        )
        return encode_mcp(members)


def encode_choice(request: Request, written: EncodedTools, target: TargetModel, ledger: Ledger) -> JsonObject:
    body: JsonObject = {}
    choice = request.tool_choice
    if not written.tools:
        if choice is not None:
            ledger.dropped(Feature.TOOL_CHOICE, ("tool_choice",), "there is no tool to choose")
        if request.parallel_calls is not None:
            ledger.dropped(Feature.PARALLEL_CALLS, ("parallel_calls",), "there is no tool to call")
        return body
    if choice is not None:
        drop_extras(choice.extras, ("tool_choice",), ledger)
        match choice.mode:
            case ChoiceMode.AUTO | ChoiceMode.NONE | ChoiceMode.REQUIRED:
                body["tool_choice"] = choice.mode.value
            case ChoiceMode.ALLOWED:
                kinds = _kinds(written)
                refs: JsonList = [
                    _ref(ref, written.table, kinds, ("tool_choice", "allowed", index))
                    for index, ref in enumerate(choice.allowed)
                ]
                body["tool_choice"] = {
                    "type": "allowed_tools",
                    "mode": "required" if choice.required else "auto",
                    "tools": refs,
                }
            case _:
                body["tool_choice"] = _named(choice.tool, written)
        if not target.capabilities.forced_choice and choice.mode in (ChoiceMode.REQUIRED, ChoiceMode.NAMED):
            ledger.approximated(Feature.TOOL_CHOICE, ("tool_choice",), "the model cannot be forced to call")
            body["tool_choice"] = "auto"
    if request.parallel_calls is False:
        body["parallel_tool_calls"] = False
    return body


def _named(ref: ToolRef | None, written: EncodedTools) -> JsonValue:
    return "required" if ref is None else _ref(ref, written.table, _kinds(written), ("tool_choice", "tool"))


def _kinds(written: EncodedTools) -> frozenset[JsonValue]:
    return frozenset(tool["type"] for tool in written.tools if isinstance(tool, dict) and isinstance(tool["type"], str))


# The choice that forces a hosted tool of that name: https://platform.openai.com/docs/api-reference/responses/create
_HOSTED_NAMES = {"web_search": "web_search", "web_fetch": "web_search", "code_execution": "code_interpreter"}


def _ref(ref: ToolRef, table: ToolTable, kinds: frozenset[JsonValue], at: Place) -> JsonObject:
    name = ref.name
    if name is not None:
        entry = table.entry(name, ref.namespace)
        if entry is not None:
            custom = isinstance(entry.spec, TextTool) and entry.wrapped is Wrapped.NOT
            return {"type": "custom" if custom else "function", "name": entry.wire}
    kind = _HOSTED_NAMES.get(name or ref.kind)
    if kind is not None and kind in kinds:
        return {"type": kind}
    if name is not None and ref.kind in ("function", "custom"):
        return {"type": "function", "name": table.wire(name, ref.namespace)}
    raise refused(Feature.TOOL_CHOICE, at, f"the tool {name or ref.kind!r} that must be called is unknown here")
