"""`make test`: what makes a run red, what is confirmed before, and how little it prints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.results import FAILED, SKIPPED, Results, TestResult, read_results
from tests.suite.scratch import ScratchSuite
from tools import run_tests
from tools.run_tests import MAX_UNSTABLE, fails_again, judge, pytest_command, shown


@pytest.fixture(autouse=True)
def _logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_tests, "LOGS", tmp_path)


def results(*outcomes: str) -> Results:
    """A run of a hundred good tests and some others."""
    tests = [TestResult(name=f"tests/wire/test_a.py::test_{n}", ring="pure", duration=0.01) for n in range(100)]
    for number, outcome in enumerate(outcomes):
        name = f"tests/wire/test_b.py::test_{number}"
        tests.append(TestResult(name=name, ring="pure", outcome=outcome, text=f"what {number} printed"))
    return Results(tests=tests)


def again(*names: str) -> Callable[[TestResult], bool]:
    """Tests that fail again."""
    return lambda test: test.name.rpartition("_")[2] in names


def test_a_good_run_is_green_and_says_so_in_few_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert judge(results(SKIPPED), 0, "", again()) == ""
    lines = capsys.readouterr().out.splitlines()
    assert "unstable tests: none" in lines
    assert lines[-1] == "tests: 100 passed, 0 failed, 1 skipped"
    assert len(lines) < 20


def test_a_failure_that_is_not_confirmed_is_listed_and_green(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert judge(results(FAILED), 1, "", again()) == ""
    printed = capsys.readouterr().out
    assert "unstable tests: tests/wire/test_b.py::test_0" in printed
    assert "tests: 101 passed, 0 failed, 0 skipped" in printed
    assert "what 0 printed" in (tmp_path / "unstable.log").read_text()


def test_a_failure_that_is_confirmed_is_red_and_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    failure = judge(results(FAILED, FAILED), 1, "", again("1"))
    assert failure == "==== tests/wire/test_b.py::test_1\nwhat 1 printed"
    assert "tests: 101 passed, 1 failed" in capsys.readouterr().out


def test_more_failures_than_may_be_unstable_are_red_without_a_second_run() -> None:
    def refuse(test: TestResult) -> bool:
        raise AssertionError("it ran again")

    assert "what 3 printed" in judge(results(*[FAILED] * (MAX_UNSTABLE + 1)), 1, "", refuse)


@pytest.mark.parametrize("status", [1, 2, 3])
def test_a_run_that_failed_outside_of_tests_is_red(status: int) -> None:
    assert judge(results(), status, "a worker crashed", again()) == "a worker crashed"


def test_a_file_that_cannot_be_read_is_red() -> None:
    found = results()
    found.errors.append("tests/test_c.py: SyntaxError")
    assert judge(found, 2, "", again()) == "tests/test_c.py: SyntaxError"


def test_the_first_failure_is_the_last_thing_shown() -> None:
    failed = results(FAILED, FAILED).of(FAILED)
    assert shown(failed).endswith("test_0\nwhat 0 printed")


# Passes if it is run often enough; each run counts in a file beside it.
FLAKY = """
from pathlib import Path
def test_it():
    counted = Path(__file__).with_name("runs")
    runs = counted.read_text() if counted.exists() else ""
    counted.write_text(runs + "x")
    assert len(runs) != {fails_at}
"""
LEAKY = "import os\ndef test_first():\n    os.environ['LEFT'] = '1'\ndef test_last(): pass\n"


def run_scratch(suite: ScratchSuite, monkeypatch: pytest.MonkeyPatch) -> TestResult:
    """Run a scratch suite as `make test` does; its failed test."""
    monkeypatch.setattr(run_tests, "ROOT", suite.directory)
    path = suite.directory / "results.json"
    suite.run(*pytest_command("-n", "0", results=path)[3:])
    (failed,) = read_results(path).of(FAILED)
    return failed


@pytest.mark.parametrize(("fails_at", "confirmed"), [("0", False), ("0 and len(runs) != 3", True)])
def test_a_failed_test_is_run_three_times_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: str, confirmed: bool
) -> None:
    suite = ScratchSuite(tmp_path, {"test_a.py": FLAKY.format(fails_at=fails_at)})
    assert fails_again(run_scratch(suite, monkeypatch)) is confirmed
    assert (tmp_path / "tests/runs").read_text() == "xxxx"


def test_a_leak_is_confirmed_by_its_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = ScratchSuite(tmp_path, {"test_a.py": LEAKY})
    failed = run_scratch(suite, monkeypatch)
    assert failed.name == "tests/test_a.py::test_last"
    assert fails_again(failed)
