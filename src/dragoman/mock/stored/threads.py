"""Threads: conversations that the Messages service stores, so that a client sends only new messages.

thread                                  full request
{type: create}                          itself; the response ID identifies the conversation from then on
{type: continue, previous_message_id}   the stored messages, followed by its own"""

from __future__ import annotations

from dragoman.mock.answers.signatures import MESSAGES
from dragoman.mock.stored.memory import MockStore, Thread
from dragoman.mock.strict.common import objects
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import Extras

# Members that are set when a thread is created, and valid for all its turns.
_CREATE_ONLY = ("system", "tools")
_UNSUPPORTED = ("context_management", "fallbacks")


def expanded(body: JsonObject, memory: MockStore) -> JsonObject | Failure:
    """The request with the full conversation, and without `thread`."""
    thread = body.get("thread")
    if not isinstance(thread, dict):
        return body
    unsupported = [name for name in _UNSUPPORTED if body.get(name) is not None]
    if unsupported:
        return _failure("thread_unsupported_request", 400, f"thread: not supported with {', '.join(unsupported)}")
    if thread.get("type") == "create":
        return body
    name = str(thread.get("previous_message_id"))
    held = memory.thread(name)
    if held is None:
        return _failure("thread_not_found", 404, f"thread: no usable state was found for {name!r}")
    if held.continued:
        return _failure("thread_already_continued", 409, f"thread: {name!r} has already been continued")
    changed = [member for member in _CREATE_ONLY if member in body and body[member] != held.system.get(member)]
    if changed:
        return _failure("thread_fingerprint_mismatch", 400, f"thread: {', '.join(changed)} differ from what is held")
    return {**body, **held.system, "messages": [*held.messages, *objects(body.get("messages"))]}


def remember(request: JsonObject, full_request: JsonObject, response: JsonObject, memory: MockStore, size: int) -> None:
    """Store the conversation of a request, which is `full_request` when expanded, and its response."""
    thread = request.get("thread")
    if not isinstance(thread, dict):
        return
    before = memory.thread(str(thread.get("previous_message_id")))
    if before is not None:
        before.continued = True
    turn: JsonObject = {"role": "assistant", "content": response.get("content")}
    turns = [turn] if response.get("content") else []
    system: JsonObject = {member: full_request[member] for member in _CREATE_ONLY if member in full_request}
    held = Thread(system=system, messages=[*objects(full_request.get("messages")), *turns], size=size)
    memory.hold(str(response.get("id")), held)


def _failure(code: str, status: int, message: str) -> Failure:
    kinds = {400: FailureKind.INVALID, 404: FailureKind.NOT_FOUND, 409: FailureKind.CONFLICT}
    details: JsonObject = {"details": {"error_code": code}}
    return Failure(kind=kinds[status], status=status, message=message, extras=Extras(origin=MESSAGES, fields=details))
