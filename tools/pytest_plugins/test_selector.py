"""A pytest plugin that runs chosen tests in a chosen order, for `tools/mutations`.

It imports nothing of this project, so that it works in any tree: its directory is in `PYTHONPATH` and `PYTEST_PLUGINS`
names it. `TEST_SELECTOR_PLAN` is a JSON file with an object:

- `files`: the test files in the order in which they run;
- `skipped`: the tests in them that do not run. Other tests run: a mutation may rename cases of a parametrized test.
- `failed`: the path of a file to which the names of failed tests are written.
"""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

import pytest

PLAN_VARIABLE = "TEST_SELECTOR_PLAN"
# Bytes of address space: a mutated loop may append without end.
MAX_MEMORY = 8 << 30


class Plan(TypedDict):
    """The content of the file."""

    files: list[str]
    skipped: list[str]
    failed: str


def pytest_configure(config: pytest.Config) -> None:
    """Read the plan."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    plan: Plan = json.loads(Path(os.environ[PLAN_VARIABLE]).read_text(encoding="utf-8"))
    config.pluginmanager.register(_Selector(plan), "test-selector-of-plan")


class _Selector:
    def __init__(self, plan: Plan) -> None:
        self._order = {file: number for number, file in enumerate(plan["files"])}
        self._skipped = frozenset(plan["skipped"])
        self._failed = Path(plan["failed"])

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
        """Select and order, after all other plugins."""
        yield
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in self._skipped])
        chosen = [item for item in items if item.nodeid not in self._skipped]
        items[:] = sorted(chosen, key=lambda item: self._order[item.nodeid.partition("::")[0]])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the name of a failed test."""
        if report.failed:
            with self._failed.open("a", encoding="utf-8") as file:
                print(report.nodeid, file=file)
