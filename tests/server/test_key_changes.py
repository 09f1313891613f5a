"""Administrators change keys through several workers at once: each change is numbered, audited, and none is lost."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest

from dragoman.identities.key_text import hash_text, new_key
from dragoman.model.jsonvalue import JsonObject, JsonValue
from tests.gateway.harness import MESSAGES, Answer, Received, Reply
from tests.gateway.says import tells
from tests.server.process import Served, serving

ADMINS = {name: new_key() for name in ("ada", "eva", "ida", "ova")}
KEYS = "".join(f'[keys.{name}]\nhash = "{hash_text(text)}"\nrole = "admin"\n' for name, text in ADMINS.items())
# Changes of each administrator.
CHANGES = 6
# The key was changed meanwhile, or the file is held by another process: the same is tried again.
AGAIN = (412, 503)


def _script(received: Received) -> Reply:
    return tells(MESSAGES)


@pytest.fixture
def house() -> Iterator[Served]:
    with serving(_script, KEYS, arguments=("--workers", "2")) as house:
        yield house


def send(house: Served, method: str, path: str, name: str, body: JsonValue = None, **headers: str) -> Answer:
    data = b"" if body is None else json.dumps(body).encode()
    return house.ask(method, f"/admin/v1{path}", data, authorization=f"Bearer {ADMINS[name]}", **headers)


def models_of(view: JsonObject) -> list[str]:
    models = view["models"]
    assert isinstance(models, list)
    return [str(model) for model in models]


def add(house: Served, name: str, pattern: str) -> int:
    """Add a pattern to the key, whatever others do meanwhile; gives the number of refused attempts."""
    refused = 0
    while True:
        view = send(house, "GET", "/keys/ann", name)
        tag = view.header("etag")
        assert tag is not None
        models: list[JsonValue] = [*models_of(view.json()), pattern]
        answer = send(house, "PATCH", "/keys/ann", name, {"models": models}, if_match=tag)
        if answer.status == 200:
            return refused
        assert answer.status in AGAIN, answer.body
        refused += 1


def test_no_change_of_several_administrators_at_several_workers_is_lost(house: Served) -> None:
    made = send(house, "POST", "/keys", "ada", {"name": "ann", "models": ["first"]})
    assert made.status == 201
    failed: list[BaseException] = []
    together = threading.Barrier(len(ADMINS))

    def administer(name: str) -> None:
        try:
            together.wait(60)
            for number in range(CHANGES):
                add(house, name, f"{name}-{number}")
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=administer, args=(name,)) for name in ADMINS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    expected = {f"{name}-{number}" for name in ADMINS for number in range(CHANGES)}
    view = send(house, "GET", "/keys/ann", "ada").json()
    assert sorted(models_of(view)) == sorted({"first", *expected})
    assert view["generation"] == 1 + len(expected)
    audited = send(house, "GET", "/audit?n=1000", "ada").json()["changes"]
    assert isinstance(audited, list)
    actors = [str(each["actor"]) for each in audited if isinstance(each, dict)]
    assert len(actors) == 1 + len(expected)
    assert {name: actors.count(name) for name in ADMINS} == {name: CHANGES + (name == "ada") for name in ADMINS}


def test_of_two_revocations_with_the_same_tag_one_is_made(house: Served) -> None:
    for number in range(4):
        tag = send(house, "POST", "/keys", "ada", {"name": f"key{number}"}).header("etag")
        assert tag is not None
        statuses: list[int] = []

        def revoke(name: str, path: str = f"/keys/key{number}", tag: str = tag, statuses: list[int] = statuses) -> None:
            statuses.append(send(house, "DELETE", path, name, if_match=tag).status)

        threads = [threading.Thread(target=revoke, args=(name,)) for name in ("ada", "eva")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [200, 412]
