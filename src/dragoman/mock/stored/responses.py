"""Stored responses: continued by `previous_response_id`, referenced by item, read, deleted, cancelled."""

from __future__ import annotations

from dragoman.mock.answers.signatures import encrypted
from dragoman.mock.script import COMPACTED, turns_of
from dragoman.mock.stored.conversations import name_of
from dragoman.mock.stored.memory import MockResponse, MockStore, missing, named, page
from dragoman.mock.strict.common import listed, objects
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.request import Request
from dragoman.protocols.codec import Mint


def expanded(body: JsonObject, memory: MockStore) -> JsonObject | Failure:
    """The request with all previous items in its input."""
    items: list[JsonValue] = [*input_items(body.get("input"))]
    if body.get("conversation") is not None:
        held = memory.conversation(name_of(body["conversation"]))
        if held is None:
            return missing("Conversation", name_of(body["conversation"]), 404, "conversation")
        items = [*held.items, *items]
    previous = body.get("previous_response_id")
    if previous is not None:
        stored = memory.stored(str(previous))
        if stored is None:
            return missing(
                "Previous response", str(previous), 400, "previous_response_id", "previous_response_not_found"
            )
        items = [*stored.input, *objects(stored.response.get("output")), *items]
    resolved: JsonList = []
    for item in items:
        if isinstance(item, dict) and item.get("type") == "item_reference":
            referenced_item = memory.item(str(item.get("id")))
            if referenced_item is None:
                return missing("Item", str(item.get("id")), 404, "input")
            resolved.append(referenced_item)
        else:
            resolved.append(item)
    return {**body, "input": resolved} if resolved else body


def input_items(given: JsonValue) -> JsonList:
    if not isinstance(given, str):
        return listed(given)
    return [{"type": "message", "role": "user", "content": _parts(given)}] if given else []


def _parts(content: JsonValue) -> JsonList:
    return [{"type": "input_text", "text": content}] if isinstance(content, str) else listed(content)


def remember(full_request: JsonObject, response: JsonObject, memory: MockStore, mint: Mint, size: int) -> JsonObject:
    """Store a response unless the request opts out. Return the immediate response, which may be a background one."""
    if full_request.get("store") is False:
        return response
    given = [named(item, mint) for item in objects(full_request.get("input"))]
    pending = full_request.get("background") is True and full_request.get("stream") is not True
    if pending:
        response = {**response, "background": True}
    memory.store(str(response.get("id")), MockResponse(response=response, input=given, size=size, pending=pending))
    return {**response, "status": "queued", "output": [], "usage": None, "completed_at": None} if pending else response


def retrieved(name: str, memory: MockStore) -> JsonObject | Failure:
    stored = memory.stored(name)
    if stored is None:
        return missing("Response", name, 404)
    stored.pending = False
    return stored.response


def deleted(name: str, memory: MockStore) -> JsonObject | Failure:
    if not memory.forget(name):
        return missing("Response", name, 404)
    return {"id": name, "object": "response", "deleted": True}


def cancelled(name: str, memory: MockStore) -> JsonObject | Failure:
    stored = memory.stored(name)
    if stored is None:
        return missing("Response", name, 404)
    if stored.response.get("background") is not True:
        return Failure(
            kind=FailureKind.INVALID, status=400, message="Cannot cancel a response that is not in the background."
        )
    if stored.pending:
        stored.pending = False
        stored.response = {**stored.response, "status": "cancelled", "output": [], "completed_at": None}
    return stored.response


def inputs(name: str, query: str, memory: MockStore) -> JsonObject | Failure:
    stored = memory.stored(name)
    if stored is None:
        return missing("Response", name, 404)
    return page(stored.input, query)


def is_compaction_requested(full_request: JsonObject) -> bool:
    """Whether the last item requests a compaction instead of a response."""
    last = objects(full_request.get("input"))[-1:]
    return bool(last) and last[0].get("type") == "compaction_trigger"


def compaction(question: Request, mint: Mint) -> JsonObject:
    return {
        "id": "cmp_" + mint.token(24),
        "type": "compaction",
        "encrypted_content": encrypted(f"{mint.token(14)}\n{COMPACTED}{turns_of(question)}"),
    }


def compacted(full_request: JsonObject, question: Request, tokens: int, mint: Mint) -> JsonObject:
    """A compacted conversation: the user messages, and a compaction item for the rest."""
    user_items = [item for item in objects(full_request.get("input")) if item.get("role") == "user"]
    users: JsonList = [
        {
            "id": "msg_" + mint.token(24),
            "type": "message",
            "status": "completed",
            **item,
            "content": _parts(item.get("content")),
        }
        for item in user_items
    ]
    usage: JsonObject = {
        "input_tokens": tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens + 1,
    }
    return {
        "id": "resp_" + mint.token(24),
        "object": "response.compaction",
        "created_at": mint.now(),
        "output": [*users, compaction(question, mint)],
        "usage": usage,
    }
