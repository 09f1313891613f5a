"""Attempt: what is done afresh for each target that a request is put to (decision 23)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum

from msgspec import Struct, field
from msgspec.structs import replace

from dragoman.errors import DragomanError
from dragoman.gateway.advice import Advice
from dragoman.gateway.exchange.usage_estimate import Counting, Passed
from dragoman.gateway.forwarding.provider_request import ProviderRequest
from dragoman.gateway.forwarding.target_settings import TargetSettings
from dragoman.http.upstream_call import HeaderList, UpstreamCall, header
from dragoman.model.failure import Failure
from dragoman.model.folding import Fold
from dragoman.model.response import Response, Usage
from dragoman.protocols.registry import codec_of
from dragoman.providers.transport_interface import Unframer
from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.routing.cooldown import Cooldown
from dragoman.routing.failure_classification import kind_of
from dragoman.routing.health import ANY_MODEL
from dragoman.routing.health_entry import Permit
from dragoman.routing.target import Target
from dragoman.rules.pauses import beyond
from dragoman.rules.refused_reasoning import Remedy, remedy_for
from dragoman.rules.retry_delays import delay_of
from dragoman.streaming import StreamPipeline
from dragoman.translate import LossLine

# Types of answers that no transport frames in its own way.
_UNFRAMED = (b"application/json", b"text/event-stream")
# Headers that say when to try again.
_DELAYS = (b"retry-after", b"retry-after-ms")
# A longer name comes from outside, and nothing is remembered of it.
_MAX_MODEL_LENGTH = 512
# Maximum size of an error that is read; a longer one is truncated.
MAX_ERROR_BYTES = 256 * 1024


class ResponseMode(Enum):
    """How an answer comes, which stays so when it goes on after a pause."""

    UNKNOWN = "unknown"
    # A stream for a client that asked for one, one for a client that did not, and a whole answer.
    STREAM = "stream"
    COLLECTED = "collected"
    FULL = "whole"


class ErrorResponse(Struct, frozen=True, kw_only=True):
    """An error response of a provider, with the parts that are needed."""

    status: int
    headers: HeaderList
    failure: Failure
    # How many seconds it asks to wait.
    delay: float | None = None
    # Whether it is a JSON object.
    readable: bool = True
    # As a client of its own protocol gets it, without secrets; None if it does not pass as it is.
    body: bytes | None = None


class ResponseMetadata(Struct, frozen=True):
    """What an answer calls itself, which model it names, and why it ended."""

    id: str = ""
    model: str = ""
    stop: str = ""


UNNAMED = ResponseMetadata()


class Missed(Struct, frozen=True, kw_only=True):
    """An attempt that failed before any response content: `response` is the provider's own error, `attempt` is None
    before a target exists, `final` means that a retry would cost the same again."""

    failure: Failure
    attempt: Attempt | None = None
    response: ErrorResponse | None = None
    kind: AttemptOutcome = AttemptOutcome.GATEWAY_ERROR
    final: bool = False
    # Seconds after which to ask again is worth it, where it is the gateway that says so.
    retry_after: int = 0
    # Whether there was no place for a call, so that there was none.
    queue_full: bool = False
    # What to do about it; and whether it was an error of our own making, whose words that takes the place of.
    advice: Advice | None = None
    broke: bool = False
    # Whether every retry within seconds must fail.
    is_permanent: bool = False
    # The sentence by which the gateway itself refused the request, as it is recorded; "" if a provider failed.
    refusal: str = ""


class _ResponseState(Struct, eq=False, kw_only=True):
    """How far an answer has come; what is not set yet is as it stands here."""

    mode: ResponseMode = ResponseMode.UNKNOWN
    # Whether it is a stream that something translates.
    has_translator: bool = False
    unframer: Unframer | None = None
    # How much is held of which the client was not told yet.
    held_size: int = 0
    # How its stream failed, in the client's words; `is_native_failure` if that is an answer that the provider gave.
    error_form: bytes = b""
    is_native_failure: bool = False
    size: int = 0
    # A full response, the paused ones before it, and its metadata.
    raw: bytes = b""
    earlier: tuple[bytes, ...] = ()
    losses: Sequence[LossLine] = ()
    usage: Usage | None = None
    # What the calls told that paused before it; and what was counted here, where nothing was told.
    before: Usage | None = None
    estimate: Usage | None = None
    is_uncountable: bool = False
    # The failure that a whole answer tells, which is passed on as the answer that it is.
    own_failure: Failure | None = None
    # Whether a whole answer that failed says something all the same.
    has_worked: bool = False
    # Of a whole answer: what it calls itself, which model it names, and why it ended.
    seen: ResponseMetadata = UNNAMED
    # When the first content came.
    first: float = 0.0
    # What was said, where that is to be kept: of a stream what gathers it.
    response: Response | None = None
    # The id of the first call in a whole answer that was read.
    full_response_call: str = ""
    fold: Fold | None = None
    # Frames that were not sent yet, and the parts of a response that is sent as a whole.
    held: list[bytes] = []
    collected: list[bytes] = []


class Attempt(_ResponseState, eq=False):
    """One target, and how far its answer has come. Most have one answer, which comes to its end at once."""

    target: Target
    settings: TargetSettings
    # The digest of the key that goes before its turn.
    _preferred: str = ""
    # The request as the target gets it, if `is_prepared`; what translates its stream, if `has_translator`.
    prepared: ProviderRequest = None  # type: ignore[assignment]  # nobody asks for it before
    translator: StreamPipeline = None  # type: ignore[assignment]  # the same
    # The right to try a target that rested.
    permit: Permit | None = None
    # Whether the client kept it waiting.
    is_slowed: bool = False
    # The keys that were refused, and the one that is used.
    _refused: tuple[str, ...] = ()
    key: str | None = None
    # What was asked last, and what was done about refusals of it.
    body: bytes = b""
    _tried: tuple[Remedy, ...] = ()
    # Of the latest answer the status, the headers, and what came of it, if that is a stream.
    status: int = 0
    headers: HeaderList = []
    passed: Passed = field(default_factory=Passed)

    def forget(self) -> None:
        """Start with another response in place of one that was not sent."""
        none = _ResponseState()
        for name in _ResponseState.__struct_fields__:
            setattr(self, name, getattr(none, name))

    @property
    def is_prepared(self) -> bool:
        """Whether the request is written for the target."""
        return self.prepared is not None

    @property
    def prepared_or_none(self) -> ProviderRequest | None:
        """The request as the target gets it, once it is written."""
        return self.prepared if self.is_prepared else None

    def key_digest(self) -> str:
        """What the key is known by wherever it is not used."""
        return "" if self.key is None else self.settings.rotation.digest(self.key)

    def let_go(self) -> None:
        """Keep no more than it takes to tell how it failed: others are asked, and each has a request of its own."""
        self.body, self.raw, self.earlier = b"", b"", ()
        if self.is_prepared:
            self.prepared = replace(self.prepared, translated=replace(self.prepared.translated, body=b""))

    def hold(self, out: bytes) -> None:
        """Keep frames back from the client."""
        if out:
            self.held.append(out)
            self.held_size += len(out)

    def set_translator(self, translator: StreamPipeline) -> None:
        """Have its stream translated by this."""
        self.translator, self.has_translator = translator, True

    def add_failure_delay(self, failure: Failure) -> None:
        """Have it among the headers when to try again, where only the error's words say so."""
        self.add_retry_after(delay_of(failure))

    def add_retry_after(self, delay: float | None) -> None:
        """Have it among the headers when to try again, where only the error itself says so (pitfall 382)."""
        if delay is None or any(name in _DELAYS for name, _ in self.headers):
            return
        retry_headers = [(b"retry-after", b"%d" % math.ceil(delay))]
        if not delay.is_integer():
            retry_headers.append((b"retry-after-ms", b"%d" % math.ceil(delay * 1000)))
        self.headers = [*self.headers, *retry_headers]

    def kind_of(self, what: DragomanError | Failure, *, cut: bool = False) -> AttemptOutcome:
        """What became of it, if this is how it failed; `cut` if there was less time for it than a target is due."""
        began = bool(self.held_size or self.size)
        content = self.has_translator and self.translator.answered
        # Nothing is heard of a whole answer before it is there.
        whole = self.is_prepared and not self.prepared.streams
        cloud = self.target.provider.transport not in ("http", "echo")
        return kind_of(
            what, stream=self.has_translator and began, content=content, cut=cut, non_streaming=whole, cloud=cloud
        )

    @property
    def cost(self) -> Usage | None:
        """What it says that it cost so far."""
        if self.mode is ResponseMode.FULL or not self.has_translator:
            # What goes on with a whole answer as a stream has counts of its own, which `usage` adds up.
            return self.usage
        return self.translator.usage if self.translator.usage is not None else self.usage

    @property
    def own_cost(self) -> Usage | None:
        """The cost that the last call reported, without earlier paused calls."""
        if self.before is None and not self.has_translator:
            return self.usage
        cost = self.cost
        if cost is None or self.before is None:
            return cost
        return None if cost is self.before else beyond(self.before, cost)

    @property
    def lacks_counts(self) -> bool:
        """Whether what it took is to be counted here: nothing final was told, and nothing was counted yet."""
        if self.estimate is not None or self.is_uncountable:
            return False
        usage = self.usage if self.before is None and not self.has_translator else self.own_cost
        return usage is None or bool(usage.unreported) or (self.has_translator and not self.is_final)

    @property
    def is_final(self) -> bool:
        """Whether what was told of its counts is of all of it."""
        return not self.has_translator or (self.translator.is_counted and not self.translator.cut_short)

    @property
    def counting(self) -> Counting:
        """What is to be counted."""
        return Counting(
            protocol=self.target.endpoint.protocol,
            model=self.target.model,
            request=self.body,
            passed=self.passed,
            full_body=b"" if self.passed.size else self.raw,
            client=self.prepared.client,
            reported=self.own_cost,
            final=self.is_final,
        )

    def count(self, usage: Usage | None) -> None:
        """Know what was counted; None is that it cannot be."""
        self.estimate, self.is_uncountable = usage, usage is None

    @property
    def response_metadata(self) -> ResponseMetadata:
        """What the answer calls itself, which model it names, and why it ended, as far as that was told."""
        if not self.has_translator or self.translator.started is None:
            return self.seen
        started, stop = self.translator.started, self.translator.stop
        return ResponseMetadata(started.id, started.model, "" if stop is None else stop.native or stop.reason.value)

    @property
    def turn(self) -> Response | None:
        """What was said, if it may be kept as a turn."""
        if self.fold is None:
            return self.response
        return self.fold.response() if self.translator.failure is None else None

    # Keys.

    def begin_request(self, body: bytes, *, anew: bool = True) -> None:
        """Ask something: all keys may be tried, and all remedies unless it is one."""
        self._refused = ()
        if anew:
            self._tried = ()
        self.body = body
        self.key = self.settings.rotation.next(preferred=self._preferred, model=self.target.model)

    def use_key(self, body: bytes) -> None:
        """Take the key whose turn it is."""
        self.body = body
        self.key = self.settings.rotation.next(
            preferred=self._preferred, model=self.target.model, without=self._refused
        )

    @property
    def tried_keys(self) -> tuple[str, ...]:
        """The keys that were refused, and the one that is used."""
        return self._refused if self.key is None else (*self._refused, self.key)

    @property
    def has_another_key(self) -> bool:
        """Whether the provider has a key that was not tried."""
        return self.key is not None and len(self._refused) < self.settings.rotation.count - 1

    def change_key(self) -> None:
        """Take the next key in place of the one that was refused."""
        assert self.key is not None
        self._refused += (self.key,)
        self.use_key(self.body)

    def cool_key(self, cooldown: Cooldown, kind: AttemptOutcome, hint: float | None) -> None:
        """Leave the key alone for a while, for this model or for all; `hint` is how long its provider said."""
        if self.key is not None and len(self.target.model) <= _MAX_MODEL_LENGTH:
            model = ANY_MODEL if cooldown.every_model else self.target.model
            self.settings.rotation.cool(self.key, cooldown.seconds, model, kind, hint)

    # Remedies.

    def remedy(self, failure: Failure) -> Remedy | None:
        """What may get rid of a failure, where something may be lost by that."""
        remedy = None if self.prepared.strict else remedy_for(failure, self.body)
        return remedy if remedy is not None and self._tried.count(remedy) < remedy.tries else None

    def relieved(self, remedy: Remedy) -> Callable[[], bytes | None]:
        """What gives the last request without what was refused; None if that is not in it."""
        self._tried += (remedy,)
        body, prepared = self.body, self.prepared
        return lambda: _relieved(remedy, body, prepared)


def _relieved(remedy: Remedy, body: bytes, prepared: ProviderRequest) -> bytes | None:
    codec, ledger = codec_of(prepared.target.endpoint.protocol), prepared.translated.ledger
    if remedy is Remedy.CALLS:
        return codec.sign_calls(body, ledger) if codec.sign_calls is not None else None
    cut = codec.without_reasoning(body, ledger) if remedy is Remedy.SEALS else body
    if cut is None or codec.repair_reasoning is None:
        return cut if cut is not body else None
    demanded = remedy is Remedy.LOOP
    repaired = codec.repair_reasoning(cut, prepared.target.capabilities, ledger, demanded=demanded)
    return repaired if repaired is not body else None


def is_stream(call: UpstreamCall) -> bool:
    """Whether a response is a server-sent event stream."""
    for name, value in call.headers:
        if name == b"content-type":
            return value.lower().startswith(b"text/event-stream")
    return False


def unframer_of(unframe: Callable[[], Unframer], call: UpstreamCall) -> Unframer | None:
    """The decoder of a provider's own stream framing, if the stream is not SSE."""
    return None if (header(call.headers, b"content-type") or b"").lower().startswith(_UNFRAMED) else unframe()
