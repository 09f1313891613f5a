"""The README's examples run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman import TranslatedRequest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
SHELL = re.findall(r"^\$ (dragoman .*)$", README, re.MULTILINE)


def test_there_are_examples() -> None:
    assert len(PYTHON) >= 2
    assert SHELL


@pytest.mark.parametrize("example", PYTHON)
def test_python_examples_run(example: str) -> None:
    sent: list[bytes] = []
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    error = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n'
    names: dict[str, object] = {"upstream_bytes": [error[:20], error[20:]], "send": sent.append, "body": body}
    exec(example, names)
    assert "out" in names
    assert not sent or b"busy" in b"".join(sent)


@pytest.mark.parametrize("command", SHELL)
def test_commands_run(command: str, tmp_path: Path) -> None:
    words = command.split(" > ")[0].split()[1:]
    done = subprocess.run(
        [sys.executable, "-m", "dragoman", *words], cwd=ROOT, capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 0
    assert done.stdout


def test_the_first_example_gives_what_its_comments_say() -> None:
    names: dict[str, object] = {"upstream_bytes": [], "send": lambda _: None}
    exec(PYTHON[0], names)
    out = names["out"]
    assert isinstance(out, TranslatedRequest)
    assert out.headers == {"anthropic-version": "2026-10-21"}
    assert '{"anthropic-version": "2026-10-21"}' in PYTHON[0]
    assert [(loss["fate"], loss["feature"], loss["at"]) for loss in out.losses] == [
        ("dropped", "sampling", "sampling.seed")
    ]
