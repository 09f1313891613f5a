"""Kept answer: an answer that can be referred to later is written down before its client learns of its end.

whole, ending     what is to be written of an answer, in bytes: they look at it, perhaps in a thread
unit, took        what writes it, all or nothing, in the store's thread; and that it did
lost              the end of a stream whose answer could not be written down
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct

from dragoman.errors import DragomanError, WireError
from dragoman.gateway.json_limits import weigh_answer
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.stored_responses.reference_resolver import ResolvedRequest
from dragoman.gateway.stored_responses.references import items_of, named_in
from dragoman.model.failure import Failure
from dragoman.model.jsonvalue import JsonObject
from dragoman.protocols.openai_responses.failure import failed_frames
from dragoman.store import Store, StoreBusy, Tables
from dragoman.store.responses import Item, StoredResponse
from dragoman.wire.json import decode_lenient, encode
from dragoman.wire.json_spans import object_members, replaced, value_end, with_member
from dragoman.wire.sse import SseReader

# The events that hold a whole response at its end.
LAST = ("response.completed", "response.incomplete", "response.failed")


_ITEM_DONE = b'"response.output_item.done"'
# What a provider says of a response that is kept, and perhaps runs, here. In what a model says quotes are escaped.
_not_stored = re.compile(rb'("store"\s*:\s*)false').sub
_not_alone = re.compile(rb'("background"\s*:\s*)false').sub
_nothing_before = re.compile(rb'"previous_response_id"\s*:\s*null').sub


class Task(Struct, frozen=True, kw_only=True):
    """What is to be kept: `response_id` is the answer's, "" where its provider keeps it.

    `native` says that it does: then only who made it is noted. `holder` is by what name it has its conversation.
    """

    store: Store
    owner: bytes
    recalled: ResolvedRequest | None
    response_id: str
    provider: str
    native: bool = False
    # Whether its provider was asked to keep nothing, whatever the client wished for.
    kept_here: bool = False
    holder: str = ""
    # The conversation that its provider keeps, too.
    conversation: str = ""

    @property
    def writes(self) -> bool:
        """Whether anything of the answer is written down."""
        return self.recalled is None or self.recalled.keeps or self.recalled.conversation is not None


class Taken(Struct, frozen=True):
    """An answer as it is to be kept: as a value, its items, and as JSON."""

    response: JsonObject
    answered: tuple[Item, ...]
    body: bytes


class ResponseWriter:
    """One answer on its way into the store."""

    def __init__(self, task: Task, log: Log) -> None:
        self._log = log
        # The id of a response that its provider keeps, whether it is noted whose that is, and whether the next frame is
        # soon enough to try.
        self._name: str | None = None
        self._noted = False
        self._tries = True
        # What comes of noting it, while that is under way.
        self.noting: asyncio.Future[bool] | None = None
        # The items that a relayed stream has ended: some servers leave them out of the response at its end.
        self._ended: list[JsonObject] = []
        # The answer, once it is there.
        self.taken: Taken | None = None
        self.bind(task)

    def bind(self, task: Task) -> None:
        """Be the answer of whom the task names: another target may be asked for it."""
        self._task = task
        # What goes in place of the provider's id in a relayed answer, as JSON: one that keeps nothing may give the same
        # id twice.
        self._ours = encode(task.response_id)
        # What it does not know of its request, because that was sent as one that refers to nothing.
        before = task.recalled.previous if task.recalled is not None else None
        self._previous = b'"previous_response_id":' + encode(before) if before is not None else b""

    @property
    def provider(self) -> str:
        """Who answers."""
        return self._task.provider

    def named(self, out: bytes) -> bytes:
        """Whole frames, or a whole answer, on the relay: of a provider that keeps nothing, under the names kept here.

        Of one that does, whose the response is gets written down as soon as its id is known: its client may hang up and
        come back for the rest. A busy store gets it with a later frame.
        """
        out = self.under_name(out)
        self.note()
        return out

    def anew(self) -> None:
        """Forget an answer that nobody was told, because another one takes its place."""
        self._name, self._noted, self._tries, self.noting = None, False, True, None
        self._ended = []

    def under_name(self, out: bytes) -> bytes:
        """The same, as far as only bytes are looked at: it may run in a thread."""
        recalled = self._task.recalled
        if self._task.native:
            if self._name is None:
                self._name = _name_in(out)
            return out
        if recalled is None or not recalled.keeps:
            return out
        if _ITEM_DONE in out:
            self._ended += _items_ended(out)
        out = renamed(out, self._ours) if self._task.response_id else out
        if self._task.kept_here and (b'"response"' in out or out.lstrip()[:1] == b"{"):
            out = _not_stored(rb"\1true", out)
            if recalled.background:
                out = _not_alone(rb"\1true", out)
        return _nothing_before(lambda _: self._previous, out) if self._previous else out

    def note(self) -> None:
        """Note whose a response is, once its id is known; what hinders that is told with the answer's end."""
        task, name = self._task, self._name
        if name is None or self._noted or self.noting is not None or not self._tries:
            return
        noting = task.store.write(partial(_note, task.owner, name, task.provider, task.conversation), 0.0, counts=False)
        noting.add_done_callback(partial(self._was_noted, name))
        self.noting = noting

    def _was_noted(self, name: str, noting: asyncio.Future[bool]) -> None:
        if self.noting is noting:
            self.noting = None
        error = noting.exception()
        if self._name == name:
            self._noted = error is None
            # A store that fails is not tried with every frame.
            self._tries = error is None or isinstance(error, StoreBusy)

    @property
    def to_note(self) -> Callable[[Tables], bool] | None:
        """What notes whose a response is that was told by its id, if that is still to be done."""
        task = self._task
        if self._name is None or self._noted or self.taken is not None:
            return None
        return partial(_note, task.owner, self._name, task.provider, task.conversation)

    def whole(self, body: bytes) -> Taken | None:
        """What there is to be kept of a whole answer."""
        weigh_answer(body)
        return _taken(_object(body))

    def ending(self, frames: bytes) -> Taken | None:
        """What there is to be kept of the last frames of a stream."""
        for event in reversed(_events(frames)):
            if event.get("type") in LAST:
                response = event.get("response")
                return _taken(_filled(response, self._ended) if isinstance(response, dict) else None)
        return None

    def size(self, taken: Taken | None) -> int:
        """How many bytes are written of an answer, about."""
        recalled = self._task.recalled
        said = recalled.context if recalled is not None and recalled.keeps else ()
        return size_of([*said, *(taken.answered if taken is not None else ())]) + len(taken.body if taken else b"")

    def measure(self, taken: Taken | None) -> Callable[[], int] | None:
        """What gives the size of an answer that is to be written down; None if `unit` has no whole one to write."""
        recalled = self._task.recalled
        if taken is None or (recalled is not None and recalled.background):
            return None
        return partial(self.size, taken)

    def unit(self, taken: Taken | None) -> Callable[[Tables], bool] | None:
        """What writes an answer down; None if there is nothing to write, as in the background: whoever runs it does."""
        task, recalled = self._task, self._task.recalled
        if self.taken is not None:
            return None
        if taken is None:
            return self.to_note
        if recalled is not None and recalled.background:
            return None
        named = taken.response.get("id")
        response_id = task.response_id or (named if isinstance(named, str) else "")
        there = task.conversation
        return partial(
            _write,
            task.owner,
            response_id,
            task.provider,
            taken,
            recalled,
            task.holder,
            native=task.native,
            there=there,
        )

    def took(self, taken: Taken | None, *, alone: bool = True) -> None:
        """Know that an answer is written down, or need not be; `alone` unless its id is another's as well."""
        if not alone:
            self._log.event("warn", "a provider gave the same id to two responses", provider=self._task.provider)
        if taken is None:
            self._noted = self._noted or self._name is not None
        self.taken = self.taken or taken

    def lost(self, frames: bytes, failure: Failure) -> bytes:
        """The end of a stream that is told in place of its last frames, numbered as the first of them."""
        events = _events(frames)
        numbers = [number for event in events if isinstance(number := event.get("sequence_number"), int)]
        responses = [response for event in events if isinstance(response := event.get("response"), dict)]
        return failed_frames(failure, responses[-1] if responses else {}, [], min(numbers, default=0))


