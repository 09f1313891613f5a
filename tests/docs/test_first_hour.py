"""The script of the first hour plays to its end, and every screen is one that a person can read."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.docs.bare import ROOT
from tools.first_hour import steps
from tools.pseudo_terminal import shown


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("\x1b[32m200\x1b[0m good\r\n", "200 good\n"),
        ("10 %\r50 %\r100 %\r\ndone", "100 %\ndone"),
        ("\x1b]0;title\x07plain", "plain"),
    ],
)
def test_what_is_shown_is_what_is_left_on_the_screen(text: str, seen: str) -> None:
    assert shown(text) == seen


def test_the_hour_plays_to_its_end() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools/first_hour.py"), "--installed", "--columns", "80"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    screens = re.split(r"^---- \d+\. ", done.stdout, flags=re.MULTILINE)[1:]
    # Beside what is typed: the start, the gateway's own terminal, and its end.
    assert len(screens) == len(list(steps("", 0))) + 3, done.stdout + done.stderr
    assert "dragoman listens on http://127.0.0.1:" in screens[0]
    assert "You said: Hello" in screens[1]
    assert screens[-1].startswith("Ctrl-C there")
    assert "Traceback" not in done.stdout and "it took too long" not in done.stdout
