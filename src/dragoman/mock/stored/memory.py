"""Store of the mock: all state beyond one request. It is limited: the oldest entries are dropped first."""

from __future__ import annotations

from urllib.parse import parse_qs

from msgspec import Struct

from dragoman.mock.strict.common import Issued
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.protocols.codec import Mint
from dragoman.protocols.openai_responses.shapes import ID_PREFIXES

_MAX_ONCE_KEYS = 10_000
_MAX_STORED = 2_000
_MAX_STORED_BYTES = 256 * 1024 * 1024


class Thread(Struct, kw_only=True):
    """A Messages conversation, stored under the ID of its last response."""

    system: JsonObject
    messages: list[JsonObject]
    size: int
    continued: bool = False


class MockResponse(Struct, kw_only=True):
    response: JsonObject
    input: list[JsonObject]
    size: int
    # Requested in the background, and not retrieved since.
    pending: bool = False


class MockConversation(Struct, kw_only=True):
    id: str
    created: int
    items: list[JsonObject]
    metadata: JsonObject


class MockStore:
    def __init__(self) -> None:
        self._once: dict[str, None] = {}
        self._threads: dict[str, Thread] = {}
        self._stored: dict[str, MockResponse] = {}
        self._conversations: dict[str, MockConversation] = {}
        self._items: dict[str, JsonObject] = {}
        self._size = 0
        self.issued: dict[str, Issued] = {}

    def once(self, key: str) -> bool:
        if key in self._once:
            return False
        self._once[key] = None
        if len(self._once) > _MAX_ONCE_KEYS:
            del self._once[next(iter(self._once))]
        return True

    def issued_in(self, protocol: str) -> Issued:
        return self.issued.setdefault(protocol, Issued())

    def thread(self, name: str) -> Thread | None:
        return self._threads.get(name)

    def hold(self, name: str, thread: Thread) -> None:
        self._threads[name] = thread
        self._size += thread.size
        while len(self._threads) > 1 and (len(self._threads) > _MAX_STORED or self._size > _MAX_STORED_BYTES):
            self._size -= self._threads.pop(next(iter(self._threads))).size

    def conversation(self, name: str) -> MockConversation | None:
        return self._conversations.get(name)

    def converse(self, conversation: MockConversation) -> None:
        self._conversations[conversation.id] = conversation
        if len(self._conversations) > _MAX_STORED:
            self.end(next(iter(self._conversations)))

    def end(self, name: str) -> None:
        self._conversations.pop(name, None)

    def stored(self, name: str) -> MockResponse | None:
        return self._stored.get(name)

    def item(self, name: str) -> JsonObject | None:
        return self._items.get(name)

    def store(self, name: str, stored: MockResponse) -> None:
        self._stored[name] = stored
        self._size += stored.size
        self._items.update((str(item["id"]), item) for item in _items_of(stored) if "id" in item)
        while len(self._stored) > 1 and (len(self._stored) > _MAX_STORED or self._size > _MAX_STORED_BYTES):
            self.forget(next(iter(self._stored)))

    def forget(self, name: str) -> bool:
        """Delete a response. Return whether it existed."""
        stored = self._stored.pop(name, None)
        if stored is None:
            return False
        self._size -= stored.size
        for item in _items_of(stored):
            self._items.pop(str(item.get("id")), None)
        return True


def _items_of(stored: MockResponse) -> list[JsonObject]:
    output = stored.response.get("output")
    return [*stored.input, *(item for item in (output if isinstance(output, list) else []) if isinstance(item, dict))]


_MIN_LIMIT, _MAX_LIMIT, _DEFAULT_LIMIT = 1, 100, 20
_KINDS = {400: FailureKind.INVALID, 404: FailureKind.NOT_FOUND}
_PREFIXES = {**ID_PREFIXES, "custom_tool_call_output": "ctco_"}


def named(item: JsonObject, mint: Mint) -> JsonObject:
    if "id" in item:
        return item
    return {"id": _PREFIXES.get(str(item.get("type", "message")), "fc_") + mint.token(24), **item}


def page(items: list[JsonObject], query: str) -> JsonObject:
    """A page of the items by a query, the newest first by default."""
    params = {key: values[0] for key, values in parse_qs(query).items()}
    ordered = items if params.get("order") == "asc" else items[::-1]
    names = [str(item.get("id")) for item in ordered]
    start = names.index(params["after"]) + 1 if params.get("after") in names else 0
    wanted = params.get("limit", "")
    limit = min(max(int(wanted) if wanted.isdecimal() else _DEFAULT_LIMIT, _MIN_LIMIT), _MAX_LIMIT)
    data: JsonList = [*ordered[start : start + limit]]
    page_ids = names[start : start + limit]
    return {
        "object": "list",
        "data": data,
        "first_id": page_ids[0] if page_ids else None,
        "last_id": page_ids[-1] if page_ids else None,
        "has_more": start + limit < len(ordered),
    }


def missing(what: str, name: str, status: int, param: str | None = None, code: str | None = None) -> Failure:
    return Failure(
        kind=_KINDS[status],
        status=status,
        message=f"{what} with id '{name[:100]}' not found.",
        param=param,
        code=code,
        native="invalid_request_error",
    )
