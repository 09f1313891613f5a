"""A pytest plugin that measures coverage of `src/` in every process that runs tests.

It imports nothing of this project, so that it measures any tree: its directory is in `PYTHONPATH` and `PYTEST_PLUGINS`
names it. pytest then loads it before the tree's own plugins, in the processes of pytest-xdist as well.

| `COVERAGE_RECORDER_MODE` | recorded |
| --- | --- |
| `branches` | branches, without the names of tests |
| `lines by test` | lines with the tests that execute them, as dynamic contexts of coverage.py |

`COVERAGE_RECORDER_DATA` is the data file; each process adds a suffix of its own. Beside it, the distributing process
writes the duration of every test in seconds to `durations.json`.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from coverage import Coverage

MODE_VARIABLE, DATA_VARIABLE = "COVERAGE_RECORDER_MODE", "COVERAGE_RECORDER_DATA"
BRANCHES, LINES_BY_TEST = "branches", "lines by test"
# The context of lines that run when their module is imported.
IMPORT = "import"
PACKAGE = "dragoman"
_OUTSIDE = "outside of tests"


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Begin before a conftest file imports the package."""
    data = Path(os.environ[DATA_VARIABLE])
    recorder = Recorder(data, early_config.rootpath / "src", by_test=os.environ[MODE_VARIABLE] == LINES_BY_TEST)
    early_config.pluginmanager.register(recorder, "coverage-recorder-of-process")
    if "PYTEST_XDIST_WORKER" not in os.environ:
        early_config.pluginmanager.register(_Durations(data.parent / "durations.json"), "coverage-recorder-durations")


class Recorder:
    """Measures one process."""

    def __init__(self, data: Path, source: Path, *, by_test: bool) -> None:
        self._by_test = by_test
        self._context = _OUTSIDE
        self._coverage = Coverage(
            data_file=str(data),
            data_suffix=True,
            source=[str(source)],
            branch=not by_test,
            config_file=False,
            messages=False,
        )
        # Tests that count steps replace the trace function for a moment. Warnings are errors in tests.
        self._coverage.set_option("run:disable_warnings", ["trace-changed", "no-data-collected", "module-not-imported"])
        self._coverage.start()
        if by_test:
            self._coverage.switch_context(self._context)

    def pytest_sessionstart(self) -> None:
        """Import all modules at once: otherwise the first test that needs one executes its top level alone."""
        if not self._by_test:
            return
        with self._switched(IMPORT):
            package = importlib.import_module(PACKAGE)
            for module in pkgutil.walk_packages(package.__path__, f"{PACKAGE}."):
                if not module.name.endswith("__main__"):
                    importlib.import_module(module.name)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        """Attribute the lines that a test file executes while it is imported to the whole file."""
        with self._switched(collector.nodeid if isinstance(collector, pytest.File) else self._context):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Attribute lines to the test."""
        with self._switched(item.nodeid):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: object, request: pytest.FixtureRequest) -> Iterator[None]:
        """Attribute the lines of a shared fixture to all tests of its file or class."""
        shared = request.scope in ("module", "class")
        with self._switched(request.node.nodeid if shared else self._context):
            return (yield)

    def pytest_sessionfinish(self) -> None:
        """Write the data of this process."""
        self._coverage.stop()
        self._coverage.save()

    @contextmanager
    def _switched(self, context: str) -> Iterator[None]:
        if not self._by_test or context == self._context:
            yield
            return
        outer, self._context = self._context, context
        self._coverage.switch_context(context)
        try:
            yield
        finally:
            self._context = outer
            self._coverage.switch_context(outer)


class _Durations:
    """Collects how long tests take."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase of a test."""
        self._seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write."""
        self._path.write_text(json.dumps(self._seconds, indent=0), encoding="utf-8")
