"""The mutation tool: what it changes, which sample it takes, which tests it runs in which order."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import msgspec
import pytest
from coverage import CoverageData
from msgspec.structs import replace

from tools.branch_coverage import Report, Share, lines_of
from tools.mutations.__main__ import read_results, report
from tools.mutations.mutants import Mutation, mutations_of, sample
from tools.mutations.running import KILLED, NOT_EXECUTED, SURVIVED, TIMEOUT, UNSTABLE, Result, ScratchTree
from tools.mutations.selection import FIRST_BATCH, GROWTH, Recording, batches, importers, ordered_files
from tools.pytest_plugins.coverage_recorder import IMPORT

PATH = "src/dragoman/rules/example.py"
MUTANTS = {
    "x = a < b": ["x = a <= b"],
    "x = a is not b": ["x = a is b"],
    "x = a not in b": ["x = a in b"],
    "x = (a) == (b)": ["x = (a) != (b)"],
    "x = a and b and c": ["x = a or b and c", "x = a and b or c"],
    "x = a if b else c": ["x = a if False else c", "x = a if True else c"],
    "x = not a": ["x =  a"],
    "x = a + b - c": ["x = a - b - c", "x = a + b + c"],
    "x = [a] + b": [],
    "x += 1": ["x -= 1", "x += 2"],
    "x = True": ["x = False"],
    "x = 'é' < 2": ["x = 'é-mutated' < 2", "x = 'é' <= 2", "x = 'é' < 3"],
    "x.y = z": ["pass"],
    "f(a)": ["pass"],
    "while a: break": ["while False: break", "while a: continue"],
    "for a in b: continue": ["for a in b: break"],
    "if a: b()": ["if False: b()", "if True: b()", "if a: pass"],
    "def f(a=1): return a": ["def f(a=2): return a", "def f(a=1): return None"],
    "class A(B, tag=1, frozen=True): pass": ["class A(B, tag=2, frozen=True): pass"],
    "match a:\n case 1 if b: c": ["match a:\n case " + case for case in ("2 if b: c", "1 if False: c", "1 if True: c")],
    # Text for people, and what has no effect.
    '"""Docstring."""': [],
    "x: Literal['a']": [],
    "def f(a: 'A') -> 'B': return None": [],
    "__all__ = ['a']": [],
    "x = f'a{b}'": [],
    "x = 'https://example.com/issues/1'": [],
    "raise ValueError('a' + b)": [],
    "assert a, 'b'": [],
    "if TYPE_CHECKING: import a": [],
}
LONG = """
def f(a, b):
    if (
        a
        # or not at all
        or b
    ):
        g(
            a,
            "é", 7,
        )
    return dict(
        a=1,
    )
