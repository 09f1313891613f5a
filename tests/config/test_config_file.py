"""Which file is read, and how it was come by."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dragoman.config.config_file import (
    MAX_FOUND_BYTES,
    ConfigFile,
    FileOrigin,
    config_directory,
    find_file,
    fingerprint,
    state_directory,
)
from dragoman.errors import ConfigErrors

FOUND = ConfigFile(path=Path("dragoman.toml"), origin=FileOrigin.FOUND)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def put(file: Path) -> Path:
    """An empty file where there may be no directory yet."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    return file


def test_the_file_is_looked_for_from_the_nearest_to_the_farthest_and_it_is_known_how_it_was_come_by(
    elsewhere: Path,
) -> None:
    environ = {"HOME": str(elsewhere / "home")}
    assert find_file(environ) is None
    home = put(elsewhere / "home/.config/dragoman/dragoman.toml")
    assert find_file(environ) == ConfigFile(path=home, origin=FileOrigin.OWN)
    environ["XDG_CONFIG_HOME"] = str(elsewhere / "xdg")
    assert find_file(environ) is None
    own = put(elsewhere / "xdg/dragoman/dragoman.toml")
    assert find_file(environ) == ConfigFile(path=own, origin=FileOrigin.OWN)
    put(Path("dragoman.toml"))
    assert find_file(environ) == FOUND
    environ["DRAGOMAN_CONFIG"] = "named.toml"
    assert find_file(environ) == ConfigFile(path=Path("named.toml"), origin=FileOrigin.NAMED)
    assert find_file(environ, "first.toml") == ConfigFile(path=Path("first.toml"), origin=FileOrigin.NAMED)


@pytest.mark.parametrize("linked", [False, True], ids=["in its folder", "by a link"])
def test_the_users_own_file_is_his_own_wherever_he_is(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    home = put(elsewhere / "home/.config/dragoman/dragoman.toml")
    if linked:
        Path("dragoman.toml").symlink_to(home)
    else:
        monkeypatch.chdir(home.parent)
    # By its own path: what the link leads to may be changed before it is read.
    assert find_file({"HOME": str(elsewhere / "home")}) == ConfigFile(path=home, origin=FileOrigin.OWN)


def test_a_relative_xdg_directory_is_ignored(elsewhere: Path) -> None:
    home = put(elsewhere / "home/.config/dragoman/dragoman.toml")
    found = find_file({"HOME": str(elsewhere / "home"), "XDG_CONFIG_HOME": "xdg"})
    assert found == ConfigFile(path=home, origin=FileOrigin.OWN)
    assert find_file({}) is None


@pytest.mark.parametrize("home", [".", "home", ""])
def test_a_home_that_depends_on_where_one_is_is_none(elsewhere: Path, home: str) -> None:
    put(Path(home) / ".config/dragoman/dragoman.toml")
    assert find_file({"HOME": home}) is None
    assert config_directory({"HOME": home}) is None
    assert state_directory({"HOME": home}) is None


def test_a_directory_of_that_name_is_no_file(elsewhere: Path) -> None:
    (elsewhere / "here/dragoman.toml").mkdir()
    assert find_file({}) is None


def test_a_pipe_of_that_name_is_no_file(elsewhere: Path) -> None:
    os.mkfifo("dragoman.toml")
    assert find_file({}) is None


def refused() -> str:
    """What is said of a file that was found and is not read."""
    with pytest.raises(ConfigErrors) as error:
        FOUND.read()
    return str(error.value)


def test_what_became_something_else_since_it_was_looked_for_is_not_waited_for(elsewhere: Path) -> None:
    os.mkfifo("dragoman.toml")
    assert "not a plain file" in refused()
    Path("dragoman.toml").unlink()
    Path("dragoman.toml").symlink_to("/dev/zero")
    assert "not a plain file" in refused()
    Path("dragoman.toml").unlink()
    Path("dragoman.toml").mkdir()
    assert "cannot be read" in refused()
    Path("dragoman.toml").rmdir()
    Path("dragoman.toml").symlink_to("dragoman.toml")
    assert "cannot be read" in refused()


def test_a_found_file_of_any_size_is_not_taken_in(elsewhere: Path) -> None:
    with Path("dragoman.toml").open("wb") as file:
        file.truncate(2**40)
    assert f"larger than {MAX_FOUND_BYTES} bytes" in refused()
    Path("dragoman.toml").write_bytes(b"#" * MAX_FOUND_BYTES)
    assert len(FOUND.read()) == MAX_FOUND_BYTES


def test_a_named_file_may_be_anything_that_can_be_read() -> None:
    assert ConfigFile(path=Path("/dev/null"), origin=FileOrigin.NAMED).read() == b""


def test_a_fingerprint_changes_with_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a"
    assert fingerprint(file) == (0, 0, 0)
    file.write_text("1")
    first = fingerprint(file)
    file.write_text("12")
    assert fingerprint(file) != first
    other = tmp_path / "b"
    other.write_text("12")
    second = fingerprint(file)
    other.replace(file)
    assert fingerprint(file) != second


@pytest.mark.parametrize("case", ["a dangling link", "a directory", "a file"])
def test_what_stands_at_the_users_own_place_is_read_or_refused(tmp_path: Path, case: str) -> None:
    own = tmp_path / ".config/dragoman/dragoman.toml"
    own.parent.mkdir(parents=True)
    if case == "a dangling link":
        own.symlink_to(tmp_path / "gone")
    elif case == "a directory":
        own.mkdir()
    else:
        own.write_text("[server]\n")
    found = find_file({"HOME": str(tmp_path)})
    assert found == ConfigFile(path=own, origin=FileOrigin.OWN)
    if case == "a file":
        assert found.read() == b"[server]\n"
    else:
        with pytest.raises(ConfigErrors):
            found.read()


@pytest.mark.parametrize("origin", FileOrigin)
def test_a_file_that_became_a_pipe_is_not_waited_for(tmp_path: Path, origin: FileOrigin) -> None:
    path = tmp_path / "pipe.toml"
    os.mkfifo(path)
    with pytest.raises(ConfigErrors, match="not a plain file"):
        ConfigFile(path=path, origin=origin, again=True).read()


def test_a_file_that_became_huge_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.toml"
    with path.open("wb") as file:
        file.truncate(3 * 1024**3)
    with pytest.raises(ConfigErrors, match="larger than"):
        ConfigFile(path=path, origin=FileOrigin.NAMED, again=True).read()
