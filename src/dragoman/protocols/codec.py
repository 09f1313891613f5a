"""Codec: the interface of every protocol package, as a record of functions, and their parameters."""

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

# The protocols by name, as users of the library write them.
ProtocolName: TypeAlias = Literal["anthropic-messages", "openai-chat", "openai-responses"]


class TargetModel(Struct, frozen=True, kw_only=True):
    """The target of an encoded request: model name, vendor, and capabilities."""

    model: str
    vendor: str
    capabilities: Capabilities


class EncodedRequest(Struct, frozen=True, kw_only=True):
    """A request as it is sent to the provider. `table` maps tool names, `stops` are the stop sequences left to emulate
    (S11), `headers` are required by the body (`anthropic-version`, `anthropic-beta`)."""

    body: JsonObject
    table: ToolTable
    stops: tuple[str, ...] = ()
    headers: Mapping[str, str] = {}


class TranslationContext(Struct, frozen=True, kw_only=True):
    """Context of a response: the client's request, and how it was sent to the provider. `render_turn` encodes an
    assistant turn as the provider's blocks, for sealing (V1); `origin` is the provider's protocol, which stream events
    do not carry. `response_id` is the response's id if it was sent before. `summarises`: the response is the summary
    for a compaction (K1). `relayed`: bytes go on unchanged, and the client assembles calls itself, so doubts of ours do
    not count."""

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
    """Source of ids and times, so that the core stays deterministic. `token(n)` gives n characters out of [0-9A-Za-z];
    `now` is in unix seconds. `response_token` is 24 such characters for the response id, if the provider gave no usable
    one; else a token serves."""

    token: Callable[[int], str]
    now: Callable[[], int]
    response_token: str = ""

    def response_suffix(self, upstream_id: str) -> str:
        """The part of an answer's id that is its own (N4): the provider's, if that will do."""
        return object_suffix(upstream_id) or self.response_token or self.token(24)


class StreamDecoder(Protocol):
    """Decodes frames of a provider's stream to events; never raises on provider data, but emits `Failed`."""

    @property
    def final_usage(self) -> Usage | None:
        """The usage of the whole response, if it is known before the end is emitted."""
        ...

    @property
    def text_frames(self) -> TextFrames:
        """The form of the next frame if it only extends the open text."""
        ...

    def grow(self, run: TextRun) -> PartGrew:
        """The event of frames that `text_frames` has read."""
        ...

    def feed(self, frame: Frame) -> list[Event]:
        """The events of one frame; a frame without data has none, whatever its name."""
        ...

    def close(self) -> list[Event]:
        """The events of the end of the stream: `Ended` if the story was complete, `Failed` if not."""
        ...

    def broken(self, failure: Failure) -> bytes:
        """The frames that end a broken relayed stream of this protocol for its client."""
        ...


class StreamEncoder(Protocol):
    """Events to bytes of a client's stream, in the grammar of its protocol."""

    def feed(self, event: Event) -> bytes:
        """The frames that one event makes, possibly none."""
        ...

    def run_form(self, index: int) -> FrameForm | None:
        """The form of the frames that a run makes, for a part that has grown by one; None if they vary. It stays the
        same until an event that is no run of this part."""
        ...


Headers: TypeAlias = Mapping[str, str]


class ReasoningRepair(Protocol):
    """Brings a request in line with the reasoning that its turns lack."""

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
        """The body, changed if need be. `demanded`: its provider refused it; `intact`: nothing was cut out."""
        ...


class RequestGlance(GlancedRequest, Protocol):
    """A request as far as it must be known before it is translated or relayed; each member is read once."""

    @property
    def protocol(self) -> str:
        """The protocol that the request is in."""
        ...

    @property
    def stream(self) -> bool:
        """Whether the client wants a stream."""
        ...

    @property
    def is_crowded(self) -> bool:
        """Whether the body has more objects than content."""
        ...

    def request_features(self) -> RequestFeatures:
        """The features of the content that routing needs."""
        ...

    def conversation_start(self) -> ConversationStart:
        """The start of the conversation, without parts that change from turn to turn."""
        ...

    @property
    def history(self) -> Raw:
        """The member that clients send again with every call, longer each time."""
        ...

    def session_hints(
        self, query: HintQuery, *, is_named: bool = False, reader: HistoryReader | None = None
    ) -> SessionHints:
        """The session hints of the request; `is_named` if the client names session and thread. A `reader` has the
        cached part of the history."""
        ...

    def needs_repair(self, capabilities: Capabilities, vendor: str, /) -> bool:
        """Whether `Codec.relay_request` may change the bytes for a model of a vendor."""
        ...

    def forget(self) -> None:
        """Drop the parsed values, which are as large as the body; they are parsed again on access."""
        ...


class CachedTurn(Struct, frozen=True, kw_only=True):
    """The cached reasoning of a response, found by the ID of its first call; `body` is for `restore` alone to read."""

    call_id: str
    body: bytes


class TurnRestorer(Struct, frozen=True, kw_only=True):
    """How turns are completed that clients send back without their reasoning (V4)."""

    # The part of a response to cache for a client of this protocol; None if nothing needs to be.
    build_cached_turn: Callable[[Response, TranslationContext], CachedTurn | None]
    # A marker in the body of every request with such turns, and the calls by which their cached turns are found.
    marker: bytes
    lacking: Callable[[bytes], list[str]]
    # The request with its cached turns by ID, for a provider: its protocol and target.
    restore: Callable[[bytes, Mapping[str, bytes], str, TargetModel], bytes]


