"""Keeping: an answer that can be referred to later is written down before its client learns of its end."""

from __future__ import annotations

import re
import sqlite3

from msgspec import Struct

from dragoman.errors import DragomanError
from dragoman.gateway.logs import Log
from dragoman.gateway.recalling import Recalled, items_of
from dragoman.model.jsonvalue import JsonObject
from dragoman.store import Store
from dragoman.store.responses import Item, Kept
from dragoman.wire.json import decode_object, encode
from dragoman.wire.sse import SseReader

# The events that hold a whole response at its end.
LAST = ("response.completed", "response.incomplete", "response.failed")


_nothing_before = re.compile(rb'"previous_response_id"\s*:\s*null').sub


class Task(Struct, frozen=True, kw_only=True):
    """What is to be kept: `response_id` is the answer's, "" where its provider keeps it.

    `native` says that it does: then only who made it is noted. `relayed` says that the answer is the provider's own.
    """

    store: Store
    owner: bytes
    recalled: Recalled | None
    response_id: str
    provider: str
    native: bool = False
    relayed: bool = False


class Keeping:
    """One answer on its way into the store."""

    def __init__(self, task: Task, log: Log) -> None:
        self._task = task
        self._log = log
        # How the provider of a relayed answer names it, and what goes in place of that, both as JSON. A provider that
        # keeps nothing may give the same id twice.
        self._theirs = b""
        self._ours = encode(task.response_id)
        # What it does not know of its request, because that was sent as one that refers to nothing.
        before = task.recalled.previous if task.recalled is not None else None
        self._previous = b'"previous_response_id":' + encode(before) if before is not None else b""
        # The answer, once it is there.
        self.response: JsonObject | None = None

    def named(self, out: bytes) -> bytes:
        """Whole frames, or a whole answer, of a provider that keeps nothing, under the names that are kept here."""
        recalled = self._task.recalled
        if self._task.native or recalled is None or not recalled.keeps:
            return out
        if not self._theirs:
            name = _name_in(out)
            self._theirs = encode(name) if name else b""
        # Inside a text the quotes around either would be escaped.
        if self._theirs:
            out = out.replace(self._theirs, self._ours)
        return _nothing_before(lambda _: self._previous, out) if self._previous else out

    def whole(self, body: bytes) -> None:
        """Keep a whole answer."""
        self._keep(_object(body))

    def ending(self, frames: bytes) -> None:
        """Keep the answer that the last frames of a stream hold."""
        for event in reversed(_events(frames)):
            if event.get("type") in LAST:
                response = event.get("response")
                self._keep(response if isinstance(response, dict) else None)
                return

    def _keep(self, response: JsonObject | None) -> None:
        self.response = response
        if response is not None and (self._task.recalled is None or not self._task.recalled.background):
            try:
                self._write(response)
            except sqlite3.Error as error:
                # The answer is paid for, and most clients never refer to it: it is told, and a reference is refused.
                self._log.event("error", "an answer could not be kept", why=str(error))

    def _write(self, response: JsonObject) -> None:
        task, recalled = self._task, self._task.recalled
        store, owner = task.store, task.owner
        named = response.get("id")
        response_id = task.response_id or (named if isinstance(named, str) else "")
        answered = answered_in(response)
        said, conversation = (recalled.said, recalled.conversation) if recalled is not None else ((), None)

        def append() -> None:
            if conversation is not None:
                store.conversations.append(owner, conversation, [*said, *answered])

        if not response_id or (recalled is not None and not recalled.keeps):
            append()
        elif task.native or recalled is None:
            store.responses.note(owner, response_id, task.provider, [item.id for item in answered], append)
        else:
            # In a conversation nothing leads back to what was said before, so it is kept with the response.
            context = (*recalled.before, *said) if conversation is not None else said
            kept = _kept(response_id, task.provider, response, recalled.previous)
            if not store.responses.add(owner, kept, context, answered, append):
                self._log.event("warn", "a provider gave the same id to two responses", provider=task.provider)
        store.sweep()


def answered_in(response: JsonObject) -> tuple[Item, ...]:
    """The items of an answer."""
    output = response.get("output")
    return items_of([encode(item) for item in output] if isinstance(output, list) else [])


def _kept(response_id: str, provider: str, response: JsonObject, previous: str | None) -> Kept:
    return Kept(
        id=response_id,
        status=status_of(response),
        previous=previous,
        background=False,
        provider=provider,
        alive=0,
        body=encode(response),
    )


def status_of(response: JsonObject) -> str:
    """Where a response stands."""
    status = response.get("status")
    return status if isinstance(status, str) else "completed"


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
    try:
        return decode_object(body)
    except DragomanError:
        return None
