"""Storage of one exchange: references of its request, its stored response, and turns cached for their reasoning. After
a failed attempt another target (`retarget`) resolves and prepares anew; the response's id and conversation stay.
Functions that only look at bytes may run in a thread. Where nothing is stored, each does nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING

from msgspec import Struct

from dragoman.errors import ClientError
from dragoman.gateway.access.key_concurrency import KeySlot
from dragoman.gateway.forwarding.client import Client, ClientRequest
from dragoman.gateway.forwarding.client_translations import ClientTranslations
from dragoman.gateway.forwarding.provider_request import (
    ProviderRequest,
    glance_again,
    glance_at,
    prepare,
)
from dragoman.gateway.json_limits import check_request_values
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.gateway.observability.session_facts import Extracted
from dragoman.gateway.paths import RESPONSES, ApiPath
from dragoman.gateway.prefix_cache import HandedMatch
from dragoman.gateway.stored_responses.background_start import begun_of, running_of, with_storage_fields
from dragoman.gateway.stored_responses.detached_client import DetachedClient
from dragoman.gateway.stored_responses.leases import nothing
from dragoman.gateway.stored_responses.reference_resolver import ResolvedReferences, ResolvedRequest, resolve_request
from dragoman.gateway.stored_responses.references import References, references_in
from dragoman.gateway.stored_responses.response_writer import ResponseWriter, Taken, Task
from dragoman.gateway.stored_responses.store_failures import NotStored, check, not_sent
from dragoman.gateway.stored_responses.stored_state import (
    check_references,
    look_up_references,
    name_of,
    owner_of,
)
from dragoman.gateway.stored_responses.stream_following import follow
from dragoman.gateway.stored_responses.turn_lookup import TurnLookup
from dragoman.gateway.thread_offload import INLINE, offload
from dragoman.http.upstream_call import HeaderList
from dragoman.identities.identity import Identity
from dragoman.mint import random_token
from dragoman.model.failure import Failure
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Strict
from dragoman.model.response import Response
from dragoman.protocols.codec import RequestGlance
from dragoman.routing.target import Target
from dragoman.sessions.facts import NOTHING, ExchangeFacts
from dragoman.store import Expedite, LeaseLost, StoreError

if TYPE_CHECKING:
    from dragoman.gateway.runtime import Runtime


class ParsedRequest(Struct, frozen=True):
    """The parsed request: members, model name, and references of a Responses request."""

    glance: RequestGlance
    model: str
    references: References | None
    # Session facts, if they are recorded or used for routing, and the history by the prefix cache.
    facts: ExchangeFacts = NOTHING
    history: HandedMatch | None = None


def parse_request(
    body: bytes, api_path: ApiPath, extract: Callable[[RequestGlance], Extracted] | None = None
) -> ParsedRequest:
    """Read a request's body, once."""
    glance, model = glance_at(body, api_path)
    references = references_in(glance.members) if glance.protocol == RESPONSES else None
    if extract is None:
        return ParsedRequest(glance, model, references)
    facts, match = extract(glance)
    return ParsedRequest(glance, model, references, facts, None if match is None else HandedMatch(match))


def may_resolve_references(api_path: ApiPath) -> bool:
    """Whether references are resolved; otherwise only their owner is checked."""
    return api_path.protocol == RESPONSES


