"""OpenAI's client tools as functions with documented parameters: local_shell, shell, apply_patch, computer and
tool_search (§7). Their calls and outputs have item types of their own, which the table converts."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue, present
from dragoman.model.parts import Extras, FileRef, Image, Inline, InputForm, Part, Text, ToolCall, ToolResult, Url
from dragoman.model.request import Request
from dragoman.model.tools import FunctionTool
from dragoman.protocols.openai_responses.shapes import COMPLETED, FAILED, FILE_ISSUER, IN_PROGRESS, INCOMPLETE, NAME
from dragoman.wire.fields import Fields
from dragoman.wire.json import decode, encode_text
from dragoman.wire.media import BadDataUrl, parse_data_url

_STRING: JsonObject = {"type": "string"}
_STRINGS: JsonObject = {"type": "array", "items": {"type": "string"}}
_COUNT: JsonObject = {"type": "integer"}


class NativeTool(Struct, frozen=True, kw_only=True):
    """One vendor tool: its name as a function, its parameters, and its item types."""

    name: str
    description: str
    parameters: JsonObject
    call: str
    # Converts the members of a call item to arguments, and back: None if the arguments do not fit.
    arguments: Callable[[Fields], JsonObject]
    body: Callable[[JsonObject], JsonObject | None]


def _schema(properties: JsonObject, required: list[JsonValue]) -> JsonObject:
    return {"type": "object", "properties": properties, "required": required}


def _all_strings(value: JsonValue) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _local_shell_arguments(item: Fields) -> JsonObject:
    action = present({**item.object("action"), "type": None})
    if not action.get("env"):
        action.pop("env", None)
    return action


def _local_shell_body(arguments: JsonObject) -> JsonObject | None:
    if not _all_strings(arguments.get("command")):
        return None
    return {"action": {"type": "exec", "env": {}, **present({**arguments, "type": None})}}


def _shell_body(arguments: JsonObject) -> JsonObject | None:
    if not _all_strings(arguments.get("commands")):
        return None
    return {"action": {"timeout_ms": None, "max_output_length": None, **arguments}}


def _patch_body(arguments: JsonObject) -> JsonObject | None:
    kind, path, diff = arguments.get("type"), arguments.get("path"), arguments.get("diff")
    if kind not in ("create_file", "update_file", "delete_file") or not isinstance(path, str):
        return None
    if kind == "delete_file":
        return {"operation": {"type": kind, "path": path}}
    return {"operation": {"type": kind, "path": path, "diff": diff}} if isinstance(diff, str) else None


def _computer_arguments(item: Fields) -> JsonObject:
    actions = item.optional_list("actions")
    if actions is None:
        action = item.optional_object("action")
        actions = [] if action is None else [action]
    return {"actions": actions}


def _computer_body(arguments: JsonObject) -> JsonObject | None:
    actions = arguments.get("actions")
    if not isinstance(actions, list) or not actions or not all(isinstance(one, dict) for one in actions):
        return None
    return {"actions": actions, "pending_safety_checks": []}


def _search_arguments(item: Fields) -> JsonObject:
    arguments = item.raw("arguments")
    return arguments if isinstance(arguments, dict) else {}


LOCAL_SHELL = NativeTool(
    name="local_shell",
    description="Runs a command in a shell on the user's machine.",
    parameters=_schema({"command": _STRINGS, "timeout_ms": _COUNT, "working_directory": _STRING}, ["command"]),
    call="local_shell_call",
    arguments=_local_shell_arguments,
    body=_local_shell_body,
)
SHELL = NativeTool(
    name="shell",
    description="Runs shell commands on the user's machine and gives their output.",
    parameters=_schema({"commands": _STRINGS, "timeout_ms": _COUNT, "max_output_length": _COUNT}, ["commands"]),
    call="shell_call",
    arguments=lambda item: present(item.object("action")),
    body=_shell_body,
)
APPLY_PATCH = NativeTool(
    name="apply_patch",
    description="Creates, updates or deletes one file; `diff` is in the V4A format, and is left out to delete a file.",
    parameters=_schema(
        {
            "type": {"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
            "path": _STRING,
            "diff": _STRING,
        },
        ["type", "path"],
    ),
    call="apply_patch_call",
    arguments=lambda item: present(item.object("operation")),
    body=_patch_body,
)
COMPUTER = NativeTool(
    name="computer",
    description=(
        "Operates a computer by actions in order. Each has a `type`: click {button, x, y}, double_click {x, y}, "
        "drag {path}, keypress {keys}, move {x, y}, screenshot, scroll {x, y, scroll_x, scroll_y}, type {text} or wait."
    ),
    parameters=_schema(
        {
            "actions": {
                "type": "array",
                "items": {"type": "object", "properties": {"type": _STRING}, "required": ["type"]},
            }
        },
        ["actions"],
    ),
    call="computer_call",
    arguments=_computer_arguments,
    body=_computer_body,
)
# Clients that search themselves describe the tool. This description serves other clients.
TOOL_SEARCH = NativeTool(
    name="tool_search",
    description="Searches for tools; those that are found can be called from then on.",
    parameters=_schema({"query": _STRING}, ["query"]),
    call="tool_search_call",
    arguments=_search_arguments,
    body=lambda arguments: {"execution": "client", "arguments": arguments},
)

_BY_TYPE = {
    "local_shell": LOCAL_SHELL,
    "shell": SHELL,
    "apply_patch": APPLY_PATCH,
    "computer": COMPUTER,
    "computer_use_preview": COMPUTER,
    "tool_search": TOOL_SEARCH,
}
_BY_CALL = {tool.call: tool for tool in (LOCAL_SHELL, SHELL, APPLY_PATCH, COMPUTER, TOOL_SEARCH)}
CALL_TYPES = frozenset(_BY_CALL)


def tool_of(kind: str) -> NativeTool | None:
    """The vendor tool of a choice's type. For tool search the declaration states who runs it."""
    return _BY_TYPE.get(kind) if kind != TOOL_SEARCH.name else None


