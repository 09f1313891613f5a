"""The log's writer: whoever reads slowly, or not at all, holds nobody up, and every line that is missing is counted."""

from __future__ import annotations

import errno
import fcntl
import io
import json
import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from dragoman.gateway.observability import log_writer as module
from dragoman.gateway.observability.log_writer import _AT_ONCE, _AT_ONCE_SHARED, _OWN_ROOM, _ROOM, LogWriter
from dragoman.gateway.observability.logs import Log
from tests.waiting import LIMIT, wait_until


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing waits as long as a busy machine needs, unless a test says otherwise."""
    monkeypatch.setattr(module, "_LAST_MOMENTS", LIMIT)


def told(lines: int) -> bytes:
    return b"missing %d\n" % lines


@contextmanager
def piped() -> Iterator[tuple[int, LogWriter]]:
    """A writer, and the end of its pipe that is read by nobody but the test."""
    ours, theirs = os.pipe()
    writer = LogWriter(theirs, told)
    try:
        yield ours, writer
    finally:
        # What waits has no reader any more, so the thread can end.
        os.close(ours)
        writer.close()
        os.close(theirs)


def drained(descriptor: int, until: Callable[[bytes], bool]) -> bytes:
    """What comes out of a pipe until it is enough."""
    os.set_blocking(descriptor, False)
    data = bytearray()

    def is_enough() -> bool:
        with suppress(BlockingIOError):
            while not until(bytes(data)):
                data.extend(os.read(descriptor, 65536))
        return until(bytes(data))

    wait_until(is_enough, "enough comes out of the pipe")
    return bytes(data)


def missing_in(lines: list[bytes]) -> int:
    return sum(int(line.split()[1]) for line in lines if line.startswith(b"missing "))


def test_lines_are_written_in_their_order() -> None:
    with piped() as (reader, writer):
        for count in range(1000):
            writer.put((b"line %d\n" % count,), own=False)
        lines = drained(reader, lambda data: data.count(b"\n") == 1000).splitlines()
    assert lines == [b"line %d" % count for count in range(1000)]


def test_item_7_nobody_waits_for_a_reader_and_what_is_left_out_is_told_when_it_is_back() -> None:
    line = b"x" * 199 + b"\n"
    with piped() as (reader, writer):
        for _ in range(10_000):
            writer.put((line,), own=False)
        assert writer.dropped > 0
        # What anybody can cause leaves a share to the gateway's own words.
        lost = writer.dropped
        for _ in range(_OWN_ROOM // 400):
            writer.put((b"own" + line[3:],), own=True)
        assert writer.dropped == lost
        assert writer._waiting <= _ROOM
        lines = drained(reader, lambda data: b"missing" in data and data.endswith(b"\n")).splitlines()
        assert missing_in(lines) == lost
        assert sum(line.startswith(b"x") for line in lines) == 10_000 - lost
        assert sum(line.startswith(b"own") for line in lines) == _OWN_ROOM // 400
        assert {len(line) for line in lines[:-1]} == {199}
        writer.put((b"again\n",), own=False)
        assert drained(reader, lambda data: data.endswith(b"\n")) == b"again\n"


def test_no_write_is_longer_than_what_a_pipe_takes_whole() -> None:
    seen: list[int] = []
    # A pipe in packet mode gives every write by itself.
    ours, theirs = os.pipe2(os.O_DIRECT)
    try:
        writer = LogWriter(theirs, told)
        for count in range(300):
            writer.put((b"%0100d\n" % count,), own=False)
        while sum(seen) < 300 * 101:
            piece = os.read(ours, 65536)
            assert piece.endswith(b"\n")
            seen.append(len(piece))
        writer.close()
    finally:
        os.close(ours)
        os.close(theirs)
    assert max(seen) <= _AT_ONCE_SHARED
    assert len(seen) < 100


def test_a_descriptor_that_somebody_made_non_blocking_is_waited_for() -> None:
    with piped() as (reader, writer):
        os.set_blocking(writer._descriptor, False)
        for count in range(2000):
            writer.put((b"%0199d\n" % count,), own=False)
        lines = drained(reader, lambda data: data.count(b"\n") == 2000).splitlines()
        assert lines == [b"%0199d" % count for count in range(2000)]
        assert writer.dropped == 0


def test_a_reader_that_is_gone_is_counted_and_nobody_fails() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        writer = LogWriter(theirs, told)
        for _ in range(3):
            writer.put((b"a\n",), own=True)
        writer.close()
        assert writer.dropped == 3
    finally:
        os.close(theirs)


def test_a_disk_that_is_full_and_then_is_not_is_told_and_no_line_goes_on_in_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "log"
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    real, room = os.write, [7]

    def write(to: int, data: bytes) -> int:
        # As a disk does: as much as there is room for, then an error.
        if not room[0]:
            raise OSError(errno.ENOSPC, "no space")
        count = real(to, bytes(data)[: room[0]])
        room[0] -= count
        return count

    monkeypatch.setattr(os, "write", write)
    try:
        writer = LogWriter(descriptor, told)
        for text in (b"first\n", b"second\n", b"third\n"):
            writer.put((text,), own=True)
        writer.close()
        assert writer.dropped == 2
        room[0] = 1000
        writer.put((b"fourth\n",), own=True)
        writer.close()
        wait_until(lambda: b"missing" in file.read_bytes(), "the missing lines are counted")
        assert file.read_bytes() == b"first\ns\nfourth\nmissing 2\n"
    finally:
        os.close(descriptor)


def test_closing_takes_no_longer_than_a_moment_although_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LAST_MOMENTS", 0.05)
    with piped() as (reader, writer):
        for _ in range(5000):
            writer.put((b"x" * 99 + b"\n",), own=False)
        # It returns, and what waits is still there.
        writer.close()
        assert writer._waiting
        drained(reader, lambda data: data.count(b"\n") == 5000)


def test_a_line_after_the_end_is_written_and_its_thread_ends_too() -> None:
    with piped() as (reader, writer):
        for line in (b"first\n", b"second\n"):
            writer.put((line,), own=True)
            assert drained(reader, lambda data: data.endswith(b"\n")) == line
            writer.close()
            wait_until(lambda: writer._thread is None, "the thread has ended")


def test_what_waits_in_a_process_is_not_written_by_its_children_too() -> None:
    with piped() as (reader, writer):
        # So much that the thread is within a write, and lines wait behind it.
        for count in range(2000):
            writer.put((b"parent %092d\n" % count,), own=False)
        children = []
        for number in range(3):
            pid = os.fork()
            if not pid:
                try:
                    writer.put((b"child %d\n" % number,), own=True)
                    writer.close()
                finally:
                    os._exit(writer.dropped)
            children.append(pid)
        lines = drained(reader, lambda data: data.count(b"\n") == 2003).splitlines()
        assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0, 0, 0]
        assert [line for line in lines if line.startswith(b"parent")] == [b"parent %092d" % n for n in range(2000)]
        assert sorted(line for line in lines if line.startswith(b"child")) == [b"child %d" % n for n in range(3)]
        with pytest.raises(BlockingIOError):
            os.read(reader, 1)


def test_the_flag_of_a_shared_descriptor_is_left_alone() -> None:
    with piped() as (_, writer):
        before = fcntl.fcntl(writer._descriptor, fcntl.F_GETFL)
        writer.put((b"a\n",), own=True)
        writer.close()
        assert fcntl.fcntl(writer._descriptor, fcntl.F_GETFL) == before


def test_a_stream_without_a_descriptor_is_written_at_once() -> None:
    out = io.StringIO()
    log = Log(out, json=True)
    log.event("info", "begun")
    assert json.loads(out.getvalue())["event"] == "begun"
    log.close()
    assert log.lines_dropped == 0


def test_a_line_costs_less_than_writing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = b"x" * 399 + b"\n"
    real, writers = os.write, list[threading.Thread]()

    def write(to: int, data: bytes) -> int:
        writers.append(threading.current_thread())
        return real(to, data)

    with (tmp_path / "log").open("wb") as out:
        writer = LogWriter(out.fileno(), told)
        monkeypatch.setattr(os, "write", write)
        # Held, so that no line is taken before all are there.
        with writer.lock:
            for _ in range(300):
                writer.put((line,), own=False)
            assert not writers
        writer.close()
    assert (tmp_path / "log").read_bytes() == line * 300
    # Few writes, and none by whoever put the lines.
    assert len(writers) == math.ceil(300 / (_AT_ONCE // len(line)))
    assert threading.main_thread() not in writers
