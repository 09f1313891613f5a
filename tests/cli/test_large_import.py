"""A large file, imported: commands show the same of the database as of the file, byte for byte."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.store.record_tables import open_record_tables
from tests.cli.machine import put_trusted
from tests.cli.screens import piped
from tests.records.filled import DAY, fill, some_entries, speak
from tests.records.invented import NOON

_AT_ONCE = 5_000
_COMMANDS = (
    ("usage", "--since", "all"),
    ("usage", "--since", "all", "--by", "model", "--json"),
    ("usage", "--since", "all", "--by", "day", "--json"),
    ("sessions", "--since", "all", "--json"),
    ("logs", "-n", "1000", "--since", "all", "--json"),
    ("logs", "-n", "100", "--since", "all", "--errors"),
)


def _write(path: Path, count: int) -> None:
    with closing(open_record_tables(str(path))) as tables:
        speak(tables, [(1, "alice", "first"), (2, "alice", "second"), (3, "bob", "first")], [(1, 1), (3, 2), (5, 3)])
        for begin in range(0, count, _AT_ONCE):
            fill(
                tables,
                [
                    (replace(entry, id=f"req_{begin + number:024d}"), thread)
                    for number, (entry, thread) in enumerate(some_entries(begin, min(_AT_ONCE, count - begin)))
                ],
            )


@pytest.mark.parametrize("count", [10_000, pytest.param(1_000_000, marks=pytest.mark.nightly)])
def test_a_large_file_is_shown_as_before(count: int, database: str, tmp_path: Path) -> None:
    folders = of_file, of_server = tmp_path / "one", tmp_path / "two"
    for folder, text in zip(folders, ("", 'database = "$DATABASE_URL"\n'), strict=True):
        folder.mkdir()
        put_trusted(folder, f'[storage]\n{text}path = "state.db"\ntime_zone = "UTC"\n', {"HOME": str(folder)})
    _write(tmp_path / "state.db", count)
    environ, now = {"TZ": "UTC", "DATABASE_URL": database}, NOON + 45 * DAY
    status, out, err = piped(["db", "import", str(tmp_path / "state.db")], of_server, environ)
    assert (status, err) == (0, "") and f": {count} records, " in out
    shutil.move(tmp_path / "state.db", of_file / "state.db")
    for words in _COMMANDS:
        shown = [piped(words, folder, environ, now=now) for folder in folders]
        assert shown[0] == shown[1], words
        assert shown[0][0] == 0 and shown[0][1]
