"""Response writer: writes a referable response before its client gets its end. `full_response` and `ending` collect
what to write, perhaps in a thread; `unit` writes it in the store's thread, all or nothing; `lost` is the stream's end
if that failed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct

from dragoman.errors import DragomanError, WireError
from dragoman.gateway.json_limits import check_response_values
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
# A provider's `store: false` in a response that is stored, and perhaps runs, here. Quotes in model output are escaped.
_not_stored = re.compile(rb'("store"\s*:\s*)false').sub
_not_alone = re.compile(rb'("background"\s*:\s*)false').sub
_nothing_before = re.compile(rb'"previous_response_id"\s*:\s*null').sub


class Task(Struct, frozen=True, kw_only=True):
    """The storage task: `response_id`, "" where the provider stores it; with `native` only its owner is recorded.
    `holder` is the name under which it holds the lease of its conversation."""

    store: Store
    owner: bytes
    resolved: ResolvedRequest | None
    response_id: str
    provider: str
    native: bool = False
    # Whether the provider was told to store nothing, whatever the client wished.
    stored_here: bool = False
    holder: str = ""
    # The conversation that its provider stores, too.
    conversation: str = ""

    @property
    def writes(self) -> bool:
        """Whether anything of the answer is written down."""
        return self.resolved is None or self.resolved.is_stored or self.resolved.conversation is not None


class Taken(Struct, frozen=True):
    """A response in stored form: as a value, its items, and as JSON."""

    response: JsonObject
    output_items: tuple[Item, ...]
    body: bytes


class ResponseWriter:
    """One answer on its way into the store."""

    def __init__(self, task: Task, log: Log) -> None:
        self._log = log
        # The ID of a response that its provider stores, whether its owner is recorded, and whether the next frame may
        # retry that.
        self._name: str | None = None
        self._is_owner_recorded = False
        self._tries = True
        # The pending write of the owner.
        self.recording_owner: asyncio.Future[bool] | None = None
        # The items that a relayed stream has ended: some servers leave them out of the response at its end.
        self._ended: list[JsonObject] = []
        # The answer, once it is there.
        self.taken: Taken | None = None
        self.bind(task)

    def bind(self, task: Task) -> None:
        """Use another task: another target may be called for it."""
        self._task = task
        # The JSON that replaces the provider's ID in a relayed response: a provider without storage may repeat an ID.
        self._ours = encode(task.response_id)
        # Members that the provider does not know, because it got a request without references.
        before = task.resolved.previous if task.resolved is not None else None
        self._previous = b'"previous_response_id":' + encode(before) if before is not None else b""

    @property
    def provider(self) -> str:
        return self._task.provider

    def named(self, out: bytes) -> bytes:
        """Frames or a full response on the relay, with ids of ours where the provider stores nothing. Where it does,
        the owner is recorded as soon as the id is known, so that a client may hang up and come back; a busy store gets
        it with a later frame."""
        out = self.under_name(out)
        self.record_owner()
        return out

    def anew(self) -> None:
        """Drop a response that was not sent, because another one takes its place."""
        self._name, self._is_owner_recorded, self._tries, self.recording_owner = None, False, True, None
        self._ended = []

    def under_name(self, out: bytes) -> bytes:
        """The same, as far as only bytes are looked at: it may run in a thread."""
        resolved = self._task.resolved
        if self._task.native:
            if self._name is None:
                self._name = _name_in(out)
            return out
        if resolved is None or not resolved.is_stored:
            return out
        if _ITEM_DONE in out:
            self._ended += _items_ended(out)
        out = renamed(out, self._ours) if self._task.response_id else out
        if self._task.stored_here and (b'"response"' in out or out.lstrip()[:1] == b"{"):
            out = _not_stored(rb"\1true", out)
            if resolved.background:
                out = _not_alone(rb"\1true", out)
        return _nothing_before(lambda _: self._previous, out) if self._previous else out

    @property
    def owner(self) -> bytes:
        """The owner of the response."""
        return self._task.owner

    def record_owner(self) -> None:
        """Record the owner of a response, once its ID is known. An error is reported with the end of the response."""
        task, name = self._task, self._name
        if name is None or self._is_owner_recorded or self.recording_owner is not None or not self._tries:
            return
        recording = task.store.write(partial(_record_owner, task, name), 0.0, owner=task.owner, counts=False)
        recording.add_done_callback(partial(self._on_owner_recorded, name))
        self.recording_owner = recording

    def _on_owner_recorded(self, name: str, recording: asyncio.Future[bool]) -> None:
        if self.recording_owner is recording:
            self.recording_owner = None
        error = recording.exception()
        if self._name == name:
            self._is_owner_recorded = error is None
            # A store that fails is not tried with every frame.
            self._tries = error is None or isinstance(error, StoreBusy)

    @property
    def pending_owner_record(self) -> Callable[[Tables], bool] | None:
        """The write of the owner of a response whose ID was sent, if it is still pending."""
        task = self._task
        if self._name is None or self._is_owner_recorded or self.taken is not None:
            return None
        return partial(_record_owner, task, self._name)

    def full_response(self, body: bytes) -> Taken | None:
        """What to store of a full response."""
        check_response_values(body)
        return _taken(_object(body))

    def ending(self, frames: bytes) -> Taken | None:
        """What to store of the last frames of a stream."""
        for event in reversed(_events(frames)):
            if event.get("type") in LAST:
                response = event.get("response")
                return _taken(_filled(response, self._ended) if isinstance(response, dict) else None)
        return None

    def size(self, taken: Taken | None) -> int:
        """The approximate size of a response."""
        resolved = self._task.resolved
        input_items = resolved.context if resolved is not None and resolved.is_stored else ()
        return size_of([*input_items, *(taken.output_items if taken is not None else ())]) + len(
            taken.body if taken else b""
        )

    def measure(self, taken: Taken | None) -> Callable[[], int] | None:
        """The function that returns the size of a response to write; None if `unit` has no whole one to write."""
        resolved = self._task.resolved
        if taken is None or (resolved is not None and resolved.background):
            return None
        return partial(self.size, taken)

    def unit(self, taken: Taken | None) -> Callable[[Tables], bool] | None:
        """The function that writes a response; None if there is nothing to write, as in the background, where the
        worker writes."""
        task, resolved = self._task, self._task.resolved
        if self.taken is not None:
            return None
        if taken is None:
            return self.pending_owner_record
        if resolved is not None and resolved.background:
            return None
        named = taken.response.get("id")
        response_id = task.response_id or (named if isinstance(named, str) else "")
        return partial(_write, task, response_id, taken)

    def mark_written(self, taken: Taken | None, *, alone: bool = True) -> None:
        """Know that an answer is written down, or need not be; `alone` unless its id is another's as well."""
        if not alone:
            self._log.event("warn", "provider gave two responses the same id", provider=self._task.provider)
        if taken is None:
            self._is_owner_recorded = self._is_owner_recorded or self._name is not None
        self.taken = self.taken or taken

    def lost(self, frames: bytes, failure: Failure) -> bytes:
        """The end of a stream in place of its last frames, with their sequence number."""
        events = _events(frames)
        numbers = [number for event in events if isinstance(number := event.get("sequence_number"), int)]
        responses = [response for event in events if isinstance(response := event.get("response"), dict)]
        return failed_frames(failure, responses[-1] if responses else {}, [], min(numbers, default=0))


