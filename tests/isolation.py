"""Isolation: what a test file leaves behind in its process is an error that names the file.

Compared before and after each file, and with `--leaks` each test: signal handlers, environment, working directory,
umask, event-loop policy, handlers of the root logger, open descriptors, threads, child processes, temporary files.

Threads and descriptors may take a moment to end, so the comparison waits for them. Fixtures of the whole session
announce what they hold with `held_by_session`.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.waiting import wait_until

# Seconds: how long threads and descriptors may take to end behind a file, unless `leak_limit` in the settings says so.
_LIMIT = "20"
Snapshot = dict[str, str]

_held: Snapshot = {}


@contextmanager
def held_by_session() -> Iterator[None]:
    """Take what begins in this block as the session's own, which no file leaks."""
    before = snapshot()
    yield
    after = snapshot()
    _held.update({key: value for key, value in after.items() if before.get(key) != value})


def snapshot() -> Snapshot:
    """Everything that a test could leave behind, one entry per thing."""
    taken: Snapshot = {}
    for part in _PARTS:
        taken.update(part())
    return taken


def leaks(before: Snapshot, after: Snapshot) -> list[str]:
    """What differs, one line per thing. What a file ended is no leak, unless it is a setting."""
    lines = []
    for key, value in sorted(after.items()):
        if before.get(key, _held.get(key)) != value:
            lines.append(f"{key}: {before.get(key, 'absent')} before, {value} after")
    gone = (key for key in sorted(before.keys() - after.keys()) if key.startswith(("environment ", "signal ")))
    return lines + [f"{key}: {before[key]} before, absent after" for key in gone]


def _signals() -> Iterator[tuple[str, str]]:
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        if handler not in (signal.SIG_DFL, None):
            yield f"signal {signal.Signals(number).name if number in list(signal.Signals) else number}", repr(handler)


def _environment() -> Iterator[tuple[str, str]]:
    # pytest itself names the test that runs. Values may be secrets of whoever runs the tests.
    for name, value in os.environ.items():
        if name != "PYTEST_CURRENT_TEST":
            yield f"environment {name}", f"value #{hash(value) & 0xFFFF:x}"


def _settings() -> Iterator[tuple[str, str]]:
    yield "working directory", str(Path.cwd())
    mask = os.umask(0o077)
    os.umask(mask)
    yield "umask", f"{mask:03o}"
    yield "event-loop policy", type(asyncio.get_event_loop_policy()).__name__
    yield "root logger", f"{[type(handler).__name__ for handler in logging.getLogger().handlers]}"


def _descriptors() -> Iterator[tuple[str, str]]:
    with os.scandir("/proc/self/fd") as entries:
        for entry in entries:
            try:
                target = str(Path(entry.path).readlink())
            except OSError:
                continue
            # The scan's own, and caches of modules that read random numbers or a time zone.
            if not target.startswith(("/proc/", "/dev/urandom", "/usr/share/zoneinfo")):
                yield f"descriptor {entry.name}", target


def _threads() -> Iterator[tuple[str, str]]:
    for thread in threading.enumerate():
        # The gateway starts these two with the first large request; they run until the process ends.
        if thread.name not in ("large-0", "large-1"):
            yield f"thread {thread.name} #{thread.ident}", "running"


def _children() -> Iterator[tuple[str, str]]:
    for task in Path("/proc/self/task").iterdir():
        # A thread or a child may end between the two reads.
        with suppress(FileNotFoundError, ProcessLookupError):
            for child in (task / "children").read_text().split():
                yield f"child process {child}", Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")[:200]


def _temporary_files() -> Iterator[tuple[str, str]]:
    for entry in Path(tempfile.gettempdir()).iterdir():
        # pytest's own, and the state of gateways that no test gave a place.
        if not entry.name.startswith("pytest-of-") and entry.name != "state":
            yield f"temporary file {entry.name}", "present"


_PARTS: tuple[Callable[[], Iterator[tuple[str, str]]], ...] = (
    _signals,
    _environment,
    _settings,
    _descriptors,
    _threads,
    _children,
    _temporary_files,
)


def _check(before: Snapshot, node: pytest.Item | pytest.Collector) -> None:
    found: list[str] = []
    collected = False

    def nothing_left() -> bool:
        nonlocal found, collected
        found = leaks(before, snapshot())
        if found:
            # Descriptors and threads of objects in cycles end when the collector finds them.
            gc.collect()
            collected = True
            found = leaks(before, snapshot())
        return not found

    try:
        wait_until(nothing_left, "nothing is left behind", float(node.config.getini("leak_limit")))
    except AssertionError:
        shown = "\n  ".join(found)
        pytest.fail(f"{node.nodeid} leaves behind:\n  {shown}", pytrace=False)
    if collected:
        # What is left, types of modules above all, is not looked at again: the next time is short.
        gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    """Have uvloop open the pipe now that it opens once in each process and never closes."""
    if config.option.leaks:
        config.pluginmanager.register(_EachTest(), "dragoman-leaks")
    with suppress(ImportError):
        import uvloop

        uvloop.new_event_loop().close()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare `--leaks` and `leak_limit`."""
    parser.addini("leak_limit", "seconds that threads and descriptors may take to end", default=_LIMIT)
    parser.addoption("--leaks", action="store_true", help="compare what is left behind for each test, not each file")


@pytest.fixture(autouse=True, scope="module")
def _no_leaks_of_a_file(request: pytest.FixtureRequest) -> Iterator[None]:
    before = snapshot()
    yield
    _check(before, request.node)


class _EachTest:
    @pytest.fixture(autouse=True)
    def _no_leaks_of_a_test(self, request: pytest.FixtureRequest) -> Iterator[None]:
        before = snapshot()
        yield
        _check(before, request.node)
