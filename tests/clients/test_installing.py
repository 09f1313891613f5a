"""The pins of the clients: exact, and without an address."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.clients import installing
from tests.clients.installing import INSTALLERS, PINNED_BY, PINS, PLACE, InstallingError, installed, main

REQUIREMENTS = sorted(PINS.glob("*.txt"))


def test_every_client_is_installed_as_pinned() -> None:
    assert [name for name in INSTALLERS if not installed(name)] == []


def test_what_npm_installed_is_what_is_pinned() -> None:
    pinned = json.loads((PINS / "package.json").read_text())["dependencies"]
    for name, version in pinned.items():
        manifest = PLACE / "npm/node_modules" / name / "package.json"
        assert json.loads(manifest.read_text())["version"] == version


@pytest.mark.parametrize("path", [path for path in PINS.iterdir() if path.is_file()], ids=lambda path: path.name)
def test_no_pin_has_an_address(path: Path) -> None:
    assert not re.search(r"https?://|file:|\.tgz|--index|registry=", path.read_text())


def test_the_pins_of_npm_are_exact_and_locked() -> None:
    pinned = json.loads((PINS / "package.json").read_text())["dependencies"]
    locked = json.loads((PINS / "package-lock.json").read_text())["packages"]
    for name, version in pinned.items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version), name
        assert locked[f"node_modules/{name}"]["version"] == version
    assert all("integrity" in package for name, package in locked.items() if name)


@pytest.mark.parametrize("path", REQUIREMENTS, ids=lambda path: path.name)
def test_the_pins_of_python_are_exact(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    assert lines
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+(\[[a-z,]+\])?==[0-9a-z.]+", line) for line in lines)


def test_what_is_installed_depends_on_pins_that_exist() -> None:
    assert set(PINNED_BY) == set(INSTALLERS)
    assert all((PINS / pin).exists() for pins in PINNED_BY.values() for pin in pins)


def test_what_is_there_is_not_installed_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out == ""


def test_a_name_that_is_no_client_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["emacs"])
    assert "unknown: emacs" in capsys.readouterr().err


def test_an_old_node_is_told_where_the_registry_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = tmp_path / "node"
    node.write_text("#!/bin/sh\necho v20.1.0\n")
    node.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InstallingError, match=r"Node 20\.1\.0 is too old"):
        installing._use_own_node(tmp_path)


def test_no_node_at_all_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InstallingError, match="there is no Node"):
        installing._use_own_node(tmp_path)
    with pytest.raises(InstallingError, match="npm is not on PATH"):
        installing._npm()


def test_a_client_gets_a_python_that_it_runs_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing, "PYTHONS", {"old": ((2, 7),)})
    monkeypatch.setenv("PATH", str(tmp_path))
    assert installing._python("any") == sys.executable
    with pytest.raises(InstallingError, match=r"old runs on Python 2\.7 only"):
        installing._python("old")
    (tmp_path / "python2.7").touch(0o755)
    assert installing._python("old") == str(tmp_path / "python2.7")
