"""Which found files are trusted: by path and content, and by what this user alone can have written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.config.config_file import ConfigFile, FileOrigin
from dragoman.config.load import read_settings
from dragoman.config.trust import check_trust, fingerprint_of, is_trusted, revoke, trust
from dragoman.errors import ConfigError, DragomanError
from tests.config.support import CATALOGUE

FOUND = ConfigFile(path=Path("dragoman.toml"), origin=FileOrigin.FOUND)
CONTENT = b"[server]\nport = 1\n"


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The user's environment, in a checkout with a file."""
    (tmp_path / "checkout").mkdir()
    monkeypatch.chdir(tmp_path / "checkout")
    FOUND.path.write_bytes(CONTENT)
    return {"XDG_STATE_HOME": str(tmp_path / "state")}


def marks(environ: dict[str, str]) -> Path:
    """Where trust is noted."""
    return Path(environ["XDG_STATE_HOME"]) / "dragoman/trusted"


def test_a_found_file_is_used_once_it_is_trusted(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="you have not trusted it with this content") as refused:
        read_settings(FOUND, environ, CATALOGUE)
    assert f"`dragoman trust {Path('dragoman.toml').absolute()}`" in refused.value.remedy
    trust(FOUND.path, CONTENT, environ)
    assert read_settings(FOUND, environ, CATALOGUE).server.port == 1
    # Once more is no matter.
    trust(FOUND.path, CONTENT, environ)
    assert is_trusted(FOUND, CONTENT, environ)


def test_another_content_has_to_be_trusted_anew(environ: dict[str, str]) -> None:
    trust(FOUND.path, CONTENT, environ)
    FOUND.path.write_bytes(CONTENT + b"# changed\n")
    with pytest.raises(ConfigError, match="you have not trusted it"):
        read_settings(FOUND, environ, CATALOGUE)
    trust(FOUND.path, FOUND.read(), environ)
    assert not is_trusted(FOUND, CONTENT, environ)


def test_the_same_content_elsewhere_has_to_be_trusted_there(environ: dict[str, str], tmp_path: Path) -> None:
    trust(FOUND.path, CONTENT, environ)
    other = tmp_path / "other"
    other.mkdir()
    for name in ("dragoman.toml", "linked.toml"):
        file = ConfigFile(path=other / name, origin=FileOrigin.FOUND)
        if name == "linked.toml":
            file.path.symlink_to(FOUND.path.absolute())
        else:
            file.path.write_bytes(CONTENT)
        assert file.read() == CONTENT
        assert not is_trusted(file, CONTENT, environ)


def test_the_way_to_a_file_is_no_matter(environ: dict[str, str], tmp_path: Path) -> None:
    trust(FOUND.path, CONTENT, environ)
    (tmp_path / "link").symlink_to(tmp_path / "checkout")
    for path in (Path("dragoman.toml").absolute(), Path("../checkout/dragoman.toml"), tmp_path / "link/dragoman.toml"):
        assert is_trusted(ConfigFile(path=path, origin=FileOrigin.FOUND), CONTENT, environ)


@pytest.mark.parametrize("origin", [FileOrigin.NAMED, FileOrigin.OWN])
def test_what_somebody_decided_on_is_trusted_by_that(environ: dict[str, str], origin: FileOrigin) -> None:
    check_trust(ConfigFile(path=FOUND.path, origin=origin), CONTENT, environ)


def test_trust_can_be_taken_back(environ: dict[str, str]) -> None:
    revoke(FOUND.path, environ)
    trust(FOUND.path, CONTENT, environ)
    revoke(FOUND.path, environ)
    assert not is_trusted(FOUND, CONTENT, environ)
    revoke(FOUND.path, {})


def test_without_a_home_nothing_is_trusted(environ: dict[str, str]) -> None:
    trust(FOUND.path, CONTENT, environ)
    for homeless in ({}, {"HOME": ""}, {"HOME": "."}, {"XDG_STATE_HOME": "state"}):
        assert not is_trusted(FOUND, CONTENT, homeless)
        with pytest.raises(DragomanError, match="no home"):
            trust(FOUND.path, CONTENT, homeless)


