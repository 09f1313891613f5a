"""`dragoman explain` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", ["claude-request.json", "chat-request.json", "responses-request.json"])
def test_three_columns_fit_a_terminal(name: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["explain", str(EXAMPLES / name)]) == 0
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[0].split() == ["anthropic-messages", "openai-chat", "openai-responses"]
    assert "as it was said" in lines[1]


def test_for_programs(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["explain", "--json", str(EXAMPLES / "claude-request.json")]) == 0
    told = json.loads(capfdbinary.readouterr().out)
    assert told["source"] == "anthropic-messages"
    assert set(told["dialects"]) == {"anthropic-messages", "openai-chat", "openai-responses"}
    assert told["dialects"]["anthropic-messages"]["losses"] == []
    assert told["dialects"]["openai-responses"]["body"]["model"]


def test_what_cannot_be_said_is_told_in_its_column(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    audio = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    request = tmp_path / "audio.json"
    request.write_text(json.dumps({"model": "m", "messages": [{"role": "user", "content": [audio]}]}))
    assert main(["explain", str(request)]) == 0
    out = capfdbinary.readouterr().out.decode()
    assert "refused" in out
    assert "audio" in out


def test_a_document_of_no_dialect_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = tmp_path / "odd.json"
    request.write_text("{}")
    assert main(["explain", str(request)]) == 1
    assert "neither" in capsys.readouterr().err
