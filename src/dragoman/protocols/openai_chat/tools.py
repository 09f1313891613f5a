"""Tools and tool choice, both ways: function, custom and legacy tools, nested and flat (mapping.md §7, §8)."""

from __future__ import annotations

from msgspec import Struct

from dragoman.errors import RefusedError, WireError
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.losses import Ledger, Place, render_place
from dragoman.model.parts import Extras
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
from dragoman.protocols.codec import Target
from dragoman.protocols.openai_chat.parts import decode_cache, encode_cache, merge_extras, unmodelled
from dragoman.protocols.openai_chat.shapes import ANTHROPIC, NAME
from dragoman.rules.extras import drop_extras
from dragoman.rules.schemas import for_openai_strict, with_properties
from dragoman.rules.toolnames import ToolEntry, ToolTable, Wrapped
from dragoman.wire.fields import Fields
from dragoman.wire.json import encode_text


def decode_tool(tool: Fields) -> ToolSpec:
    """One declaration; a flat one, as Responses has it, is taken too."""
    kind = tool.optional_text("type")
    if kind is None:
        kind = "custom" if "custom" in tool.value else "function"
    if kind == "function":
        return _decode_function(tool)
    if kind == "custom":
        return _decode_custom(tool)
    name = tool.value.get("name")
    return ForeignTool(origin=NAME, kind=kind, body=tool.value, name=name if isinstance(name, str) else None)


def _inside(tool: Fields, key: str) -> Fields:
    """The object that holds the declaration's members: the nested one, or the declaration itself."""
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
    return FunctionTool(
        name=function.text("name"),
        description=function.optional_text("description"),
        parameters=function.optional_object("parameters"),
        strict=function.optional_flag("strict"),
        cache=decode_cache(tool),
        extras=_rest(tool, function, "function"),
    )


def _decode_custom(tool: Fields) -> TextTool:
    custom = _inside(tool, "custom")
    syntax: str | None = None
    definition: str | None = None
    form = custom.optional_fields("format")
    if form is not None and form.choice("type", ("text", "grammar")) == "grammar":
        grammar = _inside(form, "grammar")
        syntax, definition = grammar.text("syntax"), grammar.text("definition")
    return TextTool(
        name=custom.text("name"),
        description=custom.optional_text("description"),
        syntax=syntax,
        definition=definition,
        extras=_rest(tool, custom, "custom"),
    )


def decode_legacy_function(function: Fields) -> FunctionTool:
    """One entry of `functions`."""
    return FunctionTool(
        name=function.text("name"),
        description=function.optional_text("description"),
        parameters=function.optional_object("parameters"),
        strict=function.optional_flag("strict"),
        extras=unmodelled(function),
    )


def decode_search(options: Fields) -> WebSearchTool:
    """`web_search_options`: the provider's search, with the place nested one deeper than elsewhere."""
    location = options.optional_fields("user_location")
    place: JsonObject | None = None
    if location is not None:
        place = {"type": location.optional_text("type") or "approximate", **location.object("approximate")}
    return WebSearchTool(
        context_size=options.optional_text("search_context_size"), location=place, extras=unmodelled(options)
    )


_MODES = {"auto": ChoiceMode.AUTO, "none": ChoiceMode.NONE, "required": ChoiceMode.REQUIRED}
_MODE_WORDS = {mode: word for word, mode in _MODES.items()}


