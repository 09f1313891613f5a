"""Order of the tests: files of the outer rings first, or at random.

Files are handed out whole. A file that starts processes may take a minute; if it came last, one core would wait for
the other. `--random-order SEED` shuffles the files, and the tests inside of each; `--random-order new` chooses a seed
and prints it.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterable
from itertools import groupby
from pathlib import PurePosixPath

import pytest

from tests.rings import RINGS, ring_of


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare `--random-order`."""
    parser.addoption("--random-order", metavar="SEED", help="shuffle files and the tests in them; `new`: any seed")


def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed once, before the processes that run tests get the options."""
    if config.option.random_order == "new":
        config.option.random_order = str(secrets.randbelow(10**6))


def pytest_report_header(config: pytest.Config) -> str:
    """Print the seed."""
    return f"random order: --random-order {seed}" if (seed := config.option.random_order) else ""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests in order."""
    files = [list(tests) for _, tests in groupby(items, key=_file)]
    if seed := config.option.random_order:
        rng = random.Random(seed)
        rng.shuffle(files)
        for tests in files:
            rng.shuffle(tests)
    else:
        files.sort(key=lambda tests: -RINGS.index(ring_of(PurePosixPath(_file(tests[0])).relative_to("tests"))))
    items[:] = _flattened(files)


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _flattened(files: Iterable[list[pytest.Item]]) -> list[pytest.Item]:
    return [test for tests in files for test in tests]
