"""Checks of the installed clients: versions, and whether their own settings lead them to another address."""

from __future__ import annotations

import subprocess
import tomllib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dragoman.cli.doctor.environment import BASE_URLS, problem_at
from dragoman.cli.doctor.report import BLOCKED, DoctorFinding, Section
from dragoman.errors import DragomanError, WireError
from dragoman.launching.client_process import program_of
from dragoman.launching.clients import CLIENTS, LaunchableClient
from dragoman.wire.json import decode

# Seconds for a client to print its version.
_VERSION_TIMEOUT = 5.0
_MAX_FILE_BYTES = 4 * 1024 * 1024
_MAX_VERSION_LENGTH = 80


def clients(
    environ: Mapping[str, str], problem: Callable[[str], str] = problem_at, timeout: float = _VERSION_TIMEOUT
) -> Section:
    """The clients that can be launched, and settings of theirs that point at nothing."""
    with ThreadPoolExecutor() as pool:
        versions = pool.map(lambda client: _version(client, environ, timeout), CLIENTS.values())
        facts = tuple(zip(CLIENTS, versions, strict=True))
    findings = []
    for file, key, url in _addresses(environ):
        why = problem(url)
        if why:
            words = f"{key} in {file} points a client elsewhere, and {why}"
            findings.append(DoctorFinding(words, f"take {key} out of {file}", heading=BLOCKED))
    return Section("Clients", facts, findings=tuple(findings))


def _version(client: LaunchableClient, environ: Mapping[str, str], timeout: float) -> str:
    try:
        program = program_of(client, environ)
    except DragomanError:
        return "not installed"
    try:
        done = subprocess.run(
            [program, "--version"],
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{program}, which did not print its version within {timeout:g} s"
    except OSError as error:
        return f"{program}, which cannot be run: {error.strerror}"
    lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
    return f"{lines[0][:_MAX_VERSION_LENGTH] if lines else 'unknown version'}, {program}"


def _addresses(environ: Mapping[str, str]) -> Iterator[tuple[Path, str, str]]:
    """Addresses in settings files of clients: the file, the key, and the address."""
    home = Path(environ.get("HOME", ""))
    if not home.is_absolute():
        return
    claude = Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    for file in (claude / "settings.json", Path(".claude/settings.json"), Path(".claude/settings.local.json")):
        own = _table(_read_json(file), "env")
        for name in BASE_URLS:
            url = own.get(name)
            if isinstance(url, str) and url:
                yield file, f"env.{name}", url
    file = Path(environ.get("CODEX_HOME") or home / ".codex") / "config.toml"
    for name, provider in _table(_read_toml(file), "model_providers").items():
        url = provider.get("base_url") if isinstance(provider, dict) else None
        if isinstance(url, str):
            yield file, f"model_providers.{name}.base_url", url
    directory = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "opencode"
    for file in (directory / "opencode.json", Path("opencode.json")):
        for name, provider in _table(_read_json(file), "provider").items():
            url = _table(provider, "options").get("baseURL")
            if isinstance(url, str):
                yield file, f"provider.{name}.options.baseURL", url


def _table(value: object, name: str) -> dict[str, object]:
    table = value.get(name) if isinstance(value, dict) else None
    return table if isinstance(table, dict) else {}


def _read(file: Path) -> bytes:
    """The content of a file; nothing if there is none, or none that can be read."""
    try:
        if not file.is_file():
            return b""
        with file.open("rb") as stream:
            return stream.read(_MAX_FILE_BYTES)
    except OSError:
        return b""


def _read_json(file: Path) -> object:
    try:
        return decode(_read(file) or b"{}")
    except WireError:
        # The client itself reports errors of its file.
        return {}


def _read_toml(file: Path) -> object:
    try:
        return tomllib.loads(_read(file).decode("utf-8", "replace"))
    except ValueError:
        return {}
