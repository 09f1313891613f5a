"""Every test file has a ring, and the table of rings names nothing that is gone."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from tests.rings import RINGS, entries, ring_of

TESTS = Path(__file__).parents[1]


def test_every_test_file_has_a_ring() -> None:
    files = [PurePosixPath(path.relative_to(TESTS).as_posix()) for path in TESTS.rglob("test_*.py")]
    assert {ring_of(file) for file in files} == set(RINGS)


def test_the_table_names_what_is_there() -> None:
    assert [entry for entry in entries() if not (TESTS / entry).exists()] == []


def test_a_file_is_named_only_where_its_ring_is_not_its_folders() -> None:
    files = [PurePosixPath(entry) for entry in entries() if entry.endswith(".py")]
    assert [str(file) for file in files if ring_of(file) == ring_of(file.parent)] == []
