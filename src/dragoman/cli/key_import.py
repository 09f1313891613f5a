"""Key import for `dragoman key import`: all keys of a file, or none, or all that are not rejected."""

from __future__ import annotations

from dragoman.cli.key_file import KeyFile
from dragoman.identities.errors import KeyChangeError
from dragoman.identities.litellm_import import ImportLine, read_litellm_keys
from dragoman.identities.views import ImportedKeyView, ImportView

IMPORTED, ACCEPTED, REFUSED = "imported", "accepted", "refused"


def imported(
    key_file: KeyFile, content: bytes, ignored: frozenset[str], *, skip_refused: bool, dry_run: bool
) -> ImportView:
    """Import the keys of a file, and report each one with the problems of the file and of the database."""
    lines = read_litellm_keys(content, ignored)
    refusals = key_file.refusals([line.key for line in lines if line.key is not None])
    problems = [line.problem or refusals.get(line.name) for line in lines]
    keys = [line.key for line, problem in zip(lines, problems, strict=True) if line.key is not None and problem is None]
    is_done = bool(keys) and not dry_run and (skip_refused or len(keys) == len(lines))
    if is_done:
        key_file.import_all(keys)
    return ImportView(
        imported=len(keys) if is_done else 0,
        refused=len(lines) - len(keys),
        keys=[_view(line, problem, is_done=is_done) for line, problem in zip(lines, problems, strict=True)],
    )


def _view(line: ImportLine, problem: KeyChangeError | None, *, is_done: bool) -> ImportedKeyView:
    member = problem.member if problem is not None else ""
    return ImportedKeyView(
        number=line.number,
        location=line.location,
        name=line.name,
        result=REFUSED if problem is not None else IMPORTED if is_done else ACCEPTED,
        problem=None if problem is None else f"{member}: {problem.problem}" if member else problem.problem,
        remedy=None if problem is None else problem.remedy,
        notes=line.notes,
    )