def decode_choice(request: Fields) -> ToolChoice | None:
    """`tool_choice` in any of its shapes."""
    value = request.raw("tool_choice")
    if value is None:
        return None
    if isinstance(value, str):
        mode = _MODES.get("required" if value == "any" else value)
        if mode is None:
            raise request.wrong("tool_choice", "'none', 'auto' or 'required'", repr(value))
        return ToolChoice(mode=mode)
    choice = request.fields("tool_choice")
    kind = choice.optional_text("type") or next((key for key in ("function", "custom") if key in choice.value), "")
    if kind in ("function", "custom"):
        tool = _decode_ref(choice, kind)
        return ToolChoice(mode=ChoiceMode.NAMED, tool=tool, extras=unmodelled(choice))
    if kind == "allowed_tools":
        allowed = _inside(choice, "allowed_tools")
        required = allowed.choice("mode", ("auto", "required")) == "required"
        refs = tuple(_decode_ref(ref, ref.optional_text("type") or "function") for ref in allowed.each("tools"))
        return ToolChoice(
            mode=ChoiceMode.ALLOWED, allowed=refs, required=required, extras=_rest(choice, allowed, "allowed_tools")
        )
    if kind in _MODES:
        return ToolChoice(mode=_MODES[kind], extras=unmodelled(choice))
    return ToolChoice(mode=ChoiceMode.HOSTED, tool=ToolRef(kind=kind, native=choice.value))


def _decode_ref(ref: Fields, kind: str) -> ToolRef:
    if kind not in ("function", "custom"):
        name = ref.value.get("name")
        return ToolRef(kind=kind, name=name if isinstance(name, str) else None, native=ref.value)
    return ToolRef(kind=kind, name=_inside(ref, kind).text("name"))


def decode_legacy_choice(request: Fields) -> ToolChoice | None:
    """`function_call` of a request: a word, or an object with a name."""
    value = request.raw("function_call")
    if value is None:
        return None
    if isinstance(value, str):
        if value not in ("auto", "none"):
            raise request.wrong("function_call", "'none' or 'auto'", repr(value))
        return ToolChoice(mode=_MODES[value])
    return ToolChoice(
        mode=ChoiceMode.NAMED, tool=ToolRef(kind="function", name=request.fields("function_call").text("name"))
    )


def encode_tool_home(tool: ToolSpec) -> JsonObject:
    """A declaration as it was said, nested."""
    match tool:
        case FunctionTool():
            written: JsonObject = {"type": "function", "function": _function(tool)}
            encode_cache(tool.cache, written)
        case TextTool():
            written = {"type": "custom", "custom": _custom(tool, tool.name)}
        case ForeignTool():
            return tool.body
        case _:
            raise WireError("/tools", "a tool of this protocol", type(tool).__name__)
    return merge_extras(written, tool.extras)


def encode_legacy_function(tool: FunctionTool) -> JsonObject:
    """An entry of `functions` as it was said."""
    return merge_extras(_function(tool), tool.extras)


def _function(tool: FunctionTool) -> JsonObject:
    written: JsonObject = {"name": tool.name}
    for key, value in (
        ("description", tool.description),
        ("parameters", tool.parameters),
        ("strict", tool.strict),
    ):
        if value is not None:
            written[key] = value
    return written


def _custom(tool: TextTool, name: str) -> JsonObject:
    written: JsonObject = {"name": name}
    if tool.description is not None:
        written["description"] = tool.description
    if tool.syntax is not None:
        written["format"] = {
            "type": "grammar",
            "grammar": {"syntax": tool.syntax, "definition": tool.definition or ""},
        }
    return written


def encode_search_home(tool: WebSearchTool) -> JsonObject:
    """`web_search_options` as it was said."""
    return merge_extras(_search_options(tool), tool.extras)


def _search_options(tool: WebSearchTool) -> JsonObject:
    written: JsonObject = {}
    if tool.context_size is not None:
        written["search_context_size"] = tool.context_size
    if tool.location is not None:
        place: JsonObject = {key: value for key, value in tool.location.items() if key != "type" and value is not None}
        written["user_location"] = {"type": "approximate", "approximate": place}
    return written


