"""What a service has left on a machine, and how its files are written."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from dragoman.config.config_file import write_atomically
from dragoman.config.env_file import as_env_file
from dragoman.errors import DragomanError
from dragoman.system_service.init_systems import find_manager
from dragoman.system_service.installed import (
    check_free,
    env_file_in,
    find_installed,
    remove,
    variables_files,
)
from dragoman.system_service.units import MARKER, Job
from tests.system_service.fake_init import FakeInit


@pytest.mark.parametrize("program", ["systemctl", "launchctl"])
def test_a_service_is_read_back(program: str, tmp_path: Path) -> None:
    init = FakeInit(tmp_path, program)
    manager, env_file = find_manager(init.environment), env_file_in(init.environment)
    assert find_installed(init.environment) is None
    words = ("/opt/python", "serve", "--config", "/my files/d.toml", "--env-file", str(env_file))
    write_atomically(
        manager.unit, manager.render_unit(Job(command=words, directory="/", stop_seconds=1)).encode(), 0o644
    )
    write_atomically(env_file, as_env_file({"A": "1"}, MARKER).encode())
    found = find_installed(init.environment)
    assert found is not None
    assert (found.config, found.env_file, found.variables()) == ("/my files/d.toml", str(env_file), {"A": "1"})
    assert variables_files(found, init.environment) == variables_files(None, init.environment) == [env_file]
    manager.unit.write_text("of somebody else")
    assert find_installed(init.environment) is None


def test_where_nothing_could_run_a_service_there_is_none(tmp_path: Path) -> None:
    assert find_installed({"PATH": str(tmp_path), "HOME": str(tmp_path)}) is None
    with pytest.raises(DragomanError, match="no home"):
        env_file_in({})


def test_a_file_is_made_anew_and_follows_no_link(tmp_path: Path) -> None:
    file, other = tmp_path / "made" / "service.env", tmp_path / "other"
    other.write_text("stays")
    write_atomically(file, b"one")
    assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)) == (0o600, 0o700)
    file.unlink()
    file.symlink_to(other)
    write_atomically(file, b"two")
    assert (file.is_symlink(), file.read_text(), other.read_text()) == (False, "two", "stays")
    assert [path.name for path in file.parent.iterdir()] == ["service.env"]
    file.unlink()
    file.mkdir()
    with pytest.raises(OSError, match="directory"):
        write_atomically(file, b"three")
    assert [path.name for path in file.parent.iterdir()] == ["service.env"]


def test_a_folder_goes_with_the_last_file_in_it(tmp_path: Path) -> None:
    file, other = tmp_path / "dragoman" / "service.env", tmp_path / "dragoman" / "dragoman.toml"
    for beside in (True, False):
        write_atomically(file, b"")
        if beside:
            other.touch()
        remove(file)
        assert file.parent.exists() is beside
        other.unlink(missing_ok=True)


def test_what_was_not_written_here_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "service.env"
    check_free(file)
    write_atomically(file, as_env_file({}, MARKER).encode())
    check_free(file)
    (tmp_path / "link").symlink_to(file)
    (tmp_path / "folder").mkdir()
    (tmp_path / "other").write_text("A=1\n")
    for name in ("link", "folder", "other"):
        with pytest.raises(DragomanError, match="is there already"):
            check_free(tmp_path / name)
