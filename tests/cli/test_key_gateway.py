"""`dragoman key --gateway URL`: what the commands print on the machine, through the admin API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.cli.key_gateway import KeyGateway
from dragoman.config.settings import Settings, Storage
from dragoman.gateway.admin.api import AdminApi
from dragoman.gateway.admin.key_database import KeyDatabase
from dragoman.identities.key_text import is_mistyped
from dragoman.identities.views import KeyView
from tests.cli.recorded_file import NOW, config, records_piped
from tests.cli.screens import piped
from tests.cli.test_key import Ended, key
from tests.gateway.admin.recorded_gateway import settings_with_roles, text_of
from tests.gateway.harness import House, running
from tests.launching.test_gateway import at
from tests.store.opened import opened


def _settings(port: int, place: Path) -> Settings:
    return replace(settings_with_roles(port, str(place / "state.db")), storage=Storage(path=str(place / "state.db")))


@contextmanager
def gateway(place: Path) -> Iterator[House]:
    """A gateway whose database is in a folder, at the time of the commands."""
    with running(settings=lambda port: _settings(port, place)) as house:
        house.app.admin = AdminApi(house.app._snapshots, lambda: house.app.runtime, now=lambda: NOW, keys=KeyDatabase())
        yield house


@pytest.fixture
def place(tmp_path: Path) -> Path:
    config(tmp_path)
    return tmp_path


@pytest.fixture
def house(place: Path) -> Iterator[House]:
    with gateway(place) as house:
        yield house


def remote(house: House, place: Path, *words: str, name: str = "ada") -> Ended:
    """Call `dragoman key` for a gateway with the key of a name."""
    environ = {"DRAGOMAN_KEY": text_of(name), "TZ": "UTC"}
    status, out, err = piped(("key", *words, "--gateway", at(house.port)), place, environ, now=NOW)
    return Ended(status=status, out=out, err=err)


def test_commands_print_what_they_print_on_the_machine(house: House, place: Path) -> None:
    made = remote(house, place, "new", "ann", "--models", "claude-*", "--tag", "team=web", "--expires", "90d")
    text = made.out.splitlines()[0]
    assert (made.status, is_mistyped(text.encode())) == (0, False)
    assert made.err == f"dragoman: ann is stored in {at(house.port)}; the key is shown only now\n"
    for words in (("show", "ann"), ("show", "ann", "--json"), ("audit",), ("audit", "--json", "-n", "3")):
        assert remote(house, place, *words) == key(place, *words), words
    # The list has the keys of the gateway's configuration, too.
    listed = json.loads(remote(house, place, "list", "--json").out)
    assert [view["name"] for view in listed["keys"]] == ["ada", "alice", "ann", "bob", "vera"]
    assert json.loads(key(place, "list", "--json").out)["keys"] == [listed["keys"][2]]


def test_a_key_is_changed_rotated_and_revoked(house: House, place: Path) -> None:
    first = remote(house, place, "new", "ann", "--strict").out.splitlines()[0]
    changed = json.loads(remote(house, place, "set", "ann", "--models", "*", "--remove", "strict", "--json").out)
    assert (changed["models"], changed["strict"], changed["generation"]) == (["*"], False, 2)
    rotated = remote(house, place, "rotate", "ann", "--grace", "90m")
    assert rotated.err.endswith(", the former one is accepted until 2027-01-15T09:30:00Z\n")
    assert rotated.out.splitlines()[0] != first
    assert "state\trevoked" in remote(house, place, "revoke", "ann").out
    with opened(place / "state.db") as tables:
        entries = tables.identities.audit()
    assert [(entry.actor, entry.action) for entry in entries] == [
        ("ada", action) for action in ("revoke", "rotate", "change", "create")
    ]


def test_refusals_are_the_gateways(house: House, place: Path) -> None:
    refused = remote(house, place, "set", "alice", "--strict")
    assert (refused.status, refused.out) == (1, "")
    assert refused.err == "dragoman: the key alice is in the configuration (change it there)\n"
    assert remote(house, place, "show", "nope").err.startswith("dragoman: there is no key nope (")
    for words in (("list",), ("new", "x"), ("audit",)):
        assert remote(house, place, *words, name="vera").err.startswith(
            "dragoman: this path needs a key with the role admin ("
        )
    key(place, "new", "ann")
    too_long = ("rotate", "ann", "--grace", "91d")
    assert remote(house, place, *too_long).err == key(place, *too_long).err


@pytest.mark.parametrize("words", [("set", "ann", "--models", "*"), ("rotate", "ann"), ("revoke", "ann")])
def test_a_change_that_another_administrator_made_meanwhile_is_not_undone(
    house: House, place: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    remote(house, place, "new", "ann")
    get = KeyGateway.get

    def overtaken(keys: KeyGateway, name: str) -> KeyView:
        view = get(keys, name)
        key(place, "set", "ann", "--strict")
        return view

    monkeypatch.setattr(KeyGateway, "get", overtaken)
    refused = remote(house, place, *words)
    assert (refused.status, refused.out) == (1, "")
    assert refused.err.startswith("dragoman: the key ann was changed meanwhile (")
    monkeypatch.undo()
    view = json.loads(remote(house, place, "show", "ann", "--json").out)
    assert (view["state"], view["strict"], view["models"]) == ("active", True, None)


def test_entries_of_lists_that_match_no_name_are_warnings(house: House, place: Path) -> None:
    made = remote(house, place, "new", "ann", "--models", "chat/*,größe")
    warning = "dragoman: warning: the key ann may use größe, which matches no model name\n"
    assert (made.status, made.err.endswith(warning)) == (0, True)
    changed = remote(house, place, "set", "ann", "--models", "chat/*", "--providers", "caht")
    # Names that are nearly the same are not named: the maker of a key may use fewer.
    assert changed.err.endswith("dragoman: warning: the key ann may use the provider caht, which does not exist\n")
    for words in (("set", "ann", "--providers", "chat"), ("show", "ann"), ("list",)):
        assert "warning" not in remote(house, place, *words).err


def test_a_name_that_may_be_a_key_text_is_not_sent(house: House, place: Path) -> None:
    for words in (("show",), ("revoke",), ("rotate",), ("set", "--strict")):
        ended = remote(house, place, words[0], "dgm_" + "0" * 49, *words[1:])
        assert ended.err == "dragoman: there is no such key (dragoman key list shows all keys)\n"


def test_lists_are_read_page_by_page(house: House, place: Path) -> None:
    with opened(place / "state.db") as tables, tables.transaction():
        tables.connection.many(
            "INSERT INTO identities (name, owner, rights, tags, created, created_by, generation)"
            " VALUES (?, ?, '{}', '{}', 1, 'x', 1)",
            [(f"key-{number:04}", number.to_bytes(32, "big")) for number in range(1500)],
        )
        tables.connection.many(
            "INSERT INTO audit (time, actor, action, subject, before, after) VALUES (1, 'x', 'create', ?, NULL, '{}')",
            [(f"key-{number:04}",) for number in range(1500)],
        )
    names = [view["name"] for view in json.loads(remote(house, place, "list", "--json").out)["keys"]]
    assert names == ["ada", "alice", "bob", *(f"key-{number:04}" for number in range(1500)), "vera"]
    for most, count in ((1200, 1200), (5000, 1500)):
        changes = json.loads(remote(house, place, "audit", "-n", str(most), "--json").out)["changes"]
        assert [each["subject"] for each in changes] == [f"key-{1499 - at:04}" for at in range(count)]


def test_lines_for_the_configuration_need_no_gateway(place: Path) -> None:
    # Nothing listens there.
    status, out, _ = records_piped(("key", "new", "x", "--print", "--gateway", "http://127.0.0.1:1"), place)
    assert (status, "[keys.x]" in out) == (0, True)
