"""Encodes tools of other protocols for a Messages provider (mapping.md §7, §13)."""

from __future__ import annotations

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.model.losses import Place
from dragoman.model.request import Request
from dragoman.model.tools import (
    CodeTool,
    ForeignTool,
    FunctionTool,
    McpTool,
    TextTool,
    ToolSearchTool,
    ToolSpec,
    WebFetchTool,
    WebSearchTool,
)
from dragoman.protocols.anthropic_messages.encode_context import RequestEncodeContext
from dragoman.protocols.anthropic_messages.shapes import (
    CODE_EXECUTION,
    STRICT_TOOLS_LIMIT,
    TOOL_SEARCH,
    WEB_FETCH,
    WEB_SEARCH,
)
from dragoman.rules.extras import refused
from dragoman.rules.schemas import for_anthropic, needs_wrapping, with_properties, wrap_root
from dragoman.rules.tool_table import Wrapped
from dragoman.rules.translated_parts import ToolDeclarations
from dragoman.rules.updates import placed_tools
from dragoman.wire.json import encode_text

_INPUT_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}


class EncodedTools(ToolDeclarations, kw_only=True):
    """The encoded tools, each with its specification and location, and the tool servers by label."""

    declarations: list[tuple[ToolSpec, JsonObject, Place]]
    servers: dict[str, JsonObject]

    def offered_servers(self) -> JsonList:
        """The servers with an offered toolset: exactly one must name each server."""
        labels = {tool.label for tool, _, _ in self.declarations if isinstance(tool, McpTool)}
        return [server for label, server in self.servers.items() if label in labels]

    def restrict_to(self, names: set[str | None], writing: RequestEncodeContext) -> bool:
        declarations = [entry for entry in self.declarations if declared_name(entry[1]) in names]
        for _, declaration, at in self.declarations:
            if declared_name(declaration) not in names:
                writing.ledger.dropped(Feature.ALLOWED_TOOLS, at, "not offered, because the choice excludes it")
        self.declarations, self.text = declarations, None
        return bool(declarations)


def declared_name(declaration: JsonObject) -> str | None:
    """The name by which a declaration is chosen: the tool's own, or its server's."""
    name = declaration.get("name", declaration.get("mcp_server_name"))
    return name if isinstance(name, str) else None


def encode_tools(request: Request, original: Request, writing: RequestEncodeContext) -> EncodedTools:
    """All tools of a request. `original` is the request before its updates. Losses are reported."""
    offers = EncodedTools(table=writing.table, declarations=[], servers={})
    writing.searchable = writing.target.capabilities.hosted_tools and ToolSearchTool in map(type, request.tools)
    for tool, at in placed_tools(request, original, writing.ledger):
        declaration: JsonObject | None
        if type(tool) is FunctionTool:
            declaration = _encode_function(tool, at, writing)
        elif isinstance(tool, TextTool):
            declaration = _encode_text_tool(tool, at, writing)
        else:
            declaration = _encode_hosted(tool, at, writing, offers, request.max_tool_calls)
        if declaration is not None:
            offers.declarations.append((tool, declaration, at))
    if request.tools and not offers.declarations:
        names = ", ".join([repr(_kind(tool)) for tool in request.tools])
        raise refused(Feature.HOSTED_TOOL, ("tools",), f"this provider can run none of the tools: {names}")
    if request.max_tool_calls is not None:
        _report_call_limit(offers, writing)
    return offers


def _kind(tool: ToolSpec) -> str:
    if isinstance(tool, ForeignTool):
        return tool.kind
    if isinstance(tool, FunctionTool | TextTool):
        return tool.name
    return tool.label if isinstance(tool, McpTool) else _HOSTED_FEATURES[type(tool)].value


def _report_call_limit(offers: EncodedTools, writing: RequestEncodeContext) -> None:
    if any("max_uses" in declaration for _, declaration, _ in offers.declarations):
        writing.ledger.approximated(Feature.MAX_TOOL_CALLS, ("max_tool_calls",), "a limit on each server tool instead")
    else:
        writing.ledger.dropped(Feature.MAX_TOOL_CALLS, ("max_tool_calls",), "no server tool to limit")


def _name(tool: FunctionTool | TextTool, at: Place, writing: RequestEncodeContext, wrapped: Wrapped) -> str | None:
    """The tool's name on the wire; None for a tool that was declared before."""
    if not tool.name:
        raise refused(Feature.TOOL_NAME, (*at, "name"), "a tool needs a name")
    entry = writing.table.add(tool, wrapped)
    if entry.spec is not tool:
        writing.ledger.dropped(Feature.FUNCTION_TOOL, at, f"{tool.name!r} is declared twice; the first one counts")
        return None
    if tool.namespace is not None:
        writing.ledger.approximated(Feature.NAMESPACE, (*at, "namespace"), f"declared as {entry.wire!r}")
    elif entry.wire != tool.name:
        writing.ledger.approximated(Feature.TOOL_NAME, (*at, "name"), f"declared as {entry.wire!r}")
    return entry.wire


