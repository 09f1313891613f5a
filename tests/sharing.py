"""Sharing of the tests among processes: each claims one file after the other, and only then collects it.

    pytest --claims DIRECTORY & pytest --claims DIRECTORY

A file of tests belongs to the process that makes a file of its name in the directory first. `make quick` runs so:
unlike with pytest-xdist nothing is sent from process to process, which for short tests takes longer than to run them,
and no process imports a file that another one runs. Single tests (`FILE::NAME`) cannot be named.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from _pytest.runner import collect_one_node


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare `--claims`."""
    parser.addoption("--claims", type=Path, metavar="DIRECTORY", help="run the files that nobody claimed in DIRECTORY")


def pytest_configure(config: pytest.Config) -> None:
    """Take part if asked to."""
    if config.option.claims:
        config.pluginmanager.register(_Claims(config.option.claims), "dragoman-claims")


class _Claims:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files: dict[str, pytest.Module] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> pytest.CollectReport | None:
        """Note a file without its tests when pytest looks for files."""
        if not isinstance(collector, pytest.Module) or collector.nodeid in self._files:
            return None
        self._files[collector.nodeid] = collector
        return pytest.CollectReport(collector.nodeid, "passed", None, [])

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Collect and run the tests of every file that no other process has claimed."""
        # A process that comes late and finds every file claimed is no failure.
        session.testscollected = len(self._files)
        for name, file in self._files.items():
            if self._claim(name):
                for test, following in pairwise([*_tests_of(file), None]):
                    assert test is not None
                    test.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
                    if session.shouldstop:
                        raise session.Interrupted(session.shouldstop)
        return True

    def _claim(self, file: str) -> bool:
        try:
            (self._directory / file.replace("/", "-")).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def _tests_of(file: pytest.Module) -> list[pytest.Item]:
    """Collect the tests of a file, as pytest does for all files at once."""
    session = file.session
    gc.disable()
    tests = list(_collected(file))
    session.config.hook.pytest_collection_modifyitems(session=session, config=session.config, items=tests)
    gc.enable()
    return tests


def _collected(node: pytest.Item | pytest.Collector) -> Iterator[pytest.Item]:
    if isinstance(node, pytest.Item):
        node.ihook.pytest_itemcollected(item=node)
        yield node
    elif isinstance(node, pytest.Collector):
        report = collect_one_node(node)
        node.ihook.pytest_collectreport(report=report)
        for child in report.result if report.passed else ():
            yield from _collected(child)