"""


def _effective(source: str) -> list[Mutation]:
    return [mutation for mutation in mutations_of(source, PATH) if mutation.is_effective(source)]


@pytest.mark.parametrize("source", MUTANTS)
def test_mutants(source: str) -> None:
    assert [mutation.apply_to(source) for mutation in _effective(source)] == MUTANTS[source]


def test_mutants_compile_differ_and_have_the_same_lines() -> None:
    source = Path(ast.__file__).read_text(encoding="utf-8")[:6_000].rpartition("\n\n\n")[0] + LONG
    found = mutations_of(source, PATH)
    for mutation in found:
        mutated = mutation.apply_to(source)
        if mutation.is_effective(source):
            ast.parse(mutated)
            assert mutated != source
        before, after = source.splitlines(), mutated.splitlines()
        assert len(before) == len(after)
        changed = [number for number, pair in enumerate(zip(before, after, strict=True), 1) if pair[0] != pair[1]]
        assert changed[0] == mutation.line
        assert mutation.first_line <= changed[0] <= changed[-1] <= max(mutation.last_line, mutation.line)


def test_a_long_statement_is_executed_with_any_of_its_lines() -> None:
    lines = {(each.kind, each.after.strip()): (each.first_line, each.last_line) for each in _effective(LONG)}
    assert lines["and/or", "and"] == (3, 7)
    assert lines["integer", "8"] == (8, 11)
    assert lines["return None", "return None"] == (12, 14)


def test_a_mutation_of_another_source_is_refused() -> None:
    mutation = mutations_of("x = 1", PATH)[0]
    with pytest.raises(ValueError, match="take a new sample"):
        mutation.apply_to("x = 2")


def test_a_sample_follows_from_source_and_seed(tmp_path: Path) -> None:
    package = tmp_path / "src/dragoman/rules"
    package.mkdir(parents=True)
    for name in "ab":
        (package / f"{name}.py").write_text("".join(f"x{n} = {n} + y < z\n" for n in range(20)), encoding="utf-8")
    taken = sample(tmp_path, ["src/dragoman/rules"], 10, seed=21)
    assert len(taken) == 10
    assert len({(each.path, each.line) for each in taken}) == 10
    assert taken == sample(tmp_path, ["src/dragoman/rules"], 10, seed=21)
    assert taken != sample(tmp_path, ["src/dragoman/rules"], 10, seed=22)
    assert len(sample(tmp_path, ["src/dragoman/rules"], 100, seed=21)) == 40


# The choice of tests

OWN = "tests/rules/test_example.py"
NEAR, GOLDEN, FAR = "tests/rules/test_other.py", "tests/golden/test_golden.py", "tests/laws/test_laws.py"
DURATIONS = {
    f"{OWN}::test_a": 9.0,
    f"{OWN}::test_b": 1.0,
    f"{NEAR}::test_a[1]": 1.0,
    f"{NEAR}::test_a[2]": 1.0,
    f"{GOLDEN}::TestIt::test_a": 1.0,
    f"{GOLDEN}::test_b": 1.0,
    f"{FAR}::test_a": 0.1,
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A package of three modules, and a recording of its tests."""
    sources = {
        "rules/__init__.py": "from dragoman.rules.example import CONSTANT as CONSTANT\n",
        "rules/example.py": "CONSTANT = 1\ndef f():\n    return 2\n",
        "rules/user.py": "from dragoman.rules import CONSTANT\ndef g():\n    return 3\n",
    }
    data = CoverageData(basename=str(tmp_path / "lines"))
    for name, source in sources.items():
        module = tmp_path / "src/dragoman" / name
        module.parent.mkdir(parents=True, exist_ok=True)
        module.write_text(source, encoding="utf-8")
        data.set_context(IMPORT)
        data.add_lines({str(module): [1]})
    example, user = (str(tmp_path / "src/dragoman/rules" / name) for name in ("example.py", "user.py"))
    for context, path in ((f"{OWN}::test_a", example), (NEAR, example), (f"{GOLDEN}::TestIt", example)):
        data.set_context(context)
        data.add_lines({path: [3]})
    data.set_context(f"{FAR}::test_a")
    data.add_lines({user: [3]})
    data.write()
    (tmp_path / "durations.json").write_text(json.dumps(DURATIONS), encoding="utf-8")
    return tmp_path


def _mutation(tree: Path, before: str) -> Mutation:
    source = (tree / PATH).read_text(encoding="utf-8")
    return next(each for each in mutations_of(source, PATH) if each.before == before)


def test_the_tests_of_a_line_are_its_own_and_all_of_a_file_or_class_that_shares_it(tree: Path) -> None:
    recording = Recording(tree, tree / "lines")
    assert recording.tests_of(_mutation(tree, "2")) == {
        f"{OWN}::test_a",
        f"{NEAR}::test_a[1]",
        f"{NEAR}::test_a[2]",
        f"{GOLDEN}::TestIt::test_a",
    }


def test_the_tests_of_a_line_that_runs_at_import_are_those_of_its_users(tree: Path) -> None:
    recording = Recording(tree, tree / "lines")
    assert recording.tests_of(_mutation(tree, "1")) == recording.tests_of(_mutation(tree, "2")) | {f"{FAR}::test_a"}


def test_a_line_that_no_test_executes_has_no_tests(tree: Path) -> None:
    nowhere = replace(_mutation(tree, "2"), first_line=2, last_line=2)
    assert Recording(tree, tree / "lines").batches_of(nowhere) == []


def test_importers_are_direct_or_of_the_package(tree: Path) -> None:
    assert importers(tree)[PATH] == ["src/dragoman/rules/__init__.py", "src/dragoman/rules/user.py"]
    assert importers(tree)["src/dragoman/rules/user.py"] == []


