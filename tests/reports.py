"""Reports of the tests: one for each passed test, and no letter on the terminal.

pytest reports the set-up, the call and the tear-down of each test, and pytest-xdist sends six messages for each test to
the process that distributes them. With 20,000 short tests that is a fifth of the work.
"""

from __future__ import annotations

import pytest
from _pytest.runner import runtestprotocol


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Take part in the processes that run tests for another one."""
    if hasattr(config, "workerinput") or config.option.claims:
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

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.CollectReport | pytest.TestReport) -> tuple[str, str, str] | None:
        """Print nothing for a passed test: each letter is written and flushed alone."""
        return ("passed", "", "") if report.passed and report.when == "call" else None
