"""Machine file: the identity of this machine beside its journals, made once, so that a start needs no database
(decision 47)."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct

from dragoman.records.journal_directory import make_directory

NAME = "machine.json"
_LOCK = "machine.lock"
_ID_BYTES = 8
# Another one after each start of the system.
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class MachineFile(Struct, frozen=True, kw_only=True):
    """The identity: an id, the epoch of the last start that took it, and the database and the time zone that the
    machine had when it last joined others; "" before."""

    id: str
    epoch: int = 0
    database: str = ""
    time_zone: str = ""

    @property
    def owner(self) -> str:
        """What the names of its journals have."""
        return f"{self.id}.{self.epoch}"


_decode = msgspec.json.Decoder(MachineFile).decode


def new_machine() -> MachineFile:
    """A machine that no database knows."""
    return MachineFile(id=os.urandom(_ID_BYTES).hex())


def read_machine_file(directory: Path) -> MachineFile | None:
    """The identity of the machine that has a directory of journals; None if no gateway has made it yet."""
    path = directory / NAME
    try:
        return _decode(path.read_bytes())
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError:
        raise OSError(f"{path} is damaged: remove it, and this machine takes a new identity") from None


def make_machine_file(directory: Path) -> MachineFile:
    """The identity of the machine, which the first process makes."""
    file = read_machine_file(directory)
    if file is not None:
        return file
    with locked_machine(directory):
        file = read_machine_file(directory)
        if file is None:
            file = new_machine()
            write_machine_file(directory, file)
    return file


def write_machine_file(directory: Path, file: MachineFile) -> None:
    """Replace the identity, while the lock is held."""
    temporary = directory / f"{NAME}.new"
    with suppress(FileNotFoundError):
        temporary.unlink()
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, msgspec.json.encode(file) + b"\n")
        # Names of journals have the epoch: an older one must not come back after a power failure.
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    temporary.replace(directory / NAME)


@contextmanager
def locked_machine(directory: Path) -> Iterator[None]:
    """Hold the lock of the file; the workers of a machine change it one after the other."""
    import fcntl

    make_directory(directory)
    descriptor = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def instance_of(directory: Path) -> str:
    """A text that differs between a machine and a clone of its disk: of the system's start and of the directory."""
    try:
        boot = _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        boot = platform.node()
    status = directory.stat()
    return blake2b(f"{boot} {status.st_dev} {status.st_ino}".encode(), digest_size=_ID_BYTES).hexdigest()
