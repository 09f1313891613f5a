"""The tool itself, over a folder with two small recordings of our own making."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools import replay
from tools.replaying.journey import Difference

GOOD = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-5",
    "content": [{"type": "text", "text": "Yes."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 5, "output_tokens": 7},
}


def _run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["replay.py", *arguments])
    return replay.main()


def test_nothing_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "good.json").write_text(json.dumps(GOOD))
    assert _run(monkeypatch, str(tmp_path), "--explained", "--unread") == 0
    table = capsys.readouterr().out
    assert table.startswith("1 exchanges (1 whole answers), 11 translations, 3 streams, 0 files not read")
    assert "| texts | 0 | 0 | 0 | 0 | text |" in table


def test_what_differs_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.json").write_text(json.dumps({"choices": [{"index": 0, "message": 1}]}))
    (tmp_path / "torn.json").write_text("{")
    assert _run(monkeypatch, str(tmp_path), "--show", "refusals", "1", "--unread") == 1
    told = capsys.readouterr().out
    assert "1 files not read" in told and "torn.json: JSONDecodeError" in told
    assert "| refusals | 3 | 0 | 3 | 1 |" in told
    assert "bad.json#0\n  openai-chat > anthropic-messages, whole\n  said  'a translation'" in told
    assert "openai-chat > openai-responses" not in told


def test_unknown_kind_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit):
        _run(monkeypatch, str(tmp_path), "--show", "colours")


def test_shown_begins_where_the_sides_part() -> None:
    long = "x" * 100
    one = Difference(kind="texts", file="a", pair="b > c", form="whole", said=f"{long}yes", came=f"{long}no")
    told = list(replay.shown([one, one], 5))
    assert len(told) == 2
    assert told[1] == f"  said  …'{'x' * 60}yes'\n  came  …'{'x' * 60}no'"
