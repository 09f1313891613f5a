"""Log writer: a thread that writes lines to a descriptor, so that a blocked reader blocks nothing else. It collects
lines for 50 ms while there are lines, so that no line needs a wake-up, and writes whole lines. Before each write it
calls `gather`, which adds further lines. Lines over the buffer limit are dropped, counted, and reported later. The last
part of the buffer is reserved for the gateway's own lines, so that refused requests cannot displace them."""

from __future__ import annotations

import os
import select
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO
from weakref import WeakSet

# Bytes that may wait, and how many of them only the gateway's own events may use.
_ROOM = 1024 * 1024
_OWN_ROOM = _ROOM // 4
# A busy gateway writes once in this many seconds. A crash loses at most twice as much.
_GATHERED = 0.05
# One write is of whole lines, and of so few bytes that those of several processes do not mix within them.
_AT_ONCE = 64 * 1024
_AT_ONCE_SHARED = select.PIPE_BUF if sys.platform != "win32" else 512
# How long a write waits for a descriptor that another process made non-blocking.
_POLL_TIMEOUT = 1.0
_LAST_MOMENTS = 1.0


class LogWriter:
    """Writes lines to a descriptor. `format_dropped` formats the line that reports dropped lines. The holder of `lock`
    puts several lines in a row; `is_awake` while the thread will look for lines by itself."""

    def __init__(
        self, descriptor: int, format_dropped: Callable[[int], bytes], gather: Callable[[], None] = lambda: None
    ) -> None:
        self._descriptor = descriptor
        self._format_dropped = format_dropped
        self._gather = gather
        # Called with the number of bytes before a write to a bounded file.
        self.make_room: Callable[[int], None] | None = None
        self._at_once = _AT_ONCE if stat.S_ISREG(os.fstat(descriptor).st_mode) else _AT_ONCE_SHARED
        self._begin()
        _WRITERS.add(self)

    def _begin(self) -> None:
        """Begin with nothing: also in a process that was just forked, where what waits is its parent's to write."""
        # Garbage collection during `put` may log something itself.
        self.lock = threading.RLock()
        # Lines that could not be written since this process began.
        self.dropped = 0
        # Locked while the thread has nothing to do.
        self._bell = threading.Lock()
        self._bell.acquire()
        self._lines: list[bytes] = []
        self._waiting = 0
        self.is_awake = False
        self._thread: threading.Thread | None = None
        self._flush_now = self._closed = False
        # Dropped lines that were not reported yet, and whether the last write ended inside a line.
        self._unreported = 0
        self._torn = False

    def put(self, lines: Sequence[bytes], *, own: bool) -> None:
        """Have lines written; `own` marks messages of the gateway itself. It never waits for a reader."""
        room = _ROOM if own else _ROOM - _OWN_ROOM
        with self.lock:
            room -= self._waiting
            if sum(map(len, lines)) > room:
                lines = self._fitting(lines, room)
            self._lines += lines
            self._waiting += sum(map(len, lines))
            if not self.is_awake and self._lines:
                self.wake()

    def _fitting(self, lines: Sequence[bytes], room: int) -> list[bytes]:
        """The lines that there is room for; the others are dropped."""
        fitting: list[bytes] = []
        for line in lines:
            if len(line) <= room:
                fitting.append(line)
                room -= len(line)
        self.dropped += len(lines) - len(fitting)
        self._unreported += len(lines) - len(fitting)
        return fitting

    def wake(self) -> None:
        """Have the thread look for lines."""
        with self.lock:
            if self.is_awake:
                return
            self.is_awake = True
            if self._thread is None:
                # Here and not before: a process that is forked has none of its parent's threads.
                self._thread = threading.Thread(target=self._run, name="log", daemon=True)
                self._thread.start()
            self._bell.release()

    def close(self) -> None:
        """Flush for a moment, and end the thread; a later line starts another."""
        self._flush_now = True
        end = time.monotonic() + _LAST_MOMENTS
        while self._waiting and time.monotonic() < end:
            time.sleep(0.002)
        with self.lock:
            self._closed = True
            if self._thread is not None:
                self.wake()

    def _run(self) -> None:
        try:
            while not self._closed or self.is_awake:
                self._bell.acquire()
                while lines := self._gathered():
                    for piece in _pieces(lines, self._at_once):
                        missing = self._write(piece)
                        with self.lock:
                            self._waiting -= len(piece)
                            self.dropped += missing
                            self._unreported += missing
                    self._report_dropped()
                # Exchanges that ended before `is_awake` was false.
                self._gather()
        finally:
            with self.lock:
                self._thread = None
                self.is_awake = False

    def _gathered(self) -> list[bytes]:
        """The lines of a while; without any the thread is not awake any more."""
        if not self._flush_now:
            time.sleep(_GATHERED)
        self._gather()
        with self.lock:
            lines, self._lines = self._lines, []
            self.is_awake = bool(lines)
        return lines

    def _report_dropped(self) -> None:
        """Report the number of missing lines, now that writing works again."""
        with self.lock:
            unreported = self._unreported
        if unreported and not self._write(self._format_dropped(unreported)):
            with self.lock:
                self._unreported -= unreported

    def _write(self, piece: bytes) -> int:
        """Write all of these lines, however long that takes; how many of them could not be."""
        rest = memoryview(b"\n" + piece if self._torn else piece)
        while rest:
            try:
                if self.make_room is not None and not self._torn:
                    self.make_room(len(rest))
                count = os.write(self._descriptor, rest)
            except BlockingIOError:
                _wait_for(self._descriptor)
                continue
            except OSError:
                # A full disk, a reader that is gone: this is lost, and the next may not be.
                return bytes(rest).count(b"\n")
            rest = rest[count:]
            # The next write must not continue a partial line.
            self._torn = bool(rest)
        return 0


class StreamWriter:
    """Writes lines to a stream without a descriptor, which cannot block: at once, with the interface of `LogWriter`."""

    dropped = 0
    is_awake = False
    make_room: Callable[[int], None] | None = None

    def __init__(self, out: TextIO, gather: Callable[[], None]) -> None:
        self._out = out
        self.wake = gather
        self.lock = threading.RLock()

    def put(self, lines: Sequence[bytes], *, own: bool) -> None:
        """Write lines."""
        for line in lines:
            self._out.write(line.decode())

    def close(self) -> None:
        """Nothing waits."""


def _pieces(lines: list[bytes], limit: int) -> Iterator[bytes]:
    """Lines joined to pieces of at most this many bytes, unless one line is longer."""
    if sum(map(len, lines)) <= limit:
        yield b"".join(lines)
        return
    gathered: list[bytes] = []
    size = 0
    for line in lines:
        if gathered and size + len(line) > limit:
            yield b"".join(gathered)
            gathered, size = [], 0
        gathered.append(line)
        size += len(line)
    if gathered:
        yield b"".join(gathered)


def _wait_for(descriptor: int) -> None:
    watched = select.poll()
    watched.register(descriptor, select.POLLOUT)
    watched.poll(_POLL_TIMEOUT * 1000)


_WRITERS: WeakSet[LogWriter] = WeakSet()


def _forked() -> None:
    for writer in _WRITERS:
        writer._begin()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forked)