def decode_declaration(tool: JsonObject, kind: str) -> FunctionTool | None:
    """A declaration as a function; None if it is no vendor tool, or one that the provider runs."""
    native = _BY_TYPE.get(kind)
    if native is None or (kind in _EITHER and _is_hosted(tool, kind)):
        return None
    description, parameters = native.description, native.parameters
    if native is TOOL_SEARCH:
        own_description, schema = tool.get("description"), tool.get("parameters")
        description = own_description if isinstance(own_description, str) else description
        parameters = schema if isinstance(schema, dict) else parameters
    return FunctionTool(
        name=native.name, description=description, parameters=parameters, extras=Extras(origin=NAME, fields=tool)
    )


# Tools that the client or the provider may run, as declared.
_EITHER = frozenset({"shell", "tool_search"})


def _is_hosted(body: JsonObject, kind: str) -> bool:
    if kind.startswith(TOOL_SEARCH.name):
        return body.get("execution") != "client"
    environment = body.get("environment")
    return isinstance(environment, dict) and environment.get("type") not in (None, "local")


def is_hosted(item: JsonObject) -> bool:
    """Whether a shell call ran in the provider's own container, or the provider searched for tools itself."""
    kind = item.get("type")
    return _is_hosted(item, kind if isinstance(kind, str) else "")


def decode_call(item: Fields, kind: str) -> ToolCall:
    native = _BY_CALL[kind]
    return ToolCall(
        call_id=item.optional_text("call_id") or item.optional_text("id") or "",
        name=native.name,
        arguments=encode_text(native.arguments(item)),
        id=item.optional_text("id"),
        extras=Extras(origin=NAME, fields=item.value),
    )


def encode_call(spec: FunctionTool, call: ToolCall, call_id: str) -> JsonObject | None:
    """A model's call as the client's item; None if the arguments do not fit."""
    kind = spec.extras.fields.get("type") if spec.extras is not None else None
    native = _BY_TYPE.get(kind) if isinstance(kind, str) else None
    if native is None or call.form is not InputForm.JSON:
        return None
    try:
        arguments = decode(call.arguments)
    except WireError:
        return None
    body = native.body(arguments) if isinstance(arguments, dict) else None
    if body is None:
        return None
    actions = body.get("actions")
    if kind == "computer_use_preview" and isinstance(actions, list) and len(actions) == 1:
        # The preview tool has one action per call.
        body = {"action": actions[0], "pending_safety_checks": []}
    return {"type": native.call, "call_id": call_id, **body, "status": COMPLETED}


def declared_native(request: Request) -> dict[str, FunctionTool]:
    return {
        tool.name: tool
        for tool in request.tools + request.updates.tools
        if type(tool) is FunctionTool
        and tool.extras is not None
        and tool.extras.origin == NAME
        and "type" in tool.extras.fields
    }


def decode_output(item: Fields, kind: str, call_id: str) -> ToolResult:
    if kind == "apply_patch_call_output":
        item.demand("status")
    return ToolResult(
        call_id=call_id,
        parts=_OUTPUTS[kind](item),
        is_error=item.choice("status", _STATUSES) == FAILED,
        id=item.optional_text("id"),
        extras=Extras(origin=NAME, fields=item.value),
    )


_STATUSES = (COMPLETED, FAILED, IN_PROGRESS, INCOMPLETE)


def _text_output(item: Fields) -> tuple[Part, ...]:
    return (Text(text=item.optional_text("output") or ""),)


def _shell_output(item: Fields) -> tuple[Part, ...]:
    output: JsonList = item.optional_list("output") or []
    return (Text(text=encode_text(output)),)


def _tool_search_output(item: Fields) -> tuple[Part, ...]:
    """The names of the found tools, which are declared with the request (T9)."""
    names: JsonList = []
    for tool in item.each("tools"):
        name = tool.optional_text("name")
        if tool.optional_text("type") == "namespace":
            names += [f"{name}__{member.optional_text('name')}" for member in tool.each("tools")]
        else:
            names.append(name)
    return (Text(text=encode_text({"tools": names})),)


def _screenshot(item: Fields) -> tuple[Part, ...]:
    output = item.fields("output")
    output.demand("type")
    output.choice("type", ("computer_screenshot", "input_image"))
    url, file_id = output.optional_text("image_url"), output.optional_text("file_id")
    if url is None:
        return () if file_id is None else (Image(source=FileRef(issuer=FILE_ISSUER, file_id=file_id)),)
    try:
        parsed = parse_data_url(url)
    except BadDataUrl as error:
        raise output.wrong("image_url", "a URL or a data URL", str(error)) from None
    return (Image(source=Url(url=url) if parsed is None else Inline(media_type=parsed[0], data=parsed[1])),)


_OUTPUTS: dict[str, Callable[[Fields], tuple[Part, ...]]] = {
    "local_shell_call_output": _text_output,
    "shell_call_output": _shell_output,
    "apply_patch_call_output": _text_output,
    "computer_call_output": _screenshot,
    "tool_search_output": _tool_search_output,
}
OUTPUT_TYPES = frozenset(_OUTPUTS)
