"""`make run` in a clean clone: it says what it does, installs what runs and no more, and how the program is called."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.process import PATIENCE, Lines, port_in

ROOT = Path(__file__).parents[2]
# What a clone needs for it; the rest of one is large.
NEEDED = ("Makefile", "README.md", "LICENSE", "pyproject.toml", "requirements", "src")
# Those of a make that runs the tests are not meant for another one.
MAKES_OWN = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "PYTHONPATH")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone that nothing was done in."""
    place = tmp_path_factory.mktemp("a clone")
    for name in NEEDED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__", "clients"))
        else:
            shutil.copy(ROOT / name, place / name)
    (place / "empty.toml").write_text("[server]\n", encoding="utf-8")
    return place


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in MAKES_OWN}


def make(clone: Path, *words: str) -> str:
    """What `make` says it would do."""
    done = subprocess.run(
        ["make", f"PYTHON={sys.executable}", "--dry-run", *words],
        cwd=clone,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return done.stdout


@pytest.fixture(scope="module")
def said(clone: Path) -> Iterator[tuple[list[str], list[str]]]:
    """What `make run` said until it served, on both streams."""
    arguments = "ARGUMENTS=--port 0 --log off --config empty.toml"
    process = subprocess.Popen(
        ["make", "run", f"PYTHON={sys.executable}", arguments],
        cwd=clone,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    out, log = Lines(process.stdout), Lines(process.stderr)
    try:
        port_in(out.wait(" listens on "))
        yield out.all(), log.all()
    finally:
        # As a terminal does at Ctrl-C: to make and to what it runs.
        os.killpg(process.pid, signal.SIGINT)
        process.wait(PATIENCE)
        out.finish()
        log.finish()


def test_it_says_what_it_does_and_how_the_program_is_called(said: tuple[list[str], list[str]]) -> None:
    told = [line for line in said[1] if line.startswith("dragoman: ")]
    assert [line.split()[1] for line in told] == ["making", "installing", "installing", "in"]
    assert "the 5 packages" in told[1]
    assert ".venv/bin/dragoman" in told[-1]
    assert "source .venv/bin/activate" in told[-1]


def test_only_what_runs_is_installed(clone: Path, said: tuple[list[str], list[str]]) -> None:
    (packages,) = (clone / ".venv/lib").glob("python*/site-packages")
    names = {path.name.split("-")[0].lower() for path in packages.glob("*.dist-info")}
    assert names - {"pip", "setuptools"} == {"dragoman", "msgspec", "httptools", "uvloop", "zstandard", "brotli"}


def test_the_program_is_where_it_was_said_to_be(clone: Path, said: tuple[list[str], list[str]]) -> None:
    line = "source .venv/bin/activate && dragoman --help && .venv/bin/dragoman key new"
    done = subprocess.run(
        ["bash", "-ec", line],
        cwd=clone,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert "dgm_" in done.stdout


def test_the_tools_come_with_the_first_test_and_nothing_comes_twice(
    clone: Path, said: tuple[list[str], list[str]]
) -> None:
    assert "pip" not in make(clone, "run")
    assert "-r requirements/dev.txt" in make(clone, "quick")
    # As the recipe leaves it, whose work takes minutes.
    assert "touch .venv/.runtime .venv/.installed" in make(clone, "setup")
    stamps = [clone / ".venv/.runtime", clone / ".venv/.installed"]
    try:
        for stamp in stamps:
            stamp.touch()
        assert "pip" not in make(clone, "run")
        assert "pip" not in make(clone, "setup")
    finally:
        stamps[1].unlink()
