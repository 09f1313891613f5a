"""`dragoman serve`: starts the gateway, and prints its address and examples."""

from __future__ import annotations

import argparse
import errno
import os
import stat
import sys
import textwrap
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from dragoman.cli import documents
from dragoman.cli.parser import add_all_losses, refuse_windows
from dragoman.cli.terminal import printable
from dragoman.cli.trust import file_to_read
from dragoman.config.config_file import ConfigFile, FileOrigin
from dragoman.config.effective_settings import list_effective_settings
from dragoman.config.env_file import read_env_file
from dragoman.config.file_schema import SERVER
from dragoman.config.load import read_settings
from dragoman.config.settings import Settings
from dragoman.config.trust import fingerprint_of
from dragoman.config.trust_summary import describe_route
from dragoman.config.values import ValueType, address_to_call, is_loopback
from dragoman.errors import ConfigError, DragomanError, UsageError
from dragoman.identities.identity import COMMAND_LINE, COMMAND_LINE_KEY, LOCAL_OWNER, AcceptedDigest, Identity
from dragoman.identities.key_text import read_hash
from dragoman.model.jsonvalue import JsonObject
from dragoman.providers.catalogue import catalogue
from dragoman.terminal import screen_of

if TYPE_CHECKING:
    from dragoman.gateway.access.first_key import FirstKey
    from dragoman.gateway.observability.logs import Log
    from dragoman.gateway.workers.protection import Protection

_MAX_SETTINGS = 50
# Options of the command line that replace settings of `[server]`.
_OPTIONS: Mapping[str, ValueType[object]] = {name: SERVER[name] for name in ("host", "port", "workers")}


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("serve", help="start the gateway")
    parser.add_argument("--config", metavar="FILE", help="configuration (default: dragoman.toml, if it exists)")
    parser.add_argument("--env-file", metavar="FILE", help="file with additional environment variables, for services")
    parser.add_argument("--host", help="address to listen on")
    parser.add_argument("--port", type=int, help="port to listen on; 0 for any free one")
    parser.add_argument(
        "--workers", type=int, help="number of worker processes; more than the number of cores is no gain"
    )
    parser.add_argument("--key-hash", metavar="HASH", help="hash of an additional gateway key")
    without_keys = parser.add_mutually_exclusive_group()
    without_keys.add_argument(
        "--no-auth", action="store_true", help="listen for other machines although no key is configured"
    )
    without_keys.add_argument(
        "--first-key",
        metavar="FILE",
        help="if no key is configured, generate one, print it once, and store its hash in FILE",
    )
    parser.add_argument("--log", choices=("auto", "text", "json", "off"), default="auto", help="form of the log")
    add_all_losses(parser, "log lines of text")
    parser.add_argument("--log-file", metavar="FILE", help="log file with mode 0600; the last 32 MB are retained")
    # For programs that start a gateway for themselves: the gateway ends when standard input closes. `launch` holds the
    # other end.
    parser.add_argument("--lifeline", action="store_true", help=argparse.SUPPRESS)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    refuse_windows()
    # Imported here, so that other commands start without a server's modules.
    from dragoman.gateway.access.first_key import is_wanted, with_first_key
    from dragoman.gateway.observability.log_file import LogFile
    from dragoman.gateway.observability.logs import Log
    from dragoman.gateway.processes.config_reload import WorkerSettings
    from dragoman.gateway.processes.listen_socket import bind
    from dragoman.gateway.processes.sighup import hangup_at_start
    from dragoman.gateway.processes.supervisor import serve
    from dragoman.gateway.workers.protection import bound_host, protection_at_start, with_local
    from dragoman.launching.local_servers import local_models_of

    hangup = hangup_at_start()
    lifeline = _lifeline() if options.lifeline else None
    if options.env_file is not None:
        for name, value in read_env_file(Path(options.env_file)).items():
            # The environment of this process wins over the file.
            os.environ.setdefault(name, value)
    file = file_to_read(options.config)
    first: FirstKey | None = None

    def read(source: ConfigFile | None) -> Settings:
        return with_first_key(_overridden(read_settings(source, os.environ, catalogue()), options), first)

    # A pipe is read once and never changes.
    followed = file is not None and file.is_plain()
    fingerprint = partial(fingerprint_of, file, os.environ) if file is not None and followed else None
    # Computed before the file is read: a change in between is then detected.
    seen = fingerprint() if fingerprint is not None else None
    settings = read(file)
    _refuse_nothing(file, settings)
    if options.first_key is not None and is_wanted(settings):
        # From now on every configuration has this key.
        first = _first_key(options.first_key)
        settings = with_first_key(settings, first)
    if settings.storage.database is not None:
        from dragoman.records.machine import check_machine
        from dragoman.store.postgres_database import prepare

        prepare(settings.storage.database)
        check_machine(settings.storage.database)
    reads_key_database = not options.lifeline
    has_stored_keys = reads_key_database and _has_stored_keys(settings, open_to_all=options.no_auth)
    protection_at = partial(protection_at_start, open_to_all=options.no_auth, has_stored_keys=has_stored_keys)
    protection_at(settings, settings.server.host)
    for warning in settings.warnings:
        documents.complain(f"warning: {warning}")
    log_file = LogFile(options.log_file) if options.log_file is not None else None
    listener = bind(settings.server.host, settings.server.port)
    # Checked again with the bound address: a host name may mean any address.
    port: int = listener.getsockname()[1]
    protection = protection_at(settings, bound_host(listener), port)
    settings = with_local(settings, protection)
    form = {"json": True, "text": False}.get(options.log)
    out = sys.stderr if log_file is None else log_file.out
    screen = screen_of(out, os.environ, options.color)
    log = Log(out, json=form, quiet=options.log == "off", screen=screen, all_losses=options.all_losses)
    if log_file is not None:
        log.bound(log_file.make_room)
    if options.log != "off" and (log_file is not None or not sys.stderr.isatty()):
        # A user on a terminal has the greeting, and `dragoman doctor`.
        _log_settings(log, settings, file, options)
    again = replace(file, again=True) if file is not None else None
    worker_settings = WorkerSettings(
        read=partial(read, again),
        log=log,
        protection=protection,
        fingerprint=fingerprint,
        seen=seen,
        hangup=hangup,
        lifeline=lifeline,
        reads_key_database=reads_key_database,
    )
    local_models = local_models_of(settings)
    service = _is_service(options)
    return serve(
        worker_settings,
        settings,
        listener,
        lambda: _greet(
            settings, protection, file, port, local_models, has_stored_keys=has_stored_keys, service=service
        ),
    )


