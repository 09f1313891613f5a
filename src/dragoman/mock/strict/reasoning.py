"""What the Responses service refuses about reasoning that comes back: its proof, its summary, and what it led to."""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.mock.answers.signatures import opened
from dragoman.mock.strict.common import Issued, objects
from dragoman.model.jsonvalue import JsonObject


def reasoning_faults(body: JsonObject, issued: Issued) -> Iterator[str]:
    """Everything about reasoning that is a 400."""
    items = objects(body.get("input"))
    for count, item in enumerate(items):
        if item.get("type") == "reasoning":
            yield from _encrypted_content_faults(body, item, count, issued)
            yield from _follower_faults(items, count, issued)
        leader = issued.leaders.get(str(item.get("id")))
        if leader is not None and (count == 0 or items[count - 1].get("id") != leader):
            name = item.get("id")
            yield f"input[{count}]: Item {name!r} was provided without its required 'reasoning' item {leader!r}"


def _encrypted_content_faults(body: JsonObject, item: JsonObject, count: int, issued: Issued) -> Iterator[str]:
    name, encrypted = item.get("id"), item.get("encrypted_content")
    issued_item = issued.items.get(str(name))
    ours = isinstance(encrypted, str) and (
        opened(encrypted) is not None or (issued_item or {}).get("encrypted_content") == encrypted
    )
    if not encrypted and body.get("store") is False:
        yield f"input[{count}]: Items are not persisted when `store` is set to false, and there is no encrypted content"
    if encrypted and not ours:
        yield f"input[{count}]: invalid_encrypted_content: The encrypted content could not be verified: {encrypted!r}"
    if name is not None and issued_item is None and not (encrypted and ours):
        yield f"input[{count}]: Item with id {name!r} not found."
    if issued_item is not None and encrypted and encrypted != issued_item.get("encrypted_content"):
        yield f"input[{count}]: invalid_encrypted_content: it belongs to another item than {name!r}"
    if issued_item is not None and item.get("summary") != issued_item.get("summary"):
        yield f"input[{count}].summary: {item.get('summary')!r} was {issued_item.get('summary')!r}"


def _follower_faults(items: list[JsonObject], count: int, issued: Issued) -> Iterator[str]:
    """Reasoning stands before what it led to: by its id where that was issued here, else by its kind."""
    name = str(items[count].get("id"))
    after: JsonObject = items[count + 1] if count + 1 < len(items) else {"type": "nothing_output"}
    kind = str(after.get("type", "message"))
    follower = issued.items.get(issued.followers.get(name, ""))
    fits = not kind.endswith("_output") and after.get("role", "assistant") == "assistant"
    if fits and follower is not None:
        issued_item = issued.items.get(str(after.get("id")), follower)
        fits = kind == follower.get("type") and issued_item is follower
    if not fits:
        yield f"input[{count}]: Item {name!r} of type 'reasoning' was provided without its required following item."