def _note(owner: bytes, name: str, provider: str, conversation: str, tables: Tables) -> bool:
    tables.responses.note(owner, name, provider)
    if conversation:
        # By its id, as a response: its keeper is all that is asked for.
        tables.responses.note(owner, conversation, provider)
    return True


def _write(
    owner: bytes,
    response_id: str,
    provider: str,
    taken: Taken,
    recalled: ResolvedRequest | None,
    holder: str,
    tables: Tables,
    *,
    native: bool,
    there: str = "",
) -> bool:
    """Write an answer down, and into its conversation; False if another one has its id.

    `there` is the conversation of a provider that keeps both.
    """
    if recalled is not None and recalled.conversation is not None:
        if is_said(taken.response):
            tables.conversations.append(owner, recalled.conversation, [*recalled.said, *taken.answered], holder)
        # Whoever is told it may go on at once, in whatever process.
        tables.conversations.release(recalled.conversation, holder)
    if not response_id or (recalled is not None and not recalled.keeps):
        return True
    if native or recalled is None:
        tables.responses.note(owner, response_id, provider, [item.id for item in taken.answered])
        if there:
            _note(owner, response_id, provider, there, tables)
        return True
    kept = StoredResponse(
        id=response_id,
        status=status_of(taken.response),
        previous=recalled.previous,
        background=False,
        provider=provider,
        alive=0,
        body=taken.body,
    )
    return tables.responses.add(owner, kept, recalled.context, taken.answered)


