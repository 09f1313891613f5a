"""Room, sizes and permissions, and the store."""

from __future__ import annotations

from pathlib import Path

from dragoman.cli.doctor.disk import disk, store
from dragoman.cli.doctor.report import DATABASE, READABLE
from dragoman.config.settings import Settings, Storage
from dragoman.store import open_tables


def settings_at(path: Path) -> Settings:
    """Settings that keep in a file."""
    return Settings(storage=Storage(path=str(path)))


def test_pitfall_659_sizes_are_shown_the_largest_first(tmp_path: Path) -> None:
    folder = tmp_path / "dragoman"
    folder.mkdir(mode=0o700)
    for name, size in (("small", 10), ("large", 3_000_000)):
        (folder / name).write_bytes(b" " * size)
        (folder / name).chmod(0o600)
    section = disk(None, {"XDG_STATE_HOME": str(tmp_path)}, least=0)
    assert section.facts[0][1].startswith(f"{folder}, ") and section.facts[0][1].endswith(" free")
    assert [words for name, words in section.facts if name == "file"] == [
        f"{folder / 'large'}, 2.86 MiB",
        f"{folder / 'small'}, 10 B",
    ]
    assert section.findings == ()


def test_pitfall_665_what_others_can_read_is_wrong(tmp_path: Path) -> None:
    folder = tmp_path / "dragoman"
    folder.mkdir()
    folder.chmod(0o755)
    file = folder / "state.db"
    file.touch()
    file.chmod(0o640)
    first, second = disk(None, {"XDG_STATE_HOME": str(tmp_path)}, least=0).findings
    assert (first.advice, second.advice) == (f"chmod 700 {folder}", f"chmod 600 {file}")
    assert {first.heading, second.heading} == {READABLE}


def test_a_folder_of_others_is_looked_at_for_the_store_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "letter").touch(mode=0o644)
    path = tmp_path / "own.db"
    path.touch(mode=0o600)
    section = disk(settings_at(path), {"XDG_STATE_HOME": str(tmp_path / "nowhere")}, least=0)
    assert [words for name, words in section.facts if name == "file"] == [f"{path}, 0 B"]
    assert section.facts[0] == ("directory", f"{tmp_path}/nowhere/dragoman, does not exist yet")
    assert section.findings == ()


def test_a_full_disk_and_no_home_are_wrong(tmp_path: Path) -> None:
    (tmp_path / "dragoman").mkdir(mode=0o700)
    (finding,) = disk(None, {"XDG_STATE_HOME": str(tmp_path)}, least=1 << 62).findings
    assert finding.advice == "make room there"
    (finding,) = disk(None, {}).findings
    assert "HOME" in finding.advice


def test_the_store_has_a_version_or_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    assert store(settings_at(path)).facts == (("file", f"{path}, which the first start creates"),)
    assert not path.exists()
    open_tables(str(path), 1).close()
    good = store(settings_at(path))
    assert good.wrong == 0 and good.facts[1][0] == "version"
    path.write_bytes(b"nonsense " * 1000)
    (finding,) = store(settings_at(path)).findings
    assert finding.heading == DATABASE
    assert store(Settings(storage=Storage(store_responses=False))).facts == (("stored", "nothing is stored"),)
