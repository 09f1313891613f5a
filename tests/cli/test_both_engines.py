"""Every command that reads or changes the database writes the same on both engines, byte for byte: with a file of a
gateway, and with the database into which `dragoman db import` copied it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.cli.machine import put_trusted
from tests.cli.recorded_file import MAIN, NOW, recorded_file
from tests.cli.screens import on_screen, piped
from tests.postgres import PostgresServer
from tests.records.full_file import write_full_file

# What a new key is, which is random, and the place of the database in messages.
_KEY = re.compile(r"dgm_\w+|sha256:[0-9a-f]+")
_READING: tuple[tuple[str, ...], ...] = (
    ("usage", "--since", "all"),
    *(("usage", "--since", "all", "--by", by) for by in ("day", "key", "client", "model", "provider", "session")),
    ("usage", "--since", "all", "--by", "tag:team"),
    ("usage", "--since", "30d", "--json"),
    ("usage", "--since", "all", "--by", "model", "--csv"),
    ("usage", "--since", "all", "--key", "laptop"),
    ("sessions", "--since", "all", "-n", "500"),
    ("sessions", "--since", "all", "--all", "-n", "500"),
    ("sessions", "--since", "all", "--json"),
    ("sessions", "--since", "all", "--key", "bob"),
    ("session", MAIN),
    ("session", MAIN, "--all", "--json"),
    ("session", "s1", "--key", "laptop"),
    ("session", "nothing"),
    ("logs", "-n", "1000", "--since", "all"),
    ("logs", "-n", "1000", "--since", "all", "--ids", "--json"),
    ("logs", "--errors", "--since", "all"),
    ("logs", "--model", "gr*", "--since", "all"),
    ("logs", "--session", "s", "--since", "all"),
    ("logs", "req_other_5"),
    ("logs", "req_other_5", "--json"),
    ("logs", "nothing"),
    ("top", "--once"),
    ("top", "--json"),
    ("forget", "--key", "laptop", "--dry-run"),
    ("forget", "--session", "s1", "--key", "laptop", "--dry-run"),
    ("key", "list"),
    ("key", "list", "--json"),
    ("key", "show", "laptop"),
    ("key", "show", "nothing"),
    ("key", "audit"),
    ("key", "audit", "--json"),
    ("db", "export"),
    ("db", "export", "--format", "csv"),
    ("check",),
    ("models",),
)
_CHANGING: tuple[tuple[str, ...], ...] = (
    ("key", "new", "phone", "--role", "client", "--models", "large,small", "--expires", "90d"),
    ("key", "new", "phone"),
    ("key", "new", "stolen", "--json"),
    ("key", "set", "phone", "--tag", "team=web"),
    ("key", "rotate", "phone", "--grace", "1h"),
    ("key", "revoke", "stolen"),
    ("key", "revoke", "stolen"),
    ("key", "list"),
    ("key", "audit", "--json"),
    ("forget", "--session", "s1", "--key", "laptop", "--yes"),
    ("forget", "--key", "laptop", "--yes"),
    ("forget", "--key", "laptop", "--yes"),
    ("usage", "--since", "all", "--by", "key"),
    ("sessions", "--since", "all"),
    ("logs", "-n", "1000", "--since", "all"),
    ("db", "export"),
)


class _Gateway:
    """The folder of one gateway, whose commands are called."""

    def __init__(self, folder: Path, place: str, address: str = "") -> None:
        self.folder = folder
        self._place = place
        self._environ = {"TZ": "UTC", "DATABASE_URL": address}

    def call(self, words: Sequence[str]) -> tuple[int, str, str]:
        """Status, standard output and standard error, with the same word for what differs by design."""
        status, out, err = piped(words, self.folder, self._environ, now=NOW)
        return status, self._neutral(out), self._neutral(err)

    def screen(self, words: Sequence[str]) -> str:
        """What a terminal shows."""
        return self._neutral(on_screen(words, self.folder, columns=140, environ=self._environ, now=NOW).plain)

    def _neutral(self, text: str) -> str:
        text = text.replace(self._place, "PLACE").replace(str(self.folder), "FOLDER")
        return _KEY.sub("KEY", text)


def _configured(folder: Path, text: str) -> None:
    environ = {"HOME": str(folder), "PATH": os.environ["PATH"]}
    put_trusted(folder, f'[storage]\n{text}path = "state.db"\ntime_zone = "UTC"\n', environ)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with rows in every table, and sessions with every kind of thread."""
    folder = tmp_path_factory.mktemp("source")
    recorded_file(folder)
    write_full_file(folder / "state.db")
    return folder / "state.db"


