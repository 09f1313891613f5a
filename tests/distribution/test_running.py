"""The wheel, installed where nothing else is, is a gateway; and what is none is found."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tools.distribution.contents import build
from tools.distribution.running import TrialError, ask, install, pythons, run, serving, try_program

OWN = f"3.{sys.version_info.minor}"


def program(place: Path, text: str) -> Path:
    """A program that says it is one."""
    path = place / "dragoman"
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_the_wheel_runs_in_a_bare_environment(tmp_path: Path) -> None:
    built = build(tmp_path / "dist")
    programs = install(Path(sys.executable), tmp_path, built.wheel)
    # Nothing of this clone helps it.
    found = run([programs / "python", "-c", "import dragoman; print(dragoman.__file__)"], tmp_path)
    assert Path(found.strip()).is_relative_to(tmp_path)
    try_program([programs / "dragoman"], tmp_path)


def test_a_program_that_fails_is_told_with_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(TrialError, match="ended with 3:\nno such thing"):
        try_program([program(tmp_path, "echo no such thing; exit 3")], tmp_path)


def test_a_program_that_does_not_serve_is_told(tmp_path: Path) -> None:
    with pytest.raises(TrialError, match=r"did not serve:\nserve"):
        try_program([program(tmp_path, "echo serve")], tmp_path)


def test_another_version_is_told(tmp_path: Path) -> None:
    with pytest.raises(TrialError, match="is another version than"):
        try_program([program(tmp_path, "echo serve --version 0.0.0")], tmp_path)


def test_a_warning_is_a_failure(tmp_path: Path) -> None:
    # A shell that waits for one long command can miss the interrupt that ends it: the trap is set before anything is
    # printed, and is looked at after every short sleep.
    first = "trap 'exit 0' INT; echo DeprecationWarning >&2; echo 'it listens on http://127.0.0.1:1, now'"
    words = f"{first}; while :; do sleep 0.1; done"
    with (
        pytest.raises(TrialError, match="DeprecationWarning"),
        serving([program(tmp_path, words)], tmp_path) as address,
    ):
        assert address == "http://127.0.0.1:1"
        with pytest.raises(OSError, match="refused"):
            ask(address)


def test_pythons_are_found_on_the_path_and_under_pyenv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, version in (("3.12.1", "3.12"), ("3.12.10", "3.12"), ("3.13.0", "nothing, as it is broken")):
        folder = tmp_path / "versions" / name / "bin"
        folder.mkdir(parents=True)
        (folder / "python").write_text(f"#!/bin/sh\necho {version}\n", encoding="utf-8")
        (folder / "python").chmod(0o755)
    on_path = tmp_path / "python3.14"
    on_path.write_text("#!/bin/sh\necho 3.14\n", encoding="utf-8")
    on_path.chmod(0o755)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    found = pythons()
    assert found["3.12"] == tmp_path / "versions/3.12.10/bin/python"
    assert found["3.14"] == on_path
    assert OWN in found
    assert found.get("3.13") != tmp_path / "versions/3.13.0/bin/python"
