"""`dragoman prices` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.prices.table import own_table
from tests.cli.machine import SECRET, clean, put_trusted
from tests.cli.screens import on_screen

FILE = f"""\
[providers.openai]
api_key = "{SECRET}"
[providers.local]
protocol = "openai-chat"
base_url = "http://127.0.0.1:8000/v1"
[prices."local/*"]
input = 0
output = 0
[prices."openai/gpt-5.1"]
input = 1.1
max_output_tokens = 128_000
"""


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clean(tmp_path, monkeypatch)


MODEL = "anthropic/claude-sonnet-4-5"
HEADINGS = ["MODEL", "INPUT", "OUTPUT", "READ", "WRITE", "1H", "WINDOW", "CAP", "MORE"]


def test_a_model_is_shown_with_its_book(tmp_path: Path) -> None:
    lines = on_screen(["prices", MODEL], tmp_path, columns=140).plain.splitlines()
    assert max(map(len, lines)) <= 140
    assert lines[0] == own_table().title
    assert lines[2].split() == HEADINGS
    assert lines[3].split()[:8] == [MODEL, "3", "15", "0.3", "3.75", "6", "200,000", "?"]
    assert lines[3].endswith("search 0.01; above 200,000: 6, 22.5; tiers batch")
    assert "not free" in lines[-1]


def test_what_has_no_room_goes_below(tmp_path: Path) -> None:
    lines = on_screen(["prices", MODEL], tmp_path, columns=80).plain.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[2].split() == HEADINGS[:-1]
    assert lines[3].split() == [MODEL, "3", "15", "0.3", "3.75", "6", "200,000", "?"]
    assert lines[4] == "      search 0.01; above 200,000: 6, 22.5; tiers batch"


def test_elsewhere_a_line_has_whole_values(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["prices", MODEL]) == 0
    header, row = (line.split("\t") for line in capfd.readouterr().out.splitlines())
    assert header == HEADINGS
    more = "search 0.01; above 200,000: 6, 22.5; tiers batch"
    assert row == [MODEL, "3", "15", "0.3", "3.75", "6", "200000", "?", more]


def test_a_target_is_shown_with_the_entry_that_it_is(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["prices", "azure/gpt-5.1-2025-11-13"]) == 0
    line = capfd.readouterr().out.splitlines()[1]
    assert line.startswith("azure/gpt-5.1-2025-11-13\t") and "is openai/gpt-5.1" in line


def test_overrides_are_shown(capfd: pytest.CaptureFixture[str]) -> None:
    put_trusted(Path(), FILE)
    assert main(["prices", "gpt-5.1"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[1].split()[:3] == ["openai/gpt-5.1", "1.1", "10"]
    assert "128000" in lines[1] and "override openai/gpt-5.1" in lines[1]
    assert sum(line.startswith("openai/gpt-5.1\t") for line in lines) == 1
    assert main(["prices", "local/qwen", "--json"]) == 0
    (model,) = json.loads(capfd.readouterr().out)["models"]
    assert (model["entry"], model["override"]) == (None, "local/*")
    assert model["prices"] == {"input": "0", "output": "0"}


def test_for_programs(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["prices", "openai/*-mini", "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["book"]["version"] == own_table().version
    models = {model["name"]: model for model in told["models"]}
    assert all(name.startswith("openai/") and name.endswith("-mini") for name in models)
    assert models["openai/o4-mini"]["prices"]["input"] == "1.1"
    assert {"flex", "priority", "batch"} <= set(models["openai/o4-mini"]["tiers"])


def test_without_a_price_it_is_unknown_and_not_0(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["prices", "--json"]) == 0
    models = json.loads(capfd.readouterr().out)["models"]
    assert len(models) > 2000
    unknown = [model for model in models if model["prices"] is None]
    assert len(unknown) > 160


def test_what_nobody_knows_is_a_status(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["prices", "no-such-model"]) == 1
    assert capfd.readouterr().out == f"{own_table().title}: no entry matches\n"


def test_pitfall_620_options_of_the_update_are_in_its_help_alone(capfd: pytest.CaptureFixture[str]) -> None:
    told = {}
    for words in ("prices", "prices update"):
        with pytest.raises(SystemExit) as ended:
            main([*words.split(), "--help"])
        assert ended.value.code == 0
        told[words] = capfd.readouterr().out
    for option in ("--yes", "--from", "--dry-run"):
        assert option not in told["prices"]
        assert option in told["prices update"]
        with pytest.raises(SystemExit) as ended:
            main(["prices", "gpt", option])
        assert ended.value.code == 2
        assert f"unrecognized arguments: {option}" in capfd.readouterr().err
