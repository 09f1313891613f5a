"""Tools and tool choice of other protocols, written for a Messages provider (mapping.md §7, §8, §13)."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.model.losses import Place
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
from dragoman.protocols.anthropic_messages.shapes import (
    CODE_EXECUTION,
    TOOL_SEARCH,
    WEB_FETCH,
    WEB_SEARCH,
)
from dragoman.protocols.anthropic_messages.writing import Writing
from dragoman.rules.schemas import for_anthropic, needs_wrapping, with_properties, wrap_root
from dragoman.rules.toolnames import Wrapped
from dragoman.wire.json import encode_text

_INPUT_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}


class Offers(Struct, kw_only=True):
    """The tools as they are written, each beside its specification and place, and the tool servers by label."""

    declarations: list[tuple[ToolSpec, JsonObject, Place]]
    servers: dict[str, JsonObject]

    def tools(self) -> JsonList:
        """The declarations alone."""
        return [declaration for _, declaration, _ in self.declarations]

    def offered_servers(self) -> JsonList:
        """The servers whose toolsets are offered: each must be named by exactly one."""
        labels = {tool.label for tool, _, _ in self.declarations if isinstance(tool, McpTool)}
        return [server for label, server in self.servers.items() if label in labels]

    def keep(self, names: set[str | None], writing: Writing) -> bool:
        """Leave out the tools that are not named; tells whether any is left."""
        kept = [entry for entry in self.declarations if _declared_name(entry[1]) in names]
        for _, declaration, at in self.declarations:
            if _declared_name(declaration) not in names:
                writing.ledger.dropped(Feature.ALLOWED_TOOLS, at, "not offered, because the choice excludes it")
        self.declarations = kept
        return bool(kept)


def encode_tools(request: Request, said: Request, writing: Writing) -> Offers:
    """All tools; what the provider cannot run is left out and reported. `said` is the request before its updates."""
    places = _places(said)
    offers = Offers(declarations=[], servers={})
    kept = {id(tool) for tool in request.tools}
    for index, tool in enumerate(said.tools):
        if id(tool) not in kept:
            writing.ledger.approximated(Feature.MOVED_TOOLS, ("tools", index), "removed by the conversation")
    searchable = writing.target.abilities.hosted_tools and any(
        isinstance(tool, ToolSearchTool) for tool in request.tools
    )
    for tool in request.tools:
        at = places[id(tool)]
        declaration: JsonObject | None
        if isinstance(tool, FunctionTool):
            declaration = _encode_function(tool, at, writing, searchable)
        elif isinstance(tool, TextTool):
            declaration = _encode_text_tool(tool, at, writing, searchable)
        else:
            declaration = _encode_hosted(tool, at, writing, offers, request.max_tool_calls)
        if declaration is not None:
            offers.declarations.append((tool, declaration, at))
    if request.tools and not offers.declarations:
        raise writing.refuse(Feature.HOSTED_TOOL, ("tools",), "this provider can run none of the tools")
    if request.max_tool_calls is not None:
        _report_call_limit(offers, writing)
    return offers


def _places(said: Request) -> dict[int, Place]:
    places: dict[int, Place] = {id(tool): ("updates", "tools", index) for index, tool in enumerate(said.updates.tools)}
    places.update({id(tool): ("tools", index) for index, tool in enumerate(said.tools)})
    return places


def _report_call_limit(offers: Offers, writing: Writing) -> None:
    if any("max_uses" in declaration for _, declaration, _ in offers.declarations):
        writing.ledger.approximated(Feature.MAX_TOOL_CALLS, ("max_tool_calls",), "a limit on each server tool instead")
    else:
        writing.ledger.dropped(Feature.MAX_TOOL_CALLS, ("max_tool_calls",), "no server tool to limit")


def _name(tool: FunctionTool | TextTool, at: Place, writing: Writing, wrapped: Wrapped) -> str | None:
    """The tool's name on the wire; None for a tool that was declared before."""
    if not tool.name:
        raise writing.refuse(Feature.TOOL_NAME, (*at, "name"), "a tool needs a name")
    entry = writing.table.add(tool, wrapped)
    if entry.spec is not tool:
        writing.ledger.dropped(Feature.FUNCTION_TOOL, at, f"{tool.name!r} is declared twice; the first one counts")
        return None
    if tool.namespace is not None:
        writing.ledger.approximated(Feature.NAMESPACE, (*at, "namespace"), f"declared as {entry.wire!r}")
    elif entry.wire != tool.name:
        writing.ledger.approximated(Feature.TOOL_NAME, (*at, "name"), f"declared as {entry.wire!r}")
    return entry.wire


