"""Package data: files beside the modules of a package."""

from __future__ import annotations

import pytest

from dragoman.wire.package_data import read_data


def test_a_file_of_a_package_is_read() -> None:
    assert read_data("dragoman.prices", "table.json").startswith(b"{")


def test_a_missing_file_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        read_data("dragoman.prices", "missing.json")
    with pytest.raises(FileNotFoundError, match="no_such_package has no table"):
        read_data("no_such_package", "table.json")
