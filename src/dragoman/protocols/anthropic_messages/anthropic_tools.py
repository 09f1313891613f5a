"""Anthropic's client tools as functions with documented parameters. A declaration has only a dated type, whose schema
other vendors' models do not know (mapping.md §7). Sources: the tool-use pages of https://platform.claude.com/docs and
the input types of the official SDK."""

from __future__ import annotations

from msgspec import Struct

from dragoman.model.jsonvalue import JsonObject, JsonValue


class Schema(Struct, frozen=True):
    """A description and its parameters. The first `required` parameters are mandatory."""

    description: str
    properties: JsonObject = {}
    required: int = 0

    def parameters(self) -> JsonObject:
        schema: JsonObject = {"type": "object", "properties": self.properties}
        if self.required:
            schema["required"] = [*list(self.properties)[: self.required]]
        return schema


def _string(description: str = "") -> JsonObject:
    return {"type": "string", "description": description} if description else {"type": "string"}


def _integer(description: str = "") -> JsonObject:
    return {"type": "integer", "description": description} if description else {"type": "integer"}


def _enum(*allowed: str) -> JsonObject:
    return {"type": "string", "enum": list(allowed)}


_POINT: JsonObject = {"type": "array", "items": {"type": "integer"}, "description": "x and y in pixels"}
_REGION: JsonObject = {"type": "array", "items": {"type": "integer"}, "description": "x0, y0, x1 and y1 in pixels"}
_RANGE: JsonObject = {
    "type": "array",
    "items": {"type": "integer"},
    "description": "first and last line, from 1; -1 is the end",
}
_DIRECTION = _enum("up", "down", "left", "right")

BASH = Schema(
    "Runs a command in a bash session that keeps its state between calls.",
    {
        "command": _string("the command to run"),
        "restart": {"type": "boolean", "description": "true restarts the session"},
    },
)

_EDIT: JsonObject = {
    "path": _string("absolute path of a file or directory"),
    "file_text": _string("for create: the content of the new file"),
    "view_range": _RANGE,
    "old_str": _string("for str_replace: the text to replace, exactly once in the file"),
    "new_str": _string("for str_replace: the text that replaces it"),
    "insert_line": _integer("for insert: the line after which to insert, 0 for the beginning"),
    "insert_text": _string("for insert: the text to insert"),
}
EDITOR = Schema(
    "Views, creates and edits files.", {"command": _enum("view", "create", "str_replace", "insert"), **_EDIT}, 2
)
EDITOR_WITH_UNDO = Schema(
    "Views, creates and edits files.",
    {"command": _enum("view", "create", "str_replace", "insert", "undo_edit"), **_EDIT},
    2,
)
MEMORY = Schema(
    "Stores and retrieves notes in files under /memories.",
    {
        "command": _enum("view", "create", "str_replace", "insert", "delete", "rename"),
        **_EDIT,
        "old_path": _string("for rename: the present path"),
        "new_path": _string("for rename: the new path"),
    },
    1,
)
COMPUTER = Schema(
    "Controls a computer's screen, mouse and keyboard.",
    {
        "action": _enum(
            *("key", "type", "mouse_move", "left_click", "left_click_drag", "right_click", "middle_click"),
            *("double_click", "triple_click", "left_mouse_down", "left_mouse_up", "scroll", "hold_key", "wait"),
            *("screenshot", "cursor_position", "zoom"),
        ),
        "coordinate": _POINT,
        "start_coordinate": _POINT,
        "region": _REGION,
        "text": _string("text to type, a key combination such as ctrl+s, or modifiers held during a click"),
        "duration": _integer("seconds to wait or to hold a key"),
        "scroll_direction": _DIRECTION,
        "scroll_amount": _integer("clicks of the wheel"),
    },
    1,
)

# Declarations by the prefix of their dated type, the most specific first.
SINGLE: tuple[tuple[str, Schema], ...] = (
    ("bash_20", BASH),
    ("text_editor_202410", EDITOR_WITH_UNDO),
    ("text_editor_20250124", EDITOR_WITH_UNDO),
    ("text_editor_20", EDITOR),
    ("memory_20", MEMORY),
    ("computer_20", COMPUTER),
)

_KEYS = _string('a key or key combination such as "Return" or "ctrl+s"')
_CLICK: JsonObject = {"coordinate": _POINT, "text": _string("modifier keys held during the click")}

_COMPUTER_SET: dict[str, Schema] = {
    "cursor_position": Schema("Gets the pixel coordinate of the cursor."),
    "double_click": Schema("Double-clicks the left button at the coordinate, or where the cursor is.", _CLICK),
    "hold_key": Schema("Holds a key for some seconds.", {"text": _KEYS, "duration": _integer("seconds")}, 2),
    "key": Schema("Presses a key or key combination.", {"text": _KEYS, "repeat": _integer("how often")}, 1),
    "left_click": Schema("Clicks the left button at the coordinate, or where the cursor is.", _CLICK),
    "left_click_drag": Schema(
        "Drags from one coordinate to another.",
        {"start_coordinate": _POINT, "coordinate": _POINT, "text": _string("modifier keys held")},
        2,
    ),
    "left_mouse_down": Schema("Presses the left button and holds it."),
    "left_mouse_up": Schema("Releases the left button."),
    "middle_click": Schema("Clicks the middle button at the coordinate, or where the cursor is.", _CLICK),
    "mouse_move": Schema("Moves the cursor without clicking.", {"coordinate": _POINT}, 1),
    "right_click": Schema("Clicks the right button at the coordinate, or where the cursor is.", _CLICK),
    "screenshot": Schema("Takes a screenshot."),
    "scroll": Schema(
        "Scrolls at the coordinate, or where the cursor is.",
        {"scroll_direction": _DIRECTION, "scroll_amount": _integer("clicks of the wheel"), **_CLICK},
        2,
    ),
    "triple_click": Schema("Triple-clicks the left button at the coordinate, or where the cursor is.", _CLICK),
    "type": Schema("Types text on the keyboard.", {"text": _string("the text to type")}, 1),
    "wait": Schema("Waits for some seconds.", {"duration": _integer("seconds")}, 1),
    "zoom": Schema("Takes a screenshot of a region, scaled up.", {"region": _REGION}, 1),
}

