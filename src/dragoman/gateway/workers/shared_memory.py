"""Shared memory page of a supervisor and its workers. Marks (keys are required; the file is why; several keys were
known; the database of the keys) are set once and never cleared. A worker's slot has its loop's last turn, its port for
peers, and the exchanges that it waits for at its end. Each place has one writer, or only ever one value, so there are
no locks."""

from __future__ import annotations

import mmap
import time

from msgspec.structs import replace

from dragoman.gateway.workers.protection import Protection

_REQUIRES_KEYS, _KEYS_IN_FILE, _SEVERAL_OWNERS, _KEY_DATABASE = range(4)
# Numbers of eight bytes: those of the marks, then three for each worker.
_FLAGS, _SLOT, _BYTES = 4, 3, 8


class SharedMemory:
    """The shared page, for this many workers."""

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers
        self._numbers = memoryview(mmap.mmap(-1, (_FLAGS + _SLOT * workers) * _BYTES)).cast("q")

    @property
    def requires_keys(self) -> bool:
        """Whether any process has begun to require keys."""
        return self._numbers[_REQUIRES_KEYS] != 0

    @property
    def several_owners(self) -> bool:
        """Whether any process knows keys of several owners."""
        return self._numbers[_SEVERAL_OWNERS] != 0

    @property
    def key_database(self) -> bytes:
        """Eight bytes that tell the database of the keys from others; zeros if none had any."""
        return self._numbers[_KEY_DATABASE].to_bytes(_BYTES, signed=True)

    def set_key_database(self, mark: bytes) -> None:
        """Publish which database has the keys."""
        self._numbers[_KEY_DATABASE] = int.from_bytes(mark, signed=True)

    def record(self, protection: Protection) -> None:
        """Let all processes be as closed as this one."""
        for flag, is_so in (
            (_REQUIRES_KEYS, protection.requires_keys),
            (_KEYS_IN_FILE, protection.requires_keys and protection.keys_in_file),
            (_SEVERAL_OWNERS, protection.several_owners),
        ):
            if is_so:
                self._numbers[flag] = 1

    def closed_with(self, protection: Protection) -> Protection:
        """The protection with what other processes have noted."""
        return replace(
            protection,
            requires_keys=protection.requires_keys or self.requires_keys,
            keys_in_file=protection.keys_in_file or self._numbers[_KEYS_IN_FILE] != 0,
            several_elsewhere=protection.several_elsewhere or self.several_owners,
        )

    def turned(self, worker: int) -> float:
        """When a worker's loop last turned, by the monotonic clock; 0 if it has not begun, less if it need not turn."""
        return self._numbers[_FLAGS + _SLOT * worker] / 1e9

    def turn(self, worker: int) -> None:
        """Note that a worker's loop turns."""
        self._numbers[_FLAGS + _SLOT * worker] = time.monotonic_ns()

    def set_ending(self, worker: int) -> None:
        """Note that a worker's loop need not turn: it is about to end."""
        self._numbers[_FLAGS + _SLOT * worker] = -1

    def clear(self, worker: int) -> None:
        """Note that a worker is gone; the next in its place has not begun, and its port may be another's by now."""
        for number in range(_SLOT):
            self._numbers[_FLAGS + _SLOT * worker + number] = 0

    def port(self, worker: int) -> int:
        """The port at which a worker serves its counts; 0 if none."""
        return self._numbers[_FLAGS + _SLOT * worker + 1]

    def set_port(self, worker: int, port: int) -> None:
        """Publish the port at which a worker serves its counts."""
        self._numbers[_FLAGS + _SLOT * worker + 1] = port

    def waits_for(self, worker: int) -> int | None:
        """The number of exchanges that a stopping worker still has; None if it does not stop yet."""
        return self._numbers[_FLAGS + _SLOT * worker + 2] - 1 if self._numbers[_FLAGS + _SLOT * worker + 2] else None

    def wait_for(self, worker: int, exchanges: int) -> None:
        """Record that a worker refuses new connections, and how many exchanges it waits for."""
        self._numbers[_FLAGS + _SLOT * worker + 2] = exchanges + 1
