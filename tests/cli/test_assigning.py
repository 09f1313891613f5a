"""Commands assign the sessions of what they show, and say how many exchanges are left."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.records import deferred_assignment
from dragoman.records.rows import Batch
from dragoman.sessions.facts import ExchangeFacts
from dragoman.store.record_tables import open_record_tables
from dragoman.store.unassigned import RowScope
from tests.cli.recorded_file import MINUTE, NOW, config, records_piped
from tests.records.invented import entry

CONFIG = ("--config", "gateway.toml")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Ten conversations, an hour apart, the last one ended just now; every other one names its session."""
    config(tmp_path)
    batch = Batch()
    for number in range(10):
        facts = ExchangeFacts(
            session=f"named-{number}" if number % 2 else "", tip=f"{number}" * 32, opening=f"{number}" * 32
        )
        made = entry(number, time=NOW - 5 * MINUTE // 60 - (9 - number) * 60 * MINUTE)
        batch.add_unassigned(replace(made, facts=facts))
    with closing(open_record_tables(str(tmp_path / "state.db"))) as tables, tables.transaction():
        batch.write_rows(tables)
        batch.write_rollups(tables)
    return tmp_path


def left(place: Path) -> int:
    with closing(open_record_tables(str(place / "state.db"))) as tables:
        return tables.unassigned.count(RowScope())


@pytest.mark.parametrize(
    ("words", "remaining"),
    [
        (["sessions", "--since", "3h"], 7),
        (["sessions", "--since", "3h", "--key", "bob"], 10),
        (["session", "named-3"], 9),
        (["top", "--once"], 9),
        (["usage", "--by", "session", "--since", "all"], 0),
        (["usage", "--by", "model", "--since", "all"], 10),
        (["logs"], 0),
        (["logs", "--session", "named-3"], 0),
    ],
)
def test_a_command_assigns_what_it_shows(place: Path, words: list[str], remaining: int) -> None:
    status, _, complaints = records_piped([*words, *CONFIG], place)
    assert (status, complaints) == (0, "")
    assert left(place) == remaining


def test_the_newest_are_assigned_and_the_others_counted(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred_assignment, "SHOWN_ROWS", 4)
    status, out, complaints = records_piped(["sessions", "--since", "8h", "--json", *CONFIG], place)
    assert status == 0
    assert complaints.startswith("dragoman: 4 exchanges not assigned to sessions yet: the next command assigns more")
    # Those that their clients name are listed.
    assert len(json.loads(out)["sessions"]) == 6
    status, out, complaints = records_piped(["sessions", "--since", "8h", "--json", *CONFIG], place)
    assert (status, complaints, len(json.loads(out)["sessions"])) == (0, "", 8)
