"""Pages of items, ids for those that have none, and what is said of those that are not there."""

from __future__ import annotations

from urllib.parse import parse_qs

from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.protocols.codec import Mint
from dragoman.protocols.openai_responses.shapes import ID_PREFIXES

_MIN_LIMIT, _MAX_LIMIT, _DEFAULT_LIMIT = 1, 100, 20
_KINDS = {400: FailureKind.INVALID, 404: FailureKind.NOT_FOUND}
_PREFIXES = {**ID_PREFIXES, "custom_tool_call_output": "ctco_"}


def named(item: JsonObject, mint: Mint) -> JsonObject:
    """An item with an id of its own."""
    if "id" in item:
        return item
    return {"id": _PREFIXES.get(str(item.get("type", "message")), "fc_") + mint.token(24), **item}


def page(items: list[JsonObject], query: str) -> JsonObject:
    """Some of the items, as a query asks for them: the latest first unless it says otherwise."""
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
    """The answer to an id that nobody knows."""
    return Failure(
        kind=_KINDS[status],
        status=status,
        message=f"{what} with id '{name[:100]}' not found.",
        param=param,
        code=code,
        native="invalid_request_error",
    )
