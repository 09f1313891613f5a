"""`dragoman providers` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.cli import main, providers
from dragoman.providers.catalogue import catalogue
from tests.cli.machine import SECRET, clean, put_trusted
from tests.cli.screens import on_screen


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clean(tmp_path, monkeypatch)
    # Servers that run on this machine are none of it.
    monkeypatch.setattr(providers, "local_models_of", lambda settings: {})
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    put_trusted(
        Path(),
        '[providers.a-box-with-a-rather-long-name]\nprotocol = "openai-chat"\n'
        'base_url = "http://127.0.0.1:8000/a/path/that/does/not/fit/into/what/is/left/of/a/line/v1"\n',
    )


@pytest.mark.parametrize("columns", [80, 140])
def test_the_table_fits_a_terminal_and_starts_with_those_set_up(columns: int, tmp_path: Path) -> None:
    seen = on_screen(["providers"], tmp_path, columns=columns, environ={"OPENAI_API_KEY": SECRET})
    lines = seen.plain.splitlines()
    assert max(map(len, lines)) <= columns
    assert lines[0].split() == ["NAME", "TITLE", "ACR", "SET", "VARIABLE", "ADDRESS"]
    assert lines[1].startswith("a-box-with-") and lines[1].split()[1:3] == ["·C·", "yes"]
    names = {line.split()[0] for line in lines if line}
    assert {"openai", "anthropic", "ollama"} <= names
    assert "echo" not in names
    assert SECRET not in seen.raw + seen.other


def test_pitfall_616_elsewhere_values_are_whole_and_separated_by_tabs(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["providers"]) == 0
    header, first, *_ = (line.split("\t") for line in capfd.readouterr().out.splitlines())
    assert header == ["NAME", "TITLE", "ACR", "SET", "VARIABLE", "ADDRESS"]
    assert first == [
        "a-box-with-a-rather-long-name",
        "",
        "·C·",
        "yes",
        "",
        "http://127.0.0.1:8000/a/path/that/does/not/fit/into/what/is/left/of/a/line/v1",
    ]


def test_those_set_up_alone(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["providers", "--configured", "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert [line["name"] for line in told] == ["a-box-with-a-rather-long-name", "openai"]
    assert all(line["configured"] for line in told)


def test_for_programs(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["providers", "--json"]) == 0
    out = capfd.readouterr().out
    told = {line["name"]: line for line in json.loads(out)}
    assert set(catalogue()) < set(told)
    assert "OPENAI_API_KEY" in told["openai"]["environment"]
    assert told["openai"]["configured"] and not told["anthropic"]["configured"]
    assert list(told["anthropic"]["addresses"]) == told["anthropic"]["protocols"]
    assert SECRET not in out


def test_those_that_lack_something_come_next_with_the_variable(capfd: pytest.CaptureFixture[str]) -> None:
    put_trusted(Path(), '[providers.groq]\napi_key = "$WORK"\n')
    assert main(["providers", "--json"]) == 0
    lines = json.loads(capfd.readouterr().out)
    assert [line["name"] for line in lines[:2]] == ["openai", "groq"]
    assert (lines[1]["configured"], lines[1]["missing"]) == (False, "WORK")
    assert main(["providers"]) == 0
    line = next(line for line in capfd.readouterr().out.splitlines() if line.startswith("groq\t"))
    assert line.split("\t")[3:5] == ["no", "WORK"]
