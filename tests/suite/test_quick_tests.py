"""`make quick`: every file runs once, whichever process takes it, and what failed is the last thing but one printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suite.scratch import ScratchSuite
from tools import quick_tests

COUNTED = """
from pathlib import Path

def test_one():
    with Path("ran").open("a") as ran:
        ran.write(f"{__name__} ")

def test_two():
    pass
"""
FILES = {f"test_{number}.py": COUNTED for number in range(8)}


def quick(directory: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str]) -> int:
    suite = ScratchSuite(directory, files)
    monkeypatch.setattr(quick_tests, "ROOT", suite.directory)
    monkeypatch.setattr(quick_tests, "LOGS", suite.directory / "logs")
    # Those of this tree are not those of the scratch suite; its temporary files are.
    monkeypatch.setenv("TMPDIR", str(suite.directory / "tmp"))
    monkeypatch.setattr(quick_tests, "NO_WATCH", ())
    return quick_tests.main([])


def test_every_file_runs_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert quick(tmp_path, monkeypatch, FILES) == 0
    assert capsys.readouterr().out.startswith("pure ring: 16 passed, 0 failed, 0 skipped in ")
    assert len((tmp_path / "ran").read_text().split()) == len(set((tmp_path / "ran").read_text().split())) == 8


def test_a_failure_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = FILES | {"test_bad.py": "def test_it():\n    assert 1 == 2, 'no sum'\n"}
    assert quick(tmp_path, monkeypatch, files) == 1
    *shown, last = capsys.readouterr().out.splitlines()
    assert "==== tests/test_bad.py::test_it" in shown
    assert any("no sum" in line for line in shown)
    assert last.startswith("pure ring: 16 passed, 1 failed, 0 skipped in ")


def test_a_file_that_cannot_be_read_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert quick(tmp_path, monkeypatch, FILES | {"test_bad.py": "import nothing_of_this_name\n"}) == 1
    assert "nothing_of_this_name" in capsys.readouterr().out
