"""`dragoman key import`: all keys of a file, or none, or all that are not refused; each is reported by its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.identities.key_text import digest_of
from tests.cli.recorded_file import config
from tests.cli.test_key import Ended, key
from tests.store.opened import opened

EXPIRED = "2020-01-01T00:00:00Z"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    config(tmp_path)
    return tmp_path


def save(place: Path, *rows: dict[str, object]) -> None:
    tokens = ({"token": digest_of(f"sk-{at}").hex(), **row} for at, row in enumerate(rows))
    (place / "keys.json").write_text(json.dumps({"keys": list(tokens)}), encoding="utf-8")


def imported(place: Path, *words: str) -> Ended:
    return key(place, "import", "keys.json", *words)


def names(place: Path) -> list[str]:
    return [view["name"] for view in json.loads(key(place, "list", "--json").out)["keys"]]


def test_pitfall_740_keys_are_imported_by_their_digests_and_found_by_their_texts(place: Path) -> None:
    save(place, {"key_alias": "ann", "models": ["gpt-4*"]}, {"key_alias": "bob@example.org"})
    done = imported(place)
    assert (done.status, done.out.splitlines()) == (
        0,
        [
            "AT\tNAME\tRESULT\tWHY",
            "/keys/0\tann\timported\t",
            '/keys/1\tbob-example.org\timported\tnamed bob-example.org: "bob@example.org" cannot name a key',
        ],
    )
    assert done.err.startswith(f"dragoman: 2 keys imported into {place / 'state.db'}; 0 rejected\ndragoman: note: ")
    with opened(place / "state.db") as tables:
        stored = {each.identity.name: each.identity for each in tables.identities.page()}
        assert [entry.action for entry in tables.identities.audit()] == ["import", "import"]
    assert stored["ann"].digests[0].digest == stored["ann"].owner == digest_of("sk-0")
    assert stored["ann"].rights.models == ("gpt-4*",)


def test_one_refused_key_leaves_all_out_and_every_refusal_is_reported(place: Path) -> None:
    key(place, "new", "dan")
    save(
        place,
        {"key_alias": "ann"},
        {"key_alias": "bob", "max_budget": 5},
        {"key_alias": "cid", "expires": EXPIRED},
        {"key_alias": "dan"},
        {"key_alias": "eve", "models": ["a b"]},
        {"key_alias": "launch"},
    )
    done = imported(place)
    assert done.status == 1
    assert [line.split(" (")[0].split("\t") for line in done.out.splitlines()[1:]] == [
        ["/keys/0", "ann", "accepted", ""],
        ["/keys/1", "bob", "refused", "max_budget: cannot be carried over"],
        ["/keys/2", "cid", "refused", "expires: the time is in the past"],
        ["/keys/3", "dan", "refused", "name: there is or was a key dan; a name is never given again"],
        ["/keys/4", "eve", "refused", 'models: "a b" cannot be used'],
        ["/keys/5", "launch", "refused", "name: launch is reserved"],
    ]
    assert done.err.splitlines() == [
        "dragoman: nothing was imported: 1 key accepted, 5 rejected",
        "dragoman: --skip-refused imports the accepted keys",
    ]
    assert names(place) == ["dan"]
    assert imported(place, "--skip-refused").status == 0
    assert names(place) == ["ann", "dan"]


def test_a_dry_run_imports_nothing(place: Path) -> None:
    save(place, {"key_alias": "ann"})
    done = imported(place, "--dry-run", "--json")
    assert done.status == 0
    assert json.loads(done.out) == {
        "imported": 0,
        "refused": 0,
        "keys": [
            {
                "number": 1,
                "location": "/keys/0",
                "name": "ann",
                "result": "accepted",
                "problem": None,
                "remedy": None,
                "notes": [],
            }
        ],
    }
    assert done.err == "dragoman: nothing was imported: 1 key accepted, 0 rejected\n"
    assert names(place) == []


def test_a_second_import_of_the_same_file_imports_nothing_twice(place: Path) -> None:
    save(place, {"key_alias": "ann"}, {"key_alias": "bob"})
    assert imported(place).status == 0
    before = key(place, "list", "--json").out
    again = imported(place, "--skip-refused")
    assert (again.status, again.err) == (0, "dragoman: nothing was imported: 0 keys accepted, 2 rejected\n")
    assert key(place, "list", "--json").out == before


def test_fields_are_ignored_by_name(place: Path) -> None:
    save(place, {"key_alias": "ann", "max_budget": 5, "rpm_limit": 9, "tpm_limit": 1})
    assert imported(place, "--ignore", "max_budget, rpm_limit", "--ignore", "tpm_limit").status == 0
    assert names(place) == ["ann"]


def test_a_file_that_is_none_is_named_and_nothing_is_made(place: Path) -> None:
    (place / "keys.json").write_text("token,alias", encoding="utf-8")
    assert imported(place).err.startswith("dragoman: the file is not JSON")
    assert key(place, "import", "nowhere.json").err == "dragoman: nowhere.json: No such file or directory\n"
    assert not (place / "state.db").exists()
