"""Decodes tools, tool choice and response format, and encodes them again in responses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue, present
from dragoman.model.parts import Extras
from dragoman.model.request import OutputFormat, OutputKind
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
from dragoman.protocols.openai_responses import openai_tools
from dragoman.protocols.openai_responses.shapes import NAME
from dragoman.wire.fields import Fields

_SEARCH_TYPES = frozenset(
    {"web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11"}
)
# The key under which the first tool of a namespace carries unknown members of the namespace.
_NAMESPACE_REST = "namespace"


def decode_tools(fields: Fields, key: str) -> tuple[ToolSpec, ...]:
    """The tools of a list. A namespace is replaced by its members."""
    tools: list[ToolSpec] = []
    for tool in fields.each(key):
        plain = _plain_function(tool.value)
        if plain is not None:
            tools.append(plain)
        else:
            tools += _apart(tools, decode_tool(tool))
    return tuple(tools)


def _apart(before: list[ToolSpec], tools: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
    """The tools of a declaration. A repeated namespace is distinguished by its additional tools."""
    last, first = before[-1] if before else None, tools[0]
    if not isinstance(last, FunctionTool | TextTool) or not isinstance(first, FunctionTool | TextTool):
        return tools
    if first.namespace is None or first.namespace != last.namespace:
        return tools
    fields: JsonObject = {_NAMESPACE_REST: {}, **(first.extras.fields if first.extras is not None else {})}
    return (replace(first, extras=Extras(origin=NAME, fields=fields)), *tools[1:])


def _plain_function(tool: JsonObject) -> FunctionTool | None:
    """The result of `decode_tool` for a function with the usual members; None for every other tool."""
    name, description, parameters = tool.get("name"), tool.get("description"), tool.get("parameters")
    if (
        tool.get("type") != "function"
        or type(name) is not str
        or not name
        or type(description) is not str
        or type(parameters) is not dict
    ):
        return None
    size = len(tool)
    if size == 5 and type(strict := tool.get("strict")) is bool:
        return FunctionTool(name=name, description=description, parameters=parameters, strict=strict)
    return FunctionTool(name=name, description=description, parameters=parameters) if size == 4 else None


def decode_tool(tool: Fields) -> Sequence[ToolSpec]:
    if "input_schema" in tool.value and tool.value.get("type") in (None, "custom"):
        # A function in the form of Messages, which some agents send to its models.
        return (_decode_function(tool),)
    kind = tool.name("type")
    if kind == "namespace":
        return _decode_namespace(tool)
    vendor = openai_tools.decode_declaration(tool.value, kind)
    if vendor is not None:
        return (vendor,)
    if kind in _SEARCH_TYPES:
        return (_decode_search(tool, kind),)
    decoder = _DECODERS.get(kind)
    return (decoder(tool) if decoder is not None else _decode_foreign(tool, kind),)


def _decode_foreign(tool: Fields, kind: str) -> ForeignTool:
    return ForeignTool(origin=NAME, kind=kind, body=tool.value, name=tool.optional_text("name"))


def _decode_namespace(tool: Fields) -> Sequence[ToolSpec]:
    namespace = Namespace(name=tool.name("name"), description=tool.optional_text("description"))
    members = tool.each("tools")
    rest = tool.rest(NAME)
    if not members:
        return (_decode_foreign(tool, "namespace"),)
    tools: list[ToolSpec] = []
    for position, member in enumerate(members):
        kind = member.kind()
        if kind not in (None, "function", "custom"):
            raise member.wrong("type", "'function' or 'custom'", repr(kind))
        spec = _decode_custom(member) if kind == "custom" else _decode_function(member)
        extras = spec.extras
        if rest is not None and position == 0:
            extras = Extras(origin=NAME, fields={**(extras.fields if extras else {}), _NAMESPACE_REST: rest.fields})
        tools.append(replace(spec, namespace=namespace, extras=extras))
    return tools


def _callers(tool: Fields) -> tuple[str, ...] | None:
    return tool.texts("allowed_callers") if tool.value.get("allowed_callers") is not None else None


def _decode_function(tool: Fields) -> FunctionTool:
    tool.skip("type")
    nested = tool.value.get("function")
    if "name" not in tool.value and isinstance(nested, dict):
        outer = {key: value for key, value in tool.value.items() if key != "function"}
        return _decode_function(Fields({**outer, **nested}, tool.path))
    tool.demand("input_schema")
    return FunctionTool(
        name=tool.name("name"),
        description=tool.optional_text("description"),
        parameters=tool.optional_object("input_schema" if "input_schema" in tool.value else "parameters"),
        strict=tool.optional_flag("strict"),
        deferred=tool.optional_flag("defer_loading"),
        callers=_callers(tool),
        extras=tool.rest(NAME),
    )


def _decode_custom(tool: Fields) -> TextTool:
    tool.skip("type")
    form = tool.optional_fields("format")
    syntax = definition = None
    beyond: Extras | None = None
    if form is not None:
        if form.kind() == "grammar":
            syntax, definition = form.name("syntax"), form.text("definition")
            beyond = form.rest(NAME)
        else:
            beyond = Extras(origin=NAME, fields=form.value)
    return TextTool(
        name=tool.name("name"),
        description=tool.optional_text("description"),
        syntax=syntax,
        definition=definition,
        deferred=tool.optional_flag("defer_loading"),
        callers=_callers(tool),
        extras=_beside(tool.rest(NAME), "format", beyond),
    )


def _beside(extras: Extras | None, key: str, beyond: Extras | None) -> Extras | None:
    if beyond is None:
        return extras
    return Extras(origin=NAME, fields={**(extras.fields if extras is not None else {}), key: beyond.fields})


def _decode_search(tool: Fields, kind: str) -> WebSearchTool:
    filters = tool.optional_fields("filters")
    allowed: tuple[str, ...] | None = None
    beyond: Extras | None = None
    if filters is not None:
        if filters.value.get("allowed_domains") is not None:
            allowed = filters.texts("allowed_domains")
        filters.skip("allowed_domains")
        beyond = filters.rest(NAME)
        if allowed is None and beyond is None:
            beyond = Extras(origin=NAME, fields={})
    location = tool.optional_object("user_location")
    context_size = tool.optional_text("search_context_size")
    # Another spelling of the type is stored, with the full declaration.
    whole = Extras(origin=NAME, fields=tool.value) if kind != "web_search" else None
    extras = whole or _beside(tool.rest(NAME), "filters", beyond)
    return WebSearchTool(allowed_domains=allowed, location=location, context_size=context_size, extras=extras)


def _decode_code(tool: Fields) -> CodeTool:
    container = tool.raw("container")
    if isinstance(container, str):
        return CodeTool(container=container, extras=tool.rest(NAME))
    if container is not None and not isinstance(container, dict):
        raise tool.fail("container", "string or object", container)
    inner = Fields(container or {}, (tool.path, "container"))
    inner.skip("type")
    file_ids = inner.texts("file_ids")
    beyond = inner.rest(NAME)
    return CodeTool(file_ids=file_ids, extras=_beside(tool.rest(NAME), "container", beyond))


def _decode_mcp(tool: Fields) -> McpTool:
    allowed: tuple[str, ...] | None = None
    finer: JsonObject = {}
    tools = tool.raw("allowed_tools")
    if isinstance(tools, dict):
        finer["allowed_tools"] = tools
        inner = tool.fields("allowed_tools")
        if tools.get("tool_names") is not None:
            allowed = inner.texts("tool_names")
    elif tools is not None:
        allowed = tool.texts("allowed_tools")
    approval = tool.raw("require_approval")
    if isinstance(approval, dict):
        finer["require_approval"] = approval
        approval = "filter"
    elif approval is not None and not isinstance(approval, str):
        raise tool.fail("require_approval", "string or object", approval)
    spec = McpTool(
        label=tool.text("server_label"),
        url=tool.optional_text("server_url"),
        authorization=tool.optional_text("authorization"),
        headers=tool.optional_object("headers"),
        allowed_tools=allowed,
        approval=approval,
        deferred=tool.optional_flag("defer_loading"),
    )
    tool.skip("type")
    extras = tool.rest(NAME)
    if finer:
        extras = Extras(origin=NAME, fields={**(extras.fields if extras else {}), **finer})
    return replace(spec, extras=extras)


def _decode_tool_search(tool: Fields) -> ToolSearchTool:
    return ToolSearchTool(extras=tool.rest(NAME))


_DECODERS: dict[str, Callable[[Fields], ToolSpec]] = {
    "function": _decode_function,
    "custom": _decode_custom,
    "code_interpreter": _decode_code,
    "mcp": _decode_mcp,
    "tool_search": _decode_tool_search,
}

_MODES = {"auto": ChoiceMode.AUTO, "none": ChoiceMode.NONE, "required": ChoiceMode.REQUIRED}
_CHOICES = {word: ToolChoice(mode=mode) for word, mode in _MODES.items()}


def decode_choice(request: Fields, key: str) -> ToolChoice:
    value = request.value[key]
    if isinstance(value, str):
        choice_of = _CHOICES.get(value)
        if choice_of is None:
            raise request.wrong(key, "'auto', 'none', 'required' or an object", repr(value))
        return choice_of
    choice = request.fields(key)
    kind = choice.text("type")
    if kind == "allowed_tools":
        choice.demand("mode", "tools")
        required = choice.choice("mode", ("auto", "required")) == "required"
        allowed = tuple([_decode_ref(ref) for ref in choice.each("tools")])
        return ToolChoice(mode=ChoiceMode.ALLOWED, allowed=allowed, required=required, extras=choice.rest(NAME))
    if kind in _CHOICES or kind == "any":
        return _CHOICES.get(kind, _CHOICES["required"])
    if kind == "tool":
        return ToolChoice(mode=ChoiceMode.NAMED, tool=ToolRef(kind="function", name=choice.text("name")))
    ref = _decode_ref(choice)
    mode = ChoiceMode.HOSTED if ref.name is None or kind == "mcp" else ChoiceMode.NAMED
    return ToolChoice(mode=mode, tool=ref, extras=choice.rest(NAME) if ref.native is None else None)


def _decode_ref(ref: Fields) -> ToolRef:
    kind = ref.name("type")
    if kind in ("function", "custom"):
        if "name" not in ref.value and isinstance(ref.value.get(kind), dict):
            return ToolRef(kind=kind, name=ref.fields(kind).name("name"))
        return ToolRef(kind=kind, name=ref.name("name"), namespace=ref.optional_text("namespace"))
    vendor = openai_tools.tool_of(kind)
    # A tool of an unknown type is not the function of that name.
    name = vendor.name if vendor is not None else ref.optional_text("name") if kind == "mcp" else None
    return ToolRef(kind=kind, name=name, native=ref.value)


def decode_format(text: Fields) -> OutputFormat | None:
    form = text.optional_fields("format")
    if form is None:
        return None
    form.demand("type")
    kind = form.choice("type", ("text", "json_object", "json_schema")) or "text"
    if kind != "json_schema":
        return OutputFormat(kind=OutputKind.JSON if kind == "json_object" else OutputKind.TEXT, extras=form.rest(NAME))
    return OutputFormat(
        kind=OutputKind.SCHEMA,
        schema=form.object("schema"),
        name=form.name("name") if "name" in form.value else None,
        description=form.optional_text("description"),
        strict=form.optional_flag("strict"),
        extras=form.rest(NAME),
    )


def encode_native_tools(tools: tuple[ToolSpec, ...]) -> JsonList:
    """The tools in the client's form. Members of functions are present even if null."""
    written: JsonList = []
    group: tuple[Namespace, JsonList] | None = None
    for tool in tools:
        namespace = tool.namespace if isinstance(tool, FunctionTool | TextTool) else None
        one = _native_tool(tool)
        if namespace is None:
            group = None
            written.append(one)
            continue
        beyond = one.pop(_NAMESPACE_REST, None)
        if group is None or group[0] != namespace or isinstance(beyond, dict):
            group = (namespace, [])
            members = present({"type": "namespace", "name": namespace.name, "description": namespace.description})
            members["tools"] = group[1]
            written.append({**members, **beyond} if isinstance(beyond, dict) else members)
        group[1].append(one)
    return written