def _record_owner(task: Task, name: str, tables: Tables) -> bool:
    tables.responses.record_owner(task.owner, name, task.provider)
    if task.conversation:
        # Recorded as a response, by its ID: only its owner matters.
        tables.responses.record_owner(task.owner, task.conversation, task.provider)
    return True


def _write(task: Task, response_id: str, taken: Taken, tables: Tables) -> bool:
    """Store a response, and add it to its conversation; False if its id is taken."""
    resolved, owner, items = task.resolved, task.owner, taken.output_items
    if resolved is not None and resolved.conversation is not None:
        if is_part_of_conversation(taken.response):
            tables.conversations.append(
                owner,
                resolved.conversation,
                [*resolved.new_items, *items],
                task.holder,
                is_repeated=tables.is_repeated,
            )
        # A client that gets the end may continue at once, in any process.
        tables.conversations.release(resolved.conversation, task.holder)
    if not response_id or (resolved is not None and not resolved.is_stored):
        return True
    if task.native or resolved is None:
        tables.responses.record_owner(owner, response_id, task.provider, [item.id for item in items])
        return _record_owner(task, response_id, tables) if task.conversation else True
    status, previous = status_of(taken.response), resolved.previous
    stored = StoredResponse(response_id, status, previous, False, task.provider, 0, taken.body)
    return tables.responses.add(owner, stored, resolved.context, items, is_repeated=tables.is_repeated)


