"""Where commands read from."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.cli import documents
from tests.cli.screens import on_screen, piped


def test_a_file_is_read_whole_or_in_pieces(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"a" * 100_000)
    assert documents.read(str(file)) == b"a" * 100_000
    assert b"".join(documents.chunks(str(file))) == b"a" * 100_000
    assert len(list(documents.chunks(str(file)))) == 2


@pytest.mark.parametrize("columns", [40, 80, 140])
def test_messages_wrap_at_words_on_a_terminal(columns: int, tmp_path: Path) -> None:
    for words in (["launch", "codex", "--model", "nobody/knows-it", "--gateway", "x"], ["usage", "--by", "nonsense"]):
        status, _, whole = piped(words, tmp_path)
        seen = on_screen(words, tmp_path, columns=columns, stream="stderr")
        assert seen.status == status != 0
        shown = seen.plain.splitlines()
        assert all(len(line) <= columns or " " not in line.strip() for line in shown), shown
        assert " ".join(seen.plain.split()) == " ".join(whole.split())
        assert not any(line.startswith("dragoman: ") for line in shown[1:] if "usage:" not in shown[0])


def test_a_command_to_be_copied_stays_whole(capsys: pytest.CaptureFixture[str]) -> None:
    documents.complain("to resume the session:", "dragoman launch claude -- --resume 1")
    assert capsys.readouterr().err == "dragoman: to resume the session:\n  dragoman launch claude -- --resume 1\n"