def _native_tool(tool: ToolSpec) -> JsonObject:
    if isinstance(tool, ForeignTool):
        return tool.body
    extras = tool.extras.fields if tool.extras is not None else {}
    if "type" in extras:
        return dict(extras)
    match tool:
        case FunctionTool():
            written = _native_function(tool)
        case TextTool():
            return _native_custom(tool, extras)
        case WebSearchTool() | WebFetchTool():
            return _native_search(tool, extras)
        case CodeTool():
            return _native_code(tool, extras)
        case McpTool():
            written = encode_mcp(tool)
        case ToolSearchTool():
            written = {"type": "tool_search"}
    return {**written, **extras}


def _native_function(tool: FunctionTool) -> JsonObject:
    written: JsonObject = {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": tool.strict,
    }
    return _with_options(written, tool)


def _native_custom(tool: TextTool, extras: JsonObject) -> JsonObject:
    written = present({"type": "custom", "name": tool.name, "description": tool.description})
    beyond = extras.get("format")
    form: JsonObject = {} if tool.definition is None else grammar(tool)
    form |= beyond if isinstance(beyond, dict) else {}
    written = {**_with_options(written, tool), **extras}
    return {**written, "format": form} if form else written


def grammar(tool: TextTool) -> JsonObject:
    return {"type": "grammar", "syntax": tool.syntax or "lark", "definition": tool.definition}


