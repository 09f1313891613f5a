"""Codec: the interface of every protocol package, as a record of functions, with the types of their parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from msgspec import Raw, Struct

from dragoman.model.events import Event, PartGrew, TextRun
from dragoman.model.failure import Failure
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.listing import ListedModel
from dragoman.model.losses import Ledger
from dragoman.model.parts import Part
from dragoman.model.request import Request
from dragoman.model.request_features import ConversationStart, RequestFeatures
from dragoman.model.response import Response, Usage
from dragoman.model.session_hints import HintQuery, SessionHints
from dragoman.rules.capabilities import Capabilities
from dragoman.rules.counts import UsageMembers
from dragoman.rules.ids import object_suffix
from dragoman.rules.text_runs import FrameForm, TextFrames
from dragoman.rules.tool_table import ToolTable
from dragoman.rules.translated_parts import GlancedRequest, KnownParts, ReusedParts
from dragoman.wire.conversation_history import HistoryReader
from dragoman.wire.sse import Frame

ProtocolName: TypeAlias = Literal["anthropic-messages", "openai-chat", "openai-responses"]


class TargetModel(Struct, frozen=True, kw_only=True):
    """The target of an encoded request: model name, vendor, and capabilities."""

    model: str
    vendor: str
    capabilities: Capabilities


class EncodedRequest(Struct, frozen=True, kw_only=True):
    """A request to send to the provider. `table` maps tool names, `stops` are the stop sequences left to emulate (S11),
    `headers` are required by the body (`anthropic-version`, `anthropic-beta`)."""

    body: JsonObject
    table: ToolTable
    stops: tuple[str, ...] = ()
    headers: Mapping[str, str] = {}


class TranslationContext(Struct, frozen=True, kw_only=True):
    """Context of a response: the client's request, and how it was sent to the provider. `render_turn` encodes an
    assistant turn as the provider's blocks, to be signed (V1). `origin` is the provider's protocol, which stream events
    lack. `response_id` is set if the ID was sent before. `summarises`: the response is the summary for a compaction
    (K1). `relayed`: bytes are forwarded unchanged and the client assembles calls, so ambiguous calls are no error."""

    request: Request
    target: TargetModel
    table: ToolTable
    stops: tuple[str, ...] = ()
    render_turn: Callable[[tuple[Part, ...]], list[JsonObject]] | None = None
    origin: str = ""
    response_id: str = ""
    summarises: bool = False
    relayed: bool = False


class Mint(Struct, frozen=True, kw_only=True):
    """Source of IDs and times, so that the core stays deterministic. `token(n)` returns n characters out of
    [0-9A-Za-z]; `now` is in Unix seconds. `response_token` has 24 such characters for the response ID, if the
    provider's is unusable."""

    token: Callable[[int], str]
    now: Callable[[], int]
    response_token: str = ""

    def response_suffix(self, upstream_id: str) -> str:
        """The own part of a response ID (N4): the provider's, if usable."""
        return object_suffix(upstream_id) or self.response_token or self.token(24)


class StreamDecoder(Protocol):
    """Decodes frames of a provider's stream to events. It never raises on provider data, but emits `Failed`."""

    @property
    def final_usage(self) -> Usage | None:
        """The usage of the full response, if it is known before the end is emitted."""
        ...

    @property
    def text_frames(self) -> TextFrames:
        """The form of the next frame if it only extends the open text."""
        ...

    def grow(self, run: TextRun) -> PartGrew:
        """Return the event of frames that `text_frames` has read."""
        ...

    def feed(self, frame: Frame) -> list[Event]:
        """Return the events of one frame. A frame without data has none, whatever its name."""
        ...

    def close(self) -> list[Event]:
        """Return the events of the end of the stream: `Ended` if the response is complete, otherwise `Failed`."""
        ...

    def broken(self, failure: Failure) -> bytes:
        """Return the frames that end a broken relayed stream for its client."""
        ...


