"""The matrix: how cells are gathered and shown, and that the page is whole."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.clients.cells import PROPERTY, PROTOCOLS, SCENARIOS, Cell, Client
from tests.clients.installing import ROOT
from tests.clients.matrix import (
    FAILED,
    PAGE,
    PASSED,
    Gathered,
    cells_of,
    declared,
    mark,
    page,
    printed,
    version_of,
)


def sample() -> Client:
    """A client with one scenario of its own, and without two of the others."""
    gaps = dict.fromkeys(SCENARIOS[2:], "it has none")
    return Client(name="Sample", package="zod", more=("subagent",), gaps=gaps)


def report(when: str, outcome: str) -> pytest.TestReport:
    """A report of a test that proves one cell."""
    assert when in ("call", "teardown")
    assert outcome in ("passed", "failed")
    return pytest.TestReport(
        nodeid="test",
        location=("test.py", 1, "test"),
        keywords={},
        outcome="passed" if outcome == "passed" else "failed",
        longrepr=None,
        when="call" if when == "call" else "teardown",
        user_properties=[(PROPERTY, ["Sample", "tool", PROTOCOLS[0]]), ("other", "value")],
    )


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [(("passed", "passed"), PASSED), (("failed", "passed"), FAILED), (("passed", "failed"), FAILED)],
)
def test_a_cell_passes_if_every_phase_of_its_test_does(outcomes: tuple[str, str], expected: str) -> None:
    gathered = Gathered()
    gathered.take(report("call", outcomes[0]))
    gathered.take(report("teardown", outcomes[1]))
    assert gathered.outcomes == {Cell("Sample", "tool", PROTOCOLS[0]): expected}


def test_a_client_has_to_do_what_it_declares_on_every_protocol() -> None:
    cells = list(cells_of([sample()]))
    assert {cell.scenario for cell in cells} == {*SCENARIOS[:2], "subagent"}
    assert len(cells) == 3 * len(PROTOCOLS)


def test_a_place_of_the_matrix_tells_what_worked_where() -> None:
    outcomes = {Cell("Sample", "tool", PROTOCOLS[0]): PASSED, Cell("Sample", "tool", PROTOCOLS[1]): FAILED}
    assert mark(sample(), "tool", outcomes) == "M c! ?"
    assert mark(sample(), SCENARIOS[-1], outcomes) == "–"
    assert next(printed([sample()], outcomes)).startswith("Sample  tool M c! ?, thinking ? ? ?, parallel tools –")


def test_a_page_tells_versions_and_reasons() -> None:
    text = page([sample()], dict.fromkeys(cells_of([sample()]), PASSED))
    assert f"| Sample | {version_of('zod')} | M C R | M C R | – |" in text
    assert "| Sample | subagent | M C R |" in text
    assert f"| Sample | {SCENARIOS[-1]} | it has none |" in text


def test_versions_are_those_of_the_pins() -> None:
    assert version_of("aider-chat") == "0.86.2"
    # The SDKs of that name are in several files, and in another registry.
    assert version_of("dev.txt:openai") != version_of("openai")
    with pytest.raises(AssertionError, match="pinned nowhere"):
        version_of("no-such-package")


def test_clients_are_declared_once() -> None:
    names = [client.name for client in declared()]
    assert len(names) == len(set(names))
    for client in declared():
        assert set(client.gaps) <= {*SCENARIOS, *client.more}, client.name
        assert all(client.gaps.values()), client.name


@pytest.mark.skipif("WRITE_MATRIX" in os.environ, reason="this run writes the page")
def test_the_page_is_what_the_declared_clients_do() -> None:
    everything = dict.fromkeys(cells_of(declared()), PASSED)
    assert PAGE.read_text(encoding="utf-8") == page(declared(), everything), "run `make clients`"


@pytest.mark.parametrize(
    ("words", "status"),
    [((), 1), (("--ignore=tests/clients",), 0), (("tests/tokens/test_table.py",), 0)],
    ids=["all tests", "without the clients", "some tests"],
)
def test_a_run_of_all_tests_owes_every_cell(words: tuple[str, ...], status: int) -> None:
    everything = ("-o", "testpaths=tests/tokens/test_table.py", "-p", "no:cacheprovider")
    free = {name: value for name, value in os.environ.items() if name not in ("WRITE_MATRIX", "PYTEST_XDIST_WORKER")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *everything, *words],
        cwd=ROOT,
        env=free,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == status, done.stdout
    assert ("these cells were not proved" in done.stdout) is bool(status)
