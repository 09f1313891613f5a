"""Journal: a worker records its exchanges, one line each, by one `write` (decision 32).

    <crc32 in hex> ["begun", 2, "<journal before it>", [entries that are open]]     the first line
    <crc32 in hex> ["opened", entry]
    <crc32 in hex> ["finalized", summary, entry]

Written bytes survive the process in the kernel, so no write waits. A full journal is followed by another, whose first
line names it, which marks its end, and lists open exchanges. The holder of a journal's lock writes it.
"""

from __future__ import annotations

import os
import time
from binascii import hexlify
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from zlib import crc32

import msgspec

from dragoman.records.journal_directory import journal_name, make_directory
from dragoman.records.journal_entry import JournalEntry
from dragoman.records.journal_lock import lock_one_that_is_there
from dragoman.records.journal_reader import FINALIZED, OPENED
from dragoman.records.rows import summary_of
from dragoman.records.sanitize import sanitize_entry

VERSION = 2
# Size beyond which a journal is followed by another one.
MAX_JOURNAL_BYTES = 16 * 1024 * 1024
# Maximum bytes of entries that wait in memory because they could not be written.
_MAX_WAITING_BYTES = 4 * 1024 * 1024
# Seconds until a journal that could not be opened is tried again.
_REOPEN_AFTER = 1.0
# A removed file can still be read through an open descriptor.
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL
# Names that others took, one after the other, until it is believed that something else is wrong.
_TRIES = 8

_encode_into = msgspec.json.Encoder().encode_into
_ALL = slice(None)
# The entry in the line of an open exchange.
_OPENED = slice(len('01234567 ["opened",'), -len("]\n"))


