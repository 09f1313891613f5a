"""Decodes tools and tool choice by `type` (mapping.md §13). Tools that only this protocol's servers run or define are
stored in full in `extras`, next to the parts that others can use. A tool server is declared twice, in `mcp_servers` and
in a toolset. Both become one `McpTool`, whose extras hold both objects."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import Extras
from dragoman.model.tools import (
    ChoiceMode,
    CodeTool,
    ForeignTool,
    FunctionTool,
    McpTool,
    Namespace,
    TextTool,
    ToolChoice,
    ToolRef,
    ToolSearchTool,
    ToolSpec,
    WebFetchTool,
    WebSearchTool,
)
from dragoman.protocols.anthropic_messages import anthropic_tools
from dragoman.protocols.anthropic_messages.parts import decode_cache, reader
from dragoman.protocols.anthropic_messages.shapes import NAME
from dragoman.wire.fields import Fields

_MODES = {"auto": ChoiceMode.AUTO, "any": ChoiceMode.REQUIRED, "none": ChoiceMode.NONE, "tool": ChoiceMode.NAMED}


def decode_tools(request: Fields) -> tuple[ToolSpec, ...]:
    servers: dict[str, tuple[int, Fields]] = {}
    for position, server in enumerate(request.each("mcp_servers")):
        servers[server.text("name")] = (position, server)
    tools: list[ToolSpec] = []
    defined = 0
    for index, value in enumerate(request.optional_list("tools") or ()):
        plain = plain_tool(value)
        if plain is not None:
            tools.append(plain)
            continue
        declaration = reader(value, ((request.path, "tools"), index))
        if declaration.value.get("type") == "mcp_toolset":
            tools.append(_decode_mcp(declaration, servers.pop(declaration.text("mcp_server_name"), None)))
        else:
            defined += anthropic_tools.is_defined(declaration.value.get("type"))
            tools.extend(decode_tool(declaration, described=defined <= anthropic_tools.MAX_DESCRIBED))
    # The first beta had no toolsets: a server alone offered all its tools.
    tools.extend([_decode_mcp(None, server) for server in servers.values()])
    return tuple(tools)


def plain_tool(value: JsonValue) -> FunctionTool | None:
    """A function with only a name, a description and a schema, as nearly all are; None leaves it to the full reader."""
    if type(value) is not dict or len(value) != 3:
        return None
    name, description, schema = value.get("name"), value.get("description"), value.get("input_schema")
    if type(name) is not str or not name or type(description) is not str or type(schema) is not dict:
        return None
    return FunctionTool(name=name, description=description, parameters=schema)


def decode_tool(declaration: Fields, *, described: bool = True) -> Iterable[ToolSpec]:
    """The tools of one declaration. Without `described`, Anthropic's own tools stay for its own servers."""
    kind = declaration.optional_text("type")
    if kind is None or kind == "custom":
        # With a schema, which marks a function, null means absent: the SDK's types allow it.
        if "type" in declaration.value and "input_schema" not in declaration.value:
            declaration.kind()
        declaration.skip("type")
        tool = _decode_function(declaration)
        if tool.parameters is None and "parameters" not in declaration.value:
            raise declaration.wrong("input_schema", "object", "nothing")
        return (tool,)
    if kind == "function":
        # OpenAI's declarations, nested or flat, which some agents send to every endpoint.
        nested = declaration.value.get("function")
        inner: JsonObject = nested if isinstance(nested, dict) else {}
        outer = {key: value for key, value in declaration.value.items() if key not in ("type", "function")}
        return (_decode_function(Fields({**outer, **inner}, declaration.path)),)
    whole = Extras(origin=NAME, fields=declaration.value)
    if not described and anthropic_tools.is_defined(kind):
        return (_decode_hosted(declaration, kind, whole),)
    for beginning, schema in anthropic_tools.SINGLE:
        if kind.startswith(beginning):
            return (
                FunctionTool(
                    name=declaration.name("name"),
                    description=schema.description,
                    parameters=schema.parameters(),
                    cache=decode_cache(declaration),
                    extras=whole,
                ),
            )
    for beginning, name, members in anthropic_tools.TOOLSETS:
        if kind.startswith(beginning):
            return _decode_toolset(declaration, name, members, whole)
    return (_decode_hosted(declaration, kind, whole),)


def _decode_function(declaration: Fields) -> FunctionTool:
    # `type: custom`, which the caller has read, means the same as no type.
    declaration.demand("input_schema")
    callers = declaration.texts("allowed_callers")
    return FunctionTool(
        name=declaration.name("name"),
        description=declaration.optional_text("description"),
        parameters=declaration.optional_object(
            "parameters" if "input_schema" not in declaration.value else "input_schema"
        ),
        strict=declaration.optional_flag("strict"),
        examples=tuple([example.value for example in declaration.each("input_examples")]),
        deferred=declaration.optional_flag("defer_loading"),
        callers=callers or None,
        cache=decode_cache(declaration),
        extras=declaration.rest(NAME),
    )


