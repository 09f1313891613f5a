"""Decodes tools and tool choice: function, custom and legacy tools, nested and flat (mapping.md §7, §8)."""

from __future__ import annotations

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonObject, JsonValue, present
from dragoman.model.parts import Extras
from dragoman.model.tools import (
    ChoiceMode,
    ForeignTool,
    FunctionTool,
    TextTool,
    ToolChoice,
    ToolRef,
    ToolSpec,
    WebSearchTool,
)
from dragoman.protocols.openai_chat.parts import decode_cache, unmodelled
from dragoman.protocols.openai_chat.shapes import NAME
from dragoman.wire.fields import Fields, Path, render_path
from dragoman.wire.json import kind_of


def decode_tool(value: JsonValue, path: Path, index: int) -> ToolSpec:
    """One declaration of the list at `path`. A flat one, as in Responses, is accepted, too."""
    if type(value) is not dict:
        raise WireError(render_path((path, index)), "object", kind_of(value))
    plain = plain_function(value)
    return plain if plain is not None else read_tool(Fields(value, (path, index)))


_FUNCTION = frozenset({"name", "description", "parameters", "strict"})


def plain_function(tool: JsonObject) -> FunctionTool | None:
    """A nested function with the usual members, decoded like in `read_tool`; None for any other."""
    function = tool.get("function")
    if len(tool) != 2 or tool.get("type") != "function" or type(function) is not dict:
        return None
    get = function.get
    name, description, parameters, strict = get("name"), get("description"), get("parameters"), get("strict")
    if (
        type(name) is str
        and name
        and (type(description) is str or description is None)
        and (type(parameters) is dict or parameters is None)
        and (strict is None or type(strict) is bool)
        and function.keys() <= _FUNCTION
    ):
        return FunctionTool(name=name, description=description, parameters=parameters, strict=strict)
    return None


def read_tool(tool: Fields) -> ToolSpec:
    kind = tool.kind()
    if kind is None:
        kind = "custom" if "custom" in tool.value else "function"
    elif kind == "custom" and "input_schema" in tool.value:
        # A function in the form of Messages, which some agents send (`messages`).
        kind = "function"
    if kind == "function":
        return _decode_function(tool)
    if kind == "custom":
        return _decode_custom(tool)
    name = tool.value.get("name")
    return ForeignTool(origin=NAME, kind=kind, body=tool.value, name=name if isinstance(name, str) else None)


def _inside(tool: Fields, key: str) -> Fields:
    """The object with the declaration's members: the nested one, or the declaration itself."""
    return tool.fields(key) if tool.value.get(key) is not None else tool


def _rest(tool: Fields, inner: Fields, key: str) -> Extras | None:
    outer = unmodelled(tool)
    nested = unmodelled(inner) if inner is not tool else None
    if nested is None:
        return outer
    fields: JsonObject = {key: nested.fields}
    return Extras(origin=NAME, fields={**outer.fields, **fields} if outer is not None else fields)


def _decode_function(tool: Fields) -> FunctionTool:
    function = _inside(tool, "function")
    function.demand("input_schema")
    return FunctionTool(
        name=function.name("name"),
        description=function.optional_text("description"),
        parameters=function.optional_object("input_schema" if "input_schema" in function.value else "parameters"),
        strict=function.optional_flag("strict"),
        cache=decode_cache(tool),
        extras=_rest(tool, function, "function"),
    )


def _decode_custom(tool: Fields) -> TextTool:
    custom = _inside(tool, "custom")
    syntax: str | None = None
    definition: str | None = None
    form = custom.optional_fields("format")
    if form is not None:
        form.demand("type")
        if form.choice("type", ("text", "grammar")) == "grammar":
            grammar = _inside(form, "grammar")
            syntax, definition = grammar.name("syntax"), grammar.text("definition")
    return TextTool(
        name=custom.name("name"),
        description=custom.optional_text("description"),
        syntax=syntax,
        definition=definition,
        extras=_rest(tool, custom, "custom"),
    )


def decode_legacy_function(function: Fields) -> FunctionTool:
    return FunctionTool(
        name=function.name("name"),
        description=function.optional_text("description"),
        parameters=function.optional_object("parameters"),
        strict=function.optional_flag("strict"),
        extras=unmodelled(function),
    )


