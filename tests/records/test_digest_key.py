"""The secret of a folder: made once, the same for all, and nobody else's."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from dragoman.records.digest_key import NAME, key_of, secret_in


def test_it_is_made_once_and_read_by_its_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "state.db.records"
    secret = secret_in(folder)
    assert len(secret) == 32
    assert secret_in(folder) == secret
    assert stat.S_IMODE((folder / NAME).stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [path.name for path in folder.iterdir()] == [NAME]
    assert secret_in(tmp_path / "other") != secret


def test_all_who_make_it_at_once_have_the_same(tmp_path: Path) -> None:
    found: list[bytes] = []
    start = threading.Barrier(8)

    def make() -> None:
        start.wait()
        found.append(secret_in(tmp_path))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_a_damaged_one_is_told(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"short")
    with pytest.raises(OSError, match="is damaged: remove it"):
        secret_in(tmp_path)


def test_two_gateway_keys_have_nothing_in_common() -> None:
    assert key_of(b"s" * 32, "alice") == key_of(b"s" * 32, "alice")
    assert len({key_of(b"s" * 32, "alice"), key_of(b"s" * 32, "bob"), key_of(b"t" * 32, "alice")}) == 3
    assert len(key_of(b"s" * 32, "\ud800")) == 32