def _with_options(written: JsonObject, tool: FunctionTool | TextTool) -> JsonObject:
    if tool.deferred is not None:
        written["defer_loading"] = tool.deferred
    if tool.callers is not None:
        written["allowed_callers"] = list(tool.callers)
    return written


def _native_search(tool: WebSearchTool | WebFetchTool, extras: JsonObject) -> JsonObject:
    written: JsonObject = {"type": "web_search"}
    beyond = extras.get("filters")
    filters: JsonObject = dict(beyond) if isinstance(beyond, dict) else {}
    if tool.allowed_domains is not None:
        filters = {"allowed_domains": list(tool.allowed_domains), **filters}
    if isinstance(tool, WebSearchTool):
        written |= present({"user_location": tool.location, "search_context_size": tool.context_size})
    written |= extras
    if filters or isinstance(beyond, dict):
        written["filters"] = filters
    return written


def _native_code(tool: CodeTool, extras: JsonObject) -> JsonObject:
    container: JsonValue = tool.container
    if container is None:
        beyond = extras.get("container")
        container = {"type": "auto", **(beyond if isinstance(beyond, dict) else {})}
        if tool.file_ids:
            container["file_ids"] = list(tool.file_ids)
    return {"type": "code_interpreter", **extras, "container": container}


def encode_mcp(tool: McpTool) -> JsonObject:
    """A tool server, without members that only its own protocol has."""
    members: JsonObject = {
        "type": "mcp",
        "server_label": tool.label,
        "server_url": tool.url,
        "authorization": tool.authorization,
        "headers": tool.headers,
        "allowed_tools": list(tool.allowed_tools) if tool.allowed_tools is not None else None,
        "require_approval": tool.approval,
        "defer_loading": tool.deferred,
    }
    return present(members)


