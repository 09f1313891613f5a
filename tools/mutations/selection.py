"""Which tests execute a mutation, and in which order they run: the likely killers first."""

from __future__ import annotations

import ast
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cache
from pathlib import Path, PurePosixPath

from coverage import CoverageData
from msgspec import Struct

from tools.mutations.mutants import Mutation
from tools.pytest_plugins.coverage_recorder import IMPORT

SOURCES = PurePosixPath("src/dragoman")
# Seconds of tests that run in the first process of a mutation, and by which factor more in each further one. Most
# mutations die early, and collecting all test files takes longer than running the first few.
FIRST_BATCH, GROWTH = 20.0, 5.0


class Batch(Struct, kw_only=True):
    """Tests that run in one process."""

    files: list[str]
    # Tests of these files that do not execute the mutation.
    skipped: list[str]
    # How many tests run, and how long they took together when they were recorded.
    count: int
    seconds: float


class Recording:
    """The lines that each test of a suite executes, read from what `coverage_recorder` wrote."""

    def __init__(self, tree: Path, data: Path) -> None:
        self._tree = tree
        self._data = CoverageData(basename=str(data))
        self._data.read()
        self.durations: dict[str, float] = json.loads((data.parent / "durations.json").read_text(encoding="utf-8"))
        self._by_file: dict[str, list[str]] = defaultdict(list)
        for test in self.durations:
            self._by_file[_file_of(test)].append(test)
        self._importers = importers(tree)
        self._executed = cache(self._contexts_of_lines)

    def tests_of(self, mutation: Mutation) -> Set[str]:
        """The tests that execute the mutation.

        All tests depend on a line that runs when its module is imported. Of these, the tests are taken that execute any
        line of the module or of a module that imports it.
        """
        lines = self._executed(mutation.path)
        contexts = {
            context for line in range(mutation.first_line, mutation.last_line + 1) for context in lines.get(line, ())
        }
        if IMPORT in contexts:
            for path in (mutation.path, *self._importers.get(mutation.path, ())):
                contexts.update(*self._executed(path).values())
        return frozenset(self._tests_in(contexts))

    def batches_of(self, mutation: Mutation) -> list[Batch]:
        """The tests that execute the mutation, in the order in which they run."""
        return batches(
            ordered_files(mutation.path, self.tests_of(mutation), self.durations), self._by_file, self.durations
        )

    def other_tests(self, test: str) -> list[str]:
        """The tests in the same file."""
        return [other for other in self._by_file[_file_of(test)] if other != test]

    def _tests_in(self, contexts: Iterable[str]) -> Iterator[str]:
        for context in contexts:
            if context in self.durations:
                yield context
            else:
                # What a file or a class shares is for all of its tests.
                prefix = f"{context}::"
                yield from (test for test in self._by_file.get(_file_of(context), ()) if test.startswith(prefix))

    def _contexts_of_lines(self, path: str) -> Mapping[int, Sequence[str]]:
        return self._data.contexts_by_lineno(str(self._tree / path))


def ordered_files(path: str, tests: Set[str], durations: Mapping[str, float]) -> list[tuple[str, list[str]]]:
    """Test files with their tests: that of the module, those of its package, golden ones, others; short ones first."""
    module = PurePosixPath(path).relative_to(SOURCES)
    own = f"tests/{module.parent}/test_{module.name}"
    folders = (f"tests/{module.parent}/", "tests/golden/")
    by_file: dict[str, list[str]] = defaultdict(list)
    for test in sorted(tests):
        by_file[_file_of(test)].append(test)

    def rank(file: str) -> tuple[bool, bool, bool, float]:
        near, golden = (not file.startswith(folder) for folder in folders)
        return file != own, near, golden, sum(durations[test] for test in by_file[file])

    return [(file, by_file[file]) for file in sorted(by_file, key=rank)]


def batches(
    files: Iterable[tuple[str, list[str]]], all_tests: Mapping[str, list[str]], durations: Mapping[str, float]
) -> list[Batch]:
    """Distribute files over processes that run one after the other, each longer than the one before."""
    made: list[Batch] = []
    limit = FIRST_BATCH
    for file, tests in files:
        seconds = sum(durations[test] for test in tests)
        if not made or made[-1].seconds + seconds > limit:
            limit = FIRST_BATCH * GROWTH ** len(made)
            made.append(Batch(files=[], skipped=[], count=0, seconds=0.0))
        batch, chosen = made[-1], set(tests)
        batch.files.append(file)
        batch.skipped += [test for test in all_tests[file] if test not in chosen]
        batch.count += len(tests)
        batch.seconds += seconds
    return made


def importers(tree: Path) -> dict[str, list[str]]:
    """Path of each module to the paths of the modules that import it, directly or from its package."""
    paths = {_module_of(path.relative_to(tree)): path for path in (tree / SOURCES).rglob("*.py")}
    direct: dict[str, set[str]] = defaultdict(set)
    for name, path in paths.items():
        for imported in _imported(path):
            direct[imported].add(name)
    result = {}
    for name, path in paths.items():
        users = set(direct[name])
        for user in direct[name]:
            if paths[user].name == "__init__.py":
                users |= direct[user]
        result[path.relative_to(tree).as_posix()] = sorted(
            paths[user].relative_to(tree).as_posix() for user in users - {name}
        )
    return result


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            # A name may be a module of the package.
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _module_of(path: Path) -> str:
    parts = path.with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _file_of(test: str) -> str:
    return test.partition("::")[0]
