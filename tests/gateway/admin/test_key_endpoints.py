"""Keys over HTTP: made, listed, changed, rotated and revoked by administrators, within their rights, no change lost."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, RouteRule, Settings, Storage
from dragoman.gateway.admin.api import AdminApi
from dragoman.gateway.admin.key_database import KeyDatabase
from dragoman.identities.identity import ADMIN, Rights
from dragoman.identities.key_text import digest_of, is_mistyped, new_key
from dragoman.routing.route import RuleCondition
from dragoman.store import open_tables
from tests.cli.recorded_file import NOW
from tests.gateway.admin.key_requests import made, refusal, send
from tests.gateway.admin.recorded_gateway import error_of, settings_with_roles, text_of
from tests.gateway.harness import House, read_answer, running
from tests.identities.holders import holder

LATER = "2027-06-01T00:00:00Z"
# An administrator with limits.
LIMITED = Rights(role=ADMIN, models=("claude-*",), providers=("echo",), paths=("messages", "files:read"), concurrency=4)


def _settings(path: str) -> Settings:
    settings = settings_with_roles(0, path)
    more = {"eva": Rights(role=ADMIN), "lim": LIMITED}
    holders = (holder(name, digest_of(text_of(name)), rights=rights) for name, rights in more.items())
    return replace(settings, keys=(*settings.keys, *holders))


def _same(settings: Settings, _: int) -> Settings:
    return settings


@contextmanager
def _gateway(path: str) -> Iterator[House]:
    with running(settings=partial(_same, _settings(path))) as house:
        house.app.admin = AdminApi(
            house.app._snapshots, lambda: house.app.runtime, now=lambda: NOW, keys=KeyDatabase(timeout=0.1)
        )
        yield house


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def house(file: Path) -> Iterator[House]:
    with _gateway(str(file)) as house:
        yield house


def test_a_key_lives_from_its_making_to_its_revocation(house: House) -> None:
    members = {"models": ["claude-*"], "role": "client", "tags": {"team": "web"}, "expires": LATER, "concurrency": 2}
    answer = send(house, "POST", "/keys", {"name": "ann", **members}, status=201)
    document = answer.json()
    assert answer.header("etag") == '"1"'
    assert isinstance(document["key"], str)
    assert re.fullmatch("dgm_[0-9A-Za-z]{49}", document["key"])
    assert not is_mistyped(document["key"].encode())
    view = send(house, "GET", "/keys/ann")
    assert (view.json(), view.header("etag")) == (document["identity"], '"1"')
    assert {name: view.json()[name] for name in members} == members
    assert (view.json()["created_by"], view.json()["source"]) == ("ada", "database")

    changed = send(house, "PATCH", "/keys/ann", {"models": None, "providers": ["echo"]}, match=1)
    assert changed.header("etag") == '"2"'
    assert changed.json() == {**view.json(), "models": None, "providers": ["echo"], "generation": 2}

    rotated = send(house, "POST", "/keys/ann/rotate", {"grace": 3600}, match=2)
    identity = rotated.json()["identity"]
    assert isinstance(identity, dict)
    assert rotated.json()["key"] != document["key"]
    assert (identity["state"], identity["former_until"], rotated.header("etag")) == (
        "rotated",
        "2027-01-15T09:00:00Z",
        '"3"',
    )

    revoked = send(house, "DELETE", "/keys/ann", match=3).json()
    assert (revoked["state"], revoked["models"]) == ("revoked", [])
    assert send(house, "GET", "/keys/ann").json() == revoked
    for method, path, body in (("PATCH", "", {}), ("POST", "/rotate", {}), ("DELETE", "", None)):
        assert "revoked" in refusal(house, method, f"/keys/ann{path}", body, match=4, status=409)
    actions = send(house, "GET", "/audit").json()["changes"]
    assert isinstance(actions, list)
    assert [(each["action"], each["actor"]) for each in actions if isinstance(each, dict)] == [
        (action, "ada") for action in ("revoke", "rotate", "change", "create")
    ]


def test_pitfall_730_a_rotation_whose_response_was_lost_is_repeated(house: House) -> None:
    made(house, "ann")
    lost = send(house, "POST", "/keys/ann/rotate", {"grace": 3600}, match=1).json()
    read_again = send(house, "GET", "/keys/ann").header("etag")
    assert read_again is not None
    repeated = send(house, "POST", "/keys/ann/rotate", {"grace": 7200}, match=read_again).json()
    before, after = lost["identity"], repeated["identity"]
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    assert repeated["key"] != lost["key"]
    assert (after["state"], after["former_until"]) == ("rotated", before["former_until"])


def test_a_change_needs_the_tag_of_the_key_that_was_read(house: House) -> None:
    made(house, "ann")
    for method, path, body in (("PATCH", "", {}), ("POST", "/rotate", {}), ("DELETE", "", None)):
        address = f"/keys/ann{path}"
        assert "GET /admin/v1/keys/ann and" in refusal(house, method, address, body, status=428)
        for header in ("1", "*", 'W/"1"', '"1", "2"', '"one"', '""', '"1'):
            assert "If-Match" in refusal(house, method, address, body, match=header)
        assert "changed meanwhile" in refusal(house, method, address, body, match=2, status=412)
    assert send(house, "GET", "/keys/ann").header("etag") == '"1"'


def test_of_two_administrators_who_change_the_same_key_one_is_refused(house: House) -> None:
    """Each adds one of ten patterns after reading the key, until all have: none is lost."""
    made(house, "ann", models=["start"])
    turns = threading.Barrier(2)
    failed: list[BaseException] = []

    def administer(name: str, patterns: list[str]) -> None:
        for pattern in patterns:
            turns.wait(60)
            while True:
                view = send(house, "GET", "/keys/ann", name=name).json()
                models, generation = view["models"], view["generation"]
                assert isinstance(models, list)
                assert isinstance(generation, int)
                data = json.dumps({"models": [*models, pattern]}).encode()
                answer = house.ask(
                    "PATCH",
                    "/admin/v1/keys/ann",
                    data,
                    authorization=f"Bearer {text_of(name)}",
                    if_match=f'"{generation}"',
                )
                if answer.status == 200:
                    break
                assert answer.status == 412, answer.body

    def guarded(name: str, patterns: list[str]) -> None:
        try:
            administer(name, patterns)
        except BaseException as error:
            failed.append(error)
            turns.abort()

    threads = [
        threading.Thread(target=guarded, args=(name, [f"{name}-{number}" for number in range(5)]))
        for name in ("ada", "eva")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failed == []
    models = send(house, "GET", "/keys/ann").json()["models"]
    assert isinstance(models, list)
    assert sorted(map(str, models)) == sorted(
        ["start", *(f"{name}-{number}" for name in ("ada", "eva") for number in range(5))]
    )


def test_pitfall_442_739_keys_and_changes_are_read_in_pages(house: House) -> None:
    for name in ("kim", "abe", "zoe"):
        made(house, name)
    seen: list[object] = []
    after = ""
    while True:
        page = send(house, "GET", f"/keys?n=2&after={after}").json()
        assert isinstance(page["keys"], list)
        seen += [(each["name"], each["source"]) for each in page["keys"] if isinstance(each, dict)]
        if not isinstance(page["next"], str):
            break
        after = page["next"]
    names = [("abe", "database"), *((name, "file") for name in ("ada", "alice", "bob", "eva"))]
    assert seen == [*names, ("kim", "database"), ("lim", "file"), ("vera", "file"), ("zoe", "database")]
    first = send(house, "GET", "/audit?n=2").json()
    assert first["next"] == 2
    last = send(house, "GET", "/audit?n=2&before=2").json()
    assert isinstance(last["changes"], list)
    assert (last["next"], len(last["changes"])) == (None, 1)
    # A cursor is compared, and nothing else: no text of a client is taken for more than it is.
    assert send(house, "GET", "/keys?after=%27%20OR%201=1%20--&n=1").json()["next"] == "abe"
    for query in ("n=0", "n=1001", "n=x", "cursor=1"):
        refusal(house, "GET", f"/keys?{query}")
    for query in ("before=0", "before=-1", "before=9223372036854775808", "before=x", "after=1"):
        refusal(house, "GET", f"/audit?{query}")


def test_pitfall_443_only_administrators_read_and_change_keys(house: House, file: Path) -> None:
    _, generation = made(house, "ann")
    requests: list[tuple[str, str, object]] = [
        ("GET", "/keys", None),
        ("POST", "/keys", {"name": "new"}),
        ("GET", "/keys/ann", None),
        ("PATCH", "/keys/ann", {"models": None}),
        ("DELETE", "/keys/ann", None),
        ("POST", "/keys/ann/rotate", {}),
        ("GET", "/audit", None),
    ]
    for method, path, body in requests:
        for name in ("alice", "vera"):
            said = refusal(house, method, path, body, match=generation, name=name, status=403)
            assert "role admin" in said
        answer = house.ask(method, f"/admin/v1{path}", b"")
        assert answer.status == 401
        assert "a key that is in force" in error_of(answer.json())["remedy"]
    assert send(house, "GET", "/keys/ann").header("etag") == f'"{generation}"'
    # A gateway that asks for no keys changes none over HTTP.
    without = replace(_settings(str(file)), keys=())
    with running(settings=partial(_same, without)) as open_house:
        for method, path, body in requests:
            data = b"" if body is None else json.dumps(body).encode()
            answer = open_house.ask(method, f"/admin/v1{path}", data)
            assert answer.status == 403
            assert "dragoman key new NAME --role admin" in error_of(answer.json())["remedy"]


def test_pitfall_444_what_a_key_makes_or_changes_stays_within_its_own_rights(house: House) -> None:
    within = {"models": ["claude-*"], "providers": ["echo"], "paths": ["messages"], "concurrency": 4}
    beyond: dict[str, object] = {
        "models": ["claude-*", "gpt-*"],
        "providers": None,
        "paths": ["messages", "files"],
        "concurrency": 5,
    }
    for member, value in beyond.items():
        said = refusal(house, "POST", "/keys", {"name": "bee", **within, member: value}, name="lim", status=403)
        assert member in said
        assert "lim" in said
    send(house, "POST", "/keys", {"name": "bee", **within}, name="lim", status=201)
    for member, value in beyond.items():
        refusal(house, "PATCH", "/keys/bee", {member: value}, match=1, name="lim", status=403)
    # What another made beyond these rights can neither be changed, opened nor ended.
    _, generation = made(house, "wide")
    for method, path, body in (("PATCH", "", within), ("POST", "/rotate", {}), ("DELETE", "", None)):
        refusal(house, method, f"/keys/wide{path}", body, match=generation, name="lim", status=403)
    assert send(house, "GET", "/keys/wide").header("etag") == f'"{generation}"'
    assert send(house, "PATCH", "/keys/bee", {"concurrency": 1}, match=1, name="lim").json()["concurrency"] == 1


def test_an_administrator_who_was_removed_before_the_body_arrived_changes_nothing(house: House) -> None:
    async def remove() -> None:
        table = house.app.runtime.guard.identities
        table.configure([key for key in house.app.runtime.settings.keys if key.name != "ada"])

    data = json.dumps({"name": "late"}).encode()
    with house.connect() as connection:
        head = f"POST /admin/v1/keys HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {text_of('ada')}\r\n"
        connection.sendall(f"{head}connection: close\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data[:1])
        house.take_turns()
        house.run(remove())
        connection.sendall(data[1:])
        answer = read_answer(connection)
    assert answer.status == 401
    assert send(house, "GET", "/audit", name="eva").json()["changes"] == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"name": "x", "role": "root"}, '/role: there is no role "root"'),
        ({"name": "x", "zone": "eu"}, "unknown field"),
        ({"name": "x", "models": []}, "/models: the list is empty"),
        ({"name": "x", "models": ["a**"]}, "/models"),
        ({"name": "x", "models": "a"}, "at /models: expected an array or null, got a string"),
        ({"name": "x", "models": [1]}, "at /models/0: expected a string, got an integer"),
        ({"name": "x", "tags": {"team": 1}}, "at /tags: expected a string, got an integer"),
        ({"name": "x", "providers": ["a b"]}, "/providers"),
        ({"name": "x", "addresses": ["10.0.0.1/8"]}, '/addresses: "10.0.0.1/8" cannot be used (write "10.0.0.0/8"'),
        ({"name": "x", "paths": ["fies:read"]}, "/paths"),
        ({"name": "x", "paths": ["files:reed"]}, "use one of the actions create, read, delete, cancel"),
        ({"name": "x", "tags": {"a b": "c"}}, "/tags"),
        ({"name": "x", "expires": "2020-01-01T00:00:00Z"}, "/expires: the time is in the past"),
        ({"name": "x", "expires": "2030-01-01T00:00:00"}, "/expires"),
        ({"name": "x", "expires": "soon"}, "/expires"),
        ({"name": "x", "strict": "some"}, "/strict"),
        ({"name": "x", "concurrency": 0}, "/concurrency"),
        ({"name": "x", "concurrency": "many"}, "/concurrency"),
        ({"name": "a/b"}, "/name"),
        ({}, "name"),
        ([], "the body"),
        (b'{"name":"x","models":["a"],"models":null}', "the member models twice"),
        (b'{"name":"x","tags":{"team":"a","team":"b"}}', "the member team twice"),
        (b'{"name":"x","tags":{"team":"a","te\\u0061m":"b"}}', "the member team twice"),
        (b'{"name":"x","tags":{"\xff":"a"}}', "the body is not JSON"),
        (b"{", "the body is not JSON"),
        (b"", "the body is not JSON"),
    ],
)
def test_pitfall_737_a_body_that_means_nothing_is_refused_with_a_pointer(house: House, body: object, said: str) -> None:
    assert said in refusal(house, "POST", "/keys", body)
    assert send(house, "GET", "/audit").json()["changes"] == []


def test_pitfall_737_null_removes_a_member_and_an_absent_one_stays(house: House) -> None:
    full = {
        "role": "viewer",
        "models": ["a"],
        "providers": ["echo"],
        "addresses": ["10.0.0.0/8"],
        "paths": ["files"],
        "tags": {"team": "web"},
        "expires": LATER,
        "strict": "all",
        "concurrency": 3,
    }
    empty: dict[str, object] = {**dict.fromkeys(full), "role": "client", "tags": {}, "strict": False}
    _, generation = made(house, "ann", **full)
    view = send(house, "GET", "/keys/ann").json()
    for member in full:
        assert view[member] == full[member]
        answer = send(house, "PATCH", "/keys/ann", {member: None}, match=generation).json()
        generation += 1
        assert answer == {**view, member: empty[member], "generation": generation}
        view = answer
    for body in ({"name": "bob"}, {"hash": "sha256:00"}, {"owner": None}, {"generation": 3}):
        assert "unknown field" in refusal(house, "PATCH", "/keys/ann", body, match=generation)
    assert "unknown field" in refusal(house, "POST", "/keys/ann/rotate", {"seconds": 1}, match=generation)
    for grace in (-1, 90 * 86400 + 1, "1d"):
        assert "/grace" in refusal(house, "POST", "/keys/ann/rotate", {"grace": grace}, match=generation)


def test_a_name_is_never_given_twice(house: House) -> None:
    _, generation = made(house, "ann")
    send(house, "DELETE", "/keys/ann", match=generation)
    for name, said in (
        ("ann", "is or was a key ann"),
        ("alice", "the configuration has a key alice"),
        ("launch", "reserved"),
        ("first", "reserved"),
        ("local", "reserved"),
    ):
        assert said in refusal(house, "POST", "/keys", {"name": name}, status=409)


def test_a_name_of_a_rule_is_not_given(file: Path) -> None:
    rule = RouteRule(when=RuleCondition(key="ruled"), targets=("echo/*",))
    settings = replace(_settings(str(file)), routes=(RouteConfig(pattern="a", targets=("echo/*",), rules=(rule,)),))
    with running(settings=partial(_same, settings)) as house:
        assert "a rule of the configuration names" in refusal(house, "POST", "/keys", {"name": "ruled"}, status=409)


def test_a_key_of_the_configuration_is_shown_and_changed_there_alone(house: House) -> None:
    answer = send(house, "GET", "/keys/alice")
    assert answer.header("etag") is None
    assert (answer.json()["source"], answer.json()["generation"]) == ("file", 0)
    for method, path, body in (("PATCH", "", {}), ("POST", "/rotate", {}), ("DELETE", "", None)):
        said = refusal(house, method, f"/keys/alice{path}", body, match=0, status=409)
        assert "change it there" in said


@pytest.mark.parametrize("name", ["nobody", "%61nn", "a%20b", "ann%00", "'--", "."])
def test_a_name_that_no_key_has_is_not_found(house: House, name: str) -> None:
    made(house, "ann")
    assert "/admin/v1/keys lists all keys" in refusal(house, "GET", f"/keys/{name}", status=404)
    for method, path, body in (("PATCH", "", {}), ("POST", "/rotate", {}), ("DELETE", "", None)):
        refusal(house, method, f"/keys/{name}{path}", body, match=1, status=404)


def test_pitfall_448_733_a_key_text_is_in_the_response_that_makes_it_and_nowhere_else(
    house: House, tmp_path: Path
) -> None:
    first, generation = made(house, "ann")
    rotated = send(house, "POST", "/keys/ann/rotate", {}, match=generation).json()
    second = str(rotated["key"])
    canary = new_key()
    answers = [
        send(house, method, path, status=status).body
        for method, path, status in (
            ("GET", "/keys", 200),
            ("GET", "/keys/ann", 200),
            ("GET", "/audit", 200),
            ("GET", f"/keys/{canary}", 400),
            ("GET", f"/keys?after={canary}", 400),
            ("DELETE", f"/keys/{canary}", 400),
            ("GET", f"/{canary}", 400),
        )
    ]
    for body in (
        {"name": canary},
        {"name": "x", "role": canary},
        {"name": "x", "models": [canary]},
        {"name": "x", "tags": {"key": canary}},
        {"name": "x", canary: 1},
        canary.encode(),
        b'{"name":"x","models":["dgm\\u005f%b"]}' % canary[4:].encode(),
        b'{"name":"x","tags":{"key":"\\u0064gm_%b"}}' % canary[4:].encode(),
        b'{"name":"x","dgm\\u005f%b":1}' % canary[4:].encode(),
    ):
        said = refusal(house, "POST", "/keys", body)
        answers.append(said.encode())
        assert "the text of a gateway key" in said
    send(house, "DELETE", "/keys/ann", match=2)
    # Refused requests are logged with their paths.
    for path in (f"/admin/v1/keys/{canary}", f"/v1/messages/{canary}", f"/v1/files/{canary}/content"):
        assert house.get(path, authorization="Bearer of-no-known-key").status == 401
    # Programs that are set up wrongly send it as something else.
    for model in (canary, f"chat/{canary}", "chat/small"):
        house.post(
            "/v1/chat/completions",
            {"model": model, "messages": [{"role": "user", "content": "hello"}]},
            authorization=f"Bearer {text_of('ada')}",
            user_agent=f"{canary}/1.0",
            x_dragoman_launch=canary,
            x_dragoman_session=f"session-{canary}",
        )
    house.get(f"/v1/models/{canary}", authorization=f"Bearer {text_of('ada')}")
    answers += [
        house.get("/metrics", authorization=f"Bearer {text_of('ada')}").body,
        house.get("/status", authorization=f"Bearer {text_of('ada')}").body,
        house.log.getvalue().encode(),
        *(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()),
    ]
    assert "dgm_…" in house.log.getvalue()
    for text in (first, second, canary):
        assert [answer for answer in answers if text.encode() in answer] == []
    # Digests are in the file, and in no answer.
    for text in (first, second):
        assert [answer for answer in answers[:-1] if digest_of(text).hex().encode() in answer] == []


def test_a_gateway_without_a_file_makes_no_keys(tmp_path: Path) -> None:
    for path in ("", ":memory:"):
        settings = replace(_settings(""), storage=Storage(path=path, store_responses=False))
        with running(settings=partial(_same, settings)) as house:
            assert "storage.path names no file" in refusal(house, "POST", "/keys", {"name": "ann"}, status=409)
            assert send(house, "GET", "/keys/alice").json()["source"] == "file"
            assert send(house, "GET", "/keys?after=lim").json()["next"] is None
            assert send(house, "GET", "/audit").json() == {"changes": [], "next": None}
            refusal(house, "GET", "/keys/ann", status=404)


def test_a_file_that_cannot_be_written_now_is_said_so_and_nothing_is_done(house: House, file: Path) -> None:
    _, generation = made(house, "ann")
    with closing(open_tables(str(file), 1.0)) as other:
        with other.transaction():
            answer = send(house, "PATCH", "/keys/ann", {"models": ["a"]}, match=generation, status=503)
            assert answer.header("retry-after") == "1"
            assert "another process holds the database of the keys" in refusal(
                house, "POST", "/keys", {"name": "bee"}, status=503
            )
            # Reading needs no lock.
            assert send(house, "GET", "/keys/ann").json()["models"] is None
        send(house, "PATCH", "/keys/ann", {"models": ["a"]}, match=generation)


def test_no_key_is_made_in_a_file_that_is_not_in_force(house: House, file: Path) -> None:
    house.app.runtime.guard.identities.problem = "the file is another one"
    assert "cannot be read now" in refusal(house, "POST", "/keys", {"name": "ann"}, status=503)
    house.app.runtime.guard.identities.problem = ""
    assert made(house, "ann")[1] == 1


def test_a_damaged_file_is_said_so(house: House, file: Path) -> None:
    file.write_bytes(b"this is no database, and long enough to be read as one" * 100)
    for method, path, body in (("GET", "/keys", None), ("POST", "/keys", {"name": "ann"}), ("GET", "/audit", None)):
        said = refusal(house, method, path, body, status=503)
        assert str(file) not in said
