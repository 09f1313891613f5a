"""`dragoman launch`: a client in front of the gateway, which is started for it if none is running."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from dragoman.cli import documents
from dragoman.cli.env import add_wishes, named_gateway, settings_of, warn_of_clear_text, wish_of, with_sizes
from dragoman.cli.system import refuse_windows
from dragoman.config.keys import hash_text
from dragoman.config.settings import Settings
from dragoman.errors import DragomanError
from dragoman.launching.clients import CLAUDE_SUFFIX, CLIENTS, Client
from dragoman.launching.gateway import StrangerError, find_running, gateway_started, is_running
from dragoman.launching.keys import GivenKey, find_key, key_of_own
from dragoman.launching.running import Run, environment_of, program_of, replace_by

NAME = "launch"


def cut(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Our words, and those for the client, which argparse cannot be kept from reading."""
    if NAME not in words[:1] or "--" not in words:
        return list(words), []
    end = words.index("--")
    return list(words[:end]), list(words[end + 1 :])


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        NAME,
        help="run a client in front of the gateway",
        usage="dragoman launch CLIENT [--model NAME] [OPTION …] [-- ARGUMENT …]",
        description="Run a client in front of the gateway, which is started for it if none is running. "
        "The client's own files are not touched. What stands behind -- is for the client itself.",
    )
    add_wishes(parser)
    parser.set_defaults(run=run, arguments=[])


def run(options: argparse.Namespace) -> int:
    """Run the client to its end; its exit status is ours."""
    client = CLIENTS[options.client]
    settings = settings_of(options)
    for warning in settings.warnings:
        documents.complain(f"warning: {warning}")
    # Whatever can go wrong goes wrong before a gateway is started.
    program = program_of(client, os.environ)
    wish_of(client, options, settings, "")
    running = _running(options, settings)
    if running is None:
        refuse_windows()
        _check_models(options, settings)
    key = (key_of_own if running is None else find_key)(settings, os.environ, options.key_file)
    if running is not None:
        warn_of_clear_text(running, key)
        if os.name != "nt":
            # Nothing is left to do after the client.
            replace_by(*_prepared(client, program, options, settings, key, running))
    with Run() as client_run, _gateway(options, running, key) as address:
        return client_run.to_end(*_prepared(client, program, options, settings, key, address))


def _running(options: argparse.Namespace, settings: Settings) -> str | None:
    """The gateway to use; None if one has to be started."""
    named = named_gateway(options)
    if named is not None:
        if not is_running(named):
            raise DragomanError(f"no gateway answers at {named}")
        return named
    try:
        return find_running(settings.server)
    except StrangerError as error:
        documents.complain(f"note: {error}; another is started (--gateway insists on it)")
        return None


def _check_models(options: argparse.Namespace, settings: Settings) -> None:
    """Refuse names that lead nowhere: some clients tell of them in words from which nobody learns what to do.

    A gateway that runs may have another configuration.
    """
    # Here, so that the other commands start without a server's modules.
    from dragoman.gateway.paths import MESSAGES
    from dragoman.gateway.routes import Routes, UnknownModel

    routes = Routes(settings)
    for name in filter(None, (options.model, options.small_model)):
        try:
            # Claude Code takes this end for itself.
            routes.route(name.removesuffix(CLAUDE_SUFFIX), MESSAGES)
        except UnknownModel as error:
            raise DragomanError(f"{error} (a provider is there once its key is: `dragoman providers`)") from None


def _gateway(options: argparse.Namespace, running: str | None, key: GivenKey) -> AbstractContextManager[str]:
    """The gateway that runs, or one that runs as long as it is needed.

    It looks for its configuration by itself: what was found here is not named to it as if the user had done so.
    """
    if running is not None:
        return nullcontext(running)
    named = ["--config", options.config] if options.config else []
    keyed = ["--key-hash", hash_text(key.text)] if key.is_new else []
    return gateway_started([*named, *keyed], os.environ)


def _prepared(
    client: Client, program: str, options: argparse.Namespace, settings: Settings, key: GivenKey, address: str
) -> tuple[list[str], dict[str, str]]:
    """The client's command line and its environment."""
    plan = client.plan(with_sizes(wish_of(client, options, settings, address), client, settings, key, address))
    words = [program, *plan.arguments, *options.arguments]
    return words, environment_of(plan, key, address, os.environ)
