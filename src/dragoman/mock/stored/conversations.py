"""Conversations of the Responses service: items under an id, put before every request that names it, and added to.

POST /conversations                        a new one
GET, POST, DELETE /conversations/{id}      itself: read, given other metadata, deleted
GET, POST /conversations/{id}/items        its items: a page of them, more of them
GET, DELETE /conversations/{id}/items/{}   one item
"""

from __future__ import annotations

from dragoman.mock.stored.memory import MockConversation, MockStore
from dragoman.mock.stored.pages import missing, named, page
from dragoman.mock.strict.common import objects
from dragoman.model.failure import Failure
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.protocols.codec import Mint


def name_of(given: JsonValue) -> str:
    """The id in a member `conversation`, which is that or an object with it."""
    return str(given.get("id")) if isinstance(given, dict) else str(given)


def created(body: JsonObject, memory: MockStore, mint: Mint) -> JsonObject:
    """A new conversation."""
    items = [named(item, mint) for item in objects(body.get("items"))]
    metadata = body.get("metadata")
    found = MockConversation(
        id="conv_" + mint.token(24),
        created=mint.now(),
        items=items,
        metadata=metadata if isinstance(metadata, dict) else {},
    )
    memory.converse(found)
    return _told(found)


def whole(name: str, method: str, body: JsonObject, memory: MockStore) -> JsonObject | Failure:
    """A conversation: read, changed or deleted."""
    found = memory.conversation(name)
    if found is None:
        return missing("Conversation", name, 404)
    if method == "DELETE":
        memory.end(name)
        return {"id": name, "object": "conversation.deleted", "deleted": True}
    metadata = body.get("metadata")
    if method == "POST" and isinstance(metadata, dict):
        found.metadata = metadata
    return _told(found)


def items(name: str, method: str, query: str, body: JsonObject, memory: MockStore, mint: Mint) -> JsonObject | Failure:
    """The items of a conversation: a page of them, or those that are added."""
    found = memory.conversation(name)
    if found is None:
        return missing("Conversation", name, 404)
    if method != "POST":
        return page(found.items, query)
    added = [named(item, mint) for item in objects(body.get("items"))]
    found.items.extend(added)
    data: JsonList = [*added]
    ends: JsonObject = {"first_id": added[0]["id"], "last_id": added[-1]["id"]} if added else {}
    return {"object": "list", "data": data, "first_id": None, "last_id": None, **ends, "has_more": False}


def item(name: str, method: str, memory: MockStore) -> JsonObject | Failure:
    """One item; `name` is that of the conversation, a slash, and its own."""
    conversation, _, own = name.partition("/")
    found = memory.conversation(conversation)
    kept = [one for one in found.items if one.get("id") == own] if found is not None else []
    if found is None or not kept:
        return missing("Item", own, 404)
    if method == "DELETE":
        found.items.remove(kept[0])
        return _told(found)
    return kept[0]


def remember(given: JsonValue, new: list[JsonObject], answer: JsonObject, memory: MockStore, mint: Mint) -> None:
    """Add what was said to the conversation that a request named."""
    found = memory.conversation(name_of(given))
    if found is not None:
        found.items.extend([*(named(one, mint) for one in new), *objects(answer.get("output"))])


def _told(found: MockConversation) -> JsonObject:
    return {"id": found.id, "object": "conversation", "created_at": found.created, "metadata": found.metadata}
