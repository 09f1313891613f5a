"""Trust: which found files the user has looked at. A file in `dragoman/trusted` of the state directory is named after
the path of a trusted one and holds the digest of its content, so that a change of either ends the trust. It counts only
if no other user could have written it."""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from dragoman.config.config_file import (
    ConfigFile,
    FileOrigin,
    Fingerprint,
    fingerprint,
    state_directory,
    write_atomically,
)
from dragoman.errors import ConfigError, DragomanError

_DIRECTORY = "trusted"
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_MAX_TRUST_FILE_BYTES = 65536


def is_trusted(file: ConfigFile, content: bytes, environ: Mapping[str, str]) -> bool:
    """Whether the file may be used with this content."""
    if file.origin is not FileOrigin.FOUND:
        return True
    trust_file = _trust_file(file.path, environ)
    return trust_file is not None and _trusted_digest(trust_file) == _digest(content)


def check_trust(file: ConfigFile, content: bytes, environ: Mapping[str, str]) -> None:
    """Refuse content that is not trusted, with the command that trusts it."""
    if not is_trusted(file, content, environ):
        raise ConfigError(
            key="",
            problem="was found in the current directory, and you have not trusted it with this content",
            remedy=f"look at it, then `dragoman trust {shlex.quote(str(_absolute_path(file.path)))}`, "
            "or name another with --config",
            file=str(file),
        )


def trust(path: Path, content: bytes, environ: Mapping[str, str]) -> None:
    """Note that the user trusts a file with this content, and with no other."""
    trust_file = _trust_file(path, environ)
    if trust_file is None:
        raise DragomanError(
            "there is no home directory to store the trust in (set HOME or XDG_STATE_HOME to an absolute path)"
        )
    for directory in (trust_file.parent.parent, trust_file.parent):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not _is_ours(trust_file.parent):
        raise DragomanError(
            f"{trust_file.parent} is not a directory that you alone can write to (chmod 700, or remove it)"
        )
    # The path is for readers of the directory.
    write_atomically(trust_file, f"{_digest(content)}\n".encode() + os.fsencode(_absolute_path(path)) + b"\n")


def revoke(path: Path, environ: Mapping[str, str]) -> None:
    """Trust a file no longer, whatever its content."""
    trust_file = _trust_file(path, environ)
    if trust_file is not None:
        with suppress(FileNotFoundError, NotADirectoryError):
            trust_file.unlink()


def fingerprint_of(file: ConfigFile, environ: Mapping[str, str]) -> Fingerprint:
    """The fingerprint of the file and of its trust."""
    trust_file = _trust_file(file.path, environ) if file.origin is FileOrigin.FOUND else None
    return fingerprint(file.path) if trust_file is None else (*fingerprint(file.path), *fingerprint(trust_file))


def _absolute_path(path: Path) -> Path:
    """The absolute path, by which a file is known. A link has a place of its own, whatever it leads to."""
    try:
        return path.parent.resolve() / path.name
    except (OSError, RuntimeError):
        # The directory is gone, or links lead in a circle.
        return path


def _trust_file(path: Path, environ: Mapping[str, str]) -> Path | None:
    """Where the trust in a file is noted."""
    directory, absolute = state_directory(environ), _absolute_path(path)
    if directory is None or not absolute.is_absolute():
        return None
    return directory / _DIRECTORY / hashlib.sha256(os.fsencode(absolute)).hexdigest()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _trusted_digest(trust_file: Path) -> str:
    """The digest that was noted; "" if there is none that can be believed."""
    try:
        if not (
            _is_ours(trust_file.parent) and _is_ours(trust_file) and trust_file.lstat().st_size <= _MAX_TRUST_FILE_BYTES
        ):
            return ""
        return trust_file.read_bytes().partition(b"\n")[0].decode("ascii", "replace")
    except OSError:
        return ""


def _is_ours(path: Path) -> bool:
    """Whether it is a regular file or directory that only this user can write to."""
    file_stat = path.lstat()
    if not (stat.S_ISREG(file_stat.st_mode) or stat.S_ISDIR(file_stat.st_mode)):
        return False
    return os.name != "posix" or (file_stat.st_uid == os.geteuid() and not file_stat.st_mode & _WRITABLE_BY_OTHERS)