def _has_stored_keys(settings: Settings, *, open_to_all: bool) -> bool:
    """Whether the database has any gateway key. If that cannot be read, a gateway that other machines reach does not
    start without configured keys, because it might serve them without a key."""
    from dragoman.store.errors import StoreAway, StoreBusy, StoreError
    from dragoman.store.identity_reader import has_identities

    database = settings.storage.location
    try:
        return has_identities(database)
    except StoreError as error:
        if settings.keys or settings.keys_table or open_to_all or is_loopback(settings.server.host):
            # Until the database is readable, requests without a key are rejected.
            return False
        if not isinstance(database, str) and isinstance(error, StoreAway | StoreBusy):
            # Assume that it has keys: the database server may come back while other machines call this gateway.
            return True
        raise ConfigError(
            key="storage.path",
            problem=f"gateway keys cannot be read from {database}: {error}",
            remedy="repair the file, configure a key, or listen on 127.0.0.1",
            file=settings.file,
        ) from None


def _is_service(options: argparse.Namespace) -> bool:
    """Whether this is the user's service. A second gateway next to a running service causes a warning."""
    from dragoman.system_service.init_systems import state_of
    from dragoman.system_service.installed import find_installed

    # A gateway that `launch` starts is never the service.
    installed = find_installed(os.environ) if not options.lifeline else None
    if installed is None or options.env_file == installed.env_file:
        return installed is not None
    try:
        state = state_of(installed.manager, os.environ)
    except DragomanError as error:
        documents.complain(f"warning: cannot determine whether a service runs: {error}")
        return False
    if state.running:
        who = f"process {state.pid}, " if state.pid else ""
        who += f"configured by {installed.config or 'environment variables only'}"
        documents.complain(f"warning: a service is running, too ({who}): `dragoman service stop` ends it")
    return False


