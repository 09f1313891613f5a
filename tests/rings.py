"""Rings: what a test may use of the machine, by folder, with exceptions by file; enforced while tests run.

| ring | a test may use | run by |
| --- | --- | --- |
| `pure` | memory and files; the socket pair of an event loop | `make quick`, `make test` |
| `socket` | besides: sockets of 127.0.0.1, threads, short real waits; a gateway in this process | `make test` |
| `process` | besides: other processes: real gateways, clients, package tools | `make test` |

The table is `rings.toml`. A parameter of a test may have a later ring than its file, by the mark of its name. A `pure`
test that opens a network socket, starts a process or a thread, or sleeps fails; a `socket` test that starts a process
fails. An audit hook of the interpreter sees sockets and processes, whoever
imported what before. It does not see threads and sleeps on Python 3.11: these functions are wrapped.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
import time
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from types import FrameType
from typing import Any

import pytest

from tests.virtual_time import VirtualLoop

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "tests/rings.toml"
PURE, SOCKET, PROCESS = RINGS = ("pure", "socket", "process")

# What a test uses, as messages name it, and the ring from which on it may.
NETWORK, STARTED, SLEPT, THREAD = "a network socket", "a process", "a real sleep", "a thread"
# A wait for a time in place of a condition, which no ring allows.
WAITED = "a wait without a condition"
_FROM = {NETWORK: SOCKET, SLEPT: SOCKET, THREAD: SOCKET, STARTED: PROCESS}
# Files of tests that may sleep, and why.
_MAY_SLEEP = {
    "tests/waiting.py": "the polling helper",
    "tests/failover/provider.py": "a provider that is slow",
    "tests/machines/database_proxy.py": "a network that is slow",
    "tests/gateway/harness.py": "a provider that speaks slowly",
    "tests/virtual_time.py": "gives a thread a moment to come back",
    "tests/gateway/exchange/test_timeouts.py": "a timer that the loop fires after those that are due before it",
}
_STARTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.exec"})
# Threads of playbooks, for which virtual time waits: the store's, and those of the loop's executor.
_AWAITED_THREADS = ("store", "virtual")
_AUDITED = _STARTS | {"socket.__new__"}
_INTERNET = frozenset({socket.AF_INET, socket.AF_INET6})


@cache
def _table() -> dict[str, str]:
    """Folder or file below `tests/` to ring."""
    table: dict[str, str] = {}
    for ring, paths in tomllib.loads(TABLE.read_text(encoding="utf-8")).items():
        assert ring in RINGS, f"{TABLE.name} names an unknown ring: {ring}"
        for path in paths:
            assert path not in table, f"{TABLE.name} names {path} twice"
            table[path] = ring
    return table


@cache
def ring_of(path: PurePosixPath) -> str:
    """The ring of a test file, by its path below `tests/`: its own entry, or that of the nearest folder."""
    table = _table()
    for place in (path, *path.parents):
        if ring := table.get(str(place)):
            return ring
    raise pytest.UsageError(f"tests/{path} belongs to no ring: add its folder to {TABLE.name}")


def entries() -> Iterable[str]:
    """The folders and files that the table names."""
    return _table()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare `--ring` and `--nightly`."""
    parser.addoption("--ring", action="append", choices=RINGS, help="collect the files of this ring alone")
    parser.addoption("--nightly", action="store_true", help="run what is marked `nightly`, too")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers."""
    for ring in RINGS:
        config.addinivalue_line("markers", f"{ring}: see tests/rings.py")
    config.addinivalue_line("markers", "nightly: takes long; `make nightly` runs it, `make test` does not")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files of other rings before they are imported, and folders of such files with their conftest."""
    if config.option.ring is None or not collection_path.is_relative_to(ROOT / "tests"):
        return None
    path = _below_tests(collection_path)
    rings = {ring_of(path)}
    if collection_path.is_dir():
        rings.update(ring for entry, ring in _table().items() if path in PurePosixPath(entry).parents)
    elif collection_path.suffix != ".py":
        return None
    return True if rings.isdisjoint(config.option.ring) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark every test with its ring; leave out what is for the night."""
    marks = {ring: getattr(pytest.mark, ring) for ring in RINGS}
    for item in items:
        item.add_marker(marks[_ring_of_item(item)])
    if config.option.ring is not None:
        others = {item for item in items if _ring_of_item(item) not in config.option.ring}
        config.hook.pytest_deselected(items=list(others))
        items[:] = [item for item in items if item not in others]
    if not config.option.nightly:
        late = {item for item in items if item.get_closest_marker("nightly")}
        config.hook.pytest_deselected(items=list(late))
        items[:] = [item for item in items if item not in late]


def _ring_of_item(item: pytest.Item) -> str:
    # A test of a file may need more than the others, for one of its parameters.
    own = [mark.name for mark in item.own_markers if mark.name in RINGS]
    return max(own or [_ring_of_file(item.path)], key=RINGS.index)


@cache
def _ring_of_file(path: Path) -> str:
    return ring_of(_below_tests(path))


def _below_tests(path: Path) -> PurePosixPath:
    return PurePosixPath(path.relative_to(ROOT / "tests").as_posix())


# Enforcement


class _Uses:
    """What the code that runs now has used of the machine."""

    def __init__(self) -> None:
        self.watching = False
        self.may_have_threads = False
        self.seen: dict[str, str] = {}

    def note(self, use: str, what: str) -> None:
        if self.watching:
            self.seen.setdefault(use, what)


_uses = _Uses()


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    # Called for every file that is opened and every module that is imported.
    if event not in _AUDITED or not _uses.watching:
        return
    if event == "socket.__new__":
        if arguments[1] in _INTERNET and not _is_probe_of_an_import():
            _uses.note(NETWORK, _caller())
    else:
        _uses.note(STARTED, _caller())


def _is_probe_of_an_import() -> bool:
    """Whether urllib3 is being imported, which binds a socket to see whether there is IPv6, in the first test alone."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_name == "_has_ipv6":
            return True
        frame = frame.f_back
    return False