def _encode_function(tool: FunctionTool, at: Place, writing: RequestEncodeContext) -> JsonObject | None:
    schema, wrapped = _encode_schema(tool.parameters)
    name = _name(tool, at, writing, wrapped)
    if name is None:
        return None
    if wrapped is Wrapped.VALUE:
        writing.ledger.approximated(
            Feature.ROOT_SCHEMA, (*at, "parameters"), "the root must be an object and is wrapped in one"
        )
    declaration: JsonObject = {"name": name}
    description = tool.description
    if tool.examples:
        shown = "\n".join([encode_text(example) for example in tool.examples])
        description = f"{description or ''}\n\nExamples:\n{shown}".lstrip("\n")
        writing.ledger.approximated(Feature.TOOL_OPTIONS, (*at, "examples"), "examples are told in the description")
    if description:
        declaration["description"] = description
    declaration["input_schema"] = schema
    if tool.strict:
        _make_strict(declaration, schema, at, writing)
    if tool.callers is not None or tool.deferred or tool.extras is not None:
        _encode_options(tool, declaration, at, writing)
    if tool.cache is not None:
        writing.add_breakpoint(declaration, tool.cache, at)
    return declaration


_NOT_WRAPPED = Wrapped.NOT


def _encode_schema(given: JsonObject | None) -> tuple[JsonObject, Wrapped]:
    """The parameters with a root that this provider accepts; most already have one."""
    if (
        given is not None
        and given.get("type") == "object"
        and given.get("properties") is not None
        and "anyOf" not in given
        and "oneOf" not in given
        and "allOf" not in given
    ):
        return given, _NOT_WRAPPED
    schema = with_properties(given)
    return (wrap_root(schema), Wrapped.VALUE) if needs_wrapping(schema) else (schema, _NOT_WRAPPED)


def _make_strict(declaration: JsonObject, schema: JsonObject, at: Place, writing: RequestEncodeContext) -> None:
    """Enable strict arguments if the schema is in the subset (Z1) and the provider accepts one more strict tool."""
    if writing.strict_tools == STRICT_TOOLS_LIMIT:
        note = f"this provider takes {STRICT_TOOLS_LIMIT} strict tools, not more"
        writing.ledger.dropped(Feature.STRICT_SCHEMA, (*at, "strict"), note)
        return
    strict = for_anthropic(schema, writing.schemas)
    if strict is None:
        writing.ledger.dropped(Feature.STRICT_SCHEMA, (*at, "strict"), "this schema cannot be enforced by the provider")
        return
    writing.strict_tools += 1
    declaration["input_schema"], changed = strict
    declaration["strict"] = True
    if changed:
        writing.ledger.approximated(
            Feature.STRICT_SCHEMA, (*at, "parameters"), "limits the provider cannot enforce are told in descriptions"
        )


def _encode_options(
    tool: FunctionTool | TextTool, declaration: JsonObject, at: Place, writing: RequestEncodeContext
) -> None:
    if tool.callers is not None:
        if "direct" not in tool.callers:
            raise refused(Feature.TOOL_OPTIONS, (*at, "callers"), "this tool must not be called directly")
        writing.ledger.dropped(Feature.TOOL_OPTIONS, (*at, "callers"), "calls from code are not offered here")
    if tool.deferred:
        if writing.searchable:
            declaration["defer_loading"] = True
        else:
            writing.ledger.dropped(Feature.TOOL_SEARCH, (*at, "deferred"), "without a tool search all tools are sent")
    if writing.is_native(tool.extras):
        writing.ledger.approximated(Feature.VENDOR_TOOL, at, "declared as a function with the documented parameters")
    else:
        writing.drop(tool.extras, at)


def _encode_text_tool(tool: TextTool, at: Place, writing: RequestEncodeContext) -> JsonObject | None:
    name = _name(tool, at, writing, Wrapped.INPUT)
    if name is None:
        return None
    writing.ledger.approximated(Feature.CUSTOM_TOOL, at, "declared as a function with one string, the input")
    texts = [text for text in (tool.description, tool.definition) if text]
    declaration: JsonObject = {"name": name}
    if texts:
        declaration["description"] = "\n\n".join(texts)
    declaration["input_schema"] = _INPUT_SCHEMA
    _encode_options(tool, declaration, at, writing)
    return declaration


_HOSTED_FEATURES: dict[type, Feature] = {
    WebSearchTool: Feature.WEB_SEARCH,
    WebFetchTool: Feature.WEB_FETCH,
    CodeTool: Feature.CODE_EXECUTION,
    McpTool: Feature.MCP,
    ToolSearchTool: Feature.TOOL_SEARCH,
}


