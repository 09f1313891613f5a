"""Parts of a message or a response. A part may have the `id` of its wire unit, and `extras`: unknown members, which are
sent back only to their own protocol."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from dragoman.model.jsonvalue import JsonList, JsonObject


class Extras(Struct, frozen=True, kw_only=True):
    """Unknown wire members, sent back only to the protocol `origin`. If `fields` has the member `type`, it is the full
    wire object."""

    origin: str
    fields: JsonObject


class Seal(Struct, frozen=True, kw_only=True):
    """A signature or state that only its issuer can read. `body` is the issuer's wire object, unchanged. `origin` is
    its protocol; `model` and `vendor` name the issuer, if known. Kinds: thinking, redacted, item, text, turn,
    compaction, web, call."""

    origin: str
    kind: str
    body: JsonObject
    model: str | None = None
    vendor: str | None = None


class CacheBreakpoint(Struct, frozen=True, kw_only=True):
    """A prompt-cache breakpoint after the part that carries it; `ttl` is the value of its own protocol."""

    origin: str
    ttl: str | None = None


class Inline(Struct, frozen=True, kw_only=True):
    media_type: str
    data: str


class Url(Struct, frozen=True, kw_only=True):
    url: str


class FileRef(Struct, frozen=True, kw_only=True):
    """A file that its issuer stores. The ID is valid only there."""

    issuer: str
    file_id: str


class PlainText(Struct, frozen=True, kw_only=True):
    text: str
    media_type: str = "text/plain"


class Citation(Struct, frozen=True, kw_only=True):
    """A citation. With `url` it cites a web page, otherwise a file or a passage of the request. `span` counts code
    points of the text part; None means the entire part. `native` is the wire object of the protocol `origin`."""

    origin: str
    native: JsonObject
    url: str | None = None
    title: str | None = None
    cited_text: str | None = None
    span: tuple[int, int] | None = None
    file_id: str | None = None


class Text(Struct, frozen=True, kw_only=True):
    """Text. Assistant text may have citations and log probabilities."""

    text: str
    citations: tuple[Citation, ...] = ()
    cache: CacheBreakpoint | None = None
    logprobs: JsonList | None = None
    id: str | None = None
    extras: Extras | None = None


class Image(Struct, frozen=True, kw_only=True):
    source: Inline | Url | FileRef
    detail: str | None = None
    cache: CacheBreakpoint | None = None
    id: str | None = None
    extras: Extras | None = None


class Document(Struct, frozen=True, kw_only=True):
    """A document: a PDF, plain text, a list of parts, or any other inline file."""

    source: Inline | Url | FileRef | PlainText | Passages
    title: str | None = None
    context: str | None = None
    citable: bool | None = None
    cache: CacheBreakpoint | None = None
    id: str | None = None
    extras: Extras | None = None


class Audio(Struct, frozen=True, kw_only=True):
    """Recorded sound. The source's `media_type` is `audio/wav` or similar."""

    source: Inline
    cache: CacheBreakpoint | None = None
    id: str | None = None
    extras: Extras | None = None


class ThinkingKind(Enum):
    """How much of the reasoning the text shows."""

    FULL = "full"
    SUMMARY = "summary"
    WITHHELD = "withheld"


class Thinking(Struct, frozen=True, kw_only=True):
    """Reasoning: the readable text that the provider shows, and the signature that its issuer verifies."""

    text: str
    kind: ThinkingKind = ThinkingKind.FULL
    seal: Seal | None = None
    id: str | None = None
    extras: Extras | None = None


class InputForm(Enum):
    """The form of a call's arguments: JSON text, or free text."""

    JSON = "json"
    TEXT = "text"


class ToolCall(Struct, frozen=True, kw_only=True):
    """A call for the client to run. `arguments` keep their exact text; `name` is the name that the client declared."""

    call_id: str
    name: str
    arguments: str
    form: InputForm = InputForm.JSON
    namespace: str | None = None
    cache: CacheBreakpoint | None = None
    id: str | None = None
    extras: Extras | None = None


class ToolResult(Struct, frozen=True, kw_only=True):
    """The result of a call. `call_id` is "" if the client left it out. `form` is the form of the call."""

    call_id: str
    parts: tuple[Part, ...]
    is_error: bool = False
    form: InputForm = InputForm.JSON
    cache: CacheBreakpoint | None = None
    id: str | None = None
    extras: Extras | None = None


class Refusal(Struct, frozen=True, kw_only=True):
    """The assistant's refusal text, in protocols that separate it from text."""

    text: str
    logprobs: JsonList | None = None
    id: str | None = None
    extras: Extras | None = None


class HostedKind(Enum):
    """Hosted tools that several protocols can express."""

    WEB_SEARCH = "web_search"
    CODE = "code"
    MCP = "mcp"
    MCP_LISTING = "mcp_listing"


class WebSource(Struct, frozen=True, kw_only=True):
    url: str
    title: str = ""
    seal: Seal | None = None


class HostedCall(Struct, frozen=True, kw_only=True):
    """A call that the provider ran. `arguments` is JSON text (`{"query": …}`, `{"code": …}`, MCP arguments)."""

    call_id: str
    kind: HostedKind
    name: str
    arguments: str
    server: str | None = None
    id: str | None = None
    extras: Extras | None = None


class HostedResult(Struct, frozen=True, kw_only=True):
    """The result of a hosted call: `text` for logs, MCP output or an error, `sources` for searches."""

    call_id: str
    kind: HostedKind
    text: str | None = None
    sources: tuple[WebSource, ...] = ()
    is_error: bool = False
    id: str | None = None
    extras: Extras | None = None


class Compaction(Struct, frozen=True, kw_only=True):
    """The replacement for earlier turns: a readable summary, a seal, or both."""

    summary: str | None
    seal: Seal | None = None
    id: str | None = None
    extras: Extras | None = None


class Foreign(Struct, frozen=True, kw_only=True):
    """A part that only its own protocol understands, stored in full. `text` is its readable content, or None. `applied`
    names the effect (a member of `Request.updates`) of an item that changes the conversation, such as late tools.
    `superseded` means that a later item replaced it."""

    origin: str
    kind: str
    body: JsonObject
    text: str | None = None
    applied: str | None = None
    superseded: bool = False
    id: str | None = None
    extras: Extras | None = None


class Passages(Struct, frozen=True, kw_only=True):
    parts: tuple[Part, ...]


Part: TypeAlias = (
    Text
    | Image
    | Document
    | Audio
    | Thinking
    | ToolCall
    | ToolResult
    | Refusal
    | HostedCall
    | HostedResult
    | Compaction
    | Foreign
)
