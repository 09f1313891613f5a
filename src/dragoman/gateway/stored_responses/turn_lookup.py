"""Turn lookup of one exchange: cached turns of clients that send them back without their reasoning (mapping.md V4). It
is skipped on the relay, for clients that store nothing, and for owners without recent turns. A store that cannot answer
at once has none, and nothing waits for a turn to be cached."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dragoman.gateway.forwarding.provider_request import ProviderRequest
from dragoman.gateway.json_limits import MAX_REQUEST_VALUES
from dragoman.gateway.paths import ApiPath
from dragoman.gateway.stored_responses.store_failures import log_failure
from dragoman.gateway.thread_offload import INLINE, offload
from dragoman.model.parts import Part, Text, Thinking, ToolCall
from dragoman.model.response import Response
from dragoman.protocols.codec import TargetModel, TranslationContext, TurnRestorer
from dragoman.protocols.registry import codec_of
from dragoman.routing.target import Target
from dragoman.store import StoreBusy, StoreError, Tables
from dragoman.wire.value_count import exceeds

if TYPE_CHECKING:
    from dragoman.gateway.runtime import Runtime

# How long a lookup waits for a busy store, in seconds; after that the request continues unchanged.
_LOOKUP_TIMEOUT = 0.2
# Turns that are looked up for one request, the last ones.
_MAX_TURNS = 1000
# Bytes of a stored turn in addition to its content.
_FRAME = 1024


class TurnLookup:
    """The turns of one exchange: of its request, and the one that its answer is."""

    __slots__ = ("_cached_turns", "_protocol", "_runtime", "_turns")

    def __init__(self, runtime: Runtime, api_path: ApiPath) -> None:
        self._runtime = runtime
        self._protocol = api_path.protocol
        self._turns: TurnRestorer | None = None
        if runtime.state.store is not None and self._protocol:
            self._turns = codec_of(self._protocol).turn_restorer
        self._cached_turns: dict[str, bytes] = {}

    def may_lack(self, owner: bytes, body: bytes, target: Target) -> bool:
        """Whether turns of a request may lack cached reasoning; a large body is checked off the loop."""
        turns, store = self._turns, self._runtime.state.store
        if turns is None or store is None or target.endpoint.protocol == self._protocol:
            return False
        return store.may_have_turns(owner) and (len(body) > INLINE or turns.marker in body)

    async def look_up(self, owner: bytes, body: bytes, key: str) -> None:
        """Look up the missing reasoning of a request's turns; `key` is the name of the gateway key."""
        self._cached_turns = {}
        turns, store = self._turns, self._runtime.state.store
        if turns is None or store is None:
            return
        lacking = await offload(partial(turns.lacking, body), len(body), key)
        if not lacking:
            return
        try:
            self._cached_turns = await store.read(
                partial(_find, owner=owner, call_ids=lacking[-_MAX_TURNS:]), _LOOKUP_TIMEOUT, owner=owner
            )
        except StoreBusy:
            # It continues without cached turns.
            pass
        except StoreError as error:
            log_failure(self._runtime.log, "warn", "cannot look up cached turns", error)

    @property
    def size(self) -> int:
        """The size of the results."""
        return sum(map(len, self._cached_turns.values())) if self._cached_turns else 0

    def restored(self, body: bytes, target: Target) -> bytes:
        """A request with the cached reasoning, as if the client had sent it."""
        turns, protocol = self._turns, target.endpoint.protocol
        if turns is None or not self._cached_turns or protocol == self._protocol:
            return body
        target_model = TargetModel(
            model=target.model, vendor=target.provider.vendor_or_name, capabilities=target.capabilities
        )
        restored_body = turns.restore(body, self._cached_turns, protocol, target_model)
        if len(restored_body) > self._runtime.settings.limits.request_body or exceeds(
            restored_body, MAX_REQUEST_VALUES
        ):
            return body
        return restored_body

    def watches(self, prepared: ProviderRequest) -> bool:
        """Whether the response may be cached as a turn: one with calls, of a model that may reason."""
        context = prepared.translated.context
        if self._turns is None or context is None or prepared.relay or prepared.source != prepared.client:
            return False
        request = context.request
        return bool(request.tools) and request.store is not False and context.target.capabilities.reasons is not False

    def cache_turn(self, owner: bytes, prepared: ProviderRequest, response: Response) -> None:
        """Leave an answer to the store, for the requests that follow it."""
        turns, store, context = self._turns, self._runtime.state.store, prepared.translated.context
        if turns is not None and store is not None and context is not None:
            # Before it is written: a client may send the next request at once.
            store.announce_turn(owner)
            store.post(
                partial(_cache_turn, turns=turns, owner=owner, response=response, context=context),
                _FRAME + sum(map(_length, response.parts)),
                owner=owner,
            )


def is_sealed(response: Response) -> bool:
    """Whether an answer has calls, and reasoning that only its issuer can open."""
    if ToolCall not in map(type, response.parts):
        return False
    return any(isinstance(part, Thinking) and part.seal is not None for part in response.parts)


def _find(tables: Tables, *, owner: bytes, call_ids: list[str]) -> dict[str, bytes]:
    return tables.turns.find(owner, call_ids)


def _cache_turn(
    tables: Tables, *, turns: TurnRestorer, owner: bytes, response: Response, context: TranslationContext
) -> None:
    """The cache entry of a turn is written here, too, without waiting."""
    turn = turns.build_cached_turn(response, context)
    if turn is not None:
        tables.turns.add(owner, turn.call_id, turn.body)


def _length(part: Part) -> int:
    if isinstance(part, ToolCall):
        return len(part.arguments)
    if isinstance(part, Thinking):
        seal = part.seal.body if part.seal is not None else {}
        return len(part.text) + sum(len(value) for value in seal.values() if isinstance(value, str))
    return len(part.text) if isinstance(part, Text) else 0