def decode_search(options: Fields) -> WebSearchTool:
    """`web_search_options`: the hosted search, whose location is nested one level deeper than elsewhere."""
    location = options.optional_fields("user_location")
    place: JsonObject | None = None
    if location is not None:
        location.demand("type")
        location.choice("type", ("approximate",))
        approximate = location.fields("approximate")
        for key in ("city", "region", "country", "timezone"):
            approximate.optional_text(key)
        place = {"type": location.optional_text("type") or "approximate", **approximate.value}
    return WebSearchTool(
        context_size=options.optional_text("search_context_size"), location=place, extras=unmodelled(options)
    )


_MODES = {"auto": ChoiceMode.AUTO, "none": ChoiceMode.NONE, "required": ChoiceMode.REQUIRED}
MODE_NAMES = {mode: word for word, mode in _MODES.items()}


def decode_choice(request: Fields) -> ToolChoice | None:
    value = request.raw("tool_choice")
    if value is None:
        return None
    if isinstance(value, str):
        mode = _MODES.get("required" if value == "any" else value)
        if mode is None:
            raise request.wrong("tool_choice", "'none', 'auto' or 'required'", repr(value))
        return ToolChoice(mode=mode)
    choice = request.fields("tool_choice")
    kind = choice.kind() or next((key for key in ("function", "custom") if key in choice.value), "")
    if kind in ("function", "custom"):
        tool = _decode_ref(choice, kind)
        return ToolChoice(mode=ChoiceMode.NAMED, tool=tool, extras=unmodelled(choice))
    if kind == "allowed_tools":
        choice.demand("allowed_tools")
        allowed = _inside(choice, "allowed_tools")
        allowed.demand("mode", "tools")
        required = allowed.choice("mode", ("auto", "required")) == "required"
        refs = tuple(_decode_ref(ref, ref.kind() or "function") for ref in allowed.each("tools"))
        return ToolChoice(
            mode=ChoiceMode.ALLOWED, allowed=refs, required=required, extras=_rest(choice, allowed, "allowed_tools")
        )
    choice.skip("disable_parallel_tool_use")
    if kind == "tool":
        tool = ToolRef(kind="function", name=choice.text("name"))
        return ToolChoice(mode=ChoiceMode.NAMED, tool=tool, extras=unmodelled(choice))
    if kind in _MODES or kind == "any":
        return ToolChoice(mode=_MODES.get(kind, ChoiceMode.REQUIRED), extras=unmodelled(choice))
    return ToolChoice(mode=ChoiceMode.HOSTED, tool=ToolRef(kind=kind, native=choice.value))


def decode_parallel(request: Fields) -> bool | None:
    """`parallel_tool_calls`, or its counterpart in a tool choice of Messages."""
    flag = request.optional_flag("parallel_tool_calls")
    choice = request.value.get("tool_choice")
    if flag is None and isinstance(choice, dict) and choice.get("disable_parallel_tool_use") is True:
        return False
    return flag


def _decode_ref(ref: Fields, kind: str) -> ToolRef:
    if kind not in ("function", "custom"):
        name = ref.value.get("name")
        return ToolRef(kind=kind, name=name if isinstance(name, str) else None, native=ref.value)
    return ToolRef(kind=kind, name=_inside(ref, kind).name("name"))


def decode_legacy_choice(request: Fields) -> ToolChoice | None:
    """`function_call` of a request: a string, or an object with a name."""
    value = request.raw("function_call")
    if value is None:
        return None
    if isinstance(value, str):
        if value not in ("auto", "none"):
            raise request.wrong("function_call", "'none' or 'auto'", repr(value))
        return ToolChoice(mode=_MODES[value])
    return ToolChoice(
        mode=ChoiceMode.NAMED, tool=ToolRef(kind="function", name=request.fields("function_call").name("name"))
    )


def write_custom(tool: TextTool, name: str) -> JsonObject:
    written = present({"name": name, "description": tool.description})
    if tool.syntax is not None:
        written["format"] = {"type": "grammar", "grammar": {"syntax": tool.syntax, "definition": tool.definition or ""}}
    return written


def write_search(tool: WebSearchTool) -> JsonObject:
    """`web_search_options` without members that only its own protocol has."""
    written = present({"search_context_size": tool.context_size})
    if tool.location is not None:
        place: JsonObject = {key: value for key, value in tool.location.items() if key != "type" and value is not None}
        written["user_location"] = {"type": "approximate", "approximate": place}
    return written
