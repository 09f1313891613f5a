"""Each answer about records equals `--json` of its command on the same file, and a client gets its own alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.recorded_file import records_piped
from tests.gateway.admin.recorded_gateway import ask, error_of, recorded_gateway
from tests.gateway.harness import House


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
    "query", ["by=colour", "by=", "since=soon", "zone=Nowhere/None", "until=2020-01-01", "n=0", "n=x", "key=bob"]
)
def test_parameters_that_mean_nothing_are_refused(house: House, query: str) -> None:
    assert error_of(ask(house, f"/usage?{query}", status=400))["type"] == "invalid_request"


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