_ends = re.compile(rb'"type"\s*:\s*"(?:error|response\.(?:completed|incomplete|failed))"').search
_BLANK_LINES = (b"\n\n", b"\r\n\r\n", b"\r\r")


def parted(frames: bytes) -> tuple[bytes, bytes]:
    """Frames before the end of a response, and frames from the first that ends it; all, if none does."""
    match = _ends(frames)
    if match is None:
        return b"", frames
    before = ((frames.rfind(blank, 0, match.start()), len(blank)) for blank in _BLANK_LINES)
    start = max((api_path + length for api_path, length in before if api_path >= 0), default=0)
    return frames[:start], frames[start:]


def _taken(response: JsonObject | None) -> Taken | None:
    return None if response is None else Taken(response, output_items_in(response), encode(response))


def _items_ended(frames: bytes) -> list[JsonObject]:
    ends = [event for event in _events(frames) if event.get("type") == "response.output_item.done"]
    return [item for event in ends if isinstance(item := event.get("item"), dict)]


def _filled(response: JsonObject, ended: list[JsonObject]) -> JsonObject:
    """The response with all items that its stream has ended, if its own are some of them."""
    output = response.get("output")
    items_by_id = (
        {item.get("id"): item for item in output if isinstance(item, dict)} if isinstance(output, list) else {}
    )
    names = [item.get("id") for item in ended]
    if len(items_by_id) >= len(ended) or None in names or not items_by_id.keys() <= set(names):
        return response
    return {**response, "output": [items_by_id.get(item.get("id"), item) for item in ended]}


def output_items_in(response: JsonObject) -> tuple[Item, ...]:
    """The output items of a response; a partial summary must not replace a conversation."""
    output = response.get("output")
    bodies = [encode(item) for item in output] if isinstance(output, list) else []
    if status_of(response) != "completed":
        bodies = [body for body in bodies if named_in(body).type != "compaction"]
    return items_of(bodies)


def size_of(items: Sequence[Item]) -> int:
    return sum(len(item.body) for item in items)


def is_part_of_conversation(response: JsonObject) -> bool:
    """Whether a response belongs to its conversation: a failed one is requested again with the same input."""
    return status_of(response) in ("completed", "incomplete")


def status_of(response: JsonObject) -> str:
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
        members = [member for member in object_members(event) if member.key == "response"]
    except WireError:
        # An event of several `data` lines, which no server sends.
        return event
    return _with_id(event, members[-1].value_start, name) if members else event


def _with_id(body: bytes, start: int, name: bytes) -> bytes:
    """The same bytes with this as the id of the object that begins at `start`."""
    if body[start:].lstrip()[:1] != b"{":
        return body
    end = len(body) if start == 0 else value_end(body, start)
    try:
        replacements = [(member.value, name) for member in object_members(body, start, end) if member.key == "id"]
    except WireError:
        return body
    return replaced(body, replacements) if replacements else with_member(body, "id", name, end)


_data_lines = re.compile(rb"(?m)^(data: ?)(\{[^\r\n]*)").sub


def _name_in(out: bytes) -> str | None:
    """The response ID in a full response or in events."""
    full = _object(out)
    for response in (full,) if full is not None else [event.get("response") for event in _events(out)]:
        if isinstance(response, dict) and isinstance(name := response.get("id"), str):
            return name
    return None


def _events(frames: bytes) -> list[JsonObject]:
    try:
        read = [*(reader := SseReader()).feed(frames), *reader.close()]
    except DragomanError:
        return []
    return [event for frame in read if (event := _object(frame.data)) is not None]


def _object(body: bytes) -> JsonObject | None:
    # A cut relay may contain an unpaired surrogate, which is stored as U+FFFD.
    try:
        value = decode_lenient(body)
    except DragomanError:
        return None
    return value if isinstance(value, dict) else None
