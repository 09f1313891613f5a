"""The identity of a machine is made once, by whichever process is first."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.records.machine_file import (
    NAME,
    MachineFile,
    instance_of,
    locked_machine,
    make_machine_file,
    new_machine,
    read_machine_file,
    write_machine_file,
)


def test_the_identity_stays(tmp_path: Path) -> None:
    directory = tmp_path / "state.db.records"
    assert read_machine_file(directory) is None
    made = make_machine_file(directory)
    assert make_machine_file(directory) == read_machine_file(directory) == made
    assert (directory / NAME).stat().st_mode & 0o777 == 0o600
    changed = replace(made, epoch=3, database="aa", time_zone="UTC 0")
    with locked_machine(directory):
        write_machine_file(directory, changed)
    assert make_machine_file(directory) == changed
    assert changed.owner == f"{made.id}.3"


def test_ids_differ() -> None:
    assert new_machine().id != new_machine().id


def test_members_of_a_later_release_are_no_damage(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b'{"id":"ab","epoch":2,"colour":"blue"}')
    assert read_machine_file(tmp_path) == MachineFile(id="ab", epoch=2)


def test_a_damaged_file_is_reported_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b'{"id":')
    with pytest.raises(OSError, match="is damaged: remove it"):
        make_machine_file(tmp_path)


def test_each_directory_is_another_instance(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    found = [instance_of(tmp_path / name) for name in ("one", "other", "one")]
    assert found[0] == found[2] != found[1]
