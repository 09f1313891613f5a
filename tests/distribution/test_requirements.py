"""The pins: what runs is what the package asks for, what builds it is pinned too, and none names an address."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PINS = ROOT / "requirements"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FILES = sorted(path.name for path in PINS.glob("*.txt"))


def lines(name: str) -> list[str]:
    """The lines of a file that say something."""
    text = (PINS / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def pinned(name: str) -> dict[str, Requirement]:
    """What a file pins itself."""
    found = [Requirement(line) for line in lines(name) if not line.startswith("-")]
    return {each.name.lower().replace("_", "-"): each for each in found}


def test_what_runs_is_pinned_and_nothing_else() -> None:
    wanted = [Requirement(line) for line in PROJECT["project"]["dependencies"]]
    pins = pinned("run.txt")
    assert sorted(pins) == sorted(each.name for each in wanted)
    for each in wanted:
        pin = pins[each.name]
        (version,) = pin.specifier
        assert each.specifier.contains(version.version)
        assert str(pin.marker) == str(each.marker)


def test_what_builds_is_pinned() -> None:
    (wanted,) = [Requirement(line) for line in PROJECT["build-system"]["requires"]]
    (version,) = pinned("build.txt")[wanted.name].specifier
    assert wanted.specifier.contains(version.version)


def test_whoever_works_on_it_has_the_same_versions_as_whoever_runs_it() -> None:
    assert {"-r run.txt", "-r build.txt"} <= set(lines("dev.txt"))
    assert not set(pinned("dev.txt")) & (set(pinned("run.txt")) | set(pinned("build.txt")))


@pytest.mark.parametrize("name", FILES)
def test_pins_are_exact_and_name_no_address(name: str) -> None:
    for line in lines(name):
        if line.startswith("-"):
            assert re.fullmatch(r"-r [a-z]+\.txt", line)
            continue
        requirement = Requirement(line)
        assert [each.operator for each in requirement.specifier] == ["=="], line
        assert requirement.url is None
