"""Remembering: what one exchange has to do with the store, in the order in which it happens.

look       a body is looked at, as far as it must be before anything else
recall     what it refers to is looked up
put        it becomes a question to a provider, one that says everything itself
begin      the question is told what its answer says of that, and a conversation is reserved
leave      or else the answer is left to the background, where it is followed
keep       the answer is written down before its client knows it
end        others may have the conversation again, and an id that was told is noted, however that went

Those that only look at bytes may run in a thread.

Where nothing is kept, each of them does nothing.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from functools import partial

from msgspec import Struct

from dragoman.config.settings import Key
from dragoman.errors import ClientError
from dragoman.gateway.detached import Detached
from dragoman.gateway.keeping import Keeping, Taken, Task
from dragoman.gateway.large_work import INLINE, beside_loop
from dragoman.gateway.leaving import begun_of, kept_question, reserve, running_of
from dragoman.gateway.paths import RESPONSES, Place
from dragoman.gateway.patience import NotKept
from dragoman.gateway.question import Gist, Question, gist_of, is_responses, put
from dragoman.gateway.recalling import Found, Recalled, recalled_of
from dragoman.gateway.record import Record
from dragoman.gateway.references import References, references_in
from dragoman.gateway.routes import Aim
from dragoman.gateway.service import Service
from dragoman.gateway.state import check_references, looked_up, owner_of
from dragoman.gateway.stored import follow
from dragoman.gateway.weighing import weigh_request
from dragoman.http.flight import HeaderList
from dragoman.http.server import Request
from dragoman.mint import random_token
from dragoman.model.failure import Failure
from dragoman.model.jsonvalue import JsonObject
from dragoman.store import LeaseLost


class Look(Struct, frozen=True):
    """What is known of a request at first: its gist, the model's name, and what a Responses request refers to."""

    gist: Gist
    model: str
    said: References | None


def look(body: bytes, place: Place) -> Look:
    """Look at a request's body."""
    gist, model = gist_of(body)
    refers = place.protocol == RESPONSES or is_responses(place, gist)
    return Look(gist, model, references_in(body) if refers else None)