def _encode_function(tool: FunctionTool, at: Place, writing: Writing, searchable: bool) -> JsonObject | None:
    ledger = writing.ledger
    schema = with_properties(tool.parameters)
    wrapped = Wrapped.VALUE if needs_wrapping(schema) else Wrapped.NOT
    name = _name(tool, at, writing, wrapped)
    if name is None:
        return None
    if wrapped is Wrapped.VALUE:
        schema = wrap_root(schema)
        ledger.approximated(
            Feature.ROOT_SCHEMA, (*at, "parameters"), "the root must be an object and is wrapped in one"
        )
    declaration: JsonObject = {"name": name}
    description = tool.description
    if tool.examples:
        shown = "\n".join(encode_text(example) for example in tool.examples)
        description = f"{description or ''}\n\nExamples:\n{shown}".lstrip("\n")
        ledger.approximated(Feature.TOOL_OPTIONS, (*at, "examples"), "examples are told in the description")
    if description:
        declaration["description"] = description
    declaration["input_schema"] = schema
    if tool.strict:
        _make_strict(declaration, schema, at, writing)
    _encode_options(tool, declaration, at, writing, searchable)
    writing.mark(declaration, tool.cache, at)
    return declaration


def _make_strict(declaration: JsonObject, schema: JsonObject, at: Place, writing: Writing) -> None:
    """Promise strict arguments where the schema lies in the subset (Z1)."""
    strict = for_anthropic(schema)
    if strict is None:
        writing.ledger.dropped(Feature.STRICT_SCHEMA, (*at, "strict"), "this schema cannot be enforced by the provider")
        return
    declaration["input_schema"], changed = strict
    declaration["strict"] = True
    if changed:
        writing.ledger.approximated(
            Feature.STRICT_SCHEMA, (*at, "parameters"), "limits the provider cannot enforce are told in descriptions"
        )


def _encode_options(
    tool: FunctionTool | TextTool, declaration: JsonObject, at: Place, writing: Writing, searchable: bool
) -> None:
    if tool.callers is not None:
        if "direct" not in tool.callers:
            raise writing.refuse(Feature.TOOL_OPTIONS, (*at, "callers"), "this tool must not be called directly")
        writing.ledger.dropped(Feature.TOOL_OPTIONS, (*at, "callers"), "calls from code are not offered here")
    if tool.deferred:
        if searchable:
            declaration["defer_loading"] = True
        else:
            writing.ledger.dropped(Feature.TOOL_SEARCH, (*at, "deferred"), "without a tool search all tools are sent")
    if writing.is_native(tool.extras):
        writing.ledger.approximated(Feature.VENDOR_TOOL, at, "declared as a function with the documented parameters")
    else:
        writing.drop(tool.extras, at)


def _encode_text_tool(tool: TextTool, at: Place, writing: Writing, searchable: bool) -> JsonObject | None:
    name = _name(tool, at, writing, Wrapped.INPUT)
    if name is None:
        return None
    writing.ledger.approximated(Feature.CUSTOM_TOOL, at, "declared as a function with one string, the input")
    told = [text for text in (tool.description, tool.definition) if text]
    declaration: JsonObject = {"name": name}
    if told:
        declaration["description"] = "\n\n".join(told)
    declaration["input_schema"] = _INPUT_SCHEMA
    _encode_options(tool, declaration, at, writing, searchable)
    return declaration


_HOSTED_FEATURES: dict[type, Feature] = {
    WebSearchTool: Feature.WEB_SEARCH,
    WebFetchTool: Feature.WEB_FETCH,
    CodeTool: Feature.CODE_EXECUTION,
    McpTool: Feature.MCP,
    ToolSearchTool: Feature.TOOL_SEARCH,
}