_MODE_NAMES = {mode: word for word, mode in _MODES.items()}


def encode_native_choice(choice: ToolChoice) -> JsonValue:
    word = _MODE_NAMES.get(choice.mode)
    if word is not None:
        return word
    extras = choice.extras.fields if choice.extras is not None else {}
    if choice.mode is ChoiceMode.ALLOWED:
        return {
            "type": "allowed_tools",
            "mode": "required" if choice.required else "auto",
            "tools": [_native_ref(ref) for ref in choice.allowed],
            **extras,
        }
    return {**_native_ref(choice.tool), **extras} if choice.tool is not None else "auto"


def _native_ref(ref: ToolRef) -> JsonObject:
    if ref.native is not None:
        return ref.native
    return present({"type": ref.kind, "name": ref.name, "namespace": ref.namespace})


def encode_format(output: OutputFormat) -> JsonObject:
    extras = output.extras.fields if output.extras is not None and output.extras.origin == NAME else {}
    if output.kind is not OutputKind.SCHEMA:
        return {"type": "json_object" if output.kind is OutputKind.JSON else "text", **extras}
    members: JsonObject = {
        "type": "json_schema",
        "name": output.name,
        "description": output.description,
        "schema": output.schema,
        "strict": output.strict,
    }
    return {**present(members), **extras}