def _first_key(file: str) -> FirstKey:
    """The key that is generated at the first start. Only the output of this start shows it."""
    from dragoman.gateway.access.first_key import take_first_key

    first = take_first_key(Path(file))
    if first.text is not None:
        # Printed at once, so that no later failure can hide it.
        documents.complain(f"created a key, which is shown only now: {first.text}")
        documents.complain(f"its hash is stored in {file}; if the key is lost, delete that file and start again")
    else:
        documents.complain(
            f"the key that was shown at the first start is valid; if it is lost, delete {file} and start again"
        )
    return first


def _log_settings(log: Log, settings: Settings, file: ConfigFile | None, options: argparse.Namespace) -> None:
    """Begin the log with every setting that is not default, and its source."""
    option_names = [name for name in _OPTIONS if vars(options)[name] is not None]
    try:
        effective_settings = list_effective_settings(settings, file, os.environ, catalogue(), option_names)
    except ConfigError as error:
        # The file was replaced after it was read. The config watcher reports the rest.
        log.event("warn", "cannot list effective settings", reason=str(error))
        return
    fields: JsonObject = {
        setting.key: f"{setting.value} ({setting.source})".strip() for setting in effective_settings[:_MAX_SETTINGS]
    }
    if fields:
        more: JsonObject = (
            {"more": len(effective_settings) - len(fields)} if len(effective_settings) > len(fields) else {}
        )
        log.event("info", "settings that are not default", **fields, **more)


def _refuse_nothing(file: ConfigFile | None, settings: Settings) -> None:
    """Reject an empty file at the start: it was truncated, and its keys are unknown."""
    if file is None or file.origin is FileOrigin.FOUND or not settings.empty or not file.is_plain():
        return
    if file.path.stat().st_size == 0:
        raise ConfigError(
            key="",
            problem="is empty: it may be half-written",
            remedy="write it again; an intentionally empty file has an empty [server] table",
            file=str(file),
        )


def _lifeline() -> int:
    """Standard input, if its end can be detected."""
    kind = os.fstat(0).st_mode
    if not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)):
        raise UsageError("--lifeline: standard input is no pipe (leave out --lifeline)")
    return 0


def _overridden(settings: Settings, options: argparse.Namespace) -> Settings:
    """Apply the options of the command line to the settings."""
    overrides: dict[str, object] = {}
    for name, kind in _OPTIONS.items():
        value = vars(options)[name]
        if value is None:
            continue
        try:
            overrides[name] = kind.read(value)
        except ConfigError as error:
            remedy = error.remedy or "example: --{} {}".format(name, kind.example.strip('"'))
            raise UsageError(f"--{name}: {error.problem} ({remedy})") from None
    keys = (*settings.keys, *_command_line_keys(settings, options.key_hash))
    return replace(settings, server=replace(settings.server, **overrides), keys=keys)


def _command_line_keys(settings: Settings, written: str | None) -> tuple[Identity, ...]:
    """The key of `--key-hash`: valid whatever the configuration states, and owned by the user who started the
    gateway."""
    if written is None:
        return ()
    try:
        digest = read_hash(written)
    except ConfigError as error:
        raise UsageError(f"--key-hash: {error.problem} ({error.remedy})") from None
    accepted = AcceptedDigest(digest=digest)
    if any(accepted in key.digests for key in settings.keys):
        return ()
    return (Identity(name=COMMAND_LINE_KEY, owner=LOCAL_OWNER, digests=(accepted,), source=COMMAND_LINE),)


def _greet(
    settings: Settings,
    protection: Protection,
    file: ConfigFile | None,
    port: int,
    local_models: LocalModels,
    *,
    has_stored_keys: bool = False,
    service: bool = False,
) -> None:
    """Print the gateway's address, its providers, and one example for each protocol."""
    address = address_to_call(settings.server.host, port)
    lines = [f"dragoman listens on {address}, configured by {file or 'environment variables only'}"]
    if settings.keys:
        lines.append(
            f"keys: {len(settings.keys)}; send one as x-api-key or Bearer; in the examples it is $DRAGOMAN_KEY"
        )
    elif has_stored_keys:
        lines.append(
            "keys: those of the database; send one as x-api-key or Bearer; in the examples it is $DRAGOMAN_KEY"
        )
    elif protection.requires_keys:
        lines.append(
            "keys: none, but one is required, so every request is rejected; create one with `dragoman key new`"
        )
    elif is_loopback(settings.server.host):
        lines.append("keys: none, so it listens on this machine only; create one with `dragoman key new`")
    else:
        lines.append(f"keys: none; every client that reaches {settings.server.host} may use it (--no-auth)")
    if protection.requires_keys and not is_loopback(settings.server.host):
        # The address above is the one for this machine.
        lines.append(f"other machines reach it, too: it listens on {settings.server.host}")
    if service:
        lines.append("runs as a service: `dragoman service stop` ends it, `dragoman service uninstall` removes it")
    lines.append("providers:")
    lines += [*provider_lines(settings, local_models)] or ["  none; `dragoman init` finds keys and local servers"]
    if settings.routes:
        lines.append("models:")
        lines += [f"  {line.pattern} -> {describe_route(line)}" for line in settings.routes]
    tried = [f"  {line}" for line in lines_to_try(settings, local_models, address, keyed=protection.requires_keys)]
    lines += ["try:", *tried] if tried else []
    try:
        sys.stdout.write("\n".join(map(printable, lines)) + "\n")
        sys.stdout.flush()
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        # The terminal is gone. A signal decides whether that ends the gateway. Further output has no reader.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


