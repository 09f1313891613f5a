"""Remembering: what one exchange has to do with the store, in the order in which it happens.

recall     a body that refers back becomes one that says everything itself
begin      the question is told what its answer says of that, and a conversation is reserved
leave      or else the answer is left to the background, where it is followed
keep       the answer is written down before its client knows it
release    others may have the conversation again

Where nothing is kept, each of them does nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from dragoman.config.settings import Key
from dragoman.errors import ClientError
from dragoman.gateway.detached import Detached
from dragoman.gateway.keeping import Keeping, Task
from dragoman.gateway.leaving import begun_of, kept_question, reserve, running_of
from dragoman.gateway.paths import RESPONSES, Place
from dragoman.gateway.question import Gist, Question, is_responses
from dragoman.gateway.recalling import Recalled
from dragoman.gateway.record import Record
from dragoman.gateway.routes import Aim
from dragoman.gateway.service import Service
from dragoman.gateway.state import check_references, owner_of, recalled
from dragoman.gateway.stored import follow
from dragoman.http.flight import HeaderList
from dragoman.http.server import Request
from dragoman.mint import random_token
from dragoman.model.jsonvalue import JsonObject


class Remembering:
    """The memory of one exchange. `keeping` is set if its answer is kept: by `begin`, or by whoever left it running."""

    def __init__(self, service: Service, place: Place) -> None:
        self._service = service
        self._place = place
        self._recalled: Recalled | None = None
        self._task: Task | None = None
        # Lets others have the conversation that was reserved.
        self._unlock: Callable[[], None] | None = None
        self.keeping: Keeping | None = None

    def recall(self, key: Key | None, body: bytes, gist: Gist, aim: Aim) -> bytes:
        """The body of a request, with what it refers to in place of references, as far as that is kept here."""
        state, settings = self._service.state, self._service.settings
        if self._place.protocol != RESPONSES:
            if is_responses(self._place, gist):
                check_references(state, settings, key, body, aim)
            return body
        self._recalled = found = recalled(state, settings, key, body, aim)
        if found is not None and found.background and aim.endpoint.protocol == RESPONSES:
            # What it says of itself is the provider's, which knows nothing of running by itself.
            raise ClientError(400, "this provider cannot answer in the background", param="background")
        return body if found is None else found.body

    def begin(self, key: Key | None, question: Question) -> Question:
        """The question, as one whose answer says that it is kept, if it is."""
        self._task = task = self._to_keep(key, question)
        if task is None:
            return question
        self.keeping = Keeping(task, self._service.log)
        if task.recalled is not None and task.recalled.conversation is not None:
            self._unlock = reserve(task, self._service.settings.timeouts.total)
        return kept_question(question, task)

    def _to_keep(self, key: Key | None, question: Question) -> Task | None:
        """What is to be kept of the answer, if anything is."""
        service = self._service
        store, native = service.state.store, question.aim.keeps_responses
        if store is None or question.client != RESPONSES or question.source != RESPONSES:
            return None
        if self._recalled is None and not (native and service.notes_ids):
            return None
        return Task(
            store=store,
            owner=owner_of(key),
            recalled=self._recalled,
            response_id="" if native else "resp_" + random_token(48),
            native=native,
            provider=question.aim.provider.name,
        )

    @property
    def in_background(self) -> bool:
        """Whether the client does not wait for the answer."""
        return self._task is not None and self._recalled is not None and self._recalled.background

    def leave(self, question: Question, request: Detached, run: Callable[[], Awaitable[None]]) -> JsonObject:
        """Let the response run in the background; give it as it stands."""
        service, task, keeping = self._service, self._task, self.keeping
        assert task is not None and keeping is not None
        service.state.background.check()
        begun = begun_of(question, task)
        service.state.background.start(
            running_of(question, task, begun, keeping=keeping, request=request, exchange=run, mint=service.mint)
        )
        # The conversation stays reserved until the response has ended.
        self._unlock = None
        return begun

    async def follow(self, request: Request, record: Record, headers: HeaderList) -> None:
        """Tell the client's stream of what was left in the background."""
        task = self._task
        assert task is not None
        await follow(self._service, request, record, task.store, task.owner, task.response_id, -1, headers)

    def named(self, body: bytes) -> bytes:
        """A relayed answer that is known as a whole, under the name that is kept here."""
        return body if self.keeping is None else self.keeping.named(body)

    def keep(self, question: Question, body: bytes) -> None:
        """Write down an answer that is known as a whole, before the client knows it."""
        if self.keeping is not None:
            (self.keeping.ending if question.stream else self.keeping.whole)(body)

    def release(self) -> None:
        """Let others have the conversation."""
        if self._unlock is not None:
            self._unlock()