def _caller(depth: int = 2) -> str:
    """The nearest line of this project that led here."""
    frame = sys._getframe(depth)
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(str(ROOT)) and ".venv" not in path and not path.endswith("tests/rings.py"):
            return f"{os.path.relpath(path, ROOT)}:{frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return "outside of this project"


_time_sleep, _asyncio_sleep, _thread_start = time.sleep, asyncio.sleep, threading.Thread.start


def _watched_time_sleep(seconds: float) -> None:
    if seconds > 0 and _in_test_thread():
        _note_sleep(f"time.sleep({seconds})")
    _time_sleep(seconds)


async def _watched_asyncio_sleep(delay: float, result: object = None) -> object:
    # In virtual time nothing waits.
    if delay > 0 and not isinstance(asyncio.get_running_loop(), VirtualLoop):
        _note_sleep(f"asyncio.sleep({delay})")
    return await _asyncio_sleep(delay, result)


def _note_sleep(call: str) -> None:
    if _uses.watching:
        where = _caller(3)
        _uses.note(SLEPT, f"{call}, {where}")
        # A module of the standard library that sleeps has a condition: the end of a process, say.
        sleeper = os.path.relpath(sys._getframe(2).f_code.co_filename, ROOT)
        if sleeper.startswith("tests/") and sleeper not in _MAY_SLEEP:
            _uses.note(WAITED, f"{call}, {where}")


def _watched_thread_start(thread: threading.Thread) -> None:
    if not (_uses.may_have_threads and thread.name.startswith(_AWAITED_THREADS)):
        _uses.note(THREAD, f"{thread.name}, {_caller()}")
    _thread_start(thread)


def _in_test_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


sys.addaudithook(_audit)
for _owner, _name, _watched in (
    (time, "sleep", _watched_time_sleep),
    (asyncio, "sleep", _watched_asyncio_sleep),
    (asyncio.tasks, "sleep", _watched_asyncio_sleep),
    (threading.Thread, "start", _watched_thread_start),
):
    setattr(_owner, _name, _watched)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Watch a test with its fixtures."""
    _uses.seen.clear()
    _uses.may_have_threads = "playbooks" in item.path.parts
    _uses.watching = True
    try:
        return (yield)
    finally:
        _uses.watching = False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test that used more than its ring allows."""
    yield
    ring = RINGS.index(_ring_of_item(item))
    beyond = {use: where for use, where in _uses.seen.items() if use == WAITED or RINGS.index(_FROM[use]) > ring}
    if beyond:
        shown = "; ".join(f"{use} ({where})" for use, where in beyond.items())
        pytest.fail(f"a test of the ring {RINGS[ring]!r} used {shown}: see tests/rings.py", pytrace=False)
