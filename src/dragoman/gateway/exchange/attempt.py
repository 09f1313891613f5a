"""Attempt: the state of one call sequence to one target (decision 23)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum

from msgspec import Struct
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
# Headers with the time of a retry.
_DELAYS = (b"retry-after", b"retry-after-ms")
# A longer name comes from outside, and nothing is remembered of it.
_MAX_MODEL_LENGTH = 512
# Maximum size of an error that is read; a longer one is truncated.
MAX_ERROR_BYTES = 256 * 1024


class ResponseMode(Enum):
    """How a response is delivered; unchanged after a pause."""

    UNKNOWN = "unknown"
    # A stream for a streaming client, a stream for another client, and a full response.
    STREAM = "stream"
    COLLECTED = "collected"
    FULL = "whole"


class ErrorResponse(Struct, frozen=True, kw_only=True):
    """An error response of a provider, with the parts that are needed."""

    status: int
    headers: HeaderList
    failure: Failure
    # The stated delay in seconds.
    delay: float | None = None
    # Whether it is a JSON object.
    readable: bool = True
    # As a client of its own protocol gets it, without secrets; None if it does not pass as it is.
    body: bytes | None = None


class ResponseMetadata(Struct, frozen=True):
    """ID, model and stop reason of a response."""

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
    # Seconds until a retry is useful, if the gateway states it.
    retry_after: int = 0
    # Whether there was no place for a call, so that there was none.
    queue_full: bool = False
    # The remedy; and whether it is an error of the gateway, whose message it replaces.
    advice: Advice | None = None
    broke: bool = False
    # Whether every retry within seconds must fail.
    is_permanent: bool = False
    # The sentence by which the gateway itself refused the request, as it is recorded; "" if a provider failed.
    refusal: str = ""


class Attempt(Struct, eq=False):
    """One target, and the results of its calls. An exchange goes on with a `PreparedAttempt`; requests of other
    paths pass as they are."""

    target: Target
    settings: TargetSettings
    # The digest of the key that goes before its turn.
    _preferred: str = ""
    # The right to try a target that rested.
    permit: Permit | None = None
    # Whether a slow client delayed it.
    is_slowed: bool = False
    # The keys that were refused, and the one that is used.
    _refused: tuple[str, ...] = ()
    key: str | None = None
    # The last request body.
    body: bytes = b""
    # Status and headers of the latest response.
    status: int = 0
    headers: HeaderList = []
    # How the response is delivered, and what translates its stream; None for a full response.
    mode: ResponseMode = ResponseMode.UNKNOWN
    translator: StreamPipeline | None = None
    # Size of the stream, and of the buffered data that the client did not get yet.
    size: int = 0
    held_size: int = 0
    # Whether the failure of the stream is a response that the provider gave.
    is_native_failure: bool = False
    usage: Usage | None = None
    # Usage of earlier paused calls; and the estimate if no usage was reported.
    before: Usage | None = None
    estimate: Usage | None = None
    is_uncountable: bool = False
    # Whether a failed full response has content.
    has_worked: bool = False
    # Metadata of a full response: ID, model and stop reason.
    seen: ResponseMetadata = UNNAMED
    # The time of the first content.
    first: float = 0.0

    def key_digest(self) -> str:
        """The digest of the key for use outside the call."""
        return "" if self.key is None else self.settings.rotation.digest(self.key)

    def let_go(self) -> None:
        """Drop all but the failure: later attempts have requests of their own."""
        self.body = b""

    def add_failure_delay(self, failure: Failure) -> None:
        """Add a header for the retry time if only the error message states it."""
        self.add_retry_after(delay_of(failure))

    def add_retry_after(self, delay: float | None) -> None:
        """Add a header for the retry time if only the error states it (pitfall 382)."""
        if delay is None or any(name in _DELAYS for name, _ in self.headers):
            return
        retry_headers = [(b"retry-after", b"%d" % math.ceil(delay))]
        if not delay.is_integer():
            retry_headers.append((b"retry-after-ms", b"%d" % math.ceil(delay * 1000)))
        self.headers = [*self.headers, *retry_headers]

    def kind_of(self, what: DragomanError | Failure, *, cut: bool = False) -> AttemptOutcome:
        """The outcome for this failure; `cut` if there was less time for it than a target is due."""
        translator, began = self.translator, bool(self.held_size or self.size)
        return kind_of(
            what,
            stream=translator is not None and began,
            content=translator is not None and translator.answered,
            cut=cut,
            non_streaming=self._is_full_requested,
            cloud=self.target.provider.transport not in ("http", "echo"),
        )

    @property
    def _is_full_requested(self) -> bool:
        """Whether a full response was requested, which has no progress before its end."""
        return False

    @property
    def cost(self) -> Usage | None:
        """The usage that was reported so far."""
        if self.mode is ResponseMode.FULL or self.translator is None:
            # A full response that continues as a stream has counts of its own, which `usage` adds up.
            return self.usage
        return self.translator.usage if self.translator.usage is not None else self.usage

    def own_cost(self) -> Usage | None:
        """The cost that the last call reported, without earlier paused calls."""
        if self.before is None and self.translator is None:
            return self.usage
        cost = self.cost
        if cost is None or self.before is None:
            return cost
        return None if cost is self.before else beyond(self.before, cost)

    def lacks_counts(self) -> bool:
        """Whether the usage must be estimated: no final usage was reported, and none was estimated yet."""
        if self.estimate is not None or self.is_uncountable:
            return False
        if self.translator is None and self.before is None:
            return self.usage is None or bool(self.usage.unreported)
        usage = self.own_cost()
        return usage is None or bool(usage.unreported) or not self.is_final

    @property
    def is_final(self) -> bool:
        """Whether the reported usage covers the whole response."""
        translator = self.translator
        return translator is None or (translator.is_counted and not translator.cut_short)

    def count(self, usage: Usage | None) -> None:
        """Record the estimate; None is that it cannot be."""
        self.estimate, self.is_uncountable = usage, usage is None

    @property
    def response_metadata(self) -> ResponseMetadata:
        """ID, model and stop reason of the response, as far as they were reported."""
        translator = self.translator
        if translator is None or translator.started is None:
            return self.seen
        started, stop = translator.started, translator.stop
        return ResponseMetadata(started.id, started.model, "" if stop is None else stop.native or stop.reason.value)

    # Keys.

    def begin_request(self, body: bytes) -> None:
        """Begin a request: all keys may be tried."""
        self._refused = ()
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
        """Leave the key alone for a while, for this model or for all; `hint` is the delay that the provider stated."""
        if self.key is not None and len(self.target.model) <= _MAX_MODEL_LENGTH:
            model = ANY_MODEL if cooldown.every_model else self.target.model
            self.settings.rotation.cool(self.key, cooldown.seconds, model, kind, hint)


# Fields that hold also for another response in place of one that was not sent.
_RETAINED = frozenset(Attempt.__struct_fields__[: Attempt.__struct_fields__.index("mode")]) | {
    "prepared",
    "_tried",
    "passed",
}


class PreparedAttempt(Attempt, eq=False, kw_only=True):
    """An attempt whose request is written for its target."""

    prepared: ProviderRequest
    # The remedies that were applied to the request.
    _tried: tuple[Remedy, ...] = ()
    # The sample of its stream; None for a full response.
    passed: Passed | None = None
    unframer: Unframer | None = None
    # The failure of its stream, in the client's protocol.
    error_form: bytes = b""
    # Frames that were not sent yet, and the parts of a response that is sent as a whole.
    held: list[bytes] = []
    collected: list[bytes] = []
    # A full response, and the paused ones before it.
    raw: bytes = b""
    earlier: tuple[bytes, ...] = ()
    losses: Sequence[LossLine] = ()
    # The failure inside a full response, which is passed on as a response.
    own_failure: Failure | None = None
    # The id of the first call in a whole answer that was read.
    full_response_call: str = ""
    # The response, if it is to be cached; for a stream, its collector.
    response: Response | None = None
    fold: Fold | None = None

    def forget(self) -> None:
        """Start with another response in place of one that was not sent."""
        fresh = PreparedAttempt(self.target, self.settings, prepared=self.prepared)
        for name in self.__struct_fields__:
            if name not in _RETAINED:
                setattr(self, name, getattr(fresh, name))

    def let_go(self) -> None:
        """Drop all but the failure, likewise."""
        self.body, self.raw, self.earlier = b"", b"", ()
        self.prepared = replace(self.prepared, translated=replace(self.prepared.translated, body=b""))

    @property
    def _is_full_requested(self) -> bool:
        return not self.prepared.streams

    def hold(self, out: bytes) -> None:
        """Keep frames back from the client."""
        if out:
            self.held.append(out)
            self.held_size += len(out)

    def first_call(self) -> str:
        """The id of the first call in the response; "" if it has none."""
        return self.full_response_call if self.translator is None else self.translator.first_call

    @property
    def turn(self) -> Response | None:
        """The response, if it may be cached as a turn."""
        if self.fold is None:
            return self.response
        return self.fold.response() if self.translator is None or self.translator.failure is None else None

    @property
    def counting(self) -> Counting:
        """The text to count."""
        passed = self.passed or Passed()
        return Counting(
            protocol=self.target.endpoint.protocol,
            model=self.target.model,
            request=self.body,
            passed=passed,
            full_body=b"" if passed.size else self.raw,
            client=self.prepared.client,
            reported=self.own_cost(),
            final=self.is_final,
        )

    # Remedies.

    def begin_anew(self, body: bytes) -> None:
        """Begin a request that is no remedy: all remedies may be tried, too."""
        self._tried = ()
        self.begin_request(body)

    def remedy(self, failure: Failure) -> Remedy | None:
        """The remedy that may avoid a failure, possibly with a loss."""
        remedy = None if self.prepared.strict else remedy_for(failure, self.body)
        return remedy if remedy is not None and self._tried.count(remedy) < remedy.tries else None

    def relieved(self, remedy: Remedy) -> Callable[[], bytes | None]:
        """The function that removes the rejected parts from the last request; None if that is not in it."""
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
