"""Where the time goes: sums by folder, against budgets that name every folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.results import Results, TestResult
from tools.test_times import budgets, folders_over_budget, main, report

TESTS = Path(__file__).parents[1]


def run_of(**seconds: float) -> Results:
    """One test for each folder."""
    return Results(
        tests=[
            TestResult(name=f"tests/{name}/test_a.py::test_it", ring="pure", duration=s) for name, s in seconds.items()
        ]
    )


def test_every_folder_has_a_budget_and_no_other() -> None:
    folders = {path.relative_to(TESTS).parts[0] for path in TESTS.rglob("*/test_*.py")}
    assert set(budgets()) == {*folders, "."}


def test_a_folder_is_reported_if_it_takes_half_as_much_again() -> None:
    limit = budgets()["wire"]
    assert folders_over_budget(run_of(wire=1.4 * limit)) == []
    assert folders_over_budget(run_of(wire=1.6 * limit)) == [f"wire ({1.6 * limit:.0f} s of {limit:.0f})"]


def test_the_report_has_folders_files_and_tests_the_longest_first() -> None:
    text = "\n".join(report(run_of(wire=1.0, rules=2.0), 10))
    assert text.index("rules ") < text.index("wire ") < text.index("tests/rules/test_a.py\n")
    assert "tests/rules/test_a.py::test_it" in text


def test_without_a_run_there_is_nothing_to_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--results", str(tmp_path / "none.json")]) == 1
    assert "run `make test` first" in capsys.readouterr().err
