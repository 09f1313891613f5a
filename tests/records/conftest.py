"""Settings of the tests of accounts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from dragoman.records import journal_reader
from dragoman.records.journal import Journal


@pytest.fixture(autouse=True)
def no_breath(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read journals without the pauses that let others have their turn: there is nobody else."""
    monkeypatch.setattr(journal_reader, "_BREATH", 0)


@pytest.fixture(autouse=True)
def journals_end_with_their_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close the files of journals that a test left open, as the end of their process does: it may be a crash."""
    made: list[Journal] = []
    begin = Journal.__init__

    def note(self: Journal, folder: Path, **settings: object) -> None:
        made.append(self)
        begin(self, folder, **settings)  # type: ignore[arg-type]  # passed on as they are

    monkeypatch.setattr(Journal, "__init__", note)
    yield
    for journal in made:
        for descriptor in (journal.descriptor, *(removed for _, removed in journal.removed)):
            # The number may be that of another file by now.
            with suppress(OSError):
                if Path(f"/proc/self/fd/{descriptor}").readlink().is_relative_to(journal._directory):
                    os.close(descriptor)