def _decode_toolset(
    declaration: Fields, name: str, members: dict[str, anthropic_tools.Schema], whole: Extras
) -> list[ToolSpec]:
    configs = declaration.optional_fields("configs")
    namespace = Namespace(name=name)
    cache = decode_cache(declaration)
    tools: list[ToolSpec] = []
    for member, schema in members.items():
        config = configs.optional_fields(member) if configs is not None else None
        if config is not None and config.optional_flag("enabled") is False:
            continue
        first = not tools
        tools.append(
            FunctionTool(
                name=member,
                description=schema.description,
                parameters=schema.parameters(),
                namespace=namespace,
                cache=cache if first else None,
                extras=whole if first else None,
            )
        )
    return tools or [ForeignTool(origin=NAME, kind=declaration.text("type"), body=declaration.value)]


def _decode_hosted(declaration: Fields, kind: str, whole: Extras) -> ToolSpec:
    name = declaration.name("name") if "name" in declaration.value else None
    if kind.startswith("web_search_"):
        return WebSearchTool(
            allowed_domains=_domains(declaration, "allowed_domains"),
            blocked_domains=_domains(declaration, "blocked_domains"),
            location=_location(declaration),
            max_uses=declaration.optional_integer("max_uses"),
            cache=decode_cache(declaration),
            extras=whole,
        )
    if kind.startswith("web_fetch_"):
        return WebFetchTool(
            allowed_domains=_domains(declaration, "allowed_domains"),
            blocked_domains=_domains(declaration, "blocked_domains"),
            max_uses=declaration.optional_integer("max_uses"),
            cache=decode_cache(declaration),
            extras=whole,
        )
    if kind.startswith("code_execution_"):
        return CodeTool(cache=decode_cache(declaration), extras=whole)
    if kind.startswith("tool_search_tool_"):
        return ToolSearchTool(cache=decode_cache(declaration), extras=whole)
    return ForeignTool(origin=NAME, kind=kind, body=declaration.value, name=name)


def _location(declaration: Fields) -> JsonObject | None:
    location = declaration.optional_fields("user_location")
    if location is None:
        return None
    for member in ("type", "city", "region", "country", "timezone"):
        location.optional_text(member)
    return location.value


def _domains(declaration: Fields, key: str) -> tuple[str, ...] | None:
    return declaration.texts(key) or None


def _decode_mcp(toolset: Fields | None, server: tuple[int, Fields] | None) -> McpTool:
    fields: JsonObject = {"type": "mcp"}
    label = ""
    url = authorization = None
    allowed: tuple[str, ...] | None = None
    deferred: bool | None = None
    cache = None
    if server is not None:
        position, declared = server
        fields |= {"position": position, "server": declared.value}
        declared.demand("type", "url")
        declared.choice("type", ("url",))
        label, url = declared.text("name"), declared.optional_text("url")
        authorization = declared.optional_text("authorization_token")
        configuration = declared.optional_fields("tool_configuration")
        if configuration is not None:
            allowed = configuration.texts("allowed_tools") or None
    if toolset is not None:
        fields["toolset"] = toolset.value
        label = toolset.text("mcp_server_name")
        defaults = toolset.optional_fields("default_config")
        deferred = defaults.optional_flag("defer_loading") if defaults is not None else None
        enabled = _enabled(toolset)
        if defaults is not None and defaults.optional_flag("enabled") is False:
            allowed = enabled
        cache = decode_cache(toolset)
    return McpTool(
        label=label,
        url=url,
        authorization=authorization,
        allowed_tools=allowed,
        approval="never",
        deferred=deferred,
        cache=cache,
        extras=Extras(origin=NAME, fields=fields),
    )


def _enabled(toolset: Fields) -> tuple[str, ...]:
    configs = toolset.optional_fields("configs")
    if configs is None:
        return ()
    names: list[str] = []
    for name in configs.value:
        config = configs.optional_fields(name)
        if config is not None and config.optional_flag("enabled"):
            names.append(name)
    return tuple(names)


def decode_choice(request: Fields, tools: tuple[ToolSpec, ...]) -> tuple[ToolChoice | None, bool | None]:
    choice = request.optional_fields("tool_choice")
    if choice is None:
        return None, None
    word = choice.text("type")
    mode = _MODES.get(word)
    if mode is None:
        raise choice.wrong("type", "'auto', 'any', 'tool' or 'none'", repr(word))
    serial = choice.optional_flag("disable_parallel_tool_use")
    tool: ToolRef | None = None
    if mode is ChoiceMode.NAMED:
        name = choice.name("name")
        tool = ToolRef(kind="function", name=name)
        hosted = _hosted_kind(name, tools)
        if hosted is not None:
            mode, tool = ChoiceMode.HOSTED, ToolRef(kind=hosted, name=name)
    parallel = None if serial is None else not serial
    return ToolChoice(mode=mode, tool=tool, extras=choice.rest(NAME)), parallel


def _hosted_kind(name: str, tools: tuple[ToolSpec, ...]) -> str | None:
    for tool in tools:
        if isinstance(tool, ForeignTool):
            if tool.name == name:
                return tool.kind
        elif isinstance(tool, FunctionTool | TextTool | McpTool):
            continue
        elif tool.extras is not None and tool.extras.fields.get("name") == name:
            return name
    return None