def encode_choice_home(choice: ToolChoice) -> JsonValue:
    """`tool_choice` as it was said."""
    if choice.mode in _MODE_WORDS and choice.extras is None:
        return _MODE_WORDS[choice.mode]
    if choice.mode is ChoiceMode.HOSTED and choice.tool is not None:
        return choice.tool.native
    written: JsonObject
    if choice.mode is ChoiceMode.ALLOWED:
        refs: JsonList = [_ref_home(ref) for ref in choice.allowed]
        mode = "required" if choice.required else "auto"
        written = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": refs}}
    elif choice.tool is not None:
        written = _ref_home(choice.tool)
    else:
        written = {"type": _MODE_WORDS[choice.mode]}
    return merge_extras(written, choice.extras)


def _ref_home(ref: ToolRef) -> JsonObject:
    return ref.native if ref.native is not None else {"type": ref.kind, ref.kind: {"name": ref.name}}


class EncodedTools(Struct, kw_only=True):
    """What a request's tools became: declarations, the provider's search, and the table of names."""

    table: ToolTable
    written: JsonList
    search: JsonObject | None = None


class ToolEncoder:
    """Writes another protocol's tools for a provider of this one."""

    def __init__(self, request: Request, target: Target, ledger: Ledger) -> None:
        self._origin = request.origin
        self._target = target
        self._abilities = target.abilities
        self._ledger = ledger
        self._tools = EncodedTools(table=ToolTable(), written=[])
        self._unsaid: tuple[Feature, str, Place] | None = None

    def encode(self, tools: list[tuple[ToolSpec, Place]]) -> EncodedTools:
        """All tools, each with its place in the request."""
        for tool, at in tools:
            match tool:
                case FunctionTool():
                    self._function(tool, at)
                case TextTool():
                    self._custom(tool, at)
                case WebSearchTool():
                    self._search(tool, at)
                case McpTool():
                    raise RefusedError(
                        Feature.MCP.value, render_place(at), f"this provider cannot call the MCP server {tool.label!r}"
                    )
                case WebFetchTool():
                    self._drop(Feature.WEB_FETCH, "web fetch", at)
                case CodeTool():
                    self._drop(Feature.CODE_EXECUTION, "code execution", at)
                case ToolSearchTool():
                    self._drop(Feature.TOOL_SEARCH, "tool search", at)
                case ForeignTool():
                    self._drop(Feature.HOSTED_TOOL, tool.name or tool.kind, at)
        done = self._tools
        if self._unsaid is not None and not done.written and done.search is None:
            feature, name, at = self._unsaid
            raise RefusedError(feature.value, render_place(at), f"no {name} here, and no other tool is left")
        limit = self._abilities.tool_limit
        if limit is not None and len(done.written) > limit:
            raise RefusedError(Feature.FUNCTION_TOOL.value, "tools", f"{len(done.written)} tools are more than {limit}")
        return done

    def _drop(self, feature: Feature, name: str, at: Place) -> None:
        self._unsaid = self._unsaid or (feature, name, at)
        self._ledger.dropped(feature, at, f"this provider has no {name}")

    def _add(self, tool: FunctionTool | TextTool, wrapped: Wrapped, at: Place) -> ToolEntry | None:
        """Enter a tool into the table; None if it was declared before."""
        if not tool.name:
            raise RefusedError(Feature.TOOL_NAME.value, render_place(at), "a tool needs a name")
        if tool.callers is not None and "direct" not in tool.callers:
            raise RefusedError(
                Feature.TOOL_OPTIONS.value, render_place(at), f"{tool.name!r} excludes calls by the model itself"
            )
        before = len(self._tools.table)
        entry = self._tools.table.add(tool, wrapped)
        if len(self._tools.table) == before:
            if entry.spec != tool:
                self._ledger.dropped(Feature.FUNCTION_TOOL, at, f"{tool.name!r} is declared twice; the first counts")
            return None
        ledger = self._ledger
        if tool.callers is not None and tool.callers != ("direct",):
            ledger.dropped(Feature.TOOL_OPTIONS, (*at, "callers"), "only direct calls are known here")
        if tool.deferred:
            ledger.dropped(Feature.TOOL_SEARCH, (*at, "deferred"), "all tools are declared at once")
        if tool.namespace is not None:
            ledger.approximated(Feature.NAMESPACE, (*at, "namespace"), f"declared as {entry.wire!r}")
        if tool.extras is not None and "type" in tool.extras.fields:
            ledger.approximated(Feature.VENDOR_TOOL, at, "declared as a function with its documented parameters")
        else:
            drop_extras(tool.extras, at, ledger)
        return entry

    def _function(self, tool: FunctionTool, at: Place) -> None:
        entry = self._add(tool, Wrapped.NOT, at)
        if entry is None:
            return
        if tool.cache is not None:
            self._ledger.dropped(Feature.CACHE_MARK, (*at, "cache"), "tools carry no cache marks here")
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
        self._tools.written.append({"type": "function", "function": function})

    def _strict(self, function: JsonObject, tool: FunctionTool, at: Place) -> None:
        """Between OpenAI's protocols `true` passes; from Messages only where the schema can be made legal (Z2)."""
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
        native = self._abilities.custom_tools
        entry = self._add(tool, Wrapped.NOT if native else Wrapped.INPUT, at)
        if entry is None:
            return
        if native:
            self._tools.written.append({"type": "custom", "custom": _custom(tool, entry.wire)})
            return
        self._ledger.approximated(Feature.CUSTOM_TOOL, at, "declared as a function with one string `input`")
        function: JsonObject = {"name": entry.wire}
        lines = [tool.description or ""]
        if tool.definition:
            lines.append(f"The input must follow this {tool.syntax} grammar:\n{tool.definition}")
        description = "\n\n".join(line for line in lines if line)
        if description:
            function["description"] = description
        function["parameters"] = {
            "type": "object",
            "properties": {"input": {"type": "string"}},
            "required": ["input"],
        }
        self._tools.written.append({"type": "function", "function": function})

    def _search(self, tool: WebSearchTool, at: Place) -> None:
        if not self._abilities.search_model:
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
        self._tools.search = _search_options(tool)


