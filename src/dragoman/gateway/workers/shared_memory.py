"""Shared memory page of a supervisor and its workers. Flags (keys are required; the file requires them; several owners
exist; the database of the keys) are set once and never cleared. A worker's slot has the last turn of its loop, its port
for other workers, and its open exchanges during shutdown. Each number has one writer, or only ever one value, so no
locks are needed."""

from __future__ import annotations

import mmap
import time

from msgspec.structs import replace

from dragoman.gateway.workers.protection import Protection

_REQUIRES_KEYS, _KEYS_IN_FILE, _SEVERAL_OWNERS, _KEY_DATABASE = range(4)
# Counts of eight-byte numbers: the flags, then three per worker.
_FLAGS, _SLOT, _BYTES = 4, 3, 8


class SharedMemory:
    def __init__(self, workers: int = 1) -> None:
        self.workers = workers
        self._numbers = memoryview(mmap.mmap(-1, (_FLAGS + _SLOT * workers) * _BYTES)).cast("q")

    @property
    def requires_keys(self) -> bool:
        return self._numbers[_REQUIRES_KEYS] != 0

    @property
    def several_owners(self) -> bool:
        """Whether any process has keys of several owners."""
        return self._numbers[_SEVERAL_OWNERS] != 0

    @property
    def key_database(self) -> bytes:
        """Eight bytes that identify the database of the keys; zeros if there was none."""
        return self._numbers[_KEY_DATABASE].to_bytes(_BYTES, signed=True)

    def set_key_database(self, mark: bytes) -> None:
        """Publish the database of the keys."""
        self._numbers[_KEY_DATABASE] = int.from_bytes(mark, signed=True)

    def record(self, protection: Protection) -> None:
        """Make all processes as strict as this one."""
        for flag, is_so in (
            (_REQUIRES_KEYS, protection.requires_keys),
            (_KEYS_IN_FILE, protection.requires_keys and protection.keys_in_file),
            (_SEVERAL_OWNERS, protection.several_owners),
        ):
            if is_so:
                self._numbers[flag] = 1

    def closed_with(self, protection: Protection) -> Protection:
        """The protection, tightened by the flags of other processes."""
        return replace(
            protection,
            requires_keys=protection.requires_keys or self.requires_keys,
            keys_in_file=protection.keys_in_file or self._numbers[_KEYS_IN_FILE] != 0,
            several_elsewhere=protection.several_elsewhere or self.several_owners,
        )

    def turned(self, worker: int) -> float:
        """The last turn of a worker's loop, by the monotonic clock; 0 if it has not begun, negative if it need not
        turn."""
        return self._numbers[_FLAGS + _SLOT * worker] / 1e9

    def turn(self, worker: int) -> None:
        """Record a turn of a worker's loop."""
        self._numbers[_FLAGS + _SLOT * worker] = time.monotonic_ns()

    def set_ending(self, worker: int) -> None:
        """Record that a worker is about to end, so that its loop need not turn."""
        self._numbers[_FLAGS + _SLOT * worker] = -1

    def clear(self, worker: int) -> None:
        """Clear the slot of a worker that has ended. Its port may belong to another process."""
        for number in range(_SLOT):
            self._numbers[_FLAGS + _SLOT * worker + number] = 0

    def port(self, worker: int) -> int:
        """The port at which a worker serves its counts; 0 if none."""
        return self._numbers[_FLAGS + _SLOT * worker + 1]

    def set_port(self, worker: int, port: int) -> None:
        self._numbers[_FLAGS + _SLOT * worker + 1] = port

    def waits_for(self, worker: int) -> int | None:
        """The number of open exchanges of a stopping worker; None if it is not stopping yet."""
        return self._numbers[_FLAGS + _SLOT * worker + 2] - 1 if self._numbers[_FLAGS + _SLOT * worker + 2] else None

    def wait_for(self, worker: int, exchanges: int) -> None:
        """Record that a worker rejects new connections, and its number of open exchanges."""
        self._numbers[_FLAGS + _SLOT * worker + 2] = exchanges + 1
