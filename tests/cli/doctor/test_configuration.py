"""Which file is read, what it says, and what is wrong with it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dragoman.cli.doctor.configuration import configuration
from dragoman.cli.doctor.report import NOT_TRUSTED, READABLE
from tests.cli.machine import SECRET, clean, put_trusted
from tests.store.inserted_identities import insert
from tests.store.opened import opened


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clean(tmp_path, monkeypatch)


def test_no_file_is_no_problem() -> None:
    settings, section = configuration(None, os.environ)
    assert settings is not None
    assert dict(section.facts) == {
        "file": "none: environment variables only",
        "gateway keys": "none: every client that reaches the gateway may use it",
        "not default": "nothing",
    }
    assert section.wrong == 0


def test_pitfall_633_settings_are_told_with_their_lines(tmp_path: Path) -> None:
    put_trusted(tmp_path, f'[server]\nport = 9\n[keys.me]\nkey = "{SECRET}"\n')
    _, section = configuration(None, os.environ)
    assert section.facts[0] == ("file", f"{tmp_path / 'dragoman.toml'}, found in the current directory")
    assert [words for name, words in section.facts if name == "not default"] == [
        "server.port = 9 (dragoman.toml:2)",
        "keys.me (dragoman.toml:3)",
    ]
    assert SECRET not in str(section)


def test_keys_of_the_database_are_counted(tmp_path: Path) -> None:
    def keys() -> str:
        _, section = configuration(None, os.environ)
        return dict(section.facts)["gateway keys"]

    put_trusted(tmp_path, f'[storage]\npath = "state.db"\n[keys.me]\nkey = "{SECRET}"\n')
    with opened(tmp_path / "state.db") as tables:
        insert(tables.connection, 1, "ann", (b"a", None), expires=None)
    assert keys() == "1 in the configuration, 1 in the database"
    (tmp_path / "state.db").write_bytes(b"no database" * 100)
    for beside in ("state.db-wal", "state.db-shm"):
        (tmp_path / beside).unlink(missing_ok=True)
    assert keys() == "1 in the configuration; cannot read those of the database"


def test_every_problem_has_its_remedy(tmp_path: Path) -> None:
    put_trusted(tmp_path, "[server]\nprot = 9\nhost = 5\n")
    settings, section = configuration(None, os.environ)
    assert settings is None
    assert [finding.message for finding in section.findings] == [
        "dragoman.toml:2: server.prot: is not a known key",
        "dragoman.toml:3: server.host: expected a string, got an integer",
    ]
    assert section.findings[0].advice == "did you mean port?"


def test_a_file_that_is_not_trusted_is_not_read_and_nobody_is_asked(tmp_path: Path) -> None:
    (tmp_path / "dragoman.toml").write_text("[server]\n")
    settings, section = configuration(None, os.environ)
    (finding,) = section.findings
    assert (settings, finding.heading) == (None, NOT_TRUSTED)
    assert "dragoman trust" in finding.advice


def test_keys_that_others_can_read_are_wrong(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(f'[keys.me]\nkey = "{SECRET}"\n')
    file.chmod(0o644)
    _, section = configuration(str(file), os.environ)
    (finding,) = section.findings
    assert (finding.wrong, finding.heading) == (True, READABLE)
