"""Installed: what `service install` has left on this machine, read back from it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from dragoman.config.config_file import config_directory
from dragoman.config.env_file import OPTION, read_env_file
from dragoman.errors import DragomanError
from dragoman.system_service.init_systems import Manager, find_manager
from dragoman.system_service.units import command_of, is_ours, option_of

_CONFIG = "--config"
# More is no unit of ours.
_MAX_UNIT_BYTES = 65536


class Installed(Struct, frozen=True, kw_only=True):
    """A service that is there: its unit, and what its command names."""

    manager: Manager
    # Nothing if it has only the environment, or the user's own file once there is one.
    config: str
    env_file: str

    def variables(self) -> dict[str, str]:
        """The variables of the service besides its own environment."""
        return read_env_file(Path(self.env_file)) if self.env_file else {}


def find_installed(environ: Mapping[str, str]) -> Installed | None:
    """The service of this user; None if there is none, or nothing that could run one."""
    try:
        manager = find_manager(environ)
    except DragomanError:
        return None
    return installed_in(manager)


def installed_in(manager: Manager) -> Installed | None:
    """The service that an init system has a unit of. Units of other authors are ignored."""
    text = _read(manager.unit)
    if not is_ours(text):
        return None
    words = command_of(text)
    return Installed(manager=manager, config=option_of(words, _CONFIG), env_file=option_of(words, OPTION))


def env_file_in(environ: Mapping[str, str]) -> Path:
    """The file with the variables of a service."""
    directory = config_directory(environ)
    if directory is None:
        raise DragomanError("there is no home to keep a service in (set HOME to an absolute path)")
    return directory / "service.env"


def variables_files(installed: Installed | None, environ: Mapping[str, str]) -> list[Path]:
    """The files of variables that were written here and are still there: a service names its own."""
    own = [Path(installed.env_file)] if installed is not None and installed.env_file else []
    places = dict.fromkeys([*own, env_file_in(environ)])
    return [path for path in places if is_ours(_read(path))]


def check_free(path: Path) -> None:
    """Refuse to write over a file that was not written here."""
    if not os.path.lexists(path):
        return
    if path.is_symlink() or not path.is_file() or not is_ours(_read(path)):
        raise DragomanError(f"{path} is there already, and not of `dragoman service install`: move it away")


def remove(path: Path) -> None:
    """Remove a file of variables, and its folder if nothing else is in it: it was made for it, or is of no use."""
    path.unlink()
    if not any(path.parent.iterdir()):
        path.parent.rmdir()


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_UNIT_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