_MAX_MODELS = 6
_WIDTH = 80
# The models of local servers, by the server's name.
LocalModels: TypeAlias = Mapping[str, tuple[str, ...]]


def provider_lines(settings: Settings, local_models: LocalModels) -> Iterator[str]:
    """The providers that the gateway calls, with their known models."""
    for provider in settings.listed([settings.local[name] for name in local_models]):
        protocols = ", ".join(endpoint.protocol for endpoint in provider.endpoints)
        models = local_models.get(provider.name, provider.models) or ()
        shown = " ".join(f"{provider.name}/{model}" for model in models[:_MAX_MODELS])
        more = f" … {len(models)} in all" if len(models) > _MAX_MODELS else ""
        words = f"  {provider.name:12} {protocols}{f': {shown}' if models else ''}{more}"
        yield from textwrap.wrap(words, _WIDTH, subsequent_indent=" " * 15, break_on_hyphens=False)


def lines_to_try(settings: Settings, local_models: LocalModels, address: str, *, keyed: bool) -> Iterator[str]:
    """Examples: for the embedded provider if there is no other, else for a real one."""
    others = [provider for provider in settings.providers.values() if provider.transport != "echo"]
    has_echo = len(others) < len(settings.providers)
    if not others and not local_models:
        yield from curl_lines(address, keyed=keyed) if has_echo else ()
        return
    model = _first_model(settings, local_models)
    if model:
        yield curl_line(address, "messages", _message(model), keyed=keyed)
        yield f"dragoman launch claude --model {model}"
    else:
        yield "dragoman models --live"
        by_itself = {
            route.pattern for route in settings.defaults if route.targets[0].split("/")[0] in settings.providers
        }
        named = "" if "claude-*" in by_itself else f" --model {others[0].name}/MODEL"
        yield f"dragoman launch claude{named}"
    if has_echo:
        yield "without a provider, at no cost:"
        yield curl_line(address, "messages", _message("echo/text"), keyed=keyed)


def _first_model(settings: Settings, local_models: LocalModels) -> str:
    """A name that leads to a provider: a route's, a provider's own, or that of a local server."""
    for route in settings.routes:
        if "*" not in route.pattern and not any(text.startswith("echo/") for text in route.targets):
            return route.pattern
    listed = {name: provider.models or () for name, provider in settings.providers.items() if name != "echo"}
    for name, models in {**listed, **local_models}.items():
        if models:
            return f"{name}/{models[0]}"
    return ""


def _message(model: str) -> str:
    return f'{{"model":"{model}","max_tokens":100,"messages":[{{"role":"user","content":"Hello from Messages"}}]}}'


def curl_lines(address: str, *, keyed: bool) -> list[str]:
    """One line per protocol. The embedded provider responds in another protocol."""
    bodies = (
        ("messages", _message("echo/text")),
        (
            "chat/completions",
            '{"model":"echo/text@anthropic-messages","messages":[{"role":"user","content":"Hello from Chat"}]}',
        ),
        ("responses", '{"model":"echo/text","input":"Hello from Responses"}'),
    )
    return [curl_line(address, path, body, keyed=keyed) for path, body in bodies]


def curl_line(address: str, path: str, body: str, *, keyed: bool) -> str:
    key = " -H 'x-api-key: '\"$DRAGOMAN_KEY\"" if keyed else ""
    return f"curl {address}/v1/{path} -H 'content-type: application/json'{key} -d '{body}'"
