"""`dragoman launch`: starts a client with the settings for the gateway, and the gateway if none is running (decision
30)."""

from __future__ import annotations

import argparse
import os
import re
import secrets
import shlex
import signal
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

from msgspec import Struct, ValidationError, convert
from msgspec.structs import replace

from dragoman.cli import documents
from dragoman.cli.env import (
    add_launch_arguments,
    launch_options_of,
    named_gateway,
    settings_of,
    warn_of_clear_text,
    with_sizes,
)
from dragoman.cli.parser import refuse_windows
from dragoman.config.config_file import state_directory
from dragoman.config.settings import Settings
from dragoman.errors import DragomanError, UsageError
from dragoman.identities.identity import DATABASE, FILE, VIEWER
from dragoman.identities.key_text import hash_text
from dragoman.launching.client_process import ClientRun, environment_of, program_of
from dragoman.launching.clients import CLAUDE_SUFFIX, CLIENTS, LaunchableClient, LaunchPlan
from dragoman.launching.gateway import (
    ForeignProcessError,
    PageError,
    find_running,
    gateway_started,
    is_running,
    launch_of,
    route_of,
)
from dragoman.launching.keys import GivenKey, find_key, key_of_own
from dragoman.launching.local_servers import local_models_of
from dragoman.launching.settings_files import command_line, managed_notes, own_variables
from dragoman.launching.summary import Launch, summary
from dragoman.model.jsonvalue import JsonObject
from dragoman.wire.json import encode

NAME = "launch"
_is_name = re.compile(r"[A-Za-z0-9._-]{1,64}").fullmatch
_LAUNCH_ARGUMENTS = ("model", "small_model", "context", "key_file", "config", "gateway")
# Options with which a client prints information and calls no gateway.
_ASIDE = frozenset({"-h", "--help", "-v", "-V", "--version"})
# An interrupt is a normal end of a client.
_ENDED_WELL = (0, 128 + signal.SIGINT)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        NAME,
        help="start a client on any model through the gateway",
        usage="dragoman launch CLIENT [--model NAME] [OPTION …] [-- ARGUMENT …]",
        description="Start a client with the gateway as its provider. If no gateway runs, launch starts one. "
        "Files of the client are not changed. Arguments after -- go to the client.",
    )
    add_launch_arguments(parser)
    parser.add_argument("--name", metavar="NAME", help="name of the launch (default: generated)")
    parser.add_argument("--log", metavar="FILE", help="log file of a started gateway, with mode 0600")
    parser.set_defaults(run=run, arguments=[])


def run(options: argparse.Namespace) -> int:
    client = CLIENTS[options.client]
    if options.name is not None and not _is_name(options.name):
        raise UsageError("--name must have 1 to 64 letters, digits, dots, hyphens and underscores")
    settings = settings_of(options)
    for warning in settings.warnings:
        documents.complain(f"warning: {warning}")
    # Errors are reported before a gateway is started, errors of the command line first.
    launch_options_of(client, options, settings, "")
    named = named_gateway(options)
    program = program_of(client, os.environ)
    running = _running(named, options, settings)
    if running is None:
        refuse_windows()
        _check_models(options, settings)
    key = (key_of_own if running is None else find_key)(settings, os.environ, options.key_file)
    if running is not None:
        warn_of_clear_text(running, key)
    with ClientRun() as client_run, _gateway(options, running, key) as address:
        preflight(client, [options.model, options.small_model], settings, key, address)
        name = options.name or f"{client.name}-{secrets.token_hex(4)}"
        plan = _plan(client, options, settings, key, address, name)
        for note in managed_notes(plan):
            documents.complain(f"note: {note}")
        _hint(client)
        before = _launch(address, key, name)
        environment = environment_of(plan, key, address, os.environ)
        with command_line(program, plan, options.arguments, environment) as words:
            status = client_run.to_end(words, environment)
        if client_run.was_begun:
            _sum_up(client, options, status, _launch(address, key, name), before)
            if status and options.log and running is None:
                log = Path(options.log).absolute()
                documents.complain(f"{client.name} ended with status {status}; the gateway's log is {log}")
    return status


