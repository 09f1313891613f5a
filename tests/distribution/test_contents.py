"""What is given to others holds the repository's files and nothing else; and what would be wrong with it is found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tools.distribution.contents import (
    ROOT,
    Distribution,
    build,
    members,
    metadata_problems,
    pythons_named,
    repository_files,
    sdist_problems,
    wheel_problems,
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Distribution:
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def wheel(built: Distribution) -> dict[str, bytes]:
    return members(built.wheel)


@pytest.fixture(scope="module")
def package() -> dict[str, bytes]:
    """The package's files as they lie here."""
    files = [path for path in (ROOT / "src/dragoman").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in files}


def test_pitfall_631_the_wheel_holds_the_package_and_nothing_else(
    wheel: Mapping[str, bytes], package: Mapping[str, bytes]
) -> None:
    assert list(wheel_problems(wheel, package)) == []
    assert not [name for name in wheel if "test" in name.split("/")[0] or name.endswith(".pth")]


def test_the_sdist_holds_the_repository(built: Distribution) -> None:
    files = repository_files(committed=False)
    if files is None:
        pytest.skip("this is no repository that git can read")
    stem = built.sdist.name.removesuffix(".tar.gz")
    assert list(sdist_problems(members(built.sdist), files, stem)) == []


def test_the_metadata_are_whole(wheel: Mapping[str, bytes]) -> None:
    assert list(metadata_problems(wheel)) == []
    assert {"3.11", "3.12", "3.13"} <= pythons_named(wheel)


def changed(wheel: Mapping[str, bytes], name: str, data: bytes) -> dict[str, bytes]:
    return {**wheel, name: data}


# What might be in a wheel, and what is said of it.
STRANGERS = {
    "a file that every Python runs": ("dragoman_init.pth", "dragoman_init.pth, which is not in the repository"),
    "a second package": ("tests/__init__.py", "tests/__init__.py, which is not in the repository"),
    "a module that nobody committed": ("dragoman/extra.py", "dragoman/extra.py, which is not in the repository"),
    "a script": ("dragoman-0.1.0.data/scripts/x", "data/scripts/x, which is not in the repository"),
    "another module than ours": ("dragoman/errors.py", "another dragoman/errors.py than the repository"),
}


@pytest.mark.parametrize("stranger", STRANGERS)
def test_pitfall_631_a_stranger_in_the_wheel_is_found(
    wheel: Mapping[str, bytes], package: Mapping[str, bytes], stranger: str
) -> None:
    name, words = STRANGERS[stranger]
    problems = list(wheel_problems(changed(wheel, name, b"import os\n"), package))
    assert any(words in problem for problem in problems), problems


def test_a_wheel_without_its_data_is_found(wheel: Mapping[str, bytes], package: Mapping[str, bytes]) -> None:
    rest = {name: data for name, data in wheel.items() if not name.endswith("catalogue.toml")}
    # Also where the repository has lost it.
    files = {name: data for name, data in package.items() if not name.endswith("catalogue.toml")}
    assert list(wheel_problems(rest, package)) == ["the wheel lacks dragoman/providers/catalogue.toml"] * 2
    assert list(wheel_problems(rest, files)) == ["the wheel lacks dragoman/providers/catalogue.toml"]


def test_an_sdist_that_is_not_the_repository_is_found() -> None:
    files = {"README.md": b"it", "src/dragoman/errors.py": b""}
    held = {"d-1/PKG-INFO": b"", "d-1/README.md": b"other", "d-1/secret.env": b"", "elsewhere.py": b""}
    assert list(sdist_problems(held, files, "d-1")) == [
        "the sdist holds elsewhere.py, which is not in the repository",
        "the sdist holds secret.env, which is not in the repository",
        "the sdist lacks src/dragoman/errors.py",
        "the sdist holds another README.md than the repository",
    ]


# A line of the metadata, what it becomes, and what is said of that.
LINES = {
    "a made-up address": (b"Name: dragoman", b"Name: dragoman\nProject-URL: Home, https://example.com", "an address"),
    "another system": (b":: MacOS", b":: OS Independent", "it says that it runs on"),
    "another licence": (b"License-Expression: Apache-2.0", b"License-Expression: MIT", "License-Expression is MIT"),
    "one more dependency": (b"Requires-Dist: brotli", b"Requires-Dist: left-pad\nRequires-Dist: brotli", "left-pad"),
    "another Python": (b"Requires-Python: >=3.11", b"Requires-Python: >=3.8", "Requires-Python is >=3.8"),
    "no README": (b"# Dragoman", b"# Something else", "the description is not the README"),
}


@pytest.mark.parametrize("line", LINES)
def test_metadata_that_say_something_else_are_found(wheel: Mapping[str, bytes], line: str) -> None:
    before, after, words = LINES[line]
    name = next(name for name in wheel if name.endswith("/METADATA"))
    assert before in wheel[name]
    problems = list(metadata_problems(changed(wheel, name, wheel[name].replace(before, after, 1))))
    assert len(problems) == 1
    assert words in problems[0]


def test_what_is_ignored_is_in_neither(built: Distribution, tmp_path: Path) -> None:
    names = [*members(built.wheel), *members(built.sdist)]
    assert not [name for name in names if "__pycache__" in name or ".venv" in name.split("/") or "/.git/" in name]