class ModelLists(Struct, frozen=True, kw_only=True):
    """The format of model lists. Protocols with the same `form` share the format."""

    form: str
    # The path of a provider's model list below its base URL, and its query.
    path: str
    query: str = ""
    headers: Headers = {}
    encode_one: Callable[[ListedModel], JsonObject]
    encode_all: Callable[[Sequence[ListedModel]], JsonObject]


class RequestDecoder(Protocol):
    """Reads a request."""

    def __call__(self, body: JsonObject, known: KnownParts = ..., /) -> Request:
        """The request; `known` parts are not in the body."""
        ...


class RequestEncoder(Protocol):
    """Writes the request of another protocol."""

    def __call__(
        self, request: Request, target: TargetModel, ledger: Ledger, reuse: ReusedParts | None = None, /
    ) -> EncodedRequest:
        """The request as it is sent; `reuse` has the cached encoding, and gets the new one."""
        ...


def _no_request(_body: bytes) -> None:
    return None


def _no_run(_chunk: bytes, start: int) -> int:
    return start


class Codec(Struct, frozen=True, kw_only=True):
    """One protocol. `decode` is wire to model, `encode` is model to wire."""

    name: ProtocolName
    # The provider label that is assumed when the caller names none.
    vendor: str
    # Whether a client of this protocol knows only one open part at a time.
    serial: bool
    path: str
    recognises: Callable[[JsonObject], bool]
    decode_request: RequestDecoder
    encode_request: RequestEncoder
    # The member with the history of a request, if the translation of a part of it may be reused (decision 45).
    history: str = ""
    # Markers in a history or its tools, if the rest depends on more of it than its calls.
    history_blockers: tuple[bytes, ...] = ()
    # Whether this encoder continues histories and reuses tools.
    reuses: bool = False
    # A request with the relay's repairs (mapping.md §1, rule 1): material minted for another issuer is cut out (a
    # compaction that nobody else can read is refused, V9), thinking is reduced to what is allowed (V5), call ids are
    # valid (N2), the output cap has its current name (pitfall 124), other vendors get no telemetry line of the client
    # (I4).
    relay_request: Callable[[bytes, Capabilities, str, Ledger], bytes]
    # For one retry after a rejected signature: without any signed reasoning (V11), None if there is none.
    without_reasoning: Callable[[bytes, Ledger], bytes | None]
    # A request whose turns lost their reasoning, with thinking reduced accordingly (V5), or with the required
    # placeholder; None on wires without such a demand.
    repair_reasoning: ReasoningRepair | None = None
    # For one retry after a missing signature (V11): a request with placeholder signatures of its calls, None if it has
    # no such call. None in protocols without signatures of calls.
    sign_calls: Callable[[bytes, Ledger], bytes | None] | None = None
    # A request whose response its provider does not store, made self-contained; None on wires without references.
    without_storage: Callable[[bytes], bytes] | None = None
    # A request with the response before a pause, to continue it; None on wires that never pause.
    resume_request: Callable[[bytes, Sequence[JsonObject]], bytes] | None = None
    # A relayed request that requests usage in its stream, None if its streams report usage anyway; then whole frames of
    # the response without the one that the client did not request.
    include_usage: Callable[[bytes], bytes | None] = _no_request
    withhold_usage: Callable[[bytes], bytes] = bytes
    # Where a run of whole frames of content ends that begins at an offset of a relayed stream: these need not be read.
    # By default every frame is read.
    plain_end: Callable[[bytes, int], int] = _no_run
    decode_response: Callable[[JsonObject, TranslationContext, Ledger], Response | Failure]
    encode_response: Callable[[Response, TranslationContext, Mint, Ledger], JsonObject]
    # The counts of a full response of this protocol, of which only the counts and the tier are read; an invalid count
    # is missing.
    usage_of: Callable[[JsonObject], Usage | None]
    # Its counts in the form that nearly all servers of this wire write, and which needs no rules; None in any other.
    usual_usage: Callable[[UsageMembers], Usage | None] | None = None
    # A request by its members; whether it streams, and whether it is crowded.
    glance: Callable[[Mapping[str, Raw], bool, bool], RequestGlance]
    # Members without which no request references items of its provider other than responses, in wire form.
    reference_keys: tuple[bytes, ...]
    # Where a request may name further models (`wire/member_paths.py`), which the relay forwards unchanged.
    model_members: tuple[str, ...]
    # Requested tiers with prices of their own: their names in requests of any protocol to those in price books.
    tiers: Mapping[str, str]
    # An error answer: HTTP status and body bytes to a failure, and back to status and body.
    decode_failure: Callable[[int, bytes | JsonObject], Failure]
    encode_failure: Callable[[Failure, str | None], tuple[int, JsonObject]]
    stream_decoder: Callable[[TranslationContext, Mint, Ledger], StreamDecoder]
    stream_encoder: Callable[[TranslationContext, Mint, Ledger], StreamEncoder]
    # The parts of an assistant turn as this protocol encodes them in a response (sealed turns, V1; resuming after a
    # pause).
    encode_turn: Callable[[tuple[Part, ...]], list[JsonObject]]
    # Turns without the reasoning that their clients do not know; None in protocols whose clients send back everything.
    turn_restorer: TurnRestorer | None = None
    # Rate-limit headers of an answer: to the common form (lower-case OpenAI names, seconds) and back (mapping.md §22).
    decode_limits: Callable[[Headers, int], dict[str, str]]
    encode_limits: Callable[[Mapping[str, str], int], dict[str, str]]
    # The heartbeat of a silent stream (S4).
    heartbeat: bytes
    models: ModelLists
