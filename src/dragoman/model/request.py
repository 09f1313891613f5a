"""Request: the canonical form of a client's request."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject, JsonValue, Number
from dragoman.model.parts import CacheBreakpoint, Extras, Part, Seal, Text
from dragoman.model.tools import ToolChoice, ToolSpec


class Role(Enum):
    """The author of a message. Tool results belong to the user's side."""

    # Every message looks up its role, and the default hash of an enum member is a slow call.
    __hash__ = object.__hash__

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    DEVELOPER = "developer"


class Message(Struct, frozen=True, kw_only=True):
    """One unit of the wire: a message, or one item of a Responses input. `turn` is the signed exact form of an
    assistant turn that the protocol could not express in full (mapping.md V1). A `transient` message holds only until
    the next user message."""

    role: Role
    parts: tuple[Part, ...]
    name: str | None = None
    turn: Seal | None = None
    transient: bool = False
    id: str | None = None
    extras: Extras | None = None


class Sampling(Struct, frozen=True, kw_only=True):
    """Sampling parameters, with numbers in their original spelling. `others` are members that only Chat servers
    know."""

    temperature: int | float | Number | None = None
    top_p: int | float | Number | None = None
    top_k: int | None = None
    frequency_penalty: int | float | Number | None = None
    presence_penalty: int | float | Number | None = None
    seed: int | None = None
    logit_bias: JsonObject | None = None
    others: JsonObject | None = None


class ThinkingMode(Enum):
    """The thinking modes of Messages."""

    ADAPTIVE = "adaptive"
    ENABLED = "enabled"
    DISABLED = "disabled"
    BETWEEN_TOOLS = "between_tools"


class Reasoning(Struct, frozen=True, kw_only=True):
    """Depth and display of reasoning. `effort`: none, minimal, low, medium, high, xhigh, max. `display` (summarized,
    omitted, updates) belongs to Messages, `summary` (auto, concise, detailed) to Responses."""

    effort: str | None = None
    budget: int | None = None
    mode: ThinkingMode | None = None
    display: str | None = None
    summary: str | None = None
    extras: Extras | None = None


class OutputKind(Enum):
    TEXT = "text"
    JSON = "json"
    SCHEMA = "schema"


class OutputFormat(Struct, frozen=True, kw_only=True):
    kind: OutputKind
    schema: JsonObject | None = None
    name: str | None = None
    description: str | None = None
    strict: bool | None = None
    extras: Extras | None = None


class CacheOptions(Struct, frozen=True, kw_only=True):
    """Prompt caching for the whole request. `automatic` is the top-level breakpoint of Messages; the other fields are
    OpenAI's options."""

    automatic: CacheBreakpoint | None = None
    explicit: bool | None = None
    ttl: str | None = None
    retention: str | None = None
    extras: Extras | None = None


class Updates(Struct, frozen=True, kw_only=True):
    """Changes of the request inside the conversation. The last one wins."""

    tools: tuple[ToolSpec, ...] = ()
    removed: tuple[str, ...] = ()
    effort: str | None = None
    output: OutputFormat | None = None


class Demand(Struct, frozen=True, kw_only=True):
    """A requirement that only its own protocol can meet; other encoders reject it. `member` is the error's `param`."""

    feature: Feature
    member: str
    note: str


class Request(Struct, frozen=True, kw_only=True):
    """A request of the protocol `origin`. `spellings` names members that the client sent under an older name, because
    responses repeat that name."""

    origin: str
    model: str
    messages: tuple[Message, ...] = ()
    instructions: tuple[Text, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel_calls: bool | None = None
    max_tokens: int | None = None
    prewarm: bool = False
    sampling: Sampling = Sampling()
    stop: tuple[str, ...] = ()
    reasoning: Reasoning = Reasoning()
    output: OutputFormat | None = None
    verbosity: str | None = None
    stream: bool = False
    include_usage: bool | None = None
    obfuscation: bool | None = None
    choices: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    end_user: str | None = None
    metadata: JsonObject | None = None
    service_tier: str | None = None
    speed: str | None = None
    store: bool | None = None
    cache_key: str | None = None
    cache: CacheOptions | None = None
    moderation: JsonObject | None = None
    compact_at: int | None = None
    # Whether the client requests a compaction of the conversation.
    compacts: bool = False
    max_tool_calls: int | None = None
    continues: str | None = None
    conversation: JsonValue = None
    legacy_functions: bool = False
    spellings: tuple[str, ...] = ()
    updates: Updates = Updates()
    demands: tuple[Demand, ...] = ()
    extras: Extras | None = None
