"""Memory: what one exchange has to do with the store, in the order in which it happens.

look       a body is looked at, as far as it must be before anything else
recall     what it refers to is looked up, and the reasoning that its turns lack (`kept_turns.py`)
prepare    it becomes a request to a provider, one that says everything itself
begin      that request is told what its answer says of being kept, and a conversation is reserved
leave      or else the answer is left to the background, where it is followed
keep       the answer is written down before its client knows it; that of a stream is settled, which nobody waits for
end        others may have the conversation again, and an id that was told is noted, however that went

Another target may be asked before anything of an answer was told (`retarget`): what is recalled, prepared and begun is
that target's alone; the response's id, its conversation and what keeps it are the exchange's, and stay.

Those that only look at bytes may run in a thread.

Where nothing is kept, each of them does nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from msgspec import Struct

from dragoman.config.settings import Key
from dragoman.errors import ClientError
from dragoman.gateway.access.key_concurrency import KeyPlace
from dragoman.gateway.exchange.client import Client, ClientRequest
from dragoman.gateway.exchange.provider_request import (
    ProviderRequest,
    RequestOutline,
    is_responses,
    outline_of,
    prepare,
)
from dragoman.gateway.json_limits import weigh_request
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.gateway.paths import RESPONSES, ApiPath
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.background_start import begun_of, kept_request, running_of
from dragoman.gateway.stored_responses.detached_client import DetachedClient
from dragoman.gateway.stored_responses.reference_resolver import ResolvedReferences, ResolvedRequest, recalled_of
from dragoman.gateway.stored_responses.references import References, references_in
from dragoman.gateway.stored_responses.response_endpoint import follow
from dragoman.gateway.stored_responses.response_writer import ResponseWriter, Taken, Task
from dragoman.gateway.stored_responses.store_failures import NotStored, check
from dragoman.gateway.stored_responses.stored_state import check_references, looked_up, owner_of, several_owners
from dragoman.gateway.stored_responses.turn_lookup import TurnLookup
from dragoman.gateway.thread_offload import INLINE, beside_loop
from dragoman.http.upstream_call import HeaderList
from dragoman.mint import random_token
from dragoman.model.failure import Failure
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Strict
from dragoman.model.response import Response
from dragoman.routing.target import Target
from dragoman.sessions.facts import NOTHING, ExchangeFacts
from dragoman.store import Expedite, LeaseLost, StoreError


class ParsedRequest(Struct, frozen=True):
    """What is known of a request at first: its outline, the model's name, and what a Responses request refers to."""

    outline: RequestOutline
    model: str
    said: References | None
    # What it shows of who is speaking, where somebody listens for that.
    facts: ExchangeFacts = NOTHING


def look(body: bytes, api_path: ApiPath, listen: Callable[[bytes], ExchangeFacts] | None = None) -> ParsedRequest:
    """Look at a request's body."""
    outline, model = outline_of(body)
    refers = api_path.protocol == RESPONSES or is_responses(api_path, outline)
    return ParsedRequest(
        outline, model, references_in(body) if refers else None, NOTHING if listen is None else listen(body)
    )


def may_recall(api_path: ApiPath) -> bool:
    """Whether what requests refer to is said for them; elsewhere it is only looked at whose it is."""
    return api_path.protocol == RESPONSES


