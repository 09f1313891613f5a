"""Load dragoman.toml, the environment and the catalogue into `Settings`, or every problem at once."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from dragoman.config import file_schema
from dragoman.config.config_file import ConfigFile, FileOrigin, state_directory
from dragoman.config.discovery import ECHO, default_routes, discover_providers, echo_provider, local_servers
from dragoman.config.environment import is_literal
from dragoman.config.keys import read_keys
from dragoman.config.parsing import parse
from dragoman.config.prices import PRICE_BOOK_NAME, read_overrides
from dragoman.config.providers import has_credentials, read_provider
from dragoman.config.routes import read_routes
from dragoman.config.settings import Limits, Missing, Routing, Server, Settings, Timeouts
from dragoman.config.storage import read_contents, read_storage
from dragoman.config.tables import ConfigTable, Problems, S
from dragoman.config.telemetry import read_telemetry, sends_in_clear
from dragoman.config.toml_lines import dotted
from dragoman.config.trust import check_trust
from dragoman.config.values import ValueType, is_loopback
from dragoman.database_location import MEMORY
from dragoman.errors import ConfigError
from dragoman.identities.identity import COMMAND_LINE_KEY
from dragoman.identities.key_text import MIN_KEY_LENGTH
from dragoman.providers.catalogue import CatalogueEntry
from dragoman.providers.provider import Provider

_STATE_NAME = "state.db"
# The option of a provider that names a file.
_CREDENTIALS = "credentials"


def read_settings(
    file: ConfigFile | None, environ: Mapping[str, str], catalogue: Mapping[str, CatalogueEntry]
) -> Settings:
    """The settings of a file, or of the environment alone; `ConfigErrors` holds all problems. A found file must be
    trusted at every reading, or it is refused with a `ConfigError`."""
    name, content = "", b""
    if file is not None:
        name, content = str(file), file.read()
        check_trust(file, content, environ)
    values, lines = parse(name, content)
    problems = Problems(name, None if file is None else lines)
    root = ConfigTable(values, (), problems)
    root.refuse_others(file_schema.SECTIONS)
    server = _section(root, "server", Server, file_schema.SERVER)
    timeouts = _section(root, "timeouts", Timeouts, file_schema.TIMEOUTS)
    routing = _section(root, "routing", Routing, file_schema.ROUTING)
    limits = _section(root, "limits", Limits, file_schema.LIMITS)
    storage = read_storage(root.table("storage"), environ, lambda path: _store_path(path, file, environ))
    contents = read_contents(root.table("storage").table("contents"), environ)
    telemetry = read_telemetry(root.table("telemetry"), environ)
    section = root.table("providers")
    tables = section.tables()
    read = _providers(tables, server, environ, catalogue)
    providers = read.providers
    # A provider with an unusable table is reported once, not again at each of its routes.
    own = root.table("keys")
    named = (*own.values, COMMAND_LINE_KEY)
    # Clients with a key were not meant to reach local servers.
    local = local_servers(catalogue, (*providers, *section.values)) if server.discover and not root.has("keys") else {}
    provider_names = tuple(dict.fromkeys((*providers, *section.values, *local)))
    protocols = {name: provider.protocols for name, provider in (*providers.items(), *local.items())}
    models = read_routes(
        root.table("models"),
        {name: protocols.get(name, ()) for name in provider_names},
        catalogue,
        named,
        discover=server.discover,
        local=local,
    )
    absent = {**read.absent, **models.absent}
    prices = read_overrides(root.table("prices"), provider_names, catalogue, local)
    keys = read_keys(own, environ, storage.time_zone)
    missing = (*read.missing, *models.absent.values(), *telemetry.missing)
    problems.add_missing(missing)
    problems.raise_if_any()
    settings = Settings(
        file=name,
        server=server,
        providers={name: _anchored(provider, file) for name, provider in providers.items()},
        local=local,
        echo_table=ECHO in tables,
        absent=absent,
        missing=missing,
        routes=models.routes,
        defaults=default_routes((*providers, *absent), catalogue),
        prices=prices,
        price_book_path=_in_state(PRICE_BOOK_NAME, environ),
        keys=keys.identities,
        keys_table=root.has("keys"),
        empty=file is not None and not values,
        timeouts=timeouts,
        routing=routing,
        limits=limits,
        storage=storage,
        contents=contents,
        telemetry=telemetry.telemetry,
    )
    warnings = (*read.warnings, *map(str, missing), *_warnings(settings, tables, keys.short), *_exposed(file, root))
    return msgspec.structs.replace(settings, warnings=warnings)


def _store_path(path: str, file: ConfigFile | None, environ: Mapping[str, str]) -> str:
    """The path of the store: as in the file, relative to it; "" for a user without a home."""
    if path == MEMORY:
        return path
    if path and file is not None:
        return _beside(file, path)
    return _in_state(_STATE_NAME, environ)


def _in_state(name: str, environ: Mapping[str, str]) -> str:
    """A file of the user's state directory; "" for a user without a home."""
    directory = state_directory(environ)
    return str(directory / name) if directory is not None else ""