@pytest.fixture
def both(source: Path, postgres: PostgresServer, tmp_path: Path) -> Iterator[tuple[_Gateway, _Gateway]]:
    """A gateway with the file, and one with the database into which it was imported."""
    of_file, of_server = tmp_path / "one", tmp_path / "two"
    for folder in (of_file, of_server):
        folder.mkdir()
    shutil.copy(source, of_file / "state.db")
    _configured(of_file, "")
    _configured(of_server, 'database = "$DATABASE_URL"\n')
    name = postgres.create()
    address = postgres.address(name)
    place = f"{postgres.directory}/{name}"
    server = _Gateway(of_server, place, address)
    status, out, err = server.call(["db", "import", str(source)])
    assert (status, err) == (0, ""), err
    # From now on as `serve` does it, by a role that may not change tables.
    postgres.execute("CREATE ROLE serve LOGIN")
    assert server.call(["db", "migrate", "--grant", "serve"])[::2] == (0, "")
    assert re.fullmatch(
        r"imported \S+ into PLACE: \d+ records, \d+ sessions, 4 stored responses, 3 gateway keys\n", out
    ), out
    yield _Gateway(of_file, str(of_file / "state.db")), _Gateway(of_server, place, f"{address} user=serve")
    postgres.drop(name)
    postgres.execute("DROP ROLE serve")


def test_reading_commands_write_the_same(both: tuple[_Gateway, _Gateway]) -> None:
    one, other = both
    for words in _READING:
        assert one.call(words) == other.call(words), words


def test_screens_are_the_same(both: tuple[_Gateway, _Gateway]) -> None:
    one, other = both
    for words in (("usage", "--since", "all"), ("sessions", "--since", "all"), ("session", MAIN), ("top", "--once")):
        assert one.screen(words) == other.screen(words), words


def test_changing_commands_write_the_same_and_change_the_same(both: tuple[_Gateway, _Gateway]) -> None:
    one, other = both
    for words in _CHANGING:
        assert one.call(words) == other.call(words), words


def test_db_check_finds_the_same(both: tuple[_Gateway, _Gateway]) -> None:
    (status, found, _), (other_status, other_found, _) = (gateway.call(["db", "check"]) for gateway in both)
    # The server looks after its files itself. Both find the thread whose parent is unknown.
    lines, other_lines = (text.splitlines() for text in (found, other_found))
    assert lines[1].startswith("ok\tfile\tversion ") and lines[2].startswith("ok\tintegrity\t")
    assert other_lines[1].startswith("ok\tdatabase\tversion ")
    # A file has the journals of one machine, and knows which offset has no journal any more.
    own = [line for line in lines[3:] if not line.startswith("note\tjournals\tmarks of 1 ")]
    assert len(own) == len(lines) - 4
    assert (status, own) == (other_status, other_lines[2:])
    assert (status, [line for line in lines if line.startswith("wrong")]) == (
        1,
        ["wrong\treferences\t1 threads that one began which is not there"],
    )


def test_migrate_has_nothing_to_do(both: tuple[_Gateway, _Gateway]) -> None:
    for gateway in both:
        status, out, err = gateway.call(["db", "migrate"])
        assert (status, err) == (0, "")
        assert re.fullmatch(r"PLACE: tables of version \d+, no change\n", out)
