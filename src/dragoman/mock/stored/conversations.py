"""Conversations of the Responses service: items that are added to every request that names the conversation.

POST /conversations                        create
GET, POST, DELETE /conversations/{id}      read, change metadata, delete
GET, POST /conversations/{id}/items        list items, add items
GET, DELETE /conversations/{id}/items/{}   read or delete one item"""

from __future__ import annotations

from dragoman.mock.stored.memory import MockConversation, MockStore, missing, named, page
from dragoman.mock.strict.common import objects
from dragoman.model.failure import Failure
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.protocols.codec import Mint


def name_of(given: JsonValue) -> str:
    """The ID in a member `conversation`, which is a string or an object."""
    return str(given.get("id")) if isinstance(given, dict) else str(given)


def created(body: JsonObject, memory: MockStore, mint: Mint) -> JsonObject:
    items = [named(item, mint) for item in objects(body.get("items"))]
    metadata = body.get("metadata")
    conversation = MockConversation(
        id="conv_" + mint.token(24),
        created=mint.now(),
        items=items,
        metadata=metadata if isinstance(metadata, dict) else {},
    )
    memory.converse(conversation)
    return _as_json(conversation)


def conversation_object(name: str, method: str, body: JsonObject, memory: MockStore) -> JsonObject | Failure:
    conversation = memory.conversation(name)
    if conversation is None:
        return missing("Conversation", name, 404)
    if method == "DELETE":
        memory.end(name)
        return {"id": name, "object": "conversation.deleted", "deleted": True}
    metadata = body.get("metadata")
    if method == "POST" and isinstance(metadata, dict):
        conversation.metadata = metadata
    return _as_json(conversation)


def items(name: str, method: str, query: str, body: JsonObject, memory: MockStore, mint: Mint) -> JsonObject | Failure:
    conversation = memory.conversation(name)
    if conversation is None:
        return missing("Conversation", name, 404)
    if method != "POST":
        return page(conversation.items, query)
    added = [named(item, mint) for item in objects(body.get("items"))]
    conversation.items.extend(added)
    data: JsonList = [*added]
    ends: JsonObject = {"first_id": added[0]["id"], "last_id": added[-1]["id"]} if added else {}
    return {"object": "list", "data": data, "first_id": None, "last_id": None, **ends, "has_more": False}


def item(name: str, method: str, memory: MockStore) -> JsonObject | Failure:
    """Read or delete one item. `name` is the ID of the conversation, a slash, and the item's ID."""
    conversation_id, _, own = name.partition("/")
    conversation = memory.conversation(conversation_id)
    matches = [one for one in conversation.items if one.get("id") == own] if conversation is not None else []
    if conversation is None or not matches:
        return missing("Item", own, 404)
    if method == "DELETE":
        conversation.items.remove(matches[0])
        return _as_json(conversation)
    return matches[0]


def remember(given: JsonValue, new: list[JsonObject], response: JsonObject, memory: MockStore, mint: Mint) -> None:
    conversation = memory.conversation(name_of(given))
    if conversation is not None:
        conversation.items.extend([*(named(one, mint) for one in new), *objects(response.get("output"))])


def _as_json(conversation: MockConversation) -> JsonObject:
    return {
        "id": conversation.id,
        "object": "conversation",
        "created_at": conversation.created,
        "metadata": conversation.metadata,
    }