def _running(named: str | None, options: argparse.Namespace, settings: Settings) -> str | None:
    """The gateway to use; None if one has to be started."""
    if named is not None:
        if not is_running(named):
            raise DragomanError(f"no gateway responds at {named}")
        address: str | None = named
    else:
        try:
            address = find_running(settings.server)
        except ForeignProcessError as error:
            documents.complain(f"note: {error}; another gateway is started (--gateway requires this one)")
            return None
    if address is not None and options.log is not None:
        documents.complain(f"note: the gateway at {address} was already running; its log is where it was started")
    return address


def _check_models(options: argparse.Namespace, settings: Settings) -> None:
    """Reject unknown models, which clients report badly. A running gateway may have another configuration."""
    # Imported here, so that other commands start without a server's modules.
    from dragoman.gateway.model_resolver import ModelResolver, UnknownModel
    from dragoman.gateway.paths import MESSAGES
    from dragoman.identities.identity import ALL_RIGHTS

    resolver = ModelResolver(settings)
    local_models = local_models_of(settings)
    resolver.listed = lambda provider: local_models.get(provider.name, ())
    for name in filter(None, (options.model, options.small_model)):
        try:
            # Claude Code interprets this suffix itself.
            resolver.route(name.removesuffix(CLAUDE_SUFFIX), MESSAGES, ALL_RIGHTS)
        except UnknownModel as error:
            raise DragomanError(f"{error} (a provider exists once its key is set: `dragoman providers`)") from None


def _gateway(options: argparse.Namespace, running: str | None, key: GivenKey) -> AbstractContextManager[str]:
    """The running gateway, or one that is started for this client. A found configuration file is not passed to it by
    name: that would trust the file as if the user had named it."""
    if running is not None:
        return nullcontext(running)
    named = ["--config", options.config] if options.config else []
    keyed = ["--key-hash", hash_text(key.text)] if key.is_new else []
    return gateway_started([*named, *keyed], os.environ, options.log)


def _plan(
    client: LaunchableClient, options: argparse.Namespace, settings: Settings, key: GivenKey, address: str, name: str
) -> LaunchPlan:
    launch_options = with_sizes(launch_options_of(client, options, settings, address), client, settings, key, address)
    option = client.plan(launch_options).settings
    return client.plan(replace(launch_options, launch=name, own=own_variables(option, options.arguments, os.environ)))


def _launch(address: str, key: GivenKey, name: str) -> Launch | None:
    """The counts of the gateway. None without a response, which must not fail the command."""
    try:
        return launch_of(address, key.sent, name)
    except DragomanError:
        return None


def _sum_up(
    client: LaunchableClient, options: argparse.Namespace, status: int, launch: Launch | None, before: Launch | None
) -> None:
    """Show the totals of the client's run, and how to resume its session, unless the run failed."""
    named = f"{options.name}: " if options.name else ""
    if launch is None or before is None:
        documents.complain(f"{named}the gateway does not report the totals of the run")
    elif launch.requests:
        documents.complain(named + summary(launch, before))
        if launch.session and status in _ENDED_WELL and sys.stdout.isatty():
            # The client's own hint, just shown, names a file or a provider that no longer exists.
            documents.complain("to resume the session:", _again(client, options, launch.session))
    elif _ASIDE.isdisjoint(options.arguments):
        reasons = f"it sent no request, ended early, or uses another address ({client.elsewhere})"
        documents.complain(f"{named}{client.name} never called this gateway: {reasons}")


def _again(client: LaunchableClient, options: argparse.Namespace, session: str) -> str:
    given = [
        (f"--{name.replace('_', '-')}", value)
        for name in _LAUNCH_ARGUMENTS
        if (value := getattr(options, name, None)) is not None
    ]
    arguments = (word for pair in given for word in pair)
    return shlex.join(["dragoman", NAME, client.name, *arguments, "--", client.resumes, session])


