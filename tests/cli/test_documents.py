"""Where commands read from."""

from __future__ import annotations

from pathlib import Path

from dragoman.cli import documents


def test_a_file_is_read_whole_or_in_pieces(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"a" * 100_000)
    assert documents.read(str(file)) == b"a" * 100_000
    assert b"".join(documents.chunks(str(file))) == b"a" * 100_000
    assert len(list(documents.chunks(str(file)))) == 2
