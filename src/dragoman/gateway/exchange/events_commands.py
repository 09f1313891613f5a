"""Steps: the events that an exchange takes, and the commands that it gives (decision 23).

A waiting command is answered by one `Done` or `WaitFailed`. The other commands are done at once, in their order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from dragoman.errors import DragomanError
from dragoman.gateway.exchange.provider_errors import ErrorReader
from dragoman.gateway.exchange.provider_request import ProviderRequest
from dragoman.gateway.exchange.retry_state import RetryState
from dragoman.gateway.exchange.timeouts import LimitPhase
from dragoman.gateway.exchange.usage_estimate import Counting, Passed
from dragoman.gateway.observability.record import RecordChanges
from dragoman.gateway.stored_responses.exchange_storage import ParsedRequest
from dragoman.gateway.stored_responses.references import References
from dragoman.gateway.stored_responses.response_writer import ResponseWriter
from dragoman.http.upstream_call import HeaderList
from dragoman.model.response import Response
from dragoman.providers.transport_interface import Unframer
from dragoman.routing.target import Target
from dragoman.streaming import StreamPipeline

# Events.


class Begin(Struct, frozen=True):
    """A client asks: `body` is all of its request."""

    body: bytes


class Resume(Struct, frozen=True):
    """A request is to be answered that was understood before: as its target gets it, and as others may."""

    prepared: ProviderRequest
    body: bytes
    parsed: ParsedRequest
    retry_state: RetryState


class Done(Struct, frozen=True):
    """What was waited for is there."""

    value: object = None


class WaitFailed(Struct, frozen=True):
    """What was waited for failed; `stalled` if it was the client that stood still."""

    error: DragomanError
    stalled: bool = False


class Translated(Struct, frozen=True):
    """The provider's stream made these bytes for the client, and more than plain flow."""

    out: bytes
    now: float


class Stored(Struct, frozen=True):
    """The store has taken the answer, or has not, for this reason."""

    error: DragomanError | None = None


class OwnerKnown(Struct, frozen=True):
    """It is known now whose the answer is, or not to be had."""

    now: float


class HeartbeatDue(Struct, frozen=True):
    """The client has heard nothing for a while."""

    now: float


class ClientDisconnected(Struct, frozen=True):
    """The client went away, or the gateway is stopping under it."""

    stopping: bool


ExchangeEvent: TypeAlias = (
    Begin | Resume | Done | WaitFailed | Translated | Stored | OwnerKnown | HeartbeatDue | ClientDisconnected
)


# Commands that wait.


class Offload(Struct, frozen=True):
    """Do this, beside the loop if it is large; what is paid for is never refused."""

    work: Callable[[], object]
    size: int
    paid: bool = False


class Locate(Struct, frozen=True):
    """Look up which provider keeps what a request refers to."""

    references: References


class ResolveReferences(Struct, frozen=True):
    """Look up what a request refers to."""

    body: bytes
    parsed: ParsedRequest
    target: Target


class Reserve(Struct, frozen=True):
    """See that the answer can be kept, and have its conversation alone."""

    prepared: ProviderRequest


class Detach(Struct, frozen=True):
    """Let the response run in the background, with all that it may need there; gives it as it stands."""

    prepared: ProviderRequest
    resume: Resume


class Follow(Struct, frozen=True):
    """Tell the client's stream of what was left in the background."""

    headers: HeaderList


class CallTarget(Struct, frozen=True):
    """Call the target, and wait for the answer's head."""

    prepared: ProviderRequest
    body: bytes
    key: str | None
    # How long its first content may take, where that is not as everywhere.
    first_byte: float | None = None


class Pause(Struct, frozen=True):
    """Wait for some seconds."""

    seconds: float


class ReadError(Struct, frozen=True):
    """Read the beginning of an error; gives it as an `ErrorAnswer`."""

    reader: ErrorReader


class ReadFull(Struct, frozen=True):
    """Read all of an answer."""


class Collect(Struct, frozen=True):
    """Read a stream to its end, of which nobody is told before; `size` is what came of it in earlier calls."""

    translator: StreamPipeline
    unframer: Unframer | None
    collected: list[bytes]
    size: int
    passed: Passed


class StreamThrough(Struct, frozen=True):
    """Hand on a stream as it comes; `writer` is what a relayed one is kept as, which `feed` changes it for."""

    translator: StreamPipeline
    feed: Callable[[bytes], bytes]
    writer: ResponseWriter | None
    unframer: Unframer | None
    relay: bool


class Name(Struct, frozen=True):
    """Put a relayed answer under the name that is kept here."""

    body: bytes


class StoreFull(Struct, frozen=True):
    """Write down an answer that is known as a whole."""

    prepared: ProviderRequest
    body: bytes


class AwaitStored(Struct, frozen=True):
    """Wait for what becomes of the answer in the store, which is told by `Stored`."""


Waiting: TypeAlias = (
    Offload
    | Locate
    | ResolveReferences
    | Reserve
    | Detach
    | Follow
    | CallTarget
    | Pause
    | ReadError
    | ReadFull
    | Collect
    | StreamThrough
    | Name
    | StoreFull
    | AwaitStored
)


# Commands that are done at once.


class StoreStreamed(Struct, frozen=True):
    """Write down the answer that a stream's last frames hold; `Stored` tells what became of it.

    `at_once` if that is not waited for while another process has the store.
    """

    frames: bytes
    at_once: bool = False


class CountUsage(Struct, frozen=True):
    """Count what a stream took that told nothing of it; `Stored` tells that it is known."""

    counting: Counting


class CacheTurn(Struct, frozen=True):
    """Leave an answer to the store, which its client may send back without its reasoning."""

    prepared: ProviderRequest
    response: Response


class AwaitOwner(Struct, frozen=True):
    """Say `OwnerKnown` when it is known whose the answer is."""


class Finalize(Struct, frozen=True):
    """All is known of the exchange."""

    changes: RecordChanges


class StartHeartbeats(Struct, frozen=True):
    """Say `HeartbeatDue` whenever the client has heard nothing for a while, for so long the first time, whoever is
    asked."""

    seconds: float


class Respond(Struct, frozen=True):
    """Send a whole reply."""

    status: int
    headers: HeaderList
    body: bytes


class Start(Struct, frozen=True):
    """Begin a streamed reply."""

    headers: HeaderList


class Write(Struct, frozen=True):
    """Send a piece of a streamed reply."""

    data: bytes


class End(Struct, frozen=True):
    """Finish a streamed reply."""


class Abort(Struct, frozen=True):
    """Break a reply off."""


class Drop(Struct, frozen=True):
    """Let go of the present call, at once."""


class HangUp(Struct, frozen=True):
    """Nothing more is wanted of the provider."""


class Limit(Struct, frozen=True):
    """Wait for something else, within its own limit of time."""

    phase: LimitPhase


Command: TypeAlias = (
    Waiting
    | StoreStreamed
    | CountUsage
    | CacheTurn
    | AwaitOwner
    | Finalize
    | StartHeartbeats
    | Respond
    | Start
    | Write
    | End
    | Abort
    | Drop
    | HangUp
    | Limit
)