def encode_choice(choice: ToolChoice, tools: EncodedTools, target: Target, ledger: Ledger) -> JsonValue:
    """`tool_choice` for a provider of this protocol (mapping.md §8)."""
    drop_extras(choice.extras, ("tool_choice",), ledger)
    if not target.abilities.forced_choice and is_forced(choice):
        ledger.approximated(Feature.TOOL_CHOICE, ("tool_choice",), "this model cannot be forced: auto")
        if choice.mode is ChoiceMode.NAMED and choice.tool is not None:
            kept = tools.table.wire(choice.tool.name or "", choice.tool.namespace)
            tools.written[:] = [tool for tool in tools.written if _wire_name(tool) == kept] or tools.written
        return "auto"
    if choice.mode in _MODE_WORDS:
        return _MODE_WORDS[choice.mode]
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
        raise RefusedError(
            Feature.TOOL_CHOICE.value, "tool_choice", f"this provider cannot be made to use {ref.name or ref.kind!r}"
        )
    return written


def is_forced(choice: ToolChoice) -> bool:
    """Whether the model must call something."""
    return choice.mode in (ChoiceMode.REQUIRED, ChoiceMode.NAMED, ChoiceMode.HOSTED) or choice.required


def _encode_ref(ref: ToolRef, tools: EncodedTools, target: Target) -> JsonObject | None:
    table = tools.table
    entry = table.entry(ref.name, ref.namespace) if ref.name else table.entry(ref.kind)
    if entry is None:
        if ref.kind not in ("function", "custom", "tool") or not ref.name:
            return None
        return {"type": "function", "function": {"name": table.wire(ref.name, ref.namespace)}}
    custom = isinstance(entry.spec, TextTool) and target.abilities.custom_tools
    kind = "custom" if custom else "function"
    return {"type": kind, kind: {"name": entry.wire}}


def _wire_name(tool: JsonValue) -> str | None:
    match tool:
        case {"function": {"name": str(name)}} | {"custom": {"name": str(name)}}:
            return name
    return None