def _encode_hosted(tool: ToolSpec, at: Place, writing: Writing, offers: Offers, limit: int | None) -> JsonObject | None:
    if isinstance(tool, ForeignTool):
        writing.ledger.dropped(Feature.HOSTED_TOOL, at, f"only {tool.origin} runs {tool.kind!r}")
        return None
    feature = _HOSTED_FEATURES[type(tool)]
    if not writing.target.abilities.hosted_tools:
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
            raise writing.refuse(Feature.CONTAINER, at, "containers and files belong to the provider that keeps them")
        declaration = {"type": CODE_EXECUTION, "name": "code_execution"}
        writing.ledger.approximated(feature, at, "runs in this provider's own container")
    elif isinstance(tool, McpTool):
        declaration = _encode_mcp(tool, at, writing, offers)
    else:
        assert isinstance(tool, ToolSearchTool)
        declaration = {"type": TOOL_SEARCH, "name": "tool_search_tool_bm25"}
        writing.ledger.approximated(feature, at, "searched by this provider's own ranking")
    writing.drop(tool.extras, at)
    writing.mark(declaration, tool.cache, at)
    return declaration


def _encode_web_search(tool: WebSearchTool, at: Place, writing: Writing) -> JsonObject:
    # Newer versions let code call the search unless they are told not to.
    declaration: JsonObject = {"type": WEB_SEARCH, "name": "web_search", "allowed_callers": ["direct"]}
    _encode_domains(tool, declaration, at, writing)
    if tool.location is not None:
        declaration["user_location"] = _location(tool.location)
    if tool.context_size is not None:
        writing.ledger.dropped(Feature.WEB_SEARCH, (*at, "context_size"), "this provider chooses the amount itself")
    writing.ledger.approximated(Feature.WEB_SEARCH, at, "searched by this provider's own engine")
    return declaration


def _location(location: JsonObject) -> JsonObject:
    known = ("city", "region", "country", "timezone")
    members: JsonObject = {key: location[key] for key in known if location.get(key) is not None}
    return {"type": "approximate", **members}


def _encode_domains(tool: WebSearchTool | WebFetchTool, declaration: JsonObject, at: Place, writing: Writing) -> None:
    if tool.allowed_domains is not None:
        declaration["allowed_domains"] = list(tool.allowed_domains)
        if tool.blocked_domains is not None:
            writing.ledger.dropped(
                Feature.WEB_SEARCH, (*at, "blocked_domains"), "the two lists of domains exclude each other here"
            )
    elif tool.blocked_domains is not None:
        declaration["blocked_domains"] = list(tool.blocked_domains)


def _encode_mcp(tool: McpTool, at: Place, writing: Writing, offers: Offers) -> JsonObject:
    if tool.url is None:
        raise writing.refuse(Feature.MCP, at, "only tool servers with an address can be called from here")
    if tool.approval != "never":
        raise writing.refuse(Feature.MCP, (*at, "approval"), "this provider asks for no approval before a call")
    authorization = tool.authorization
    for name, value in (tool.headers or {}).items():
        if name.lower() != "authorization" or not isinstance(value, str):
            raise writing.refuse(Feature.MCP, (*at, "headers", name), "this provider sends no such header")
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


def encode_choice(request: Request, offers: Offers, writing: Writing) -> JsonObject | None:
    """The tool choice; a choice the provider cannot be given may reduce the tools instead (§8)."""
    choice = request.tool_choice
    if not offers.declarations:
        _drop_choice(request, writing)
        return None
    if choice is None:
        return {"type": "auto", "disable_parallel_tool_use": True} if request.parallel_calls is False else None
    writing.drop(choice.extras, ("tool_choice",))
    encoded = _CHOICES[choice.mode](request, offers, writing)
    if not writing.target.abilities.forced_choice and encoded["type"] in ("any", "tool"):
        encoded = _unforced(encoded, offers, writing)
    if request.parallel_calls is False and encoded["type"] != "none":
        encoded["disable_parallel_tool_use"] = True
    return encoded


