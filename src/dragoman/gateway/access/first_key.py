"""First key: generated and printed once by a gateway on a public address without configured keys, because a container
starts before a key can be created. Only its hash is stored, and the gateway is never open."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from dragoman.config.settings import Settings
from dragoman.errors import ConfigError
from dragoman.identities.identity import ADMIN, COMMAND_LINE, FIRST_KEY, AcceptedDigest, Identity, Rights
from dragoman.identities.key_text import hash_text, new_key, read_hash
from dragoman.store import not_writable

OPTION = "--first-key"
# A hash and a line end; valid files are not larger.
_MAX_FILE_BYTES = 1024


class FirstKey(Struct, frozen=True):
    """The key of a file; its text is known only to the process that made it."""

    digest: bytes
    text: str | None = None


def is_wanted(settings: Settings) -> bool:
    """Whether no keys are configured. An empty `[keys]`, which rejects all clients, is a decision, too."""
    return not settings.keys and not settings.keys_table


def with_first_key(settings: Settings, first: FirstKey | None) -> Settings:
    """The settings with the first key, unless they have keys of their own by now."""
    if first is None or settings.keys_table:
        return settings
    identity = Identity(
        name=FIRST_KEY,
        owner=first.digest,
        digests=(AcceptedDigest(digest=first.digest),),
        rights=Rights(role=ADMIN),
        source=COMMAND_LINE,
    )
    return replace(settings, keys=(*settings.keys, identity))


def take_first_key(path: Path) -> FirstKey:
    """The key of a file; it is made, and the file with it, if there is none."""
    try:
        return _made(path)
    except FileExistsError:
        return _read(path)
    except OSError as error:
        raise _unusable(path, error) from None


def _made(path: Path) -> FirstKey:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Of two that start at once one makes it.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    key = new_key()
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(hash_text(key) + "\n")
        file.flush()
        os.fsync(file.fileno())
    return FirstKey(digest=read_hash(hash_text(key)), text=key)


def _read(path: Path) -> FirstKey:
    try:
        # Unlike `os.fdopen`, this closes the descriptor of a directory.
        with open(path, "rb", opener=_opened) as file:
            _check_own(path, os.fstat(file.fileno()))
            content = file.read(_MAX_FILE_BYTES)
    except OSError as error:
        raise _unusable(path, error) from None
    try:
        return FirstKey(digest=read_hash(content.decode("ascii", errors="replace").strip()))
    except ConfigError:
        raise ConfigError(
            key=OPTION,
            problem=f"{path} does not hold the hash of a key",
            remedy="remove it, and another key is made at the next start",
        ) from None


def _opened(path: str, flags: int) -> int:
    # A pipe without a writer would keep us waiting.
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _check_own(path: Path, file_stat: os.stat_result) -> None:
    """Reject a file that another user could have written."""
    if not stat.S_ISREG(file_stat.st_mode):
        problem = "is not a plain file"
    elif file_stat.st_uid != os.geteuid():
        problem = f"belongs to another user (uid {file_stat.st_uid})"
    elif file_stat.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        problem = "can be written by others"
    else:
        return
    raise ConfigError(key=OPTION, problem=f"{path} {problem}", remedy="remove it, and another key is made")


def _unusable(path: Path, error: OSError) -> ConfigError:
    refused = not_writable(path, error, key=OPTION, otherwise="configure a key (`dragoman key new`) instead")
    return refused or ConfigError(
        key=OPTION, problem=f"{path} cannot be used: {error.strerror}", remedy="name a file that can be written"
    )
