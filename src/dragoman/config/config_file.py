"""Configuration file: which one is read. One found in the current directory may have come with a checkout and must be
trusted first; one named by option or variable, or in the user's configuration directory, is."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tempfile
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from dragoman.errors import ConfigError, ConfigErrors

FILE_NAME = "dragoman.toml"
FILE_VARIABLE = "DRAGOMAN_CONFIG"
_DIRECTORY = "dragoman"
# Larger than any file written by hand. A search for files must not read huge ones.
MAX_FOUND_BYTES = 1024 * 1024
MAX_FILE_BYTES = 16 * 1024 * 1024

Fingerprint: TypeAlias = tuple[int, ...]


class FileOrigin(Enum):
    """How a file was found."""

    NAMED = "named"
    OWN = "own"
    FOUND = "found"


class ConfigFile(Struct, frozen=True, kw_only=True):
    """A configuration file, and how it was come by: the two stay together."""

    path: Path
    origin: FileOrigin
    # Whether it was read before. Only the first reading may be of a pipe: another one would wait for a writer.
    again: bool = False

    def __str__(self) -> str:
        return str(self.path)

    def read(self) -> bytes:
        """All of its bytes, in one read: the checked and the parsed content must be equal."""
        try:
            if self.origin is FileOrigin.FOUND:
                return _read_plain(self.path, MAX_FOUND_BYTES)
            return _read_plain(self.path, MAX_FILE_BYTES) if self.again or self.is_plain() else self.path.read_bytes()
        except OSError as error:
            problem, remedy = f"cannot be read: {error.strerror}", "name another, or create it"
        raise ConfigErrors([ConfigError(key="", problem=problem, remedy=remedy, file=str(self))])

    def is_plain(self) -> bool:
        """Whether it is a file that can be read again, and followed."""
        return _is_file(self.path)


def find_file(environ: Mapping[str, str], explicit: str | Path | None = None) -> ConfigFile | None:
    """The file to read: the named one, whether it exists or not, else the first that exists; None if there is none."""
    named = explicit or environ.get(FILE_VARIABLE)
    if named:
        return ConfigFile(path=Path(named), origin=FileOrigin.NAMED)
    here, directory = Path(FILE_NAME), config_directory(environ)
    own = directory / FILE_NAME if directory is not None else None
    if _is_file(here) and not (own is not None and _are_same(here, own)):
        return ConfigFile(path=here, origin=FileOrigin.FOUND)
    return ConfigFile(path=own, origin=FileOrigin.OWN) if own is not None and _is_there(own) else None


def config_directory(environ: Mapping[str, str]) -> Path | None:
    """Where the user's own configuration is; None for a user without a home."""
    return _user_directory(environ, "XDG_CONFIG_HOME", ".config")


def state_directory(environ: Mapping[str, str]) -> Path | None:
    """The directory of data that outlives a process; None for a user without a home."""
    return _user_directory(environ, "XDG_STATE_HOME", ".local/state")


def fingerprint(path: Path) -> Fingerprint:
    """The fingerprint of a file: time, size and inode; zeros without a file."""
    try:
        file_stat = path.stat()
    except OSError:
        return 0, 0, 0
    return file_stat.st_mtime_ns, file_stat.st_size, file_stat.st_ino


def content_digest(file: str) -> str:
    """The digest of a configuration file, by which machines can be compared; "" without a file."""
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:12] if file else ""
    except OSError:
        # It was removed since it was read.
        return ""


def _user_directory(environ: Mapping[str, str], variable: str, below_home: str) -> Path | None:
    # The XDG specification requires that a relative path is ignored; a home relative to the current directory is
    # invalid.
    own = Path(environ.get(variable, ""))
    home = Path(environ.get("HOME") or environ.get("USERPROFILE") or "")
    if own.is_absolute():
        return own / _DIRECTORY
    return home / below_home / _DIRECTORY if home.is_absolute() else None


def write_atomically(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file completely or not at all. It replaces an older file, through links."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(handle, mode)
            os.fsync(handle)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        # A home directory that this user may not enter holds nothing for this user.
        return False


def _is_there(path: Path) -> bool:
    """Whether a name exists: an unreachable one must not count as missing."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _are_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _read_plain(path: Path, max_bytes: int) -> bytes:
    """A plain file of some size; whatever was put in its place since it was looked for is not waited for."""
    with io.BufferedReader(io.FileIO(str(path), opener=open_without_waiting)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(0, "it is not a plain file")
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(0, f"it is larger than {max_bytes} bytes")
    return content


def open_without_waiting(name: str, flags: int) -> int:
    # A pipe without a writer would keep us waiting; not every system has such pipes.
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))