def _drop_choice(request: Request, writing: Writing) -> None:
    if request.tool_choice is not None:
        writing.ledger.dropped(Feature.TOOL_CHOICE, ("tool_choice",), "there are no tools to choose from")
    if request.parallel_calls is not None:
        writing.ledger.dropped(Feature.PARALLEL_CALLS, ("parallel_calls",), "there are no tools to call")


def _unforced(encoded: JsonObject, offers: Offers, writing: Writing) -> JsonObject:
    if encoded["type"] == "tool":
        name = encoded["name"]
        offers.keep({name if isinstance(name, str) else None}, writing)
        note = "this model cannot be forced: it is offered this tool alone"
    else:
        note = "this model cannot be forced to call a tool"
    writing.ledger.approximated(Feature.TOOL_CHOICE, ("tool_choice",), note)
    return {"type": "auto"}


def _auto(_request: Request, _offers: Offers, _writing: Writing) -> JsonObject:
    return {"type": "auto"}


def _none(_request: Request, _offers: Offers, _writing: Writing) -> JsonObject:
    return {"type": "none"}


def _required(_request: Request, _offers: Offers, _writing: Writing) -> JsonObject:
    return {"type": "any"}


def _named(request: Request, offers: Offers, writing: Writing) -> JsonObject:
    tool = request.tool_choice.tool if request.tool_choice is not None else None
    # A toolset, and a member of one, cannot be forced.
    name = _wire_name(tool, offers, writing) if tool is not None and tool.kind != "mcp" else None
    if name is None:
        said = tool.name or tool.kind if tool is not None else ""
        raise writing.refuse(Feature.TOOL_CHOICE, ("tool_choice",), f"{said!r} must be called and cannot be offered")
    return {"type": "tool", "name": name}


def _allowed(request: Request, offers: Offers, writing: Writing) -> JsonObject:
    choice = request.tool_choice
    assert choice is not None
    names = {_wire_name(tool, offers, writing) for tool in choice.allowed}
    if not offers.keep(names - {None}, writing):
        raise writing.refuse(Feature.ALLOWED_TOOLS, ("tool_choice", "allowed"), "none of the allowed tools is offered")
    writing.ledger.approximated(Feature.ALLOWED_TOOLS, ("tool_choice",), "only the allowed tools are offered")
    return {"type": "any" if choice.required else "auto"}


def _declared_name(declaration: JsonObject) -> str | None:
    name = declaration.get("name", declaration.get("mcp_server_name"))
    return name if isinstance(name, str) else None


# Hosted types of other protocols, by the beginning of their name, and the specification they were decoded to.
_HOSTED_KINDS: tuple[tuple[str, type], ...] = (
    ("web_search", WebSearchTool),
    ("code_interpreter", CodeTool),
    ("tool_search", ToolSearchTool),
)


def _wire_name(tool: ToolRef, offers: Offers, writing: Writing) -> str | None:
    """The name under which a chosen tool is offered here; None if it is not."""
    if tool.kind == "mcp":
        return _mcp_label(tool, offers)
    for beginning, spec_type in _HOSTED_KINDS:
        if tool.kind.startswith(beginning):
            found = next((one for spec, one, _ in offers.declarations if type(spec) is spec_type), None)
            return _declared_name(found) if found is not None else None
    entry = writing.table.entry(tool.name or tool.kind, tool.namespace)
    offered = entry is not None and any(_declared_name(one) == entry.wire for _, one, _ in offers.declarations)
    return entry.wire if entry is not None and offered else None


def _mcp_label(tool: ToolRef, offers: Offers) -> str | None:
    label = (tool.native or {}).get("server_label", tool.name)
    for spec, _, _ in offers.declarations:
        if isinstance(spec, McpTool) and spec.label == label:
            return spec.label
    return None


_CHOICES: dict[ChoiceMode, Callable[[Request, Offers, Writing], JsonObject]] = {
    ChoiceMode.AUTO: _auto,
    ChoiceMode.NONE: _none,
    ChoiceMode.REQUIRED: _required,
    ChoiceMode.NAMED: _named,
    ChoiceMode.HOSTED: _named,
    ChoiceMode.ALLOWED: _allowed,
}
