"""`dragoman logs --follow` and `dragoman top` as processes: both show what comes until a signal or a closed pipe."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.cli.record_file import now_in_micro
from dragoman.config.config_file import FILE_NAME
from dragoman.database_location import PostgresDatabase
from dragoman.records.journal import Journal
from dragoman.records.journal_directory import directory_of
from dragoman.records.journal_entry import JournalEntry
from dragoman.records.thread_assignment import AssignedThread
from dragoman.store.postgres_database import set_up
from dragoman.store.record_tables import open_record_tables
from tests.cli.machine import put_trusted
from tests.cli.recorded_file import config, talk
from tests.cli.transcripts import Transcript
from tests.records.filled import fill
from tests.server.process import PATIENCE, clean_environment


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """The journal of a gateway whose records the commands show."""
    config(tmp_path)
    with closing(Journal(directory_of(str(tmp_path / "state.db")))) as journal:
        yield journal


@contextmanager
def following(place: Path, *words: str, environ: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A command that shows what comes."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dragoman", "logs", "--config", str(place / "gateway.toml"), "--follow", *words],
        cwd=place,
        env={**clean_environment(place), **(environ or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_those_that_come_are_told_as_they_come_until_an_interrupt(tmp_path: Path, journal: Journal) -> None:
    journal.finalize(talk(1, 0))
    with following(tmp_path, "--key", "alice") as process:
        assert process.stdout is not None and process.stderr is not None
        lines = Transcript(process.stdout.fileno())
        assert lines.take("\n").rstrip().endswith(talk(1, 0).id)
        journal.finalize(replace(talk(2, 0), key="bob"))
        journal.finalize(talk(3, 0))
        assert lines.take("\n").rstrip().endswith(talk(3, 0).id)
        journal.finalize(talk(4, 0))
        assert lines.take("\n").rstrip().endswith(talk(4, 0).id)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert process.stderr.read() == b""


def test_pitfall_617_a_reader_that_goes_ends_it_though_nothing_comes(tmp_path: Path, journal: Journal) -> None:
    journal.finalize(talk(1, 0))
    with following(tmp_path) as process:
        assert process.stdout is not None and process.stderr is not None
        Transcript(process.stdout.fileno()).take("\n")
        process.stdout.close()
        process.stdout = None
        assert process.wait(PATIENCE) == 141
        assert process.stderr.read() == b""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_terminal_is_drawn_anew_and_left_as_it_was(
    tmp_path: Path, journal: Journal, number: signal.Signals, status: int
) -> None:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    process = subprocess.Popen(
        [sys.executable, "-m", "dragoman", "top", "--config", str(tmp_path / "gateway.toml"), "--color", "never"],
        cwd=tmp_path,
        env={**clean_environment(tmp_path), "TERM": "xterm", "PYTHONUTF8": "1"},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    screen = Transcript(ours)
    try:
        screen.wait("No request in the last minute")
        journal.finalize(replace(talk(1, 0), time=now_in_micro()))
        screen.wait("1 turn, 12.7k tokens")
        process.send_signal(number)
        raw = screen.finish()
        assert process.wait(PATIENCE) == status
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(ours)
    assert raw.startswith("\x1b[?1049h\x1b[?25l\x1b[H")
    assert raw.endswith("\x1b[?25h\x1b[?1049l")
    assert "Traceback" not in raw


def test_on_a_shared_database_requests_of_other_machines_are_shown_once(tmp_path: Path, database: str) -> None:
    location = PostgresDatabase(address=database, name="", path=str(tmp_path / "other.db"))
    set_up(location)
    put_trusted(tmp_path, '[storage]\ndatabase = "$DATABASE_URL"\npath = "state.db"\n', {"HOME": str(tmp_path)})
    (tmp_path / FILE_NAME).rename(tmp_path / "gateway.toml")

    def add(*entries: JournalEntry) -> None:
        with closing(open_record_tables(location)) as tables:
            fill(tables, [(entry, AssignedThread(0, 0)) for entry in entries])

    add(talk(1, 0))
    with following(tmp_path, environ={"DATABASE_URL": database}) as process:
        assert process.stdout is not None and process.stderr is not None
        lines = Transcript(process.stdout.fileno())
        assert lines.take("\n").rstrip().endswith(talk(1, 0).id)
        # The second one began earlier.
        add(talk(3, 0), replace(talk(2, 0), time=talk(2, 0).time - 1_000_000))
        shown = {lines.take("\n").rstrip()[-len(talk(1, 0).id) :] for _ in range(2)}
        assert shown == {talk(2, 0).id, talk(3, 0).id}
        add(talk(4, 0))
        assert lines.take("\n").rstrip().endswith(talk(4, 0).id)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert process.stderr.read() == b""
