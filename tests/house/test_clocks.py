"""No test reads a clock: what a machine does in a second depends on what else it does.

Complexity is asserted by counting steps (`tests/step_counting.py`), a wait has a condition (`tests/waiting.py`), and
timers run in virtual time (`tests/virtual_time.py`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CLOCKS = frozenset({"perf_counter", "process_time", "thread_time", "monotonic"})
# Files that may read a clock, and why.
MAY = {
    "gateway/processes/moved_clock.py": "is the clock that tests move forward in another process",
    "waiting.py": "the polling helper",
    "machines/faults.py": "stops a server for so long; it asserts no length of time",
    "server/constants/sitecustomize.py": "is the wall clock of a process that a test starts",
    "server/test_key_table.py": "knows whether the end of a key has passed; it asserts no length of time",
    "virtual_time.py": "gives up on a thread that does not come back",
}


# Nearly no file has one of these, and to parse a file takes much longer than to search it.
_has_such_a_word = re.compile(rf"{'|'.join(CLOCKS)}|time\s*\.\s*time|from\s+time\b").search


def readings(source: str) -> Iterator[int]:
    """The lines on which a module names a clock."""
    if _has_such_a_word(source) is None:
        return
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(attr=name) if name.removesuffix("_ns") in CLOCKS:
                yield node.lineno
            case ast.Attribute(value=ast.Name(id="time"), attr="time" | "time_ns"):
                yield node.lineno
            case ast.ImportFrom(module="time", names=names) if any(alias.name != "sleep" for alias in names):
                yield node.lineno


def _files() -> list[Path]:
    return [path for path in sorted(TESTS.rglob("*.py")) if "attack" not in path.relative_to(TESTS).parts]


def test_no_test_reads_a_clock() -> None:
    read = {str(path.relative_to(TESTS)): list(readings(path.read_text(encoding="utf-8"))) for path in _files()}
    assert {name: lines for name, lines in read.items() if lines and name not in MAY} == {}


def test_every_exception_is_needed() -> None:
    assert [name for name in MAY if not list(readings((TESTS / name).read_text(encoding="utf-8")))] == []


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.time()",
        "import time\nt = time.monotonic",
        "from time import perf_counter",
        "x.thread_time_ns()",
    ],
)
def test_a_clock_is_seen(source: str) -> None:
    assert list(readings(source))


@pytest.mark.parametrize(
    "source", ["loop.time()", "from time import sleep", "import time\ntime.sleep(1)", "at = row.time"]
)
def test_what_is_no_clock_is_not(source: str) -> None:
    assert not list(readings(source))