def _anchored(provider: Provider, file: ConfigFile | None) -> Provider:
    """The provider, with the whole path of the file that its credentials are in."""
    path = provider.options.get(_CREDENTIALS)
    if not path or file is None:
        return provider
    if file.origin is FileOrigin.FOUND and not Path(path).is_absolute():
        # Trust is in this file and its content, and the other one may change with the next checkout.
        raise ConfigError(
            key=f"providers.{dotted((provider.name,))}.{_CREDENTIALS}",
            problem="is a relative path in a file that was found in the current directory",
            remedy="write the absolute path",
            file=str(file),
        )
    return msgspec.structs.replace(provider, options={**provider.options, _CREDENTIALS: _beside(file, path)})


def _beside(file: ConfigFile, path: str) -> str:
    """A path relative to the configuration file, not to the directory in which the gateway was started."""
    return str(file.path.absolute().parent / path)


def _section(root: ConfigTable, name: str, struct: type[S], kinds: Mapping[str, ValueType[object]]) -> S:
    table = root.table(name)
    table.refuse_others(kinds)
    return table.fill(struct, kinds)


class _Read(Struct, frozen=True, kw_only=True):
    """Available providers, absent ones with a table in the file, and warnings about others."""

    providers: dict[str, Provider]
    absent: dict[str, Missing]
    missing: tuple[Missing, ...]
    warnings: tuple[str, ...]


def _providers(
    tables: Mapping[str, ConfigTable],
    server: Server,
    environ: Mapping[str, str],
    catalogue: Mapping[str, CatalogueEntry],
) -> _Read:
    """The providers of the file in its order, those of the environment, and echo last."""
    providers: dict[str, Provider] = {}
    absent: dict[str, Missing] = {}
    missing: list[Missing] = []
    warnings: tuple[str, ...] = ()
    echo = echo_provider()
    for name, table in tables.items():
        if name == ECHO:
            table.refuse_others(("protocol",))
            entry = table.fill(file_schema.ProviderTable, {"protocol": file_schema.PROVIDER["protocol"]})
            echo = echo_provider(entry.protocol or ())
        else:
            read = read_provider(name, table, environ, catalogue)
            missing += read.missing
            if read.provider is not None:
                providers[name] = read.provider
            elif read.missing:
                absent[name] = read.missing[0]
    if server.discover:
        more, warnings = discover_providers(environ, catalogue, tables)
        providers |= more
    if server.echo:
        providers[ECHO] = echo
    elif ECHO in tables:
        table = tables[ECHO]
        table.problems.add(table.path, "stands beside server.echo = false", "leave out one of them")
    return _Read(providers=providers, absent=absent, missing=tuple(missing), warnings=warnings)


def _warnings(settings: Settings, tables: Mapping[str, ConfigTable], short: tuple[str, ...]) -> Iterator[str]:
    """Warnings about valid settings."""
    if settings.empty:
        yield f"{settings.file} is empty: everything comes from the environment"
    if not settings.keys and not settings.keys_table and not is_loopback(settings.server.host):
        host = settings.server.host
        yield f"server.host is {host}, and there are no [keys]: serve refuses that without --no-auth"
    for name in short:
        yield f"keys.{dotted((name,))} is shorter than {MIN_KEY_LENGTH} characters and can be guessed: dragoman key new"
    for name, table in tables.items():
        if table.values.get("allow_plaintext_key") is True:
            yield f"providers.{dotted((name,))} may send its key in clear text (allow_plaintext_key = true)"
    if sends_in_clear(settings.telemetry):
        yield "telemetry.endpoint gets its headers in clear text: use https://"
    storage = settings.storage
    if storage.database is not None and storage.allow_unverified_database:
        yield "storage.database may be another server (allow_unverified_database = true): use sslmode=verify-full"
    if settings.telemetry.endpoint and not settings.has_telemetry_export:
        yield "telemetry exports request records, and there are none: [storage] has record_requests = false or no file"
    if storage.record_requests and storage.path == MEMORY:
        yield "storage.path names no file, so no request is recorded (if that is meant, write record_requests = false)"
    if settings.contents.record == "on" and not storage.is_persistent:
        yield "storage.path names no file, so no contents are stored (storage.contents.record)"
    if storage.store_responses and settings.server.workers > 1 and not storage.is_persistent:
        yield "storage.path names no file, so each worker stores only its own responses"


def _exposed(file: ConfigFile | None, root: ConfigTable) -> Iterator[str]:
    """A warning if all users of this machine can read keys in the file."""
    if file is None or os.name != "posix" or not _holds_secrets(root):
        return
    try:
        mode = file.path.stat().st_mode
    except OSError:
        # It was just replaced; the next read gets the new one.
        return
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        yield f"{file} holds keys and can be read by others: chmod 600, or write $NAME instead"


def _holds_secrets(root: ConfigTable) -> bool:
    for table in root.table("keys").tables().values():
        if _literal(table.values.get("key")):
            return True
    for table in root.table("providers").tables().values():
        if _literal(table.values.get("api_key")) or _has_secret_header(table):
            return True
    storage = root.table("storage")
    if _literal(storage.table("contents").values.get("key")):
        return True
    return _literal(storage.values.get("database")) or _has_secret_header(root.table("telemetry"))


def _has_secret_header(table: ConfigTable) -> bool:
    """Whether a table's headers hold a key that is written down."""
    headers = table.values.get("headers")
    return isinstance(headers, dict) and has_credentials(headers) and _literal(list(headers.values()))


def _literal(value: object) -> bool:
    texts = value if isinstance(value, list) else [value]
    return any(isinstance(text, str) and text != file_schema.NO_KEY and is_literal(text) for text in texts)