class ExchangeStorage:
    """The memory of one exchange. `kept_answer` is there if its answer is kept: by `begin`, or by whoever left it."""

    # Of most requests nothing is looked up, and nothing is kept.
    _said: References | None = None
    _recalled: ResolvedRequest | None = None
    _task: Task | None = None
    # The response's id, where it is made here, and by what name its conversation is had: whoever answers.
    _response_id = ""
    # Lets others have the conversation that was reserved.
    _release: Callable[[], None] | None = None
    # Gives the room back that was reserved for its input, once that is stored.
    _give_back: Callable[[], None] | None = None
    # Whether this is what was left to the background.
    _is_left = False
    # What keeps the answer, for all targets; `kept_answer` is it while the present one's is kept.
    _keeper: ResponseWriter | None = None
    kept_answer: ResponseWriter | None = None
    # Whether an answer was there, and could not be kept in time.
    gave_up = False

    def __init__(self, service: Runtime, api_path: ApiPath, key: str = "") -> None:
        self._service = service
        self._api_path = api_path
        # The name of the gateway key.
        self._key = key
        self.turns = TurnLookup(service, api_path)
        self._haste = Expedite()

    def recalls(self, key: Key | None, body: bytes, looked: ParsedRequest, target: Target) -> bool:
        """Whether anything may have to be looked up for a request."""
        return looked.said is not None or self.turns.may_lack(owner_of(key), body, target)

    async def recall(
        self, key: Key | None, body: bytes, looked: ParsedRequest, target: Target
    ) -> ResolvedReferences | None:
        """What a request refers to, as far as that is kept here."""
        state, settings = self._service.state, self._service.settings
        if not may_recall(self._api_path):
            await check_references(state, settings, key, looked.said, body, target)
            if looked.said is None:
                # It can refer to nothing, and only lack something.
                await self.turns.recall(owner_of(key), body, self._key)
            return None
        found = await looked_up(state, settings, key, looked.said, body, target)
        if found is not None and found.background and target.endpoint.protocol == RESPONSES and not target.kept_here:
            # What it says of itself is the provider's, which knows nothing of running by itself.
            raise ClientError(400, "this provider cannot answer in the background", param="background")
        return found

    def prepare(
        self,
        asked: ClientRequest,
        body: bytes,
        looked: ParsedRequest,
        found: ResolvedReferences | None,
        target: Target,
        strict: Strict,
    ) -> ProviderRequest:
        """Write a request for the provider it leads to, with what it refers to in place of references."""
        self._said = looked.said
        if found is not None and looked.said is not None:
            self._recalled = recalled_of(body, looked.said, found)
            body = self._recalled.body
            weigh_request(body)
        body = self.turns.restored(body, target)
        renamed = target.model != looked.model
        return prepare(asked, body, looked.outline, target, renamed=renamed, strict=strict, owner=owner_of(asked.key))

    async def begin(self, key: Key | None, prepared: ProviderRequest) -> ProviderRequest:
        """The request, as one whose answer says that it is kept, if it is."""
        self._task = task = self._to_keep(key, prepared)
        if task is None:
            return prepared
        state = self._service.state
        # What only refers back leaves nothing, and waits for nobody.
        if task.writes:
            if self._keeper is None:
                await check(task.store, self._service.log)
                keeper = ResponseWriter(task, self._service.log)
                self._give_back = await state.quota.reserve(task.owner, keeper.size(None))
                self._keeper = keeper
            self._keeper.bind(task)
            self.kept_answer = self._keeper
        recalled = task.recalled
        if recalled is not None and recalled.conversation is not None and self._release is None:
            self._release = await state.leases.take(task.owner, recalled.conversation, task.holder, recalled.found)
        return kept_request(prepared, task)

    def follow_up(self, memory: ExchangeStorage) -> None:
        """Be the memory of a response that was left to the background: its conversation is had by whoever runs it."""
        self._keeper = self.kept_answer = memory.kept_answer
        self._response_id = memory._response_id
        self._is_left, self._release = True, _nothing

    def retarget(self) -> None:
        """Begin again with another target: nothing that was recalled for the last one, or kept of it, is this one's."""
        self._said, self._recalled, self._task, self.kept_answer = None, None, None, None
        if self._keeper is not None:
            self._keeper.anew()

    def _to_keep(self, key: Key | None, prepared: ProviderRequest) -> Task | None:
        """What is to be kept of the answer, if anything is."""
        service = self._service
        store, native = service.state.store, prepared.target.keeps_responses
        if store is None or prepared.client != RESPONSES or prepared.source != RESPONSES:
            return None
        noted = native and service.notes_ids and (self._said is None or self._said.keeps)
        if self._recalled is None and not noted:
            return None
        if not self._response_id:
            self._response_id = "resp_" + random_token(48)
        return Task(
            store=store,
            owner=owner_of(key),
            recalled=self._recalled,
            response_id="" if native else self._response_id,
            native=native,
            kept_here=prepared.target.kept_here,
            provider=prepared.target.provider.name,
            holder=self._response_id,
            conversation=(self._said.conversation or "") if noted and self._said and self._recalled is None else "",
        )

    @property
    def told_id(self) -> str:
        """The id under which the answer is kept; "" if it is not."""
        return self._response_id if self.kept_answer is not None else ""

    @property
    def in_background(self) -> bool:
        """Whether the client does not wait for the answer."""
        waits = self._task is None or self._recalled is None or not self._recalled.background
        return not waits and not self._is_left

    async def leave(
        self,
        prepared: ProviderRequest,
        client: DetachedClient,
        run: Callable[[], Awaitable[None]],
        hand_on: Callable[[], Callable[[], None]],
        place: KeyPlace | None = None,
    ) -> JsonObject:
        """Let the response run in the background, in the place of whoever asked for it; give it as it stands.

        `hand_on` gives what is called when it has ended: the request is held until then.
        """
        state, task, kept_answer = self._service.state, self._task, self.kept_answer
        assert task is not None and kept_answer is not None
        state.background.check(task.owner, shared=several_owners(self._service.settings))
        begun = begun_of(prepared, task)
        kept_place = None if place is None else place.hand_on()
        # The conversation stays reserved until the response has ended, or could not begin.
        release, self._release = self._release or _nothing, None
        running = running_of(
            prepared,
            task,
            begun,
            kept_answer=kept_answer,
            client=client,
            exchange=run,
            release=partial(_all, release, hand_on(), _nothing if kept_place is None else kept_place.release),
            mint=self._service.mint,
        )
        await state.background.start(running)
        return begun

    async def follow(self, asked: ClientRequest, client: Client, account: RecordBuilder, headers: HeaderList) -> None:
        """Tell the client's stream of what was left in the background."""
        task = self._task
        assert task is not None
        await follow(self._service, asked, client, account, task.store, task.owner, task.response_id, -1, headers)

    async def named(self, body: bytes) -> bytes:
        """A relayed answer that is known as a whole, under the name that is kept here."""
        kept_answer = self.kept_answer
        if kept_answer is not None:
            body = await beside_loop(partial(kept_answer.under_name, body), len(body), self._key, paid=True)
        return body

    def anew(self) -> None:
        """Begin again with another answer, in place of one that nobody was told."""
        if self.kept_answer is not None:
            self.kept_answer.anew()

    async def keep(self, prepared: ProviderRequest, body: bytes) -> None:
        """Write down an answer that is known as a whole, before the client knows it; `NotKept` if that fails."""
        if self.kept_answer is not None:
            look_at = self.kept_answer.ending if prepared.stream else self.kept_answer.whole
            try:
                await self._write(await beside_loop(partial(look_at, body), len(body), self._key, paid=True))
            except asyncio.CancelledError:
                self._service.log.event("error", "an answer could not be kept", why="its exchange was ended before")
                self.gave_up = True
                raise

    def keep_turn(self, key: Key | None, prepared: ProviderRequest, answer: Response) -> None:
        """Have an answer kept that its client may send back without its reasoning; nobody waits for that."""
        self.turns.keep(owner_of(key), prepared, answer)

    async def _write(self, taken: Taken | None) -> None:
        kept_answer, store = self.kept_answer, self._service.state.store
        assert kept_answer is not None and store is not None
        unit = kept_answer.unit(taken)
        if unit is None:
            kept_answer.took(taken)
            return
        try:
            alone = await store.write(unit, haste=self._haste, answer=kept_answer.measure(taken))
        except (StoreError, LeaseLost) as error:
            raise self._not_kept(error) from None
        kept_answer.took(taken, alone=alone)

    def settle(self, frames: bytes, *, at_once: bool = False) -> asyncio.Future[None] | None:
        """Ask the store to keep the answer that a stream's last frames hold; None if it has nothing to do.

        `at_once` if it is not waited for while another process has it. It is never asked twice: `hurry` says that it is
        tried for the last time. The future may hold `NotKept`.
        """
        kept_answer, store = self.kept_answer, self._service.state.store
        if kept_answer is None or store is None:
            return None
        self._haste.now = at_once
        if len(frames) > INLINE:
            return asyncio.ensure_future(self._settle_beside_loop(kept_answer, frames))
        taken = kept_answer.ending(frames)
        unit = kept_answer.unit(taken)
        if unit is None:
            kept_answer.took(taken)
            return None
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        writing = store.write(unit, haste=self._haste, answer=kept_answer.measure(taken))
        writing.add_done_callback(partial(self._settled, kept_answer, taken, told))
        return told

    async def _settle_beside_loop(self, kept_answer: ResponseWriter, frames: bytes) -> None:
        await self._write(await beside_loop(partial(kept_answer.ending, frames), len(frames), self._key, paid=True))

    def _settled(
        self,
        kept_answer: ResponseWriter,
        taken: Taken | None,
        told: asyncio.Future[None],
        writing: asyncio.Future[bool],
    ) -> None:
        error = writing.exception()
        if error is None:
            kept_answer.took(taken, alone=writing.result())
            told.set_result(None)
        else:
            told.set_exception(self._not_kept(error))

    def _not_kept(self, error: BaseException) -> NotStored:
        self._service.log.event("error", "an answer could not be kept", why=str(error))
        return NotStored()

    def hurry(self) -> None:
        """Have what is to be kept tried once more, and not again."""
        if self._service.state.store is not None:
            self._service.state.store.hurry(self._haste)

    @property
    def noting(self) -> asyncio.Future[bool] | None:
        """What comes of noting whose a response is, while that is under way: only then its id may be told."""
        return None if self.kept_answer is None else self.kept_answer.noting

    def lost(self, frames: bytes, failure: Failure) -> bytes:
        """What a client is told in place of last frames that could not be kept."""
        return b"" if self.kept_answer is None else self.kept_answer.lost(frames, failure)

    def end(self) -> None:
        """Let others have the conversation; note whose a response is of which only its id was told."""
        if self.kept_answer is not None and (note := self.kept_answer.to_note) is not None:
            store = self._service.state.store
            assert store is not None
            store.post(note)
        if self._release is not None:
            self._release()
            self._release = None
        if self._give_back is not None:
            self._give_back()
            self._give_back = None


def _all(*actions: Callable[[], None]) -> None:
    for action in actions:
        action()


def _nothing() -> None:
    """No conversation was reserved."""