class Remembering:
    """The memory of one exchange. `keeping` is set if its answer is kept: by `begin`, or by whoever left it running."""

    def __init__(self, service: Service, place: Place) -> None:
        self._service = service
        self._place = place
        self._said: References | None = None
        self._recalled: Recalled | None = None
        self._task: Task | None = None
        # Lets others have the conversation that was reserved.
        self._release: Callable[[], None] | None = None
        self.keeping: Keeping | None = None
        # Whether an answer was there, and could not be kept in time.
        self.gave_up = False

    async def recall(self, key: Key | None, body: bytes, looked: Look, aim: Aim) -> Found | None:
        """What a request refers to, as far as that is kept here."""
        state, settings = self._service.state, self._service.settings
        self._said = looked.said
        if self._place.protocol != RESPONSES:
            await check_references(state, settings, key, looked.said, body, aim)
            return None
        found = await looked_up(state, settings, key, looked.said, body, aim)
        if found is not None and found.background and aim.endpoint.protocol == RESPONSES:
            # What it says of itself is the provider's, which knows nothing of running by itself.
            raise ClientError(400, "this provider cannot answer in the background", param="background")
        return found

    def put(
        self,
        request: Request,
        body: bytes,
        looked: Look,
        found: Found | None,
        aim: Aim,
        *,
        renamed: bool,
        strict: bool,
        owner: bytes,
    ) -> Question:
        """Write a request for the provider it leads to, with what it refers to in place of references."""
        if found is not None and looked.said is not None:
            self._recalled = recalled_of(body, looked.said, found)
            body = self._recalled.body
            weigh_request(body)
        return put(request, self._place, body, looked.gist, aim, renamed=renamed, strict=strict, owner=owner)

    async def begin(self, key: Key | None, question: Question) -> Question:
        """The question, as one whose answer says that it is kept, if it is."""
        self._task = task = self._to_keep(key, question)
        if task is None:
            return question
        state = self._service.state
        # What only refers back leaves nothing, and waits for nobody.
        if task.writes:
            await state.patience.check(task.store)
            self.keeping = Keeping(task, self._service.log)
        if task.recalled is not None and task.recalled.conversation is not None:
            self._release = await state.patience.change(partial(reserve, task, state.leases))
        return kept_question(question, task)

    def _to_keep(self, key: Key | None, question: Question) -> Task | None:
        """What is to be kept of the answer, if anything is."""
        service = self._service
        store, native = service.state.store, question.aim.keeps_responses
        if store is None or question.client != RESPONSES or question.source != RESPONSES:
            return None
        noted = native and service.notes_ids and (self._said is None or self._said.keeps)
        if self._recalled is None and not noted:
            return None
        response_id = "" if native else "resp_" + random_token(48)
        return Task(
            store=store,
            owner=owner_of(key),
            recalled=self._recalled,
            response_id=response_id,
            native=native,
            provider=question.aim.provider.name,
            holder=response_id or random_token(24),
        )

    @property
    def in_background(self) -> bool:
        """Whether the client does not wait for the answer."""
        return self._task is not None and self._recalled is not None and self._recalled.background

    async def leave(self, question: Question, request: Detached, run: Callable[[], Awaitable[None]]) -> JsonObject:
        """Let the response run in the background; give it as it stands."""
        state, task, keeping = self._service.state, self._task, self.keeping
        assert task is not None and keeping is not None
        state.background.check()
        begun = begun_of(question, task)
        running = running_of(
            question,
            task,
            begun,
            keeping=keeping,
            request=request,
            exchange=run,
            release=self._release or _nothing,
            mint=self._service.mint,
        )
        await state.patience.change(partial(state.background.start, running), answer=partial(keeping.size, None))
        # The conversation stays reserved until the response has ended.
        self._release = None
        return begun

    async def follow(self, request: Request, record: Record, headers: HeaderList) -> None:
        """Tell the client's stream of what was left in the background."""
        task = self._task
        assert task is not None
        await follow(self._service, request, record, task.store, task.owner, task.response_id, -1, headers)

    async def named(self, body: bytes) -> bytes:
        """A relayed answer that is known as a whole, under the name that is kept here."""
        keeping = self.keeping
        if keeping is not None:
            body = await beside_loop(partial(keeping.under_name, body), len(body), paid=True)
            keeping.note()
        return body

    def anew(self) -> None:
        """Begin again with another answer, in place of one that nobody was told."""
        if self.keeping is not None:
            self.keeping.anew()

    async def keep(self, question: Question, body: bytes) -> None:
        """Write down an answer that is known as a whole, before the client knows it; `NotKept` if that fails."""
        if self.keeping is not None:
            look_at = self.keeping.ending if question.stream else self.keeping.whole
            try:
                await self._write(await beside_loop(partial(look_at, body), len(body), paid=True))
            except asyncio.CancelledError:
                self._service.log.event("error", "an answer could not be kept", why="its exchange was ended before")
                self.gave_up = True
                raise

    def keep_now(self, frames: bytes, *, at_last: bool = False) -> bool:
        """Write down the answer that a stream's last frames hold, if that takes no time; False if it was not.

        `at_last` if there is no other time.
        """
        keeping, patience = self.keeping, self._service.state.patience
        if keeping is None:
            return True
        if not at_last and (len(frames) > INLINE or patience.waited_for):
            return False
        try:
            taken = keeping.ending(frames)
            why = patience.write_now(partial(keeping.write, taken), keeping.measure(taken))
        except LeaseLost as error:
            why = str(error)
        if why and at_last:
            self._service.log.event("error", "an answer could not be kept", why=why)
        return not why

    async def settle(self, frames: bytes) -> None:
        """Write down the same as soon as the store takes it; `NotKept` if it does not."""
        if self.keeping is not None:
            await self._write(await beside_loop(partial(self.keeping.ending, frames), len(frames), paid=True))

    async def _write(self, taken: Taken | None) -> None:
        keeping = self.keeping
        assert keeping is not None
        try:
            writing = partial(keeping.write, taken)
            await self._service.state.patience.write(writing, answer=keeping.measure(taken))
        except (sqlite3.Error, LeaseLost) as error:
            self._service.log.event("error", "an answer could not be kept", why=str(error))
            raise NotKept from None

    def lost(self, frames: bytes, failure: Failure) -> bytes:
        """What a client is told in place of last frames that could not be kept."""
        return b"" if self.keeping is None else self.keeping.lost(frames, failure)

    def end(self) -> None:
        """Let others have the conversation; note whose a response is of which only its id was told."""
        if self.keeping is not None and (note := self.keeping.to_note) is not None:
            self._service.state.patience.write_later(note)
        if self._release is not None:
            self._release()
            self._release = None


def _nothing() -> None:
    """No conversation was reserved."""
