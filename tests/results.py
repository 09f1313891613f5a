"""Results of a run as a file: outcome, ring and duration of every test, and the text of every failure.

`--results FILE` writes it. `make test` reads it to decide and to summarize, `make test-times` to show where time goes.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import msgspec
import pytest
from msgspec import Struct

from tests.rings import ring_of

FAILED, PASSED, SKIPPED = "failed", "passed", "skipped"


class TestResult(Struct, kw_only=True):
    """One test."""

    __test__ = False

    name: str
    ring: str
    outcome: str = PASSED
    # Seconds, with its fixtures.
    duration: float = 0.0
    # What a failure printed.
    text: str = ""

    @property
    def file(self) -> str:
        """The path of its file from the root."""
        return self.name.partition("::")[0]

    @property
    def folder(self) -> str:
        """Its folder below `tests/`; `.` for files of `tests/` itself."""
        parts = PurePosixPath(self.file).parts
        return parts[1] if len(parts) > 2 else "."


class Results(Struct, kw_only=True):
    """All tests of a run, and what failed outside of any test."""

    tests: list[TestResult] = []
    errors: list[str] = []

    def of(self, outcome: str) -> list[TestResult]:
        """The tests with an outcome."""
        return [test for test in self.tests if test.outcome == outcome]


def read_results(path: Path) -> Results:
    """The results in a file."""
    return msgspec.json.decode(path.read_bytes(), type=Results)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare `--results`."""
    parser.addoption("--results", type=Path, metavar="FILE", help="write outcome and duration of every test to FILE")


def pytest_configure(config: pytest.Config) -> None:
    """Begin to collect, in the process that distributes the tests."""
    if config.option.results and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Collector(config.option.results), "dragoman-results")


class _Collector:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._tests: dict[str, TestResult] = {}
        self._errors: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take one phase of a test; a failure of any phase stays."""
        test = self._tests.get(report.nodeid)
        if test is None:
            file = PurePosixPath(report.nodeid.partition("::")[0])
            test = self._tests[report.nodeid] = TestResult(name=report.nodeid, ring=ring_of(file.relative_to("tests")))
        test.duration += report.duration
        if report.failed:
            test.outcome = FAILED
            test.text += f"{report.longreprtext}\n" + "".join(f"--- {name}\n{text}\n" for name, text in report.sections)
        elif report.skipped and test.outcome == PASSED:
            test.outcome, test.text = SKIPPED, report.longreprtext

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Take a file that cannot be read."""
        if report.failed:
            self._errors.append(f"{report.nodeid}: {report.longreprtext}")

    def pytest_sessionfinish(self) -> None:
        """Write."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_bytes(msgspec.json.encode(Results(tests=list(self._tests.values()), errors=self._errors)))