def _hint(client: LaunchableClient) -> None:
    """Show a hint about a client, once per machine."""
    directory = state_directory(os.environ)
    if not client.hint or directory is None:
        return
    marker = directory / "told" / client.name
    # If that cannot be recorded, the hint is not shown: it would be shown every time.
    with suppress(OSError):
        marker.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        marker.touch(mode=0o600, exist_ok=False)
        documents.complain(f"note: {client.hint}")


_UNKNOWN = 404
_NO_KEY = 401
_FORBIDDEN = 403


class _Permissions(Struct):
    role: str
    source: str


class _Target(Struct):
    target: str
    able: bool
    words: str


class _RoutePage(Struct):
    # An older gateway does not check.
    checked: list[_Target] = []


def preflight(
    client: LaunchableClient, models: Iterable[str | None], settings: Settings, key: GivenKey, address: str
) -> None:
    """Check the requested models at the gateway. An unusable one is an error."""
    # Imported here, so that other commands start without it.
    from concurrent.futures import ThreadPoolExecutor

    if key.sent and _calls_no_model(key, address):
        raise DragomanError(f"the gateway key has the role {VIEWER}, which calls no model: launch with another key")
    names = list(dict.fromkeys(name.removesuffix(CLAUDE_SUFFIX) for name in models if name is not None))
    notes: list[str] = []
    if names:
        # In parallel, so that a slow network delays only once.
        with ThreadPoolExecutor(len(names)) as pool:
            notes += [
                note
                for model_notes in pool.map(lambda name: _notes(name, settings, key, address), names)
                for note in model_notes
            ]
    elif client.usual:
        try:
            notes += _notes(client.usual, settings, key, address)
        except DragomanError as error:
            # The model that it will request is unknown; this one is typical.
            notes.append(f"{client.name} uses its default models: {error} (--model NAME)")
    for note in dict.fromkeys(notes):
        documents.complain(f"note: {note}")


def _calls_no_model(key: GivenKey, address: str) -> bool:
    """Whether a key is a viewer's. False if the gateway does not report it, such as an older one."""
    from dragoman.launching.admin_client import AdminClient

    try:
        permissions = AdminClient(address, key.sent).get("/me", _Permissions)
    except DragomanError:
        # The checks of models report the problem.
        return False
    # The operator of an open gateway may read like a viewer, but also call models.
    return permissions.role == VIEWER and permissions.source in (FILE, DATABASE)


def _notes(name: str, settings: Settings, key: GivenKey, address: str) -> list[str]:
    """Notes about a model before its client is started. An unusable model is an error."""
    try:
        page = _route_page(name, key, address)
    except PageError as error:
        if error.status == _UNKNOWN:
            raise DragomanError(error.reason) from None
        if error.status == _NO_KEY:
            raise DragomanError(f"the gateway at {address} rejected the key: {error.reason}") from None
        if error.status == _FORBIDDEN and key.sent:
            # The client's requests for the model would be rejected, too.
            raise DragomanError(error.reason) from None
        return [str(error)]
    try:
        targets = convert(page, _RoutePage).checked
    except ValidationError:
        return []
    able = [target for target in targets if target.able]
    if targets and not able:
        words = "; ".join(dict.fromkeys(_with_address(target, settings) for target in targets))
        raise DragomanError(f"{name} cannot be used now: {words}")
    return [_with_address(target, settings) for target in targets if target.words]


def _route_page(name: str, key: GivenKey, address: str) -> JsonObject:
    """The plan for a request. An admin's key also makes the gateway call providers for it."""
    body = encode({"model": name, "messages": [{"role": "user", "content": "Hello."}]})
    try:
        return route_of(address, key.sent, {"model": name, "check": "1"}, body, "dragoman")
    except PageError as error:
        if error.status != _FORBIDDEN:
            raise
    return route_of(address, key.sent, {"model": name}, body, "dragoman")


def _with_address(target: _Target, settings: Settings) -> str:
    """The problem of a target, with the address from the configuration, which its user may read."""
    name = target.target.partition("/")[0]
    provider = settings.providers.get(name)
    if provider is None or not target.words.startswith(f"{name} ") or target.words.startswith(f"{name} at "):
        return target.words
    return target.words.replace(name, f"{name} at {provider.endpoints[0].base_url}", 1)
