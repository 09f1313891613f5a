"""A thread that syncs journal entries to the disk before a response ends, many at a time (`durability`)."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import NamedTuple

# Not every system syncs the contents alone.
_SYNC: Callable[[int], None] = os.fdatasync if hasattr(os, "fdatasync") else os.fsync


class _SyncRequest(NamedTuple):
    """A file to sync: its waiter, or the mark that it is finished."""

    descriptor: int
    future: asyncio.Future[None] | None


class JournalSync:
    """Syncs files of journals, in the order in which they are given. `failed` gets the reason of a failure."""

    def __init__(self, failed: Callable[[OSError], None], sync: Callable[[int], None] = _SYNC) -> None:
        self._failed = failed
        self._sync = sync
        self._requests: SimpleQueue[_SyncRequest | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="journal-sync", daemon=True)
        self._thread.start()

    def synced(self, descriptor: int) -> asyncio.Future[None]:
        """A future that is done once all that was written to a file until now is on the disk, or cannot be."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._requests.put(_SyncRequest(descriptor, future))
        return future

    def retire(self, descriptor: int) -> None:
        """Close an abandoned file. Only this thread may, because it may be syncing the file."""
        self._requests.put(_SyncRequest(descriptor, None))

    def close(self) -> None:
        """End, after all that is wanted until now."""
        self._requests.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            group = [self._requests.get()]
            while not self._requests.empty():
                group.append(self._requests.get())
            self._do([wanted for wanted in group if wanted is not None])
            if None in group:
                return

    def _do(self, group: list[_SyncRequest]) -> None:
        for descriptor in dict.fromkeys(wanted.descriptor for wanted in group):
            try:
                self._sync(descriptor)
            except OSError as error:
                self._failed(error)
        for wanted in group:
            if wanted.future is None:
                os.close(wanted.descriptor)
        futures = [wanted.future for wanted in group if wanted.future is not None]
        for loop in {future.get_loop() for future in futures}:
            # One that was closed waits for nothing.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_release, [future for future in futures if future.get_loop() is loop])


def _release(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
