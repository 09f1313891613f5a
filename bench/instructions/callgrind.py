"""Callgrind: its command line, the switches of a running process, and what its dump files hold."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

_OPTIONS = ("--tool=callgrind", "--separate-threads=yes", "--dump-line=no")
_OUT = "callgrind.out"
# Seconds that a command to a running callgrind may take: it is served between two blocks of the program.
_CONTROL = 60.0
_THREAD = re.compile(r"^thread: (\d+)$", re.MULTILINE)
_TOTALS = re.compile(r"^totals: (\d+)$", re.MULTILINE)
# The object file that functions are of, by its number and, at its first mention, by its path.
_OBJECT = re.compile(r"^c?ob=\(\d+\) (.+)$", re.MULTILINE)
INSTALL = "valgrind is not installed: apt-get install valgrind (Debian and Ubuntu), or see https://valgrind.org"


class CallgrindError(Exception):
    """Callgrind did not do as it was told, or wrote something else than expected."""


class ThreadCount(Struct, frozen=True, kw_only=True):
    """Instructions of one thread in one dump, and the names of the object files whose functions it executed."""

    thread: int
    instructions: int
    objects: frozenset[str] = frozenset()


def is_installed() -> bool:
    """Whether callgrind and the command that controls it are on the path."""
    return shutil.which("valgrind") is not None and shutil.which("callgrind_control") is not None


def command(directory: Path, *, from_start: bool = False) -> list[str]:
    """The beginning of a command line whose program runs under callgrind, switched off unless it counts from the
    start, with dumps in a directory."""
    switched = f"--instr-atstart={'yes' if from_start else 'no'}"
    return ["valgrind", *_OPTIONS, switched, f"--callgrind-out-file={directory / _OUT}"]


def counts_in(directory: Path, files: str = f"{_OUT}-*") -> list[ThreadCount]:
    """The counts of all threads in the files of a directory."""
    return [thread_count(file.read_text(encoding="utf-8", errors="replace")) for file in sorted(directory.glob(files))]


class Callgrind:
    """A running callgrind, by the id of its process."""

    def __init__(self, pid: int, directory: Path) -> None:
        self._pid = pid
        self._directory = directory
        self._dumps = 0

    def switch(self, state: str) -> None:
        """Count from now on ("on") or do not ("off")."""
        self._control("-i", state)

    def dump(self) -> list[ThreadCount]:
        """The counts of all threads since the last dump; they begin at zero again."""
        self._control("-d", "bench")
        self._dumps += 1
        counts = counts_in(self._directory, f"{_OUT}.{self._dumps}-*")
        if not counts:
            raise CallgrindError(f"no dump {self._dumps} in {self._directory}")
        return counts

    def _control(self, *arguments: str) -> None:
        line = ["callgrind_control", *arguments, str(self._pid)]
        done = subprocess.run(line, capture_output=True, text=True, timeout=_CONTROL)
        if done.returncode or "OK." not in done.stdout:
            raise CallgrindError(f"{' '.join(line)} failed: {done.stdout}{done.stderr}")


def thread_count(dump: str) -> ThreadCount:
    """What one file of a dump says."""
    thread, totals = _THREAD.search(dump), _TOTALS.search(dump)
    if thread is None or totals is None:
        raise CallgrindError(f"a dump without thread or totals: {dump[:200]!r}")
    objects = frozenset(Path(path).name for path in _OBJECT.findall(dump))
    return ThreadCount(thread=int(thread[1]), instructions=int(totals[1]), objects=objects)


def ingest_thread(after_ingest: Iterable[ThreadCount]) -> int:
    """The number of the ingest thread in a dump that was made after one of its steps, with everything else idle."""
    busiest = max(after_ingest, key=lambda count: count.instructions)
    if not any("sqlite" in name for name in busiest.objects):
        raise CallgrindError(f"thread {busiest.thread} was busy while journals were ingested, but not with SQLite")
    return busiest.thread
