"""`dragoman env`: what a client needs to talk to the gateway, as lines for a shell."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import PurePath

from dragoman.cli import documents
from dragoman.cli.trust import file_to_read
from dragoman.config.reading import read_settings
from dragoman.config.settings import Settings
from dragoman.errors import DragomanError
from dragoman.launching.clients import CLIENTS, Client, Wish
from dragoman.launching.gateway import address_of, is_running
from dragoman.launching.keys import find_key
from dragoman.launching.shells import SHELLS, shell_lines
from dragoman.providers.catalogue import catalogue


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "env",
        help="print what a client needs, for a shell",
        description='Print what a client needs to talk to the gateway: eval "$(dragoman env claude)"',
    )
    add_wishes(parser)
    parser.add_argument("--shell", choices=SHELLS, help="whose lines to print; left out, those of $SHELL")
    parser.set_defaults(run=run)


def add_wishes(parser: argparse.ArgumentParser) -> None:
    """Declare what is the same for printing and for launching."""
    parser.add_argument("client", choices=CLIENTS, help="the program")
    parser.add_argument("--model", metavar="NAME", help="the model to ask for, as `provider/model` or as configured")
    parser.add_argument("--small-model", metavar="NAME", help="one for titles and summaries; left out, the same")
    parser.add_argument("--context", type=int, metavar="TOKENS", help="how much the model takes, if it is little known")
    parser.add_argument("--key-file", metavar="FILE", help="holds the gateway's key; left out, DRAGOMAN_KEY does")
    parser.add_argument("--config", metavar="FILE", help="configuration (default: dragoman.toml, if there is one)")


def run(options: argparse.Namespace) -> int:
    """Print the lines."""
    settings = settings_of(options)
    if not settings.server.port:
        raise DragomanError("the configuration lets the gateway take any free port; give it one in server.port")
    address = address_of(settings.server)
    client = CLIENTS[options.client]
    plan = client.plan(wish_of(client, options, settings, address))
    key = find_key(settings, os.environ, options.key_file)
    shell = SHELLS[options.shell or default_shell(os.environ)]
    documents.write("\n".join(shell_lines(plan, client.program, key, shell)).encode() + b"\n")
    if not is_running(settings.server):
        documents.complain(f"note: no gateway is running at {address}; start it with `dragoman serve`")
    return 0


def settings_of(options: argparse.Namespace) -> Settings:
    """The configuration that the gateway has, too."""
    return read_settings(file_to_read(options.config), os.environ, catalogue())


def wish_of(client: Client, options: argparse.Namespace, settings: Settings, address: str) -> Wish:
    """What the user asked for, if the client can have it."""
    if client.needs_model and options.model is None:
        raise DragomanError(f"{client.name} has to be told which model to ask for: --model NAME")
    if options.small_model is not None and not client.has_small_model:
        raise DragomanError(f"{client.name} asks for one model only; leave out --small-model")
    if options.context is not None and options.context <= 0:
        raise DragomanError("--context is a number of tokens, for example --context 32768")
    return Wish(
        url=address,
        model=options.model,
        small_model=options.small_model,
        context=options.context,
        others=_known_models(settings),
    )


def _known_models(settings: Settings) -> tuple[str, ...]:
    """Names that lead somewhere, as far as the configuration spells them out."""
    routed = [route.pattern for route in settings.routes if "*" not in route.pattern]
    served = [f"{name}/{model}" for name, provider in settings.providers.items() for model in provider.models or ()]
    return (*routed, *served)


def default_shell(environ: Mapping[str, str]) -> str:
    """The kind of shell that the user has."""
    if os.name == "nt":
        return "powershell"
    return {"fish": "fish", "pwsh": "powershell"}.get(PurePath(environ.get("SHELL", "")).name, "sh")