class StreamEncoder(Protocol):
    """Encodes events as the client's stream."""

    def feed(self, event: Event) -> bytes: ...

    def run_form(self, index: int) -> FrameForm | None:
        """The frame form of runs for a part that has grown by one delta; None if frames vary. It stays the same until
        another event."""
        ...


Headers: TypeAlias = Mapping[str, str]


class ReasoningRepair(Protocol):
    def __call__(
        self,
        body: bytes,
        capabilities: Capabilities,
        ledger: Ledger,
        /,
        *,
        demanded: bool = False,
        intact: bool = False,
    ) -> bytes:
        """Return the body, changed if necessary. `demanded`: the provider rejected it; `intact`: no part was
        removed."""
        ...


class RequestGlance(GlancedRequest, Protocol):
    """The members of a request that are needed before it is translated or relayed. Each is read once."""

    @property
    def protocol(self) -> str: ...

    @property
    def stream(self) -> bool: ...

    @property
    def is_crowded(self) -> bool:
        """Whether the body has more objects than real content needs."""
        ...

    def request_features(self) -> RequestFeatures: ...

    def conversation_start(self) -> ConversationStart:
        """The start of the conversation, without parts that change from turn to turn."""
        ...

    @property
    def history(self) -> Raw:
        """The member that clients resend with every call, longer each time."""
        ...

    def session_hints(
        self, query: HintQuery, *, is_named: bool = False, reader: HistoryReader | None = None
    ) -> SessionHints:
        """The session hints of the request. `is_named`: the client names session and thread. A `reader` has the cached
        part of the history."""
        ...

    def needs_repair(self, capabilities: Capabilities, vendor: str, /) -> bool:
        """Whether `Codec.relay_request` may change the bytes for a model of a vendor."""
        ...

    def forget(self) -> None:
        """Drop the parsed values, which are as large as the body. They are parsed again on access."""
        ...


class CachedTurn(Struct, frozen=True, kw_only=True):
    """The cached reasoning of a response, identified by its first call. Only `restore` reads `body`."""

    call_id: str
    body: bytes


class TurnRestorer(Struct, frozen=True, kw_only=True):
    """Completes turns that clients send back without their reasoning (V4)."""

    # The part of a response to cache for a client of this protocol; None if nothing is needed.
    build_cached_turn: Callable[[Response, TranslationContext], CachedTurn | None]
    # A marker in the body of every request with such turns, and the calls that identify their cached turns.
    marker: bytes
    lacking: Callable[[bytes], list[str]]
    # The request with its cached turns by ID, for a provider: its protocol and target.
    restore: Callable[[bytes, Mapping[str, bytes], str, TargetModel], bytes]


class ModelLists(Struct, frozen=True, kw_only=True):
    """The format of model lists. Protocols with the same `form` share the format."""

    form: str
    path: str
    query: str = ""
    headers: Headers = {}
    encode_one: Callable[[ListedModel], JsonObject]
    encode_all: Callable[[Sequence[ListedModel]], JsonObject]


class RequestDecoder(Protocol):
    def __call__(self, body: JsonObject, known: KnownParts = ..., /) -> Request:
        """Decode the request. `known` parts are not in the body."""
        ...


class RequestEncoder(Protocol):
    def __call__(
        self, request: Request, target: TargetModel, ledger: Ledger, reuse: ReusedParts | None = None, /
    ) -> EncodedRequest:
        """Encode the request. `reuse` has the cached encoding, and gets the new one."""
        ...


def _no_request(_body: bytes) -> None:
    return None


def _no_run(_chunk: bytes, start: int) -> int:
    return start


