"""Secret: what digests of histories are keyed with, in the folder of the records, for this machine's user alone."""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

NAME = "secret"
_SIZE = 32


def secret_in(directory: Path) -> bytes:
    """The secret of a directory; the first process writes it to a temporary file and links it, so it is complete."""
    path = directory / NAME
    with suppress(FileNotFoundError):
        return _read(path)
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    beside = _written(directory, os.urandom(_SIZE))
    try:
        with suppress(FileExistsError):
            os.link(beside, path)
    finally:
        beside.unlink()
    return _read(path)


def replace_secret(directory: Path, secret: bytes) -> None:
    """Replace the secret of a directory by that of the database that several machines share."""
    beside = _written(directory, secret)
    beside.replace(directory / NAME)


def key_of(secret: bytes, name: str) -> bytes:
    """The digest key of a gateway key: equal texts of two keys have different digests."""
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=32, key=secret).digest()


def _written(directory: Path, secret: bytes) -> Path:
    """A temporary file with a secret."""
    beside = directory / f"{NAME}.{os.getpid()}.{os.urandom(4).hex()}"
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, secret)
    except OSError:
        beside.unlink()
        raise
    finally:
        os.close(descriptor)
    return beside


def _read(path: Path) -> bytes:
    secret = path.read_bytes()
    if len(secret) != _SIZE:
        raise OSError(f"{path} is damaged: remove it, and conversations that go on are taken for new ones once")
    return secret
