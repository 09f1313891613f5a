"""Installed service: reads back the unit that `service install` wrote on this machine."""

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
# Larger files are not written by Dragoman.
_MAX_UNIT_BYTES = 65536


class Installed(Struct, frozen=True, kw_only=True):
    """An installed service: its unit, and the files that its command names."""

    manager: Manager
    # "" if the service uses only the environment, or the default configuration file.
    config: str
    env_file: str

    def variables(self) -> dict[str, str]:
        return read_env_file(Path(self.env_file)) if self.env_file else {}


def find_installed(environ: Mapping[str, str]) -> Installed | None:
    try:
        manager = find_manager(environ)
    except DragomanError:
        return None
    return installed_in(manager)


def installed_in(manager: Manager) -> Installed | None:
    """Read the unit of an init system. Units of other authors are ignored."""
    text = _read(manager.unit)
    if not is_ours(text):
        return None
    words = command_of(text)
    return Installed(manager=manager, config=option_of(words, _CONFIG), env_file=option_of(words, OPTION))


def env_file_in(environ: Mapping[str, str]) -> Path:
    directory = config_directory(environ)
    if directory is None:
        raise DragomanError("there is no home to keep a service in (set HOME to an absolute path)")
    return directory / "service.env"


def variables_files(installed: Installed | None, environ: Mapping[str, str]) -> list[Path]:
    """The existing variables files that Dragoman wrote, including the one that the service names."""
    own = [Path(installed.env_file)] if installed is not None and installed.env_file else []
    places = dict.fromkeys([*own, env_file_in(environ)])
    return [path for path in places if is_ours(_read(path))]


def check_free(path: Path) -> None:
    """Refuse to overwrite a file that Dragoman did not write."""
    if not os.path.lexists(path):
        return
    if path.is_symlink() or not path.is_file() or not is_ours(_read(path)):
        raise DragomanError(f"{path} is there already, and not of `dragoman service install`: move it away")


def remove(path: Path) -> None:
    """Delete a variables file, and its directory if it becomes empty."""
    path.unlink()
    if not any(path.parent.iterdir()):
        path.parent.rmdir()


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_UNIT_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