def test_it_is_noted_where_nobody_else_can_read_or_write(environ: dict[str, str]) -> None:
    before = os.umask(0)
    try:
        trust(FOUND.path, CONTENT, environ)
    finally:
        os.umask(before)
    (mark,) = marks(environ).iterdir()
    assert mark.stat().st_mode & 0o777 == 0o600
    assert marks(environ).stat().st_mode & 0o777 == marks(environ).parent.stat().st_mode & 0o777 == 0o700
    assert str(FOUND.path.absolute()) in mark.read_text()


# What somebody else may have done to the notes; each is undone by `chmod`, or by trusting anew.
def _linked(mark: Path) -> None:
    mark.rename(mark.with_name("kept"))
    mark.symlink_to("kept")


def _folder_linked(mark: Path) -> None:
    mark.parent.rename(mark.parent.with_name("kept"))
    mark.parent.symlink_to("kept")


def _pipe(mark: Path) -> None:
    mark.unlink()
    os.mkfifo(mark, 0o600)


def _folder(mark: Path) -> None:
    mark.unlink()
    mark.mkdir(0o700)


TAMPERING: dict[str, Callable[[Path], object]] = {
    "a note that others may write": lambda mark: mark.chmod(0o622),
    "a note that the group may write": lambda mark: mark.chmod(0o620),
    "a folder that others may write": lambda mark: mark.parent.chmod(0o777),
    "a folder that the group may write": lambda mark: mark.parent.chmod(0o770),
    "a note that is a link": _linked,
    "a folder that is a link": _folder_linked,
    "a note that is a pipe": _pipe,
    "a note that is a folder": _folder,
    "a note that is empty": lambda mark: mark.write_bytes(b""),
    "a note of other bytes": lambda mark: mark.write_bytes(b"\xff" * 100),
    "an endless note": lambda mark: os.truncate(mark, 2**40),
    "no note": lambda mark: mark.unlink(),
    "no folder": lambda mark: shutil.rmtree(mark.parent),
}


@pytest.mark.parametrize("how", TAMPERING)
def test_notes_that_others_may_have_written_are_not_believed(environ: dict[str, str], how: str) -> None:
    trust(FOUND.path, CONTENT, environ)
    (mark,) = marks(environ).iterdir()
    TAMPERING[how](mark)
    assert not is_trusted(FOUND, CONTENT, environ)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("folder", [False, True])
def test_notes_of_another_user_are_not_believed(environ: dict[str, str], folder: bool) -> None:
    trust(FOUND.path, CONTENT, environ)
    (mark,) = marks(environ).iterdir()
    os.chown(mark.parent if folder else mark, 65534, 65534)
    assert not is_trusted(FOUND, CONTENT, environ)
    if folder:
        with pytest.raises(DragomanError, match="you alone can write to"):
            trust(FOUND.path, CONTENT, environ)


def test_a_fingerprint_changes_when_trust_does(environ: dict[str, str]) -> None:
    before = fingerprint_of(FOUND, environ)
    assert fingerprint_of(FOUND, environ) == before
    trust(FOUND.path, CONTENT, environ)
    trusted = fingerprint_of(FOUND, environ)
    assert trusted != before
    revoke(FOUND.path, environ)
    assert fingerprint_of(FOUND, environ) == before
    FOUND.path.write_bytes(CONTENT * 2)
    assert fingerprint_of(FOUND, environ) != before
    named = ConfigFile(path=FOUND.path, origin=FileOrigin.NAMED)
    assert len(fingerprint_of(named, environ)) < len(before)
    assert fingerprint_of(FOUND, {})


def test_a_directory_that_is_gone_holds_nothing_that_is_trusted(environ: dict[str, str], tmp_path: Path) -> None:
    trust(FOUND.path, CONTENT, environ)
    (tmp_path / "checkout").rename(tmp_path / "moved")
    assert not is_trusted(FOUND, CONTENT, environ)
