"""Kept turns: what one exchange has to do with turns that clients send back without their reasoning (mapping.md V4).

may_lack   whether a request is worth a closer look: only of those who had turns kept of late, which is known at once
recall     what was kept of its turns is looked up; a store that cannot say so at once has nothing
restored   the request with that in its place; it may run in a thread
watches    whether an answer may be such a turn
keep       what is needed of it is left to the store, which nobody waits for

Nothing is where nothing is kept, on the relay, and for a client that wants nothing stored.
"""

from __future__ import annotations

from functools import partial

from dragoman.gateway.exchange.provider_request import ProviderRequest
from dragoman.gateway.json_limits import MOST_ASKED
from dragoman.gateway.paths import ApiPath
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.thread_offload import INLINE, beside_loop
from dragoman.model.parts import Part, Text, Thinking, ToolCall
from dragoman.model.response import Response
from dragoman.protocols.codec import TargetModel, TranslationContext, TurnRestorer
from dragoman.protocols.registry import codec_of
from dragoman.routing.target import Target
from dragoman.store import StoreBusy, StoreError, Tables
from dragoman.wire.value_count import exceeds

# How long a busy store is waited for, in seconds: without it the request goes on as it is.
_PATIENCE = 0.2
# Turns that are looked up for one request, the last ones.
_MOST_TURNS = 1000
# What is written of a turn beside what it says, in bytes.
_FRAME = 1024


class TurnLookup:
    """The turns of one exchange: of its request, and the one that its answer is."""

    __slots__ = ("_found", "_protocol", "_service", "_turns")

    def __init__(self, service: Runtime, api_path: ApiPath) -> None:
        self._service = service
        self._protocol = api_path.protocol
        self._turns: TurnRestorer | None = None
        if service.state.store is not None and self._protocol:
            self._turns = codec_of(self._protocol).kept_turns
        self._found: dict[str, bytes] = {}

    def may_lack(self, owner: bytes, body: bytes, target: Target) -> bool:
        """Whether turns of a request may lack what is kept of them; of a large one that is found out off the loop."""
        turns, store = self._turns, self._service.state.store
        if turns is None or store is None or target.endpoint.protocol == self._protocol:
            return False
        return store.may_have_turns(owner) and (len(body) > INLINE or turns.sign in body)

    async def recall(self, owner: bytes, body: bytes, key: str) -> None:
        """Look up what a request's turns lack; `key` is the name of the key it came with."""
        self._found = {}
        turns, store = self._turns, self._service.state.store
        if turns is None or store is None:
            return
        lacking = await beside_loop(partial(turns.lacking, body), len(body), key)
        if not lacking:
            return
        try:
            self._found = await store.read(partial(_find, owner=owner, call_ids=lacking[-_MOST_TURNS:]), _PATIENCE)
        except StoreBusy:
            # It goes on as if nothing had been kept.
            pass
        except StoreError as error:
            self._service.log.event("warn", "turns that were kept could not be looked up", why=str(error))

    @property
    def size(self) -> int:
        """How many bytes were found."""
        return sum(map(len, self._found.values())) if self._found else 0

    def restored(self, body: bytes, target: Target) -> bytes:
        """A request with the reasoning that was found, as far as a client might have said all of it itself."""
        turns, protocol = self._turns, target.endpoint.protocol
        if turns is None or not self._found or protocol == self._protocol:
            return body
        whom = TargetModel(model=target.model, upstream=target.provider.upstream, abilities=target.abilities)
        whole = turns.restore(body, self._found, protocol, whom)
        if len(whole) > self._service.settings.limits.body or exceeds(whole, MOST_ASKED):
            return body
        return whole

    def watches(self, prepared: ProviderRequest) -> bool:
        """Whether the answer may be a turn that is to be kept: one with calls, of a model that may reason."""
        asked = prepared.translated.asked
        if self._turns is None or asked is None or prepared.relay or prepared.source != prepared.client:
            return False
        request = asked.request
        return bool(request.tools) and request.store is not False and asked.target.abilities.reasons is not False

    def keep(self, owner: bytes, prepared: ProviderRequest, answer: Response) -> None:
        """Leave an answer to the store, for the requests that follow it."""
        turns, store, asked = self._turns, self._service.state.store, prepared.translated.asked
        if turns is not None and store is not None and asked is not None:
            # Before it is kept: whoever was told of it may come back at once.
            store.announce_turn(owner)
            store.post(partial(_keep, turns=turns, owner=owner, answer=answer, asked=asked), _size(answer))


def is_sealed(answer: Response) -> bool:
    """Whether an answer has calls, and reasoning that only its issuer can open."""
    sealed = any(isinstance(part, Thinking) and part.seal is not None for part in answer.parts)
    return sealed and any(isinstance(part, ToolCall) for part in answer.parts)


def _find(tables: Tables, *, owner: bytes, call_ids: list[str]) -> dict[str, bytes]:
    return tables.turns.find(owner, call_ids)


def _keep(tables: Tables, *, turns: TurnRestorer, owner: bytes, answer: Response, asked: TranslationContext) -> None:
    """What a turn leaves is written here, too, where nobody waits for it."""
    kept = turns.keep(answer, asked)
    if kept is not None:
        tables.turns.keep(owner, kept.call_id, kept.body)


def _size(answer: Response) -> int:
    """About how much an answer takes while it waits."""
    return _FRAME + sum(map(_length, answer.parts))


def _length(part: Part) -> int:
    if isinstance(part, ToolCall):
        return len(part.arguments)
    if isinstance(part, Thinking):
        seal = part.seal.body if part.seal is not None else {}
        return len(part.text) + sum(len(value) for value in seal.values() if isinstance(value, str))
    return len(part.text) if isinstance(part, Text) else 0
