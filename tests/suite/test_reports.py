"""Reports: of a passed test one with its whole duration, of any other one each of its phases."""

from __future__ import annotations

from pathlib import Path

from tests.results import read_results
from tests.suite.scratch import ScratchSuite

FILE = """
from threading import Event
import pytest

@pytest.fixture
def slow():
    Event().wait(0.2)
    yield
    Event().wait(0.2)

@pytest.fixture
def broken_after():
    yield
    assert 1 == 2, "after the test"

@pytest.fixture
def broken_before():
    assert 1 == 2, "before the test"

def test_passes(slow): pass
def test_fails(slow): assert 1 == 2, "in the test"
def test_ends_badly(broken_after): pass
def test_begins_badly(broken_before): pass
def test_is_skipped(slow): pytest.skip("no reason")
"""


def test_outcome_and_duration_of_every_phase_arrive(tmp_path: Path) -> None:
    suite = ScratchSuite(tmp_path, {"test_a.py": FILE}, rings='socket = ["."]')
    done = suite.run("-n", "1", f"--results={tmp_path / 'results.json'}")
    # One of those that pytest counts as passed ends badly, which is an error besides.
    assert "1 failed, 2 passed, 1 skipped, 2 errors" in done.stdout
    found = {test.name.rpartition("::")[2]: test for test in read_results(tmp_path / "results.json").tests}
    assert {name: test.outcome for name, test in found.items()} == {
        "test_passes": "passed",
        "test_fails": "failed",
        "test_ends_badly": "failed",
        "test_begins_badly": "failed",
        "test_is_skipped": "skipped",
    }
    assert "in the test" in found["test_fails"].text
    assert "after the test" in found["test_ends_badly"].text
    assert "before the test" in found["test_begins_badly"].text
    # Both waits of its fixture, and a wait is never shorter than it was asked to be.
    assert found["test_passes"].duration >= 0.4
