"""The tools of an agent: a few that every coding agent has, and those of the servers it is connected to."""

from __future__ import annotations

from random import Random

from msgspec import Struct

from bench import prose
from dragoman.model.jsonvalue import JsonList, JsonObject


class Tool(Struct, frozen=True, kw_only=True):
    """A tool as every protocol can declare it."""

    name: str
    description: str
    parameters: JsonObject


# name: (required members, optional members); a member is `name:kind`, the kinds are below.
_OWN: dict[str, tuple[str, str]] = {
    "read_file": ("file_path:path", "offset:count limit:count"),
    "write_file": ("file_path:path content:text", ""),
    "edit_file": ("file_path:path old_string:text new_string:text", "replace_all:flag"),
    "find_files": ("pattern:text", "path:path"),
    "search_files": ("pattern:text", "path:path glob:text mode:mode context:count ignore_case:flag limit:count"),
    "run_command": ("command:text", "description:text timeout:duration background:flag"),
    "fetch_page": ("url:url prompt:text", ""),
    "update_plan": ("steps:steps", ""),
    "start_task": ("description:text prompt:text kind:text", "budget:duration"),
    "ask_user": ("question:text options:names", "several:flag"),
}
# A connected server: the things it knows; each has the five verbs below.
_SERVERS: dict[str, tuple[str, ...]] = {
    "tracker": ("issue", "milestone"),
    "forge": ("pull_request", "release"),
    "calendar": ("appointment",),
    "documents": ("page",),
    "shop": ("order", "customer"),
    "fleet": ("vehicle", "trip"),
}
_VERBS: dict[str, tuple[str, str]] = {
    "create": ("title:text project:text", "body:text labels:names assignees:names priority:mode due:text links:steps"),
    "update": ("id:text", "title:text body:text labels:names priority:mode state:mode due:text weight:share"),
    "search": ("query:text", "project:text labels:names state:mode since:text limit:count page:count score:share"),
    "get": ("id:text", "include:names depth:count"),
    "comment_on": ("id:text body:text", "reply_to:text notify:flag attachments:steps"),
}
_KINDS: dict[str, JsonObject] = {
    "path": {"type": "string", "minLength": 1},
    "text": {"type": "string"},
    "url": {"type": "string", "format": "uri"},
    "count": {"type": "integer", "minimum": 0, "maximum": 10000},
    "duration": {"type": "number", "exclusiveMinimum": 0, "maximum": 600000, "default": 120000},
    "share": {"type": "number", "minimum": 0.0, "maximum": 1.0, "multipleOf": 0.05},
    "flag": {"type": "boolean", "default": False},
    "mode": {"type": "string", "enum": ["content", "files", "count", "open", "closed", "all"]},
    "names": {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 20, "uniqueItems": True},
    "steps": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "content": {"type": "string", "minLength": 1, "description": "What is to be done, as an order"},
                "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]},
                "parent": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "The step it belongs to"},
            },
            "required": ["content", "status"],
            "additionalProperties": False,
        },
    },
}


def tools(random: Random, count: int, description: int) -> tuple[Tool, ...]:
    """The first `count` tools, each described in about `description` characters."""
    members = dict(_OWN)
    for server, things in _SERVERS.items():
        for thing in things:
            members.update({f"mcp__{server}__{verb}_{thing}": needs for verb, needs in _VERBS.items()})
    return tuple(
        Tool(
            name=name,
            description=prose.sentences(random, random.randint(description // 2, description * 3 // 2)),
            parameters=_parameters(random, required, optional),
        )
        for name, (required, optional) in list(members.items())[:count]
    )


def _parameters(random: Random, required: str, optional: str) -> JsonObject:
    properties: JsonObject = {}
    for member in (required + " " + optional).split():
        name, kind = member.split(":")
        properties[name] = {"description": prose.sentences(random, random.randint(30, 140)), **_KINDS[kind]}
    names: JsonList = [member.split(":")[0] for member in required.split()]
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": properties,
        "required": names,
        "additionalProperties": False,
    }
