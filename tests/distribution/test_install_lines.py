"""The README's ways to install it: none can bring a stranger's package, or break a system's Python; pip's runs here.

`make dist` goes those of uv and pipx.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.server.process import PATIENCE
from tools.distribution.contents import ROOT, install_lines
from tools.distribution.running import environment

README = (ROOT / "README.md").read_text(encoding="utf-8")
# Whatever tells people what to type: pages, and the program itself.
TOLD = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TOLD += sorted((ROOT / "src").rglob("*.py"))


def test_pitfall_624_programs_come_first_that_keep_it_apart_and_pip_has_its_environment() -> None:
    lines = install_lines()
    assert [line[:2] for line in lines[:3]] == [("uvx", "--from"), ("uv", "tool"), ("pipx", "install")]
    made, installed, *_ = lines[3:]
    assert made[:3] == ("python3", "-m", "venv")
    assert installed[0] == f"{made[3]}/bin/pip"


def test_pitfall_624_nothing_breaks_a_systems_python_or_takes_the_name_from_the_index() -> None:
    for page in TOLD:
        text = page.read_text(encoding="utf-8")
        assert "--break-system-packages" not in text, page.name
        # By its name alone anybody's package would come; a path is ours.
        assert not re.search(r"(pip|pipx|tool) install ['\"]?dragoman\b(?![-/.])", text), page.name
        assert not re.search(r"\buvx dragoman|pipx run dragoman", text), page.name


def test_the_lines_for_pip_run(tmp_path: Path) -> None:
    lines = [" ".join(line) for line in install_lines() if line[0] not in ("uvx", "uv", "pipx")]
    script = "\n".join(lines).replace("~", str(tmp_path)).replace("python3 ", f"{sys.executable} ")
    done = subprocess.run(
        ["bash", "-ec", script],
        cwd=ROOT,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=5 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "openai-chat" in done.stdout or "anthropic" in done.stdout
