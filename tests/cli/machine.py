"""A machine of its own for commands that read the configuration: no keys, no file, an empty home."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.providers.catalogue import catalogue

SECRET = "sk-0123456789abcdef-secret"


def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave nothing in the environment that a configuration is made of."""
    for listing in catalogue().values():
        for name in (*listing.env, *(name for names in listing.option_env.values() for name in names)):
            monkeypatch.delenv(name, raising=False)
    for name in ("DRAGOMAN_CONFIG", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
