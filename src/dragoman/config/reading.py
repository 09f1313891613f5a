"""Reading: dragoman.toml, the environment and the catalogue to `Settings`, or every problem at once."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from dragoman.config import written
from dragoman.config.discovery import ECHO, default_routes, discovered, echo_provider
from dragoman.config.environment import is_literal
from dragoman.config.keys import SHORTEST, read_keys
from dragoman.config.lines import Lines, dotted
from dragoman.config.providers import has_credentials, read_provider
from dragoman.config.routes import read_routes
from dragoman.config.settings import Limits, Server, Settings, Storage, Timeouts
from dragoman.config.tables import Problems, Table
from dragoman.config.values import is_loopback
from dragoman.errors import ConfigError, ConfigErrors
from dragoman.providers.catalogue import Listing
from dragoman.providers.provider import Provider

FILE_NAME = "dragoman.toml"
FILE_VARIABLE = "DRAGOMAN_CONFIG"
_STATE_NAME = "state.db"

# Where tomllib says its place; newer Pythons tell it in attributes, but in the text as well.
_PLACE = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$")


def find_file(environ: Mapping[str, str], explicit: str | Path | None = None) -> Path | None:
    """The file to read: the one that was named, else the first that exists; None if there is none.

    A named file is given whether it exists or not: that it does not is the reader's to tell.
    """
    named = explicit or environ.get(FILE_VARIABLE)
    if named:
        return Path(named)
    for place in _places(environ):
        if _is_file(place):
            return place
    return None


def _places(environ: Mapping[str, str]) -> Iterable[Path]:
    yield Path(FILE_NAME)
    # The XDG specification says that a relative path is to be ignored.
    own = Path(environ.get("XDG_CONFIG_HOME", ""))
    home = environ.get("HOME") or environ.get("USERPROFILE")
    if own.is_absolute():
        yield own / "dragoman" / FILE_NAME
    elif home:
        yield Path(home) / ".config" / "dragoman" / FILE_NAME


def _is_file(place: Path) -> bool:
    try:
        return place.is_file()
    except OSError:
        # A home directory that this user may not enter holds nothing for this user.
        return False


def read_settings(file: Path | None, environ: Mapping[str, str], catalogue: Mapping[str, Listing]) -> Settings:
    """The settings of a file, or of the environment alone; `ConfigErrors` holds all that cannot be used."""
    name = "" if file is None else str(file)
    text = "" if file is None else _text(file)
    values, lines = _parsed(name, text)
    problems = Problems(name, None if file is None else lines)
    root = Table(values, (), problems)
    root.refuse_others(written.SECTIONS)
    server = _section(root, "server").fill(Server, written.SERVER)
    timeouts = _section(root, "timeouts").fill(Timeouts, written.TIMEOUTS)
    limits = _section(root, "limits").fill(Limits, written.LIMITS)
    storage = _section(root, "storage").fill(Storage, written.STORAGE)
    section = root.table("providers")
    tables = section.tables()
    providers, warnings = _providers(tables, server.discover, environ, catalogue)
    # A provider whose table cannot be used is told of there, not once more at each of its routes.
    routes = read_routes(root.table("models"), (*providers, *section.values), catalogue)
    keys, short = read_keys(root.table("keys"), environ)
    problems.settle()
    settings = Settings(
        file=name,
        server=server,
        providers=providers,
        routes=routes,
        defaults=default_routes(providers, catalogue),
        keys=keys,
        timeouts=timeouts,
        limits=limits,
        storage=msgspec.structs.replace(storage, path=storage.path or _state_file(environ)),
    )
    told = (*warnings, *_warnings(settings, tables, short), *_exposed(file, root))
    return msgspec.structs.replace(settings, warnings=told)


def _state_file(environ: Mapping[str, str]) -> str:
    """Where the store is kept if nothing else is said; "" for a user without a home."""
    own = Path(environ.get("XDG_STATE_HOME", ""))
    home = environ.get("HOME") or environ.get("USERPROFILE")
    if own.is_absolute():
        return str(own / "dragoman" / _STATE_NAME)
    return str(Path(home) / ".local" / "state" / "dragoman" / _STATE_NAME) if home else ""


def fingerprint(file: Path) -> tuple[int, int, int]:
    """What changes when the file does: time, size and inode; zeros if it is not there."""
    try:
        found = file.stat()
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeError:
        problem, remedy = "is not text in UTF-8", "save it as UTF-8"
    except OSError as error:
        problem, remedy = f"cannot be read: {error.strerror}", "name another with --config, or create it"
    raise _only(file=str(file), problem=problem, remedy=remedy)


def _parsed(file: str, text: str) -> tuple[dict[str, object], Lines]:
    try:
        return tomllib.loads(text), Lines(text)
    except tomllib.TOMLDecodeError as error:
        found = _PLACE.search(str(error))
        words = str(error)[: found.start()] if found else str(error)
        line = int(found[1]) if found and found[1] else text.count("\n") + 1
        written_there = text.split("\n")[line - 1].partition("#")[0].rstrip()
        remedy = next((remedy for is_so, remedy in _SLIPS if is_so(words, written_there)), _SYNTAX)
        raise _only(file=file, line=line, problem=f"is not TOML: {words}", remedy=remedy) from None
    except RecursionError:
        raise _only(file=file, problem="is nested too deeply", remedy="write it flat") from None


def _only(*, file: str, problem: str, remedy: str, line: int = 0) -> ConfigErrors:
    return ConfigErrors([ConfigError(key="", problem=problem, remedy=remedy, file=file, line=line)])


# Slips that are made often, by the parser's words and the line they speak of.
_SLIPS: tuple[tuple[Callable[[str, str], bool], str], ...] = (
    (lambda words, _: "twice" in words or "overwrite" in words, "keep one of the two"),
    (
        lambda words, line: words.startswith("Expected newline") and line.endswith(","),
        "take the comma away: lines have none at their ends",
    ),
    (lambda _, line: line.startswith("{"), "this looks like JSON: write [server] above port = 8484 instead"),
)
_SYNTAX = 'write keys as name = "text", name = 1 or name = true; names with dots or * need quotes'


def _section(root: Table, name: str) -> Table:
    table = root.table(name)
    table.refuse_others(_KINDS[name])
    return table


_KINDS = {"server": written.SERVER, "timeouts": written.TIMEOUTS, "limits": written.LIMITS, "storage": written.STORAGE}


def _providers(
    tables: Mapping[str, Table], discover: bool, environ: Mapping[str, str], catalogue: Mapping[str, Listing]
) -> tuple[dict[str, Provider], tuple[str, ...]]:
    """The providers of the file in its order, those of the environment, and echo last."""
    providers: dict[str, Provider] = {}
    warnings: tuple[str, ...] = ()
    echo = echo_provider()
    for name, table in tables.items():
        if name == ECHO:
            echo = _echo(table)
        else:
            provider = read_provider(name, table, environ, catalogue)
            if provider is not None:
                providers[name] = provider
    if discover:
        more, warnings = discovered(environ, catalogue, tables)
        providers |= more
    return {**providers, ECHO: echo}, warnings


def _echo(table: Table) -> Provider:
    table.refuse_others(("protocol",))
    told = table.fill(written.ProviderTable, {"protocol": written.PROVIDER["protocol"]})
    return echo_provider(told.protocol or ())


def _warnings(settings: Settings, tables: Mapping[str, Table], short: tuple[str, ...]) -> Iterator[str]:
    """What is allowed but should be known."""
    if not settings.keys and not is_loopback(settings.server.host):
        host = settings.server.host
        yield f"server.host is {host}, and there are no [keys]: serve refuses that without --open"
    for name in short:
        yield f"keys.{dotted((name,))} is shorter than {SHORTEST} characters and can be guessed: dragoman key new"
    for name, table in tables.items():
        if table.values.get("insecure") is True:
            yield f"providers.{dotted((name,))} may send its key in clear text (insecure = true)"
    storage = settings.storage
    if storage.keep and settings.server.workers > 1 and storage.path in ("", ":memory:"):
        yield "storage.path names no file, so that each of the workers knows only the responses that it gave itself"


def _exposed(file: Path | None, root: Table) -> Iterator[str]:
    """A warning if everybody on this machine can read keys in the file."""
    if file is None or os.name != "posix" or not _holds_secrets(root):
        return
    try:
        mode = file.stat().st_mode
    except FileNotFoundError:
        # It was just replaced; the next reading sees the new one.
        return
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        yield f"{file} holds keys and can be read by others: chmod 600, or write $NAME instead"


def _holds_secrets(root: Table) -> bool:
    for table in root.table("keys").tables().values():
        if _literal(table.values.get("key")):
            return True
    for table in root.table("providers").tables().values():
        headers = table.values.get("headers")
        if _literal(table.values.get("api_key")) or (
            isinstance(headers, dict) and has_credentials(headers) and _literal(list(headers.values()))
        ):
            return True
    return False


def _literal(value: object) -> bool:
    texts = value if isinstance(value, list) else [value]
    return any(isinstance(text, str) and text != written.NO_KEY and is_literal(text) for text in texts)