class Codec(Struct, frozen=True, kw_only=True):
    """One protocol. `decode` is wire to model, `encode` is model to wire."""

    name: ProtocolName
    vendor: str
    # Whether clients of this protocol support only one open part at a time.
    serial: bool
    path: str
    recognises: Callable[[JsonObject], bool]
    decode_request: RequestDecoder
    encode_request: RequestEncoder
    # The member with the history of a request, if partial translations of it may be reused (decision 45).
    history: str = ""
    # Markers in a history or its tools, if later messages depend on more than its calls.
    history_blockers: tuple[bytes, ...] = ()
    # Whether this encoder continues histories and reuses tools.
    reuses: bool = False
    # Apply the relay's repairs to a request (mapping.md §1, rule 1): reasoning of other issuers is removed (an
    # unreadable compaction is rejected, V9), thinking is reduced to what is allowed (V5), call IDs are made valid (N2),
    # the output limit gets its current name (pitfall 124), other vendors get no telemetry line of the client (I4).
    relay_request: Callable[[bytes, Capabilities, str, Ledger], bytes]
    # For one retry after a rejected signature: remove all signed reasoning (V11). None if there is none.
    without_reasoning: Callable[[bytes, Ledger], bytes | None]
    # Adapt a request whose turns lack reasoning: reduce thinking (V5), or add the required placeholder. None in
    # protocols without such a requirement.
    repair_reasoning: ReasoningRepair | None = None
    # For one retry after a missing signature (V11): add placeholder signatures to calls. None if there is no such call.
    # The field is None in protocols without signatures of calls.
    sign_calls: Callable[[bytes, Ledger], bytes | None] | None = None
    # Make a request self-contained whose response its provider does not store. None in protocols without references.
    without_storage: Callable[[bytes], bytes] | None = None
    # Append the response before a pause, to continue it. None in protocols without pauses.
    resume_request: Callable[[bytes, Sequence[JsonObject]], bytes] | None = None
    # Request usage in a relayed stream; None if its streams report usage anyway. Then remove that usage from full
    # frames for a client that did not request it.
    include_usage: Callable[[bytes], bytes | None] = _no_request
    withhold_usage: Callable[[bytes], bytes] = bytes
    # The end of a run of full content frames that begins at an offset of a relayed stream. They need not be parsed. By
    # default every frame is parsed.
    plain_end: Callable[[bytes, int], int] = _no_run
    decode_response: Callable[[JsonObject, TranslationContext, Ledger], Response | Failure]
    encode_response: Callable[[Response, TranslationContext, Mint, Ledger], JsonObject]
    # The counts of a full response of this protocol. Only counts and tier are read; an invalid count is missing.
    usage_of: Callable[[JsonObject], Usage | None]
    # The counts in the form of nearly all servers, which needs no rules; None in any other form.
    usual_usage: Callable[[UsageMembers], Usage | None] | None = None
    # A request by its members, whether it streams, and whether it is crowded.
    glance: Callable[[Mapping[str, Raw], bool, bool], RequestGlance]
    # Members without which no request references items of its provider other than responses, in wire form.
    reference_keys: tuple[bytes, ...]
    # Where a request may name further models (`wire/member_paths.py`), which the relay forwards unchanged.
    model_members: tuple[str, ...]
    # Requested tiers with prices of their own: names in requests to names in price books.
    tiers: Mapping[str, str]
    # Decode an error response (HTTP status and body) to a failure, and encode a failure.
    decode_failure: Callable[[int, bytes | JsonObject], Failure]
    encode_failure: Callable[[Failure, str | None], tuple[int, JsonObject]]
    stream_decoder: Callable[[TranslationContext, Mint, Ledger], StreamDecoder]
    stream_encoder: Callable[[TranslationContext, Mint, Ledger], StreamEncoder]
    # Encode the parts of an assistant turn as in a response (signed turns, V1; resuming after a pause).
    encode_turn: Callable[[tuple[Part, ...]], list[JsonObject]]
    # Restores reasoning that clients do not send back; None in protocols whose clients send back everything.
    turn_restorer: TurnRestorer | None = None
    # Convert rate-limit headers to the common form (lower-case OpenAI names, seconds) and back (mapping.md §22).
    decode_limits: Callable[[Headers, int], dict[str, str]]
    encode_limits: Callable[[Mapping[str, str], int], dict[str, str]]
    # The heartbeat of a silent stream (S4).
    heartbeat: bytes
    models: ModelLists
