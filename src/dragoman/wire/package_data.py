"""Package data: files that are installed beside the modules of a package."""

from __future__ import annotations

from pkgutil import get_data


def read_data(package: str, name: str) -> bytes:
    """The bytes of a file of a package. `importlib.resources` does the same, and loads `zipfile` and 20 modules."""
    data = get_data(package, name)
    if data is None:
        raise FileNotFoundError(f"{package} has no {name}")
    return data
