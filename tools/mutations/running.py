"""Runs pytest on scratch copies of a tree, one of which is mutated, and judges the mutation."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

from msgspec import Struct

from tools.mutations.mutants import Mutation
from tools.mutations.selection import Batch, Recording
from tools.pytest_plugins import run_pytest, test_selector

KILLED, TIMEOUT, SURVIVED, NOT_EXECUTED, UNSTABLE = "killed", "timeout", "survived", "not executed", "unstable"
# Seconds: how long one test may take, and how much longer than when it was recorded a process may take.
TEST_LIMIT, PROCESS_LIMIT = 120, 300.0
# No copy needs them, or all may share them.
_NOT_COPIED = shutil.ignore_patterns(".git", "build", "dist", ".hypothesis", ".mypy_cache", ".ruff_cache")
_SHARED = (".venv", ".clients")
# pytest's exit statuses for "all passed" and "no test was selected".
_PASSED = (0, 5)


class Result(Struct, kw_only=True):
    """What became of a mutation."""

    mutation: Mutation
    outcome: str
    # The test that failed.
    killer: str = ""
    # How many tests execute the mutation, and how long they took when they were recorded.
    tests: int = 0
    recorded_seconds: float = 0.0
    # How long the run took.
    seconds: float = 0.0

    @property
    def is_survivor(self) -> bool:
        """Whether no test noticed, as far as is known."""
        return self.outcome not in (KILLED, TIMEOUT)


class ScratchTree:
    """A copy of a tree in which source files may be mutated."""

    def __init__(self, tree: Path, place: Path) -> None:
        self.root = place / "tree"
        self._place = place
        self._original = tree
        self._changes = 0
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(tree, self.root, symlinks=True, ignore=self._ignored)
        for name in _SHARED:
            if (tree / name).exists():
                (self.root / name).symlink_to((tree / name).resolve())

    def _ignored(self, directory: str, names: list[str]) -> set[str]:
        shared = _SHARED if Path(directory) == self._original else ()
        return _NOT_COPIED(directory, names) | set(shared)

    def mutate(self, mutation: Mutation) -> None:
        """Write the mutated file."""
        path = self.root / mutation.path
        path.write_text(mutation.apply_to(path.read_text(encoding="utf-8")), encoding="utf-8")
        # Compiled files are valid for a modification time in seconds: each change gets one of its own.
        self._changes += 1
        os.utime(path, (2e9 + self._changes, 2e9 + self._changes))

    def restore(self, mutation: Mutation) -> None:
        """Write the original file."""
        shutil.copy2(self._original / mutation.path, self.root / mutation.path)

    def run(self, batch: Batch) -> tuple[str, str]:
        """Run tests until one fails; return the outcome and the failed test."""
        plan, failed = self._place / "plan.json", self._place / "failed"
        failed.unlink(missing_ok=True)
        content = test_selector.Plan(files=batch.files, skipped=batch.skipped, failed=str(failed))
        plan.write_text(json.dumps(content), encoding="utf-8")
        limits = (f"faulthandler_timeout={TEST_LIMIT}", "faulthandler_exit_on_timeout=true")
        options = ("-x", "-n", "0", *(word for limit in limits for word in ("-o", limit)))
        log = self._place / "log"
        variables = {test_selector.PLAN_VARIABLE: str(plan)}
        try:
            limit = PROCESS_LIMIT + 2 * batch.seconds
            status = run_pytest(self.root, "test_selector", (*options, *batch.files), variables, log, limit)
        except subprocess.TimeoutExpired:
            return TIMEOUT, ""
        if status in _PASSED:
            return SURVIVED, ""
        killers = failed.read_text(encoding="utf-8").splitlines() if failed.exists() else []
        if not killers and "Timeout (" in log.read_text(encoding="utf-8", errors="replace"):
            return TIMEOUT, ""
        return KILLED, killers[0] if killers else f"exit status {status}"


def judge(mutation: Mutation, recording: Recording, scratch: ScratchTree) -> Result:
    """Run the tests that execute a mutation until one fails or hangs, which must pass without the mutation."""
    batches = recording.batches_of(mutation)
    result = Result(
        mutation=mutation,
        outcome=SURVIVED if batches else NOT_EXECUTED,
        tests=sum(batch.count for batch in batches),
        recorded_seconds=sum(batch.seconds for batch in batches),
    )
    began = time.monotonic()
    for batch in batches:
        scratch.mutate(mutation)
        try:
            result.outcome, result.killer = scratch.run(batch)
        finally:
            scratch.restore(mutation)
        if result.outcome in (KILLED, TIMEOUT):
            file, _, test = result.killer.partition("::")
            again = batch
            if test:
                again = Batch(
                    files=[file], skipped=recording.other_tests(result.killer), count=1, seconds=batch.seconds
                )
            if scratch.run(again)[0] != SURVIVED:
                result.outcome = UNSTABLE
        if result.outcome != SURVIVED:
            break
    result.seconds = round(time.monotonic() - began, 1)
    return result