def test_the_file_of_the_module_comes_first() -> None:
    files = [file for file, _ in ordered_files(PATH, DURATIONS.keys(), DURATIONS)]
    assert files == [OWN, NEAR, GOLDEN, FAR]


def test_short_files_come_before_long_ones() -> None:
    durations = {f"tests/laws/test_{name}.py::test": seconds for name, seconds in (("a", 3.0), ("b", 1.0), ("c", 2.0))}
    files = [file[-4:] for file, _ in ordered_files(PATH, durations.keys(), durations)]
    assert files == ["b.py", "c.py", "a.py"]


def test_batches_grow_and_skip_other_tests_of_their_files() -> None:
    seconds = FIRST_BATCH / 2
    durations = {f"{file}::test_{name}": seconds for file in (OWN, NEAR, GOLDEN, FAR) for name in "ab"}
    known = {file: [f"{file}::test_a", f"{file}::test_b"] for file in (OWN, NEAR, GOLDEN, FAR)}
    made = batches([(file, [f"{file}::test_a"]) for file in known], known, durations)
    assert [batch.files for batch in made] == [[OWN, NEAR], [GOLDEN, FAR]]
    assert made[0].skipped == [f"{OWN}::test_b", f"{NEAR}::test_b"]
    assert [batch.count for batch in made] == [2, 2]
    assert made[1].seconds <= FIRST_BATCH * GROWTH


# Scratch trees and reports


def test_a_scratch_tree_is_mutated_and_restored(tree: Path, tmp_path: Path) -> None:
    scratch = ScratchTree(tree, tmp_path / "build/scratch")
    copy, mutation = scratch.root / PATH, _mutation(tree, "2")
    times = set()
    for _ in range(2):
        scratch.mutate(mutation)
        assert "return 3" in copy.read_text(encoding="utf-8")
        times.add(int(copy.stat().st_mtime))
        scratch.restore(mutation)
        assert copy.read_bytes() == (tree / PATH).read_bytes()
        times.add(int(copy.stat().st_mtime))
    # Compiled files of one change are not valid for another.
    assert len(times) == 3


def test_the_report_counts_outcomes_and_lists_what_was_not_killed(tree: Path) -> None:
    first, second = _mutation(tree, "1"), _mutation(tree, "2")
    lines = list(
        report(
            [
                Result(mutation=first, outcome=KILLED, killer=f"{OWN}::test_a"),
                Result(mutation=second, outcome=SURVIVED, tests=4, seconds=2.0),
                Result(mutation=second, outcome=NOT_EXECUTED),
                Result(mutation=first, outcome=KILLED, killer=f"{OWN}::test_b"),
            ]
        )
    )
    assert lines == [
        "    2 killed",
        "    1 survived",
        "    1 not executed",
        f"survived: {PATH}:3 '2' -> '3' (4 tests, 2 s)",
        f"not executed: {PATH}:3 '2' -> '3' (0 tests, 0 s)",
    ]


def test_the_last_result_of_a_mutation_counts_and_survivors_are_what_was_not_killed(tree: Path) -> None:
    first, second = _mutation(tree, "1"), _mutation(tree, "2")
    results = [
        Result(mutation=first, outcome=UNSTABLE, killer=f"{OWN}::test_a"),
        Result(mutation=second, outcome=TIMEOUT),
        Result(mutation=first, outcome=SURVIVED),
    ]
    path = tree / "results.jsonl"
    assert read_results(path) == []
    path.write_bytes(msgspec.json.Encoder().encode_lines(results))
    assert read_results(path) == [results[2], results[1]]
    assert [result.is_survivor for result in results] == [True, False, True]


def test_the_coverage_report_has_the_total_and_the_files_with_most_missing_branches() -> None:
    def share(missing: int) -> Share:
        return Share(
            percent_covered=90.0, num_statements=100, missing_lines=10, num_branches=40, missing_branches=missing
        )

    files = {f"{number}.py": share(number) for number in range(12)}
    lines = list(lines_of(Report(files=files, totals=share(10))))
    assert lines[:2] == ["lines and branches 90.00 %", "branches           75.00 % (30 of 40)"]
    assert [line.split()[-1] for line in lines[-10:]] == [f"{number}.py" for number in range(11, 1, -1)]
