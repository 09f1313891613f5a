"""Administrators change keys through several workers at once: each change is numbered, audited, and none is lost."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest

from dragoman.identities.key_text import hash_text, new_key
from dragoman.model.jsonvalue import JsonObject, JsonValue
from tests.gateway.harness import MESSAGES, Answer, Received, Reply
from tests.gateway.says import question, tells
from tests.server.process import Served, serving
from tests.server.workers import statuses_of_workers
from tests.waiting import wait_until

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
    return with_text(house, method, path, ADMINS[name], body, **headers)


def issued(answer: Answer) -> str:
    """The text of a new key."""
    assert answer.status in (200, 201), answer.body
    text = answer.json()["key"]
    assert isinstance(text, str)
    return text


def with_text(house: Served, method: str, path: str, text: str, body: JsonValue = None, **headers: str) -> Answer:
    data = b"" if body is None else json.dumps(body).encode()
    return house.ask(method, f"/admin/v1{path}", data, authorization=f"Bearer {text}", **headers)


def wait_until_known(house: Served, text: str) -> None:
    """Wait until both workers know a key."""

    def is_known() -> bool:
        me, bearer = "/admin/v1/me", f"Bearer {text}"
        return statuses_of_workers(house.process.pid, 2, house.port, me, authorization=bearer) == {200}

    wait_until(is_known, "the new key is known")


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


def test_pitfall_444_rights_of_an_administrator_of_the_database_are_those_of_the_moment(house: Served) -> None:
    root = issued(send(house, "POST", "/keys", "ada", {"name": "root", "role": "admin"}))
    wait_until_known(house, root)
    made = with_text(house, "POST", "/keys", root, {"name": "ann"})
    assert made.status == 201
    assert send(house, "GET", "/keys/ann", "ada").json()["created_by"] == "root"
    # The table of a worker may be half a second late: the change itself reads the rights.
    narrowed = send(house, "PATCH", "/keys/root", "ada", {"providers": ["echo"]}, if_match='"1"')
    assert narrowed.status == 200
    assert with_text(house, "POST", "/keys", root, {"name": "bee"}).status == 403
    assert with_text(house, "PATCH", "/keys/ann", root, {"providers": ["echo"]}, if_match='"2"').status == 403
    assert with_text(house, "POST", "/keys", root, {"name": "bee", "providers": ["echo"]}).status == 201
    tag = narrowed.header("etag")
    assert tag is not None
    assert send(house, "DELETE", "/keys/root", "ada", if_match=tag).status == 200
    for name in ("cid", "dan"):
        assert with_text(house, "POST", "/keys", root, {"name": name, "providers": ["echo"]}).status in (401, 403)
    names = send(house, "GET", "/keys", "ada").json()["keys"]
    assert isinstance(names, list)
    stored = [each["name"] for each in names if isinstance(each, dict) and each["source"] == "database"]
    assert stored == ["ann", "bee", "root"]


def test_pitfall_446_448_a_key_that_was_made_works_and_its_text_is_nowhere(house: Served) -> None:
    first = issued(send(house, "POST", "/keys", "ada", {"name": "ann", "tags": {"team": "web"}}))
    wait_until_known(house, first)
    second = issued(send(house, "POST", "/keys/ann/rotate", "ada", {}, if_match='"1"'))
    wait_until_known(house, second)
    for text in (first, second):
        answer = house.post("/v1/messages", question(MESSAGES, MESSAGES), x_api_key=text)
        assert answer.status == 200
        own = with_text(house, "GET", "/me", text).json()
        assert (own["name"], own["tags"], own["source"]) == ("ann", {"team": "web"}, "database")
        assert own["former_until"] == send(house, "GET", "/keys/ann", "ada").json()["former_until"] is not None
        assert with_text(house, "GET", f"/keys/{text}", text).status == 400
        assert house.get(f"/v1/files/{text}", x_api_key=text).status >= 400
    used = send(house, "GET", "/usage?by=key,tag", "ada").json()["rows"]
    assert isinstance(used, list)
    assert [(row["key"], row["tag"], row["requests"]) for row in used if isinstance(row, dict)] == [
        ("ann", "team=web", 2)
    ]
    pages = [send(house, "GET", path, "ada").body for path in ("/keys", "/audit", "/exchanges", "/live", "/status")]
    pages += [house.get("/metrics", x_api_key=ADMINS["ada"]).body]
    assert house.stop() == 0
    pages += [line.encode() for line in (*house.process.log.all(), *house.process.out.all())]
    pages += [path.read_bytes() for path in house.directory.rglob("*") if path.is_file()]
    for text in (first, second):
        assert [page for page in pages if text.encode() in page] == []