class Journal:
    """The journal of one worker, and its successors; only readers use it from other threads. `problem` is the reason
    why entries cannot be written at present, `lost` counts entries that never will be. `begun` is the start of the
    present file, in microseconds. `retire` gets each finished file, to close it, which releases its lock. `removed` are
    files deleted under the writer, still open, for the ingest thread to read and close."""

    def __init__(
        self,
        directory: Path,
        *,
        machine: str = "",
        max_bytes: int = MAX_JOURNAL_BYTES,
        clock: Callable[[], int] = time.time_ns,
        write: Callable[[int, bytes], int] = os.write,
        retire: Callable[[int], None] = os.close,
    ) -> None:
        self._directory = directory
        # Id and epoch of this machine, for the names of files; the ingest thread changes it.
        self.machine = machine
        self._max_bytes = max_bytes
        self._clock = clock
        self._write = write
        self._retire = retire
        self._descriptor = -1
        self._number = 0
        # Lines of the entries that are open, by their ids.
        self._open: dict[str, bytes] = {}
        # Where lines are encoded. It keeps the size of the largest one, because a new buffer grows in many steps.
        self._buffer = bytearray()
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        # The last line has no end: the next one begins with it.
        self._torn = False
        self._tried = 0
        self._closed = False
        self.path: Path | None = None
        self.size = self._first = 0
        self.begun = 0
        self.problem = ""
        self.lost = 0
        self.removed: deque[tuple[Path, int]] = deque()
        self._begin()

    @property
    def descriptor(self) -> int:
        """The file that is written to at present; -1 if there is none."""
        return self._descriptor

    @property
    def is_closed(self) -> bool:
        """Whether nothing is written any more."""
        return self._closed

    @property
    def is_gone(self) -> bool:
        """Whether the current file was removed or moved away, so that its entries cannot be found."""
        try:
            return self.path is not None and self._descriptor >= 0 and not self.path.exists()
        except OSError:
            # An unreadable directory says nothing about its content.
            return False

    @property
    def is_bare(self) -> bool:
        """Whether the current file has only its first line."""
        return self.size == self._first

    def open(self, entry: JournalEntry) -> None:
        """Record that a provider is about to be called; a failed write loses nothing."""
        line = self._open[entry.id] = self._line_of(OPENED, entry)
        if self._descriptor < 0 or self._waiting or self._torn:
            return
        try:
            written = self._write(self._descriptor, line)
        except OSError as error:
            self.problem = _message(error)
            return
        if written == len(line):
            self.size += written
        else:
            self._write_rest(line, written)

    def finalize(self, entry: JournalEntry) -> bool:
        """Write down an exchange that is settled; False if that could not be done now."""
        self._open.pop(entry.id, None)
        line = self._line_of(FINALIZED, entry)
        if not self._waiting and not self._torn and self._descriptor >= 0:
            try:
                written = self._write(self._descriptor, line)
            except OSError as error:
                self.problem = _message(error)
            else:
                if written == len(line):
                    self.size += written
                    if self.size > self._max_bytes:
                        self.rotate()
                    return True
                if self._write_rest(line, written):
                    return True
        self._wait(line)
        return self.tend()

    def tend(self) -> bool:
        """Write what could not be written until now; False if that cannot be done yet."""
        if self._closed:
            return False
        if self._descriptor < 0 and not self._begin():
            return False
        while self._waiting or self._torn or self.problem:
            # Where nothing waits, an empty line shows whether there is room again.
            line = self._waiting[0] if self._waiting else b""
            if self._torn or not line:
                line = b"\n" + line
            try:
                written = self._write(self._descriptor, line)
            except OSError as error:
                self.problem = _message(error)
                return False
            if written == len(line):
                self.size += written
            elif not self._write_rest(line, written):
                return False
            self._torn = False
            self.problem = ""
            if self._waiting:
                self._waiting_bytes -= len(self._waiting.popleft())
        if self.size > self._max_bytes:
            self.rotate()
        return True

    def rotate(self) -> None:
        """Begin another file, and let go of the present one; that stays if no other can be begun, unless it is gone."""
        if self._closed or self._descriptor < 0:
            return
        if not self.is_gone:
            self._begin()
            return
        assert self.path is not None
        try:
            self.removed.append((self.path, os.dup(self._descriptor)))
        except OSError:
            # It stays in use until it can be handed over; the ingester requests that again.
            return
        if not self._begin():
            descriptor, self._descriptor = self._descriptor, -1
            self._let_go(descriptor)
            # Once more, to get the reason. Open exchanges are written to the next file.
            self._tried = 0
            self._begin()

    def close(self) -> None:
        """Release the file. The ingester treats its open exchanges as crashed."""
        self.tend()
        self._closed = True
        descriptor = self._descriptor
        if self.path is not None and descriptor >= 0:
            if self.is_bare and not self._open:
                with suppress(OSError):
                    # While it is still locked, so that no orphan without entries is found.
                    self.path.unlink(missing_ok=True)
            elif self.is_gone:
                try:
                    self.removed.append((self.path, os.dup(descriptor)))
                except OSError:
                    # Itself, then: it is not to be closed before it is read.
                    self.removed.append((self.path, descriptor))
                    descriptor = -1
        self._descriptor = -1
        self._let_go(descriptor)
        self.lost += len(self._waiting)
        self._waiting.clear()

    def _line_of(self, what: str, entry: JournalEntry) -> bytes:
        buffer = self._buffer
        try:
            _encode_into((what, entry) if what is OPENED else (what, summary_of(entry), entry), buffer)
        except UnicodeEncodeError:
            # A client may call itself anything.
            return self._line_of(what, sanitize_entry(entry))
        # A copy: a line that is written while garbage is collected here is encoded in the same buffer.
        return _line(buffer[_ALL])

    def _write_rest(self, line: bytes, written: int) -> bool:
        """Write the rest of an entry. If that fails, remove the part, which no reader could use."""
        try:
            # A second try also reports why the first one ended.
            written += self._write(self._descriptor, line[written:])
            if written == len(line):
                self.size += written
                return True
            self.problem = "a line could be written in part alone"
        except OSError as error:
            self.problem = _message(error)
        try:
            os.ftruncate(self._descriptor, self.size)
        except OSError:
            self.size += written
            self._torn = True
        return False

    def _wait(self, line: bytes) -> None:
        if self._waiting_bytes + len(line) > _MAX_WAITING_BYTES:
            self.lost += 1
            return
        self._waiting.append(line)
        self._waiting_bytes += len(line)

    def _begin(self) -> bool:
        now = self._clock()
        if self._tried and 0 <= now - self._tried < _REOPEN_AFTER * 1e9 and self._descriptor < 0:
            return False
        self._tried = now
        try:
            descriptor, path = self._create_file(now // 1000)
        except OSError as error:
            if self._descriptor < 0:
                self.problem = _message(error)
            return False
        before = self.path.name if self.path is not None and self._descriptor >= 0 else ""
        line = _line(
            b'["begun",%d,"%b",[%b]]'
            % (VERSION, before.encode(), b",".join([line[_OPENED] for line in self._open.values()]))
        )
        try:
            written = self._write(descriptor, line)
        except OSError as error:
            written = 0
            self.problem = _message(error)
        if written != len(line) and self._descriptor >= 0:
            # Without its first entry the new file is useless: the previous one stays in use, beyond its size.
            with suppress(OSError):
                # A remaining file is an orphan without entries.
                path.unlink(missing_ok=True)
            os.close(descriptor)
            return False
        former, self._descriptor = self._descriptor, descriptor
        self.path, self.size, self.begun = path, written, now // 1000
        self._first = written
        self._torn = 0 < written < len(line)
        self._let_go(former)
        return True

    def _let_go(self, descriptor: int) -> None:
        """Close a file, if there is one. An error while closing does not fail the request."""
        try:
            if descriptor >= 0:
                self._retire(descriptor)
        except OSError as error:
            self.problem = _message(error)

    def _create_file(self, now: int) -> tuple[int, Path]:
        """A new locked file with an unused name."""
        make_directory(self._directory)
        for step in range(_TRIES):
            self._number += 1
            path = self._directory / journal_name(max(now, self.begun + 1) + step, self.machine, self._number)
            try:
                descriptor = os.open(path, _FLAGS, 0o600)
            except FileExistsError:
                continue
            try:
                # The ingester may have found it empty and unlocked, and have removed it.
                if lock_one_that_is_there(descriptor):
                    return descriptor, path
            except OSError:
                os.close(descriptor)
                path.unlink(missing_ok=True)
                raise
            os.close(descriptor)
        raise FileExistsError("no name is left for a journal")


def _line(body: bytes | bytearray) -> bytes:
    return b"".join((hexlify(crc32(body).to_bytes(4, "big")), b" ", body, b"\n"))


def _message(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