class ExchangeStorage:
    """The memory of one exchange. `writer` is set if the response is stored: by `begin`, or by the exchange that left
    it."""

    def __init__(self, runtime: Runtime, api_path: ApiPath, key: str = "") -> None:
        self._runtime = runtime
        self._api_path = api_path
        # The name of the gateway key.
        self._key = key
        # Most requests have no lookups and store nothing.
        self._turns: TurnLookup | None = None
        self._references: References | None = None
        self._resolved: ResolvedRequest | None = None
        self._task: Task | None = None
        # The response ID if it is made here, and the holder of the conversation's lease, for every target.
        self._response_id = ""
        # Lets others have the conversation that was reserved.
        self._release: Callable[[], None] | None = None
        # Gives the room back that was reserved for its input, once that is stored.
        self._give_back: Callable[[], None] | None = None
        # Whether this belongs to a background response.
        self._is_detached = False
        # The writer for all targets; `writer` is it while the present response is stored.
        self._shared_writer: ResponseWriter | None = None
        self.writer: ResponseWriter | None = None
        # Whether a response could not be stored in time, and whether there is anything to end.
        self.gave_up = self.is_begun = False

    @cached_property
    def _expedite(self) -> Expedite:
        """Expedites the writes of this exchange."""
        return Expedite()

    def needs_lookup(self, key: Identity | None, body: bytes, looked: ParsedRequest, target: Target) -> bool:
        """Whether anything may have to be looked up for a request."""
        if looked.references is not None:
            return True
        turns = self._turns_for(target)
        return turns is not None and turns.may_lack(owner_of(key), body, target)

    def _turns_for(self, target: Target) -> TurnLookup | None:
        """Turns of clients that send back no reasoning; None on the relay, and where nothing is stored."""
        if target.endpoint.protocol == self._api_path.protocol or self._runtime.state.store is None:
            return None
        if self._turns is None:
            self._turns = TurnLookup(self._runtime, self._api_path)
        return self._turns

    @property
    def turns_size(self) -> int:
        """Bytes of the turns that were looked up."""
        return 0 if self._turns is None else self._turns.size

    def watches(self, prepared: ProviderRequest) -> bool:
        """Whether the response may be a turn that is to be cached."""
        turns = self._turns_for(prepared.target)
        return turns is not None and turns.watches(prepared)

    async def resolve(
        self, key: Identity | None, body: bytes, looked: ParsedRequest, target: Target
    ) -> ResolvedReferences | None:
        """Resolve the references of a request, as far as they are stored here."""
        state, settings, shared = self._runtime.state, self._runtime.settings, self._runtime.guard.several_owners
        if not may_resolve_references(self._api_path):
            await check_references(state, key, looked.references, body, target, shared=shared)
            # A request without references may still lack reasoning.
            if looked.references is None and (turns := self._turns_for(target)) is not None:
                await turns.look_up(owner_of(key), body, self._key)
            return None
        resolved = await look_up_references(state, settings, key, looked.references, body, target, shared=shared)
        if (
            resolved is not None
            and resolved.background
            and target.endpoint.protocol == RESPONSES
            and not target.stored_here
        ):
            # The provider's own response would not know of the background run.
            raise ClientError(400, "this provider has no background responses", param="background")
        return resolved

    def prepare(
        self,
        client_request: ClientRequest,
        body: bytes,
        looked: ParsedRequest,
        resolved: ResolvedReferences | None,
        target: Target,
        strict: Strict,
    ) -> ProviderRequest:
        """Encode a request for its provider, with its references resolved."""
        self._references, glance = looked.references, looked.glance
        if resolved is not None and looked.references is not None:
            self._resolved = resolve_request(body, looked.references, resolved)
            body = self._resolved.body
            check_request_values(body)
            glance = glance_again(body, glance.protocol)
        written = body
        if self._turns is not None:
            body = self._turns.restored(body, target)
        match = None if looked.history is None else looked.history.take()
        translations = None
        if glance.protocol != target.endpoint.protocol:
            translations = ClientTranslations(
                self._runtime, name_of(client_request.key), glance.protocol, glance if body is written else None, match
            )
        prepared = prepare(
            client_request,
            body,
            glance,
            target,
            renamed=target.model != looked.model,
            strict=strict,
            owner=owner_of(client_request.key),
            cache=translations,
        )
        looked.glance.forget()
        return prepared

    async def begin(self, key: Identity | None, prepared: ProviderRequest) -> ProviderRequest:
        """The request, marked as stored if its response will be."""
        self._task = task = self._storage_task(key, prepared)
        if task is None:
            return prepared
        self.is_begun = True
        state = self._runtime.state
        # A request that only references items writes nothing and does not wait.
        if task.writes:
            if self._shared_writer is None:
                await check(task.store, self._runtime.log)
                shared_writer = ResponseWriter(task, self._runtime.log)
                self._give_back = await state.quota.reserve(task.owner, shared_writer.size(None))
                self._shared_writer = shared_writer
            self._shared_writer.bind(task)
            self.writer = self._shared_writer
        resolved = task.resolved
        if resolved is not None and resolved.conversation is not None and self._release is None:
            self._release = await state.leases.take(
                task.owner, resolved.conversation, task.holder, resolved.stored_weight
            )
        return with_storage_fields(prepared, task)

    def follow_up(self, storage: ExchangeStorage) -> None:
        """Become the storage of a response that moved to the background: its worker has the lease of the
        conversation."""
        self._shared_writer = self.writer = storage.writer
        self._response_id = storage._response_id
        self._is_detached, self._release, self.is_begun = True, nothing, True

    def retarget(self) -> None:
        """Start with another target: nothing that was resolved or stored for the last one applies."""
        self._references, self._resolved, self._task, self.writer = None, None, None, None
        if self._shared_writer is not None:
            self._shared_writer.anew()

    def _storage_task(self, key: Identity | None, prepared: ProviderRequest) -> Task | None:
        """What to store of the response, if anything."""
        runtime = self._runtime
        store, native = runtime.state.store, prepared.target.stores_at_provider
        if store is None or prepared.client != RESPONSES or prepared.source != RESPONSES:
            return None
        records_owner = native and runtime.records_ids and (self._references is None or self._references.is_stored)
        if self._resolved is None and not records_owner:
            return None
        if not self._response_id:
            self._response_id = "resp_" + random_token(48)
        return Task(
            store=store,
            owner=owner_of(key),
            resolved=self._resolved,
            response_id="" if native else self._response_id,
            native=native,
            stored_here=prepared.target.stored_here,
            provider=prepared.target.provider.name,
            holder=self._response_id,
            conversation=(self._references.conversation or "")
            if records_owner and self._references and self._resolved is None
            else "",
        )

    @property
    def stored_id(self) -> str:
        """The ID under which the response is stored; "" if it is not."""
        return self._response_id if self.writer is not None else ""

    @property
    def in_background(self) -> bool:
        """Whether the client does not wait for the answer."""
        waits = self._task is None or self._resolved is None or not self._resolved.background
        return not waits and not self._is_detached

    async def detach(
        self,
        prepared: ProviderRequest,
        client: DetachedClient,
        run: Callable[[], Awaitable[None]],
        hand_on: Callable[[], Callable[[], None]],
        slot: KeySlot | None = None,
    ) -> JsonObject:
        """Let the response run in the background in the client's place, and return its present state. `hand_on` gives a
        function to call at the end: the request is held until then."""
        state, task, writer = self._runtime.state, self._task, self.writer
        assert task is not None and writer is not None
        state.background.check(task.owner, shared=self._runtime.guard.several_owners)
        begun = begun_of(prepared, task)
        background_slot = None if slot is None else slot.hand_on()
        # The conversation stays reserved until the response has ended, or could not begin.
        release, self._release = self._release or nothing, None
        running = running_of(
            prepared,
            task,
            begun,
            writer=writer,
            client=client,
            exchange=run,
            release=partial(_all, release, hand_on(), nothing if background_slot is None else background_slot.release),
            mint=self._runtime.mint,
        )
        await state.background.start(running)
        return begun

    async def follow(
        self, client_request: ClientRequest, client: Client, builder: RecordBuilder, headers: HeaderList
    ) -> None:
        """Stream a background response to the client."""
        task = self._task
        assert task is not None
        await follow(
            self._runtime, client_request, client, builder, task.store, task.owner, task.response_id, -1, headers
        )

    async def named(self, body: bytes) -> bytes:
        """A full relayed response with the stored ID."""
        writer = self.writer
        if writer is not None:
            body = await offload(partial(writer.under_name, body), len(body), self._key, paid=True)
        return body

    def anew(self) -> None:
        """Start with another response in place of one that was not sent."""
        if self.writer is not None:
            self.writer.anew()

    async def store_response(self, prepared: ProviderRequest, body: bytes) -> None:
        """Write down an answer that is known as a whole, before the client knows it; `NotStored` if that fails."""
        if self.writer is not None:
            look_at = self.writer.ending if prepared.stream else self.writer.full_response
            try:
                await self._write(await offload(partial(look_at, body), len(body), self._key, paid=True))
            except asyncio.CancelledError:
                self._runtime.log.event("error", "cannot store response", reason="its request was cancelled")
                self.gave_up = True
                raise

    def cache_turn(self, key: Identity | None, prepared: ProviderRequest, response: Response) -> None:
        """Cache the reasoning of a response that its client may send back without it, without waiting."""
        turns = self._turns_for(prepared.target)
        if turns is not None:
            turns.cache_turn(owner_of(key), prepared, response)

    async def _write(self, taken: Taken | None) -> None:
        writer, store = self.writer, self._runtime.state.store
        assert writer is not None and store is not None
        unit = writer.unit(taken)
        if unit is None:
            writer.mark_written(taken)
            return
        try:
            alone = await store.write(
                unit,
                owner=writer.owner,
                expedite=self._expedite,
                response_size=writer.measure(taken),
                is_repeatable=True,
            )
        except (StoreError, LeaseLost) as error:
            raise self._not_stored(error) from None
        writer.mark_written(taken, alone=alone)

    def finalize(self, frames: bytes, *, at_once: bool = False) -> asyncio.Future[None] | None:
        """Request that the response of a stream's last frames is written; None if there is nothing to write. `at_once`
        does not wait for another process. It happens once: `expedite_now` marks the last try. The future may hold
        `NotStored`."""
        writer, store = self.writer, self._runtime.state.store
        if writer is None or store is None:
            return None
        self._expedite.now = at_once
        if len(frames) > INLINE:
            return asyncio.ensure_future(self._finalize_off_loop(writer, frames))
        taken = writer.ending(frames)
        unit = writer.unit(taken)
        if unit is None:
            writer.mark_written(taken)
            return None
        finalized: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        writing = store.write(
            unit,
            owner=writer.owner,
            expedite=self._expedite,
            response_size=writer.measure(taken),
            is_repeatable=True,
        )
        writing.add_done_callback(partial(self._on_written, writer, taken, finalized))
        return finalized

    async def _finalize_off_loop(self, writer: ResponseWriter, frames: bytes) -> None:
        await self._write(await offload(partial(writer.ending, frames), len(frames), self._key, paid=True))

    def _on_written(
        self,
        writer: ResponseWriter,
        taken: Taken | None,
        finalized: asyncio.Future[None],
        writing: asyncio.Future[bool],
    ) -> None:
        error = writing.exception()
        if error is None:
            writer.mark_written(taken, alone=writing.result())
            finalized.set_result(None)
        else:
            finalized.set_exception(self._not_stored(error))

    def _not_stored(self, error: BaseException) -> NotStored:
        return not_sent(error, self._runtime.log)

    def expedite_now(self) -> None:
        """Try pending writes once more, and then give up."""
        if self._runtime.state.store is not None:
            self._runtime.state.store.expedite_now(self._expedite)

    @property
    def recording_owner(self) -> asyncio.Future[bool] | None:
        """The pending write of a response's owner: its ID may be sent only after that."""
        return None if self.writer is None else self.writer.recording_owner

    def lost(self, frames: bytes, failure: Failure) -> bytes:
        """The frames that are sent in place of last frames that could not be stored."""
        return b"" if self.writer is None else self.writer.lost(frames, failure)

    def end(self) -> None:
        """Release the conversation; record the owner of a response of which only the ID was sent."""
        if self.writer is not None and (record_owner := self.writer.pending_owner_record) is not None:
            store = self._runtime.state.store
            assert store is not None
            store.post(record_owner, owner=self.writer.owner)
        if self._release is not None:
            self._release()
            self._release = None
        if self._give_back is not None:
            self._give_back()
            self._give_back = None


def _all(*actions: Callable[[], None]) -> None:
    for action in actions:
        action()
