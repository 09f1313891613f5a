"""Sharing of the tests among processes that collect all of them: each claims one file after the other.

    pytest --claims DIRECTORY & pytest --claims DIRECTORY

A file of tests belongs to the process that makes a file of its name in the directory first. `make quick` runs so:
unlike with pytest-xdist nothing is sent from process to process, which for short tests takes longer than to run them.
"""

from __future__ import annotations

from itertools import groupby, pairwise
from pathlib import Path

import pytest


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

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests of every file that nobody else has claimed."""
        if session.testsfailed:
            raise session.Interrupted(f"{session.testsfailed} errors during collection")
        for file, tests in groupby(session.items, key=lambda item: item.nodeid.partition("::")[0]):
            if self._claim(file):
                own = [*tests, None]
                for test, following in pairwise(own):
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
