"""Commands with `--gateway` print what they print of the file on the gateway's machine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from dragoman.cli.gateway_records import GatewayRecords
from dragoman.errors import DragomanError
from dragoman.launching.admin_client import AdminClient, GatewayUnreachable, Notes, _notes_in
from dragoman.records.views.exchanges import ExchangesView
from tests.cli.recorded_file import HOSTILE, MAIN, NEXT, NOW, records_on_screen, records_piped
from tests.cli.screens import on_screen, piped
from tests.gateway.admin.recorded_gateway import ask, recorded_gateway, text_of
from tests.gateway.harness import House
from tests.sdk.digging import dig_objects

LOCAL = ["--config", "gateway.toml"]
COMMANDS = [
    ["usage"],
    ["usage", "--by", "day,key", "--since", "all"],
    ["usage", "--by", "session", "-n", "1"],
    ["usage", "--by", "model", "--csv"],
    ["logs"],
    ["logs", "-n", "3"],
    ["logs", "-n", "0"],
    ["logs", "--errors", "--ids"],
    ["logs", "--key", "bob", "--all-losses"],
    ["logs", "--session", MAIN, "--thread", "1", "--since", "1h"],
    ["logs", "theirs"],
    ["logs", "theirs", "--all-losses"],
    ["sessions"],
    ["sessions", "--since", "all", "-n", "2"],
    ["sessions", "--all", "--all-losses"],
    ["sessions", "--key", "bob"],
    ["session", MAIN],
    ["session", MAIN, "--all"],
    ["session", NEXT[:14]],
    ["session", HOSTILE],
    ["top"],
    ["top", "--by", "model", "--once"],
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recorded")


@pytest.fixture(scope="module")
def house(folder: Path) -> Iterator[House]:
    with recorded_gateway(folder) as house:
        yield house


def remote(house: House, words: list[str], folder: Path, name: str = "vera") -> tuple[int, str, str]:
    """Call a command without a terminal, for the gateway."""
    environ = {"TZ": "UTC", "DRAGOMAN_KEY": text_of(name)}
    return piped([*words, "--gateway", house.url], folder, environ, now=NOW)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_commands_print_what_they_print_locally(house: House, folder: Path, words: list[str]) -> None:
    zone = ["--zone", "UTC"] if words[0] == "usage" else []
    assert remote(house, [*words, *zone], folder) == records_piped([*words, *zone, *LOCAL], folder)
    if "--csv" not in words:
        here, there = (
            records_piped([*words, *zone, "--json", *LOCAL], folder),
            remote(house, [*words, *zone, "--json"], folder),
        )
        assert here[0] == there[0] == 0
        assert list(map(json.loads, there[1].splitlines())) == list(map(json.loads, here[1].splitlines()))


@pytest.mark.parametrize("words", [["sessions"], ["session", MAIN], ["top", "--once"], ["logs"], ["logs", "theirs"]])
def test_terminals_show_what_they_show_locally(house: House, folder: Path, words: list[str]) -> None:
    environ = {"TZ": "UTC", "DRAGOMAN_KEY": text_of("vera")}
    there = on_screen([*words, "--gateway", house.url], folder, columns=110, environ=environ, now=NOW)
    here = records_on_screen([*words, *LOCAL], folder, columns=110)
    assert (there.status, there.plain) == (here.status, here.plain)


def test_a_client_sees_its_own_records(house: House, folder: Path) -> None:
    status, out, _ = remote(house, ["logs", "--json"], folder, "bob")
    assert status == 0
    (line,) = out.splitlines()
    assert json.loads(line)["key"] == "bob"
    assert "candidates" not in json.loads(line)
    status, out, _ = remote(house, ["sessions"], folder, "bob")
    assert NEXT in out
    assert MAIN not in out


def test_status_and_names_of_a_gateway_are_those_of_its_admin_api(house: House, folder: Path) -> None:
    status, out, _ = remote(house, ["status", "--json"], folder)
    assert status == 0
    assert json.loads(out) == ask(house, "/status")
    for name in ("vera", "bob"):
        status, out, _ = remote(house, ["models", "--json"], folder, name)
        assert status == 0
        page = ask(house, "/models", name)
        assert [row["name"] for row in json.loads(out)] == [row["name"] for row in dig_objects(page, "names")]


def test_many_are_read_by_pages(house: House, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.cli.logs._AT_ONCE", 2)
    monkeypatch.setattr("dragoman.cli.sessions._PAGE", 1)
    for words in (["logs"], ["logs", "-n", "5"], ["sessions"], ["sessions", "-n", "2", "--all"]):
        assert remote(house, words, folder) == records_piped([*words, *LOCAL], folder)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["logs", "none"], "there is no exchange 'none'"),
        (["session", "none"], "there is no session 'none'"),
        (["session", ""], "the ID is empty"),
        (["sessions", "--since", "soon"], "soon"),
        (["usage", "--by", "provider", "--ids"], "leave out --gateway"),
        (["sessions", *LOCAL], "leave one out"),
    ],
)
def test_what_cannot_be_shown_is_a_sentence(house: House, folder: Path, words: list[str], problem: str) -> None:
    status, out, err = remote(house, words, folder)
    assert status != 0
    assert out == ""
    assert problem in " ".join(err.split())


def test_a_wrong_key_and_a_missing_one_are_told_and_never_shown(house: House, folder: Path) -> None:
    for environ, problem in (
        ({"DRAGOMAN_KEY": "canary-of-a-key"}, "this gateway key is not known"),
        ({}, "the gateway requires a key (set DRAGOMAN_KEY"),
    ):
        status, out, err = piped(["sessions", "--gateway", house.url], folder, {"TZ": "UTC", **environ}, now=NOW)
        assert (status, out) == (1, "")
        assert problem in err
        assert "canary" not in err


def test_notes_of_a_response_are_written_beside_it(house: House, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def noted(headers: Mapping[str, str]) -> Notes:
        return _notes_in({**headers, "X-Dragoman-Unassigned": "3", "x-dragoman-incomplete": "ingestion takes longer"})

    monkeypatch.setattr("dragoman.launching.admin_client._notes_in", noted)
    status, _, err = remote(house, ["sessions"], folder)
    assert status == 1
    assert "3 exchanges not assigned to sessions yet" in " ".join(err.split())
    assert "ingestion takes longer" in " ".join(err.split())


def test_a_busy_gateway_is_asked_again_and_others_are_not(
    house: House, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.cli.gateway_records._PAUSE", 0.0)
    assert house.app.admin is not None
    runner = house.app.admin.services.queries
    pauses = list[float]()

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            runner._running.discard("vera")

    monkeypatch.setattr("dragoman.cli.gateway_records.time.sleep", pause)
    runner._running.add("vera")
    assert remote(house, ["sessions"], folder)[0] == 0
    assert len(pauses) == 2
    records = GatewayRecords(AdminClient("http://127.0.0.1:1", ""))
    with pytest.raises(GatewayUnreachable):
        records.get("/exchanges", ExchangesView)
    assert issubclass(GatewayUnreachable, DragomanError)
