"""Reports of the tests: a passed test sends one to the process that distributes the tests, instead of six messages.

Of each test pytest-xdist tells its begin, the outcome of its set-up, of itself and of its tear-down, and its end. With
20,000 short tests that is a fifth of the work.
"""

from __future__ import annotations

import pytest
from _pytest.runner import runtestprotocol


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Take part in the processes that run tests for another one."""
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(_FewReports(), "dragoman-reports")


class _FewReports:
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run a test; report it with its whole duration if it passed, each of its phases if it did not."""
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        if all(report.passed for report in reports):
            passed = next(report for report in reports if report.when == "call")
            passed.duration = sum(report.duration for report in reports)
            reports = [passed]
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        return True
