"""Tools of a request, and the tool choice."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import CacheBreakpoint, Extras


class Namespace(Struct, frozen=True, kw_only=True):
    """A named group of tools. Two groups may have tools of the same name."""

    name: str
    description: str | None = None


class FunctionTool(Struct, frozen=True, kw_only=True):
    """A tool that the client runs on JSON arguments, including vendor-defined tools (bash, shell, computer …). Their
    `parameters` are the documented ones, and `extras.fields` is the native declaration. Members of a vendor's toolset
    share its name as namespace."""

    name: str
    description: str | None = None
    parameters: JsonObject | None = None
    strict: bool | None = None
    namespace: Namespace | None = None
    examples: tuple[JsonValue, ...] = ()
    deferred: bool | None = None
    callers: tuple[str, ...] | None = None
    cache: CacheBreakpoint | None = None
    extras: Extras | None = None


class TextTool(Struct, frozen=True, kw_only=True):
    """A tool that the client runs on free text. A grammar may restrict the text."""

    name: str
    description: str | None = None
    syntax: str | None = None
    definition: str | None = None
    namespace: Namespace | None = None
    deferred: bool | None = None
    callers: tuple[str, ...] | None = None
    extras: Extras | None = None


class WebSearchTool(Struct, frozen=True, kw_only=True):
    allowed_domains: tuple[str, ...] | None = None
    blocked_domains: tuple[str, ...] | None = None
    location: JsonObject | None = None
    max_uses: int | None = None
    context_size: str | None = None
    cache: CacheBreakpoint | None = None
    extras: Extras | None = None


class WebFetchTool(Struct, frozen=True, kw_only=True):
    allowed_domains: tuple[str, ...] | None = None
    blocked_domains: tuple[str, ...] | None = None
    max_uses: int | None = None
    cache: CacheBreakpoint | None = None
    extras: Extras | None = None


class CodeTool(Struct, frozen=True, kw_only=True):
    """Code execution in a container of the provider. Only its issuer knows the ID `container`."""

    container: str | None = None
    file_ids: tuple[str, ...] = ()
    cache: CacheBreakpoint | None = None
    extras: Extras | None = None


class McpTool(Struct, frozen=True, kw_only=True):
    """A Model Context Protocol server that the provider calls. `approval` is never, always or a finer rule."""

    label: str
    url: str | None = None
    authorization: str | None = None
    headers: JsonObject | None = None
    allowed_tools: tuple[str, ...] | None = None
    approval: str | None = None
    deferred: bool | None = None
    cache: CacheBreakpoint | None = None
    extras: Extras | None = None


class ToolSearchTool(Struct, frozen=True, kw_only=True):
    cache: CacheBreakpoint | None = None
    extras: Extras | None = None


class ForeignTool(Struct, frozen=True, kw_only=True):
    """A tool that only its own protocol has, stored unchanged."""

    origin: str
    kind: str
    body: JsonObject
    name: str | None = None


ToolSpec: TypeAlias = (
    FunctionTool | TextTool | WebSearchTool | WebFetchTool | CodeTool | McpTool | ToolSearchTool | ForeignTool
)


class ChoiceMode(Enum):
    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"
    NAMED = "named"
    ALLOWED = "allowed"
    HOSTED = "hosted"


class ToolRef(Struct, frozen=True, kw_only=True):
    """A tool named in a tool choice. `kind` is function, custom, mcp or a hosted type of its own protocol."""

    kind: str
    name: str | None = None
    namespace: str | None = None
    native: JsonObject | None = None


class ToolChoice(Struct, frozen=True, kw_only=True):
    """NAMED and HOSTED have one `tool`. ALLOWED has a subset, and states whether the model must call one of it."""

    mode: ChoiceMode
    tool: ToolRef | None = None
    allowed: tuple[ToolRef, ...] = ()
    required: bool = False
    extras: Extras | None = None
