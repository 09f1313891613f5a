"""Requests for keys of the admin API, with the key of an administrator."""

from __future__ import annotations

import json

from tests.gateway.admin.recorded_gateway import error_of, text_of
from tests.gateway.harness import Answer, House


def send(
    house: House,
    method: str,
    path: str,
    body: object = None,
    *,
    match: int | str | None = None,
    name: str = "ada",
    status: int = 200,
) -> Answer:
    """The answer to a request, whose status must be the expected one; `match` is a generation, or any `If-Match`."""
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"authorization": f"Bearer {text_of(name)}"}
    if match is not None:
        headers["if_match"] = f'"{match}"' if isinstance(match, int) else match
    answer = house.ask(method, f"/admin/v1{path}", data, **headers)
    assert answer.status == status, answer.body
    assert answer.header("cache-control") == "no-store"
    return answer


def refusal(
    house: House,
    method: str,
    path: str,
    body: object = None,
    *,
    match: int | str | None = None,
    name: str = "ada",
    status: int = 400,
) -> str:
    """What an error says: its message and its remedy."""
    answer = send(house, method, path, body, match=match, name=name, status=status)
    error = error_of(answer.json())
    assert error["remedy"]
    return f"{error['message']} ({error['remedy']})"


def made(house: House, name: str, **members: object) -> tuple[str, int]:
    """Make a key: its text, and its generation."""
    answer = send(house, "POST", "/keys", {"name": name, **members}, status=201).json()
    text, identity = answer["key"], answer["identity"]
    assert isinstance(text, str)
    assert isinstance(identity, dict)
    generation = identity["generation"]
    assert isinstance(generation, int)
    return text, generation
