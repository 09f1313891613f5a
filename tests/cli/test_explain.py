"""`dragoman explain` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.cli import main
from tests.cli.screens import on_screen

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", ["claude-request.json", "chat-request.json", "responses-request.json"])
@pytest.mark.parametrize("columns", [80, 140])
def test_three_columns_fit_a_terminal(name: str, columns: int, tmp_path: Path) -> None:
    seen = on_screen(["explain", str(EXAMPLES / name)], tmp_path, columns=columns)
    assert (seen.status, seen.other) == (0, "")
    lines = seen.plain.splitlines()
    assert max(map(len, lines)) <= columns
    assert lines[0].split() == ["anthropic-messages", "openai-chat", "openai-responses"]
    assert "unchanged" in lines[1]
    assert lines[2].split() == ["─" * ((columns - 4) // 3)] * 3


def test_elsewhere_each_protocol_is_one_whole_line(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["explain", str(EXAMPLES / "claude-request.json")]) == 0
    rows = [line.split("\t") for line in capfdbinary.readouterr().out.decode().splitlines()]
    assert rows[0] == ["PROTOCOL", "COST", "REQUEST"]
    assert [row[0] for row in rows[1:4]] == ["anthropic-messages", "openai-chat", "openai-responses"]
    assert json.loads(rows[1][2]) == json.loads((EXAMPLES / "claude-request.json").read_bytes())


def test_for_programs(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["explain", "--json", str(EXAMPLES / "claude-request.json")]) == 0
    told = json.loads(capfdbinary.readouterr().out)
    assert told["source"] == "anthropic-messages"
    assert set(told["protocols"]) == {"anthropic-messages", "openai-chat", "openai-responses"}
    assert told["protocols"]["anthropic-messages"]["losses"] == []
    assert told["protocols"]["openai-responses"]["body"]["model"]


def test_what_cannot_be_said_is_told_in_its_column(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    audio = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    request = tmp_path / "audio.json"
    request.write_text(json.dumps({"model": "m", "messages": [{"role": "user", "content": [audio]}]}))
    assert main(["explain", str(request)]) == 0
    out = capfdbinary.readouterr().out.decode()
    assert "refused" in out
    assert "audio" in out


def test_a_document_of_no_protocol_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = tmp_path / "odd.json"
    request.write_text("{}")
    assert main(["explain", str(request)]) == 1
    assert "neither" in capsys.readouterr().err


MARKED = {
    "max_tokens": 16,
    "model": "m",
    "messages": [{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]}],
}


def test_bookkeeping_is_listed_on_request(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    request = tmp_path / "marked.json"
    request.write_text(json.dumps(MARKED))
    for said, is_listed in (([], False), (["--all-losses"], True)):
        assert main(["explain", *said, str(request)]) == 0
        out = capfdbinary.readouterr().out.decode()
        assert "bookkeeping alone (1)" in out
        assert ("cache_breakpoint" in out) is is_listed
    seen = on_screen(["explain", str(request)], tmp_path, columns=120)
    assert "1 bookkeeping loss without effect on the response; --all-losses lists them" in seen.plain
    seen = on_screen(["explain", "--all-losses", str(request)], tmp_path, columns=120)
    assert "cache_breakpoint" in seen.plain


def test_a_request_without_model_is_explained_with_one(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    request = tmp_path / "azure.json"
    request.write_text(json.dumps({"messages": [{"role": "user", "content": "hi"}]}))
    assert main(["explain", "--json", "--model", "deployed", str(request)]) == 0
    told = json.loads(capfdbinary.readouterr().out)["protocols"]
    assert [version["body"]["model"] for version in told.values()] == ["deployed"] * 3
    assert main(["explain", "--json", str(request)]) == 0
    told = json.loads(capfdbinary.readouterr().out)["protocols"]
    assert told["openai-responses"]["refused"] == "model: expected text, found nothing; --model NAME sets it"
