"""What a gateway that runs has written is seen by the commands, and goes by them."""

from __future__ import annotations

import json

from dragoman.identities.key_text import hash_text, new_key
from dragoman.model.jsonvalue import JsonObject
from tests.cli.screens import piped
from tests.gateway.harness import CHAT, MESSAGES, Received, Reply
from tests.gateway.says import question, tells
from tests.server.process import Served, serving

ALICE, BOB = new_key(), new_key()
TAGS = 'tags = { zone = "eu", team = "web" }'
KEYS = f'[keys.alice]\nhash = "{hash_text(ALICE)}"\n{TAGS}\n[keys.bob]\nhash = "{hash_text(BOB)}"\n'


def _script(received: Received) -> Reply:
    return tells(CHAT)


def said(house: Served, *words: str) -> str:
    status, out, err = piped([*words, "--config", str(house.file)], house.directory)
    assert (status, err) == (0, "")
    return out


def used(house: Served, by: str) -> JsonObject:
    found: JsonObject = json.loads(said(house, "usage", "--by", by, "--json"))
    return found


def ask(house: Served, key: str) -> None:
    assert house.post("/v1/messages", question(MESSAGES, CHAT), x_api_key=key).status == 200


def files_with(house: Served, text: bytes) -> list[str]:
    folder = house.directory / ".local/state/dragoman"
    return [path.name for path in sorted(folder.rglob("*")) if path.is_file() and text in path.read_bytes()]


def test_usage_sees_all_that_was_answered_while_the_gateway_runs_and_after() -> None:
    with serving(_script, KEYS) as house:
        for key in (ALICE, ALICE, BOB):
            ask(house, key)
        running = used(house, "key")
        rows = running["rows"]
        assert isinstance(rows, list)
        assert {row["key"]: row["requests"] for row in rows if isinstance(row, dict)} == {"alice": 2, "bob": 1}
        for by in ("model", "provider", "client", "session", "thread", "day", "tag", "day,tag:team,key"):
            assert used(house, by)["total"] == running["total"]
        assert house.stop() == 0
        assert used(house, "key")["total"] == running["total"]
        assert "wrong" not in said(house, "db", "check")
        lines = [json.loads(line) for line in said(house, "db", "export").splitlines()]
        assert [line["key"] for line in lines] == ["alice", "alice", "bob"]
        tags = {"team": "web", "zone": "eu"}
        assert [line["tags"] for line in lines] == [tags, tags, {}]
        assert [json.loads(line)["tags"] for line in said(house, "logs", "--json").splitlines()] == [tags, tags, {}]
        assert "tags team=web,zone=eu" in said(house, "logs", lines[0]["id"])
        teams = used(house, "tag:team")["rows"]
        assert isinstance(teams, list)
        assert [(row["tags"], row["requests"]) for row in teams if isinstance(row, dict)] == [
            ({"team": "web"}, 2),
            ({"team": ""}, 1),
        ]
        shown = said(house, "usage", "--by", "tag")
        assert "team=web,zone=eu" in shown


def test_pitfall_658_a_gateway_that_runs_gives_up_the_journals_of_who_is_forgotten() -> None:
    with serving(_script, KEYS) as house:
        for key in (ALICE, BOB):
            ask(house, key)
        before = used(house, "key")["total"]
        (mine, others) = (json.loads(line) for line in said(house, "db", "export").splitlines())
        assert files_with(house, mine["id"].encode())
        said(house, "forget", "--key", "alice", "--yes")
        assert files_with(house, mine["id"].encode()) == []
        assert files_with(house, others["id"].encode())
        assert used(house, "key")["total"] == before
        # It goes on as before.
        ask(house, ALICE)
        assert [json.loads(line)["key"] for line in said(house, "db", "export").splitlines()] == ["bob", "alice"]