_TAB: JsonObject = {"tab_id": _string("the tab; the active one if absent")}
_NUMBER: JsonObject = {"type": "number", "description": "seconds"}
_COORDINATE: JsonObject = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "const": "coordinate"},
        "x": {"type": "integer"},
        "y": {"type": "integer"},
    },
    "required": ["type", "x", "y"],
}
_REFERENCE: JsonObject = {
    "type": "object",
    "properties": {"type": {"type": "string", "const": "ref"}, "ref": {"type": "string"}},
    "required": ["type", "ref"],
}
_EITHER: JsonObject = {"anyOf": [_COORDINATE, _REFERENCE]}
_AT: JsonObject = {"target": _EITHER, **_TAB}
_AT_POINT: JsonObject = {"target": _COORDINATE, **_TAB}
_CLICK_AT: JsonObject = {"target": _EITHER, "modifiers": _string("modifier keys held during the click"), **_TAB}

_BROWSER_SET: dict[str, Schema] = {
    "close_tab": Schema("Closes a tab.", {"tab_id": _string()}, 1),
    "double_click": Schema("Double-clicks a target.", _CLICK_AT, 1),
    "file_upload": Schema(
        "Sets a file input to one or more files.",
        {
            "target": _REFERENCE,
            "paths": {"type": "array", "items": {"type": "string"}},
            "document_ids": {"type": "array", "items": {"type": "string"}},
            **_TAB,
        },
        1,
    ),
    "find": Schema("Finds elements by a description in words.", {"query": _string(), **_TAB}, 1),
    "form_input": Schema(
        "Sets the value of a form element.",
        {"target": _REFERENCE, "value": {"type": ["string", "number", "boolean"]}, **_TAB},
        2,
    ),
    "get_page_text": Schema("Returns the visible text of the page.", _TAB),
    "hold_key": Schema("Holds a key for some seconds.", {"text": _KEYS, "duration": _NUMBER, **_TAB}, 2),
    "hover": Schema("Moves the pointer over a target.", _AT, 1),
    "javascript_exec": Schema(
        "Runs JavaScript in the page and returns the last expression.", {"text": _string("the code"), **_TAB}, 1
    ),
    "key": Schema("Presses a key or key combination.", {"text": _KEYS, "repeat": _integer("how often"), **_TAB}, 1),
    "left_click": Schema("Clicks a target.", _CLICK_AT, 1),
    "left_click_drag": Schema(
        "Drags from one coordinate to another.", {"from": _COORDINATE, "target": _COORDINATE, **_TAB}, 2
    ),
    "left_mouse_down": Schema("Presses the left button and holds it.", _AT_POINT, 1),
    "left_mouse_up": Schema("Releases the left button.", _AT_POINT, 1),
    "list_tabs": Schema("Lists the open tabs."),
    "middle_click": Schema("Clicks a target with the middle button.", _CLICK_AT, 1),
    "mouse_move": Schema("Moves the pointer.", _AT_POINT, 1),
    "navigate": Schema("Goes to an address, back or forward.", {"url": _string(), **_TAB}, 1),
    "new_tab": Schema("Opens a tab."),
    "read_console": Schema("Returns new console output of a tab.", _TAB),
    "read_network": Schema("Returns new network requests of a tab.", _TAB),
    "read_page": Schema(
        "Returns the accessibility tree of the page, with references to its elements.",
        {"filter": _enum("all", "interactive"), "depth": _integer(), "ref": _string("root of the subtree"), **_TAB},
    ),
    "right_click": Schema("Clicks a target with the right button.", _CLICK_AT, 1),
    "screenshot": Schema("Captures the viewport.", _TAB),
    "scroll": Schema(
        "Scrolls at a coordinate.",
        {"scroll_direction": _DIRECTION, "target": _COORDINATE, "scroll_amount": _integer(), **_TAB},
        2,
    ),
    "scroll_to": Schema("Scrolls an element into view.", {"target": _REFERENCE, **_TAB}, 1),
    "switch_tab": Schema("Makes a tab the active one.", {"tab_id": _string()}, 1),
    "triple_click": Schema("Triple-clicks a target.", _CLICK_AT, 1),
    "type": Schema("Types text where the focus is.", {"text": _string("the text to type"), **_TAB}, 1),
    "wait": Schema("Waits for some seconds.", {"duration": _NUMBER, **_TAB}, 1),
    "zoom": Schema("Captures a region of the viewport, scaled up.", {"region": _REGION, **_TAB}, 1),
}

# Toolsets by the prefix of their dated type: the name in calls, and the members.
TOOLSETS: tuple[tuple[str, str, dict[str, Schema]], ...] = (
    ("computer_toolset_20", "computer", _COMPUTER_SET),
    ("browser_toolset_20", "browser", _BROWSER_SET),
)

# Limited, because a short declaration expands to a long description. Real requests have fewer.
MAX_DESCRIBED = 16
_BEGINNINGS = (*(beginning for beginning, _ in SINGLE), *(beginning for beginning, _, _ in TOOLSETS))


def is_defined(kind: JsonValue) -> bool:
    """Whether a declaration has a type whose schema only Anthropic's models know."""
    return isinstance(kind, str) and kind.startswith(_BEGINNINGS)
