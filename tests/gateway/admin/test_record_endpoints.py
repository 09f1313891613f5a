"""Each answer about records equals `--json` of its command on the same file, and a client gets its own alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest

from dragoman.config.settings import Settings
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.store.identities import Identities
from dragoman.store.record_tables import open_record_tables
from tests.cli.recorded_file import HOSTILE, MAIN, NEXT, records_piped
from tests.gateway.admin.recorded_gateway import ask, error_of, recorded_gateway, settings_with_roles, text_of
from tests.gateway.harness import House, running
from tests.waiting import LIMIT


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recorded")


@pytest.fixture(scope="module")
def house(folder: Path) -> Iterator[House]:
    with recorded_gateway(folder) as house:
        yield house


def _printed(folder: Path, *words: str) -> object:
    """What a command prints with `--json`."""
    status, out, _ = records_piped([*words, "--json", "--config", "gateway.toml"], folder)
    assert status == 0
    lines = [json.loads(line) for line in out.splitlines()]
    return lines[0] if len(lines) == 1 else lines


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", []),
        *((f"by={by}", ["--by", by]) for by in ("key", "model", "provider", "client", "session", "thread", "day")),
        ("by=day,key", ["--by", "day,key"]),
        ("by=model,key&n=1", ["--by", "model", "--by", "key", "-n", "1"]),
        ("by=thread&since=all&n=2", ["--by", "thread", "--since", "all", "-n", "2"]),
        ("since=90m&zone=Asia/Kathmandu", ["--since", "90m", "--zone", "Asia/Kathmandu"]),
        ("since=2027-01-01&until=2027-01-02", ["--since", "2027-01-01", "--until", "2027-01-02"]),
    ],
)
def test_usage_is_that_of_the_command(house: House, folder: Path, query: str, words: list[str]) -> None:
    assert ask(house, f"/usage?{query}") == _printed(folder, "usage", "--zone", "UTC", *words)


@pytest.mark.parametrize(
    "query",
    [
        *("by=colour", "by=", "since=soon", "zone=Nowhere/None", "until=2020-01-01", "since=all&until=2020-01-01"),
        *("n=0", "n=x", "key=bob"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(house: House, query: str) -> None:
    error = error_of(ask(house, f"/usage?{query}", status=400))
    assert error["type"] == "invalid_request"
    assert "--" not in error["message"], "parameters are no options"


@pytest.mark.parametrize("by", ["key", "model", "session", "thread", "day", "client"])
def test_a_client_gets_the_usage_of_its_own_key(house: House, by: str) -> None:
    everything, own = ask(house, f"/usage?by={by}"), ask(house, f"/usage?by={by}", "bob")
    by_key = ask(house, "/usage?by=key")
    assert isinstance(everything, dict)
    assert isinstance(own, dict)
    assert isinstance(by_key, dict)
    assert isinstance(by_key["rows"], list)
    (bob,) = [row for row in by_key["rows"] if isinstance(row, dict) and row["key"] == "bob"]
    assert own["total"] == {name: value for name, value in bob.items() if name != "key"}
    assert isinstance(own["rows"], list)
    assert all(isinstance(row, dict) and row.get("key") in (None, "bob") for row in own["rows"])
    assert [row["requests"] for row in own["rows"] if isinstance(row, dict)] == [bob["requests"]] == [1]


@pytest.mark.parametrize("query", ["by=key&since=' OR 1=1 --", "by=session&zone=UTC'; DROP TABLE sums; --"])
def test_sql_in_a_parameter_is_text(house: House, query: str) -> None:
    encoded = query.replace(" ", "%20").replace("'", "%27").replace(";", "%3B")
    assert error_of(ask(house, f"/usage?{encoded}", "bob", 400))["type"] == "invalid_request"


def test_an_absent_file_has_no_records(tmp_path: Path) -> None:
    with recorded_gateway(tmp_path) as house:
        (tmp_path / "state.db").rename(tmp_path / "elsewhere.db")
        answer = ask(house, "/usage?since=all")
    assert isinstance(answer, dict)
    assert answer["rows"] == []


def _rows(document: JsonValue, name: str) -> list[JsonObject]:
    assert isinstance(document, dict)
    rows = document[name]
    assert isinstance(rows, list)
    return [row for row in rows if isinstance(row, dict)]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", []),
        ("?n=3", ["-n", "3"]),
        ("?since=25m", ["--since", "25m"]),
        ("?key=bob", ["--key", "bob"]),
        ("?model=large", ["--model", "large"]),
        ("?model=no*ne", ["--model", "no*ne"]),
        ("?errors=true", ["--errors"]),
        (f"?session={MAIN}", ["--session", MAIN]),
        (f"?session={MAIN[:14]}&thread=2", ["--session", MAIN[:14], "--thread", "2"]),
    ],
)
def test_exchanges_are_those_of_the_command(house: House, folder: Path, query: str, words: list[str]) -> None:
    printed = _printed(folder, "logs", *words)
    expected = printed if isinstance(printed, list) else [printed]
    assert _rows(ask(house, f"/exchanges{query}"), "exchanges") == expected


def test_one_exchange_is_that_of_the_command(house: House, folder: Path) -> None:
    for row in _rows(ask(house, "/exchanges"), "exchanges"):
        assert ask(house, f"/exchanges/{row['id']!s}") == _printed(folder, "logs", str(row["id"])) == row
    assert ask(house, "/exchanges/theirs") == _printed(folder, "logs", "theirs")


def test_pages_of_exchanges_have_each_one_once_and_later_ones_follow(house: House) -> None:
    everything = [row["id"] for row in _rows(ask(house, "/exchanges"), "exchanges")]
    for name in ("vera", "bob"):
        seen, cursor = list[JsonValue](), ""
        while True:
            page = ask(house, f"/exchanges?n=3{cursor}", name)
            assert isinstance(page, dict)
            seen = [row["id"] for row in _rows(page, "exchanges")] + seen
            if page["before"] is None:
                break
            cursor = f"&before={page['before']!s}"
        assert len(seen) == (len(everything) if name == "vera" else 1)
        assert name == "bob" or seen == everything
    page = ask(house, "/exchanges?n=0")
    assert isinstance(page, dict)
    assert (page["exchanges"], page["before"]) == ([], None)
    later = ask(house, f"/exchanges?after={page['after']!s}")
    assert later == {"exchanges": [], "before": None, "after": page["after"]}
    assert len(_rows(ask(house, "/exchanges?after=0"), "exchanges")) == len(everything)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", []),
        ("?since=all", ["--since", "all"]),
        ("?since=2m", ["--since", "2m"]),
        ("?key=bob", ["--key", "bob"]),
        ("?n=1", ["-n", "1"]),
        ("?all=true", ["--all"]),
    ],
)
def test_sessions_are_those_of_the_command(house: House, folder: Path, query: str, words: list[str]) -> None:
    assert ask(house, f"/sessions{query}") == _printed(folder, "sessions", *words)


@pytest.mark.parametrize("name", [MAIN, NEXT, NEXT[:14], HOSTILE])
def test_one_session_and_its_threads_are_those_of_the_command(house: House, folder: Path, name: str) -> None:
    session = ask(house, f"/sessions/{quote(name, safe='')}")
    assert session == _printed(folder, "session", name)
    assert isinstance(session, dict)
    for thread in _rows(session, "threads"):
        page = ask(house, f"/threads/{thread['number']!s}")
        assert page == {**thread, "session": {name: session[name] for name in ("id", "key", "client")}}


@pytest.mark.parametrize("by", ["thread", "model"])
def test_live_activity_is_that_of_the_command(house: House, folder: Path, by: str) -> None:
    assert ask(house, f"/live?by={by}") == _printed(folder, "top", "--by", by)


def test_pitfall_444_a_client_gets_records_of_its_own_key_alone(house: House) -> None:
    everything = _rows(ask(house, "/exchanges"), "exchanges")
    own = [row for row in everything if row["key"] == "bob"]
    assert len(own) == 1 < len(everything)
    for query in ("", "?key=bob", "?since=all", f"?session={NEXT}", "?thread=8", "?after=0"):
        found = _rows(ask(house, f"/exchanges{query}", "bob"), "exchanges")
        assert [row["id"] for row in found] == [own[0]["id"]]
        assert not {"candidates", "candidates_more"} & {*found[0]}
    for query in ("?key=alice", "?thread=1", "?before=1-1", "?errors=true"):
        assert _rows(ask(house, f"/exchanges{query}", "bob"), "exchanges") == []
    for query in ("", "?key=bob", "?all=true", "?since=all"):
        (session,) = _rows(ask(house, f"/sessions{query}", "bob"), "sessions")
        assert (session["id"], session["origin"], session["origin_number"]) == (NEXT, None, None)
    assert _rows(ask(house, "/sessions?key=alice", "bob"), "sessions") == []
    live = _rows(ask(house, "/live", "bob"), "rows")
    assert [row["key"] for row in live] == ["bob"]
    session_view = ask(house, f"/sessions/{NEXT}", "bob")
    assert isinstance(session_view, dict)
    assert session_view["key"] == "bob"
    assert MAIN not in json.dumps(session_view)


@pytest.mark.parametrize("path", ["/usage?by=session", "/usage?by=key", "/exchanges?n=3", "/sessions?all=true"])
def test_every_key_gets_its_own_records_below_me(house: House, path: str) -> None:
    for name in ("alice", "bob"):
        assert ask(house, f"/me{path}", name) == ask(house, path, name)
    for name in ("vera", "ada"):
        # They have sent nothing, and read all of it elsewhere.
        own, everything = (json.dumps(ask(house, f"{prefix}{path}", name)) for prefix in ("/me", ""))
        assert ("bob" in own, "bob" in everything) == (False, True)


def test_records_of_a_name_are_those_of_its_first_owner(tmp_path: Path) -> None:
    with recorded_gateway(tmp_path) as house:
        names = house.app.runtime.settings.keys
        owners = {key.name: key.owner for key in names}
        assert ask(house, "/usage", "bob")
        with closing(open_record_tables(str(tmp_path / "state.db"))) as tables:
            Identities(tables.connection).bind_names({"bob": owners["bob"], "alice": b"the first owner"})
        assert ask(house, "/usage", "bob")
        for path in (
            "/usage",
            "/exchanges",
            "/exchanges/theirs",
            "/sessions",
            f"/sessions/{MAIN}",
            "/threads/1",
            "/live",
            "/me/usage",
        ):
            error = error_of(ask(house, path, "alice", 403))
            assert "another key" in error["message"]
            assert "[keys.alice]" in error["remedy"]
        assert ask(house, "/exchanges?key=alice", "vera")


@pytest.mark.parametrize("kind", ["exchanges", "sessions", "threads"])
def test_a_foreign_id_answers_like_a_missing_one(house: House, kind: str) -> None:
    everything = _rows(ask(house, "/exchanges"), "exchanges")
    foreign = next(str(row["id"]) for row in everything if row["key"] != "bob")
    name, missing = {"exchanges": (foreign, "req_" + "0" * 24), "sessions": (MAIN, "none"), "threads": ("1", "77")}[
        kind
    ]
    ask(house, f"/{kind}/{name}", "vera")
    errors = [error_of(ask(house, f"/{kind}/{each}", "bob", 404)) for each in (name, missing)]
    assert errors[0]["message"].replace(name, "…") == errors[1]["message"].replace(missing, "…")
    assert errors[0]["remedy"] == errors[1]["remedy"] != ""
    if kind == "exchanges":
        # Nor do other ids, or the beginning of its own, lead to it.
        for text in ("theirs", "msg_1", foreign[:12]):
            document = house.get(f"/admin/v1/exchanges/{text}", authorization=f"Bearer {text_of('bob')}")
            assert document.status in (200, 404)
            assert foreign.encode() not in document.body


def test_a_name_that_means_several_is_a_conflict(house: House) -> None:
    assert error_of(ask(house, "/sessions/5f0c7c1e", status=409))["type"] == "conflict"
    assert error_of(ask(house, "/exchanges?session=5f0c7c1e", status=409))["type"] == "conflict"


@pytest.mark.parametrize(
    "path",
    [
        "/exchanges?n=1001",
        "/exchanges?n=-1",
        "/exchanges?thread=9223372036854775808",
        "/exchanges?before=x",
        "/exchanges?after=x",
        "/exchanges?errors=perhaps",
        "/exchanges?thread=one",
        "/exchanges?since=soon",
        "/exchanges?limit=5",
        "/sessions?n=0",
        "/sessions?n=201",
        "/sessions?since=soon",
        "/sessions?before=",
        "/live?by=key",
        f"/sessions/{MAIN}?all=true",
    ],
)
def test_parameters_of_records_that_mean_nothing_are_refused(house: House, path: str) -> None:
    assert error_of(ask(house, path, status=400))["type"] == "invalid_request"


@pytest.mark.parametrize("name", ["0x1", "one", "-1", "9" * 19, "1%20", "%D9%A1", "%FF"])
def test_what_is_no_number_of_a_thread_is_not_found(house: House, name: str) -> None:
    assert error_of(ask(house, f"/threads/{name}", status=404))["type"] == "not_found"


@pytest.mark.parametrize("text", ["' OR '1'='1", "%' --", "x\x00y", "*"])
def test_sql_in_a_name_is_text(house: House, text: str) -> None:
    encoded = quote(text, safe="")
    for kind in ("exchanges", "sessions"):
        assert error_of(ask(house, f"/{kind}/{encoded}", "bob", 404))["type"] == "not_found"
    assert _rows(ask(house, f"/exchanges?key={encoded}", "bob"), "exchanges") == []


def test_a_query_beyond_its_limit_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.gateway.admin.query_runner._STEPS", 1)
    with recorded_gateway(tmp_path, seconds=0.0) as house:
        for path in ("/exchanges", "/sessions?since=all", "/live", "/usage?since=all&by=thread"):
            assert error_of(ask(house, path, status=504))["type"] == "query_too_long"


def test_what_was_written_a_moment_ago_is_there_with_its_session(tmp_path: Path) -> None:
    def settings(port: int) -> Settings:
        return settings_with_roles(port, str(tmp_path / "state.db"))

    with running(settings=settings) as house:

        async def start() -> None:
            house.app.runtime.usage_recorder.start()

        async def stop() -> None:
            await house.app.runtime.usage_recorder.close(LIMIT)

        house.run(start())
        try:
            body = {"model": "echo/text", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
            headers = {"authorization": f"Bearer {text_of('bob')}", "x-claude-code-session-id": MAIN}
            answer = house.ask("POST", "/v1/messages", json.dumps(body).encode(), **headers)
            assert answer.status == 200
            (exchange,) = _rows(ask(house, "/exchanges", "bob"), "exchanges")
            assert (exchange["key"], exchange["outcome"]) == ("bob", "answered")
            (session,) = _rows(ask(house, "/sessions", "bob"), "sessions")
            assert session["requests"] == 1
        finally:
            house.run(stop())