def _encode_hosted(
    tool: ToolSpec, at: Place, writing: RequestEncodeContext, offers: EncodedTools, limit: int | None
) -> JsonObject | None:
    if isinstance(tool, ForeignTool):
        writing.ledger.dropped(Feature.HOSTED_TOOL, at, f"only {tool.origin} runs {tool.kind!r}")
        return None
    feature = _HOSTED_FEATURES[type(tool)]
    if not writing.target.capabilities.hosted_tools:
        writing.ledger.dropped(feature, at, "this provider runs no tools itself")
        return None
    declaration: JsonObject
    if isinstance(tool, WebSearchTool):
        declaration = _encode_web_search(tool, at, writing)
        max_uses = tool.max_uses if tool.max_uses is not None else limit
        if max_uses is not None:
            declaration["max_uses"] = max_uses
    elif isinstance(tool, WebFetchTool):
        declaration = {"type": WEB_FETCH, "name": "web_fetch", "allowed_callers": ["direct"]}
        _encode_domains(tool, declaration, at, writing)
        max_uses = tool.max_uses if tool.max_uses is not None else limit
        if max_uses is not None:
            declaration["max_uses"] = max_uses
    elif isinstance(tool, CodeTool):
        if tool.container is not None or tool.file_ids:
            raise refused(Feature.CONTAINER, at, "containers and files belong to the provider that keeps them")
        declaration = {"type": CODE_EXECUTION, "name": "code_execution"}
        writing.ledger.approximated(feature, at, "runs in this provider's own container")
    elif isinstance(tool, McpTool):
        declaration = _encode_mcp(tool, at, writing, offers)
    else:
        assert isinstance(tool, ToolSearchTool)
        declaration = {"type": TOOL_SEARCH, "name": "tool_search_tool_bm25"}
        writing.ledger.approximated(feature, at, "searched by this provider's own ranking")
    writing.drop(tool.extras, at)
    writing.add_breakpoint(declaration, tool.cache, at)
    return declaration


def _encode_web_search(tool: WebSearchTool, at: Place, writing: RequestEncodeContext) -> JsonObject:
    # In newer versions code may call the search unless it is disabled.
    declaration: JsonObject = {"type": WEB_SEARCH, "name": "web_search", "allowed_callers": ["direct"]}
    _encode_domains(tool, declaration, at, writing)
    if tool.location is not None:
        declaration["user_location"] = _location(tool.location)
    if tool.context_size is not None:
        writing.ledger.dropped(Feature.WEB_SEARCH, (*at, "context_size"), "this provider chooses the amount itself")
    writing.ledger.approximated(Feature.WEB_SEARCH, at, "searched by this provider's own engine")
    return declaration


def _location(location: JsonObject) -> JsonObject:
    location_keys = ("city", "region", "country", "timezone")
    members: JsonObject = {key: location[key] for key in location_keys if location.get(key) is not None}
    return {"type": "approximate", **members}


def _encode_domains(
    tool: WebSearchTool | WebFetchTool, declaration: JsonObject, at: Place, writing: RequestEncodeContext
) -> None:
    if tool.allowed_domains is not None:
        declaration["allowed_domains"] = list(tool.allowed_domains)
        if tool.blocked_domains is not None:
            writing.ledger.dropped(
                Feature.WEB_SEARCH, (*at, "blocked_domains"), "the two lists of domains exclude each other here"
            )
    elif tool.blocked_domains is not None:
        declaration["blocked_domains"] = list(tool.blocked_domains)


def _encode_mcp(tool: McpTool, at: Place, writing: RequestEncodeContext, offers: EncodedTools) -> JsonObject:
    if tool.url is None:
        raise refused(Feature.MCP, at, "only tool servers with an address can be called from here")
    if tool.approval != "never":
        raise refused(Feature.MCP, (*at, "approval"), "this provider asks for no approval before a call")
    authorization = tool.authorization
    for name, value in (tool.headers or {}).items():
        if name.lower() != "authorization" or not isinstance(value, str):
            raise refused(Feature.MCP, (*at, "headers", name), "this provider sends no such header")
        authorization = authorization or value.removeprefix("Bearer ")
    server: JsonObject = {"type": "url", "url": tool.url, "name": tool.label}
    if authorization is not None:
        server["authorization_token"] = authorization
    offers.servers[tool.label] = server
    writing.servers.add(tool.label)
    writing.ledger.approximated(Feature.MCP, at, "declared as a tool server and its toolset")
    declaration: JsonObject = {"type": "mcp_toolset", "mcp_server_name": tool.label}
    defaults: JsonObject = {}
    if tool.allowed_tools is not None:
        defaults["enabled"] = False
        declaration["configs"] = {name: {"enabled": True} for name in tool.allowed_tools}
    if tool.deferred:
        defaults["defer_loading"] = True
    if defaults:
        declaration["default_config"] = defaults
    return declaration