_ends = re.compile(rb'"type"\s*:\s*"(?:error|response\.(?:completed|incomplete|failed))"').search
_BLANK_LINES = (b"\n\n", b"\r\n\r\n", b"\r\r")


def parted(frames: bytes) -> tuple[bytes, bytes]:
    """Frames that say nothing of an answer's end, and those from the first that does; all, if there is none such."""
    found = _ends(frames)
    if found is None:
        return b"", frames
    before = ((frames.rfind(blank, 0, found.start()), len(blank)) for blank in _BLANK_LINES)
    start = max((api_path + length for api_path, length in before if api_path >= 0), default=0)
    return frames[:start], frames[start:]


def _taken(response: JsonObject | None) -> Taken | None:
    return None if response is None else Taken(response, answered_in(response), encode(response))


def _items_ended(frames: bytes) -> list[JsonObject]:
    ends = [event for event in _events(frames) if event.get("type") == "response.output_item.done"]
    return [item for event in ends if isinstance(item := event.get("item"), dict)]


def _filled(response: JsonObject, ended: list[JsonObject]) -> JsonObject:
    """The response with all items that its stream has ended, if its own are some of them."""
    output = response.get("output")
    told = {item.get("id"): item for item in output if isinstance(item, dict)} if isinstance(output, list) else {}
    names = [item.get("id") for item in ended]
    if len(told) >= len(ended) or None in names or not told.keys() <= set(names):
        return response
    return {**response, "output": [told.get(item.get("id"), item) for item in ended]}


def answered_in(response: JsonObject) -> tuple[Item, ...]:
    """The items of an answer; half a summary must not stand for a conversation that is still there as a whole."""
    output = response.get("output")
    bodies = [encode(item) for item in output] if isinstance(output, list) else []
    if status_of(response) != "completed":
        bodies = [body for body in bodies if named_in(body).type != "compaction"]
    return items_of(bodies)


def size_of(items: Sequence[Item]) -> int:
    """How many bytes items are."""
    return sum(len(item.body) for item in items)


def is_said(response: JsonObject) -> bool:
    """Whether a response belongs to its conversation: a failed one is asked for again, with the same words."""
    return status_of(response) in ("completed", "incomplete")


def status_of(response: JsonObject) -> str:
    """Where a response stands."""
    status = response.get("status")
    return status if isinstance(status, str) else "completed"


def renamed(out: bytes, name: bytes) -> bytes:
    """An answer, or whole frames of one, with another id (JSON) for the response; everything else byte for byte."""
    if out.lstrip()[:1] == b"{":
        return _with_id(out, 0, name)
    if b'"response"' not in out:
        return out
    return _data_lines(lambda line: line[1] + _event_renamed(line[2], name), out)


def _event_renamed(event: bytes, name: bytes) -> bytes:
    if b'"response"' not in event:
        return event
    try:
        found = [member for member in object_members(event) if member.key == "response"]
    except WireError:
        # It is one line of several, which nobody writes.
        return event
    return _with_id(event, found[-1].value_start, name) if found else event


def _with_id(body: bytes, start: int, name: bytes) -> bytes:
    """The same bytes with this as the id of the object that begins at `start`."""
    if body[start:].lstrip()[:1] != b"{":
        return body
    end = len(body) if start == 0 else value_end(body, start)
    try:
        found = [(member.value, name) for member in object_members(body, start, end) if member.key == "id"]
    except WireError:
        return body
    return replaced(body, found) if found else with_member(body, "id", name, end)


_data_lines = re.compile(rb"(?m)^(data: ?)(\{[^\r\n]*)").sub


def _name_in(out: bytes) -> str | None:
    """The id of the response that is told, whole or in events."""
    whole = _object(out)
    for told in (whole,) if whole is not None else [event.get("response") for event in _events(out)]:
        if isinstance(told, dict) and isinstance(name := told.get("id"), str):
            return name
    return None


def _events(frames: bytes) -> list[JsonObject]:
    try:
        read = [*(reader := SseReader()).feed(frames), *reader.close()]
    except DragomanError:
        return []
    return [event for frame in read if (event := _object(frame.data)) is not None]


def _object(body: bytes) -> JsonObject | None:
    # What is relayed may hold half a character, where it was cut; it is kept with U+FFFD instead.
    try:
        value = decode_lenient(body)
    except DragomanError:
        return None
    return value if isinstance(value, dict) else None
