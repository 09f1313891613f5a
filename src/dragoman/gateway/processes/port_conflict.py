"""Port conflict: finds the process that has the wanted port, and the remedy. A gateway is recognised by its response at
`/`. The system reports processes of the same user. Of other programs only the name is shown."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from dragoman.config.values import address_to_call
from dragoman.launching.gateway import greeting_of
from dragoman.launching.port_owners import PROCESSES, TABLES, processes_of
from dragoman.model.jsonvalue import JsonObject
from dragoman.system_service.units import UNIT

# The program there may not use HTTP, or not respond.
_TIMEOUT = 1.0
_MAX_TEXT_LENGTH = 60
_CONFIG = "--config"
_ANOTHER_PORT = "choose another with --port"


class Holder(Struct, frozen=True):
    """A description of the process that has a port, or "" if it is unknown; and the remedy."""

    description: str
    remedy: str


def holder_of(host: str, port: int, tables: Sequence[Path] = TABLES, processes: Path = PROCESSES) -> Holder:
    address = address_to_call(host, port)
    greeting = greeting_of(address, _TIMEOUT)
    pids = processes_of(port, tables, processes)
    # Several processes are unrelated, and it is unknown which of them is in the way.
    process = processes / str(pids[0]) if len(pids) == 1 else None
    if greeting is not None:
        remedy = f"use that one at {address}, stop it with {_stop(process)}, or {_ANOTHER_PORT}"
        return Holder(_gateway(greeting, process), remedy)
    if process is not None:
        return Holder(_program(process), f"stop it with `kill {process.name}`, or {_ANOTHER_PORT}")
    return Holder("", f"stop what listens there, or {_ANOTHER_PORT}")


def _gateway(greeting: JsonObject, process: Path | None) -> str:
    """A gateway, and how it was started."""
    details: list[str] = []
    version = greeting.get("version")
    if isinstance(version, str):
        details.append(_short(f"version {version}"))
    if process is not None:
        details.append(f"pid {process.name}")
        config = _config_of(process)
        details += [f"configured by {config}"] if config else []
    return f"a dragoman that runs already: {', '.join(details)}"


def _stop(process: Path | None) -> str:
    """How to stop a gateway. A supervised gateway would be restarted, so its service is stopped."""
    if process is None:
        return "Ctrl-C where it was started or `dragoman service stop`"
    is_service = f"/{UNIT}" in _read(process / "cgroup")
    return "`dragoman service stop`" if is_service else f"`kill {process.name}`"


def _program(process: Path) -> str:
    """The name of a program, which the program itself chose."""
    name = _read(process / "comm").strip()
    return f"{_short(name)}, pid {process.name}" if name else f"pid {process.name}"


def _config_of(process: Path) -> str:
    """The configuration named at a gateway's start, or ""."""
    # Each word ends with a null byte, so the last word has a successor.
    for word, following in pairwise(_read(process / "cmdline").split("\0")):
        name, given, value = word.partition("=")
        file = value if given else following
        if name == _CONFIG and file:
            try:
                return _printable(str((process / "cwd").readlink() / file))
            except OSError:
                return _printable(file)
    return ""


def _read(file: Path) -> str:
    """A file of a process in /proc; empty if the process has ended or belongs to another user."""
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def _short(text: str) -> str:
    return _printable(text)[:_MAX_TEXT_LENGTH]


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)
