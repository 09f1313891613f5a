"""`dragoman env`: prints the settings that a client needs to use the gateway, as lines for a shell."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from urllib.parse import urlsplit

from msgspec.structs import replace

from dragoman.cli import documents
from dragoman.cli.trust import configured
from dragoman.config.settings import Settings
from dragoman.config.values import is_loopback, read_url
from dragoman.errors import ConfigError, DragomanError, UsageError
from dragoman.launching.client_process import EXCEPTIONS, past_proxies
from dragoman.launching.clients import CLAUDE_SUFFIX, CLIENTS, LaunchableClient, LaunchOptions, Sizes, read_tokens
from dragoman.launching.gateway import MAX_NAMES, addresses_of, fetch_names, find_running, is_running
from dragoman.launching.keys import GivenKey, find_key
from dragoman.launching.shells import SHELLS, shell_lines, undo_lines
from dragoman.routing.model_description import DescribedName


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "env",
        help="print the settings of a client as lines for a shell",
        description=(
            'Print the environment variables that connect a client to the gateway: eval "$(dragoman env claude)"'
        ),
    )
    add_launch_arguments(parser)
    parser.add_argument("--shell", choices=SHELLS, help="shell of the lines (default: $SHELL)")
    parser.set_defaults(run=run)


def add_launch_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("client", choices=CLIENTS, help="the program")
    parser.add_argument("--model", metavar="NAME", help="model name, as `provider/model` or a route")
    parser.add_argument("--small-model", metavar="NAME", help="model for titles and summaries (default: the same)")
    parser.add_argument("--context", metavar="TOKENS", help="context window of the model, such as 128k")
    add_gateway(parser)


def add_gateway(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--key-file", metavar="FILE", help="file with the gateway key (default: $DRAGOMAN_KEY)")
    parser.add_argument("--config", metavar="FILE", help="configuration (default: dragoman.toml, if it exists)")
    parser.add_argument("--gateway", metavar="URL", help="address of a running gateway (default: on this machine)")


def run(options: argparse.Namespace) -> int:
    settings = settings_of(options)
    address = named_gateway(options)
    if address is None and not settings.server.port:
        raise DragomanError("the configuration lets the gateway use any free port; set server.port")
    running = find_running(settings.server) if address is None else address if is_running(address) else None
    address = address or running or addresses_of(settings.server)[0]
    client = CLIENTS[options.client]
    launch_options = launch_options_of(client, options, settings, address)
    key = find_key(settings, os.environ, options.key_file)
    plan = client.plan(with_sizes(launch_options, client, settings, key, running))
    plan = replace(plan, environment={**plan.environment, **past_proxies(address, os.environ)})
    shell = SHELLS[options.shell or default_shell(os.environ)]
    lines = shell_lines(plan, client.program, key, shell)
    lines += undo_lines(plan, client.program, key, shell, os.environ, restored=EXCEPTIONS)
    documents.write("\n".join(lines).encode() + b"\n")
    warn_of_clear_text(address, key)
    if running is None:
        hint = "" if options.gateway else "; start it with `dragoman serve`"
        documents.complain(f"note: no gateway is running at {address}{hint}")
    return 0


def settings_of(options: argparse.Namespace) -> Settings:
    """The configuration of the gateway. It is unknown if the command line only names a gateway."""
    if options.gateway is not None and options.config is None:
        return Settings()
    return configured(options.config)


def named_gateway(options: argparse.Namespace) -> str | None:
    return None if options.gateway is None else read_gateway(options.gateway)


def read_gateway(text: str) -> str:
    try:
        return read_url(text)
    except ConfigError as error:
        remedy = error.remedy or "example: --gateway https://gateway.example.org"
        raise UsageError(f"--gateway: {error.problem} ({remedy})") from None


def gateway_to_ask(options: argparse.Namespace, settings: Settings) -> str | None:
    """The running gateway, if any. If the command line names one, it must be running."""
    named = named_gateway(options)
    if named is None:
        return find_running(settings.server)
    if not is_running(named):
        raise DragomanError(f"no gateway is running at {named}")
    return named


def warn_of_clear_text(address: str, key: GivenKey) -> None:
    place = urlsplit(address)
    if place.scheme == "http" and not is_loopback(place.hostname or "") and not key.is_placeholder:
        documents.complain(f"warning: the gateway's key is sent to {address} in clear text")


def launch_options_of(
    client: LaunchableClient, options: argparse.Namespace, settings: Settings, address: str
) -> LaunchOptions:
    if client.needs_model and options.model is None:
        raise UsageError(f"{client.name} needs a model: --model NAME")
    if options.small_model is not None and not client.has_small_model:
        raise UsageError(f"{client.name} uses one model; leave out --small-model")
    return LaunchOptions(
        url=address,
        model=options.model,
        small_model=options.small_model,
        context=None if options.context is None else read_tokens(options.context, "--context"),
        others=_configured_models(settings),
        own=os.environ,
    )


def with_sizes(
    launch_options: LaunchOptions, client: LaunchableClient, settings: Settings, key: GivenKey, running: str | None
) -> LaunchOptions:
    """Add metadata of the models: from the running gateway, else from the configuration."""
    names = launch_options.models if client.offers_models else launch_options.requested_models
    if not names:
        return launch_options
    why = ""
    descriptions: Sequence[DescribedName] = ()
    try:
        descriptions = _described([name.removesuffix(CLAUDE_SUFFIX) for name in names], settings, key, running)
    except DragomanError as error:
        why = f" ({error})"
    sizes_by_name = {name.name: Sizes(window=name.window, cap=name.output_cap) for name in descriptions}
    # A client name with this suffix already states its window.
    sizes_by_name |= {name + CLAUDE_SUFFIX: replace(sizes, window=None) for name, sizes in sizes_by_name.items()}
    launch_options = replace(launch_options, sizes=sizes_by_name)
    if (
        launch_options.model is not None
        and not launch_options.model.endswith(CLAUDE_SUFFIX)
        and launch_options.sizes_of(launch_options.model).window is None
    ):
        documents.complain(
            f"note: the context window of {launch_options.model} is unknown{why}, so {client.name} uses its default; "
            "set it with --context 128k"
        )
    return launch_options


def _described(names: Sequence[str], settings: Settings, key: GivenKey, running: str | None) -> Sequence[DescribedName]:
    if running is not None:
        # A few names are queried one by one; many as a full list.
        return fetch_names(running, key.sent, names=names if len(names) <= MAX_NAMES else ())
    # Imported here, because only this case needs the gateway.
    import asyncio

    from dragoman.gateway.model_directory import names_table

    return asyncio.run(names_table(settings, names=names))[0]


def _configured_models(settings: Settings) -> tuple[str, ...]:
    routed = [route.pattern for route in settings.routes if "*" not in route.pattern]
    served = [f"{name}/{model}" for name, provider in settings.providers.items() for model in provider.models or ()]
    return (*routed, *served)


def default_shell(environ: Mapping[str, str]) -> str:
    if os.name == "nt":
        return "powershell"
    return {"fish": "fish", "pwsh": "powershell"}.get(PurePath(environ.get("SHELL", "")).name, "sh")
