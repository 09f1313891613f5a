"""A machine of its own for commands that read the configuration: no keys, no file, nothing trusted, an empty home."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from dragoman.config.config_file import FILE_NAME
from dragoman.config.trust import trust
from dragoman.providers.catalogue import catalogue

SECRET = "sk-0123456789abcdef-secret"


def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave nothing in the environment that a configuration is made of."""
    for listing in catalogue().values():
        for name in (*listing.env, *(name for names in listing.option_env.values() for name in names)):
            monkeypatch.delenv(name, raising=False)
    for name in ("DRAGOMAN_CONFIG", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "DRAGOMAN_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@contextmanager
def signals_restored() -> Iterator[None]:
    """Put the signal handlers back that a command sets which is called here: `serve` ignores SIGHUP from the start."""
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def put_trusted(folder: Path, text: str, environ: Mapping[str, str] = os.environ, mode: int = 0o600) -> Path:
    """A configuration in a folder, as its user has trusted it."""
    file = folder / FILE_NAME
    file.write_text(text, encoding="utf-8")
    file.chmod(mode)
    trust(file, file.read_bytes(), environ)
    return file
