"""`dragoman status`: shows the state of the running gateway and its providers. `--reset` makes a target healthy."""

from __future__ import annotations

import argparse
import os
from functools import partial

from dragoman.cli import documents
from dragoman.cli.env import add_gateway, gateway_to_ask, settings_of, warn_of_clear_text
from dragoman.cli.terminal import (
    GREEN,
    RED,
    YELLOW,
    Column,
    OutputScreen,
    printable,
    table,
    text_of,
    wrapped,
)
from dragoman.config.settings import Settings
from dragoman.errors import DragomanError
from dragoman.launching.gateway import addresses_of, reset_target, status_of
from dragoman.launching.keys import find_key
from dragoman.model.jsonvalue import JsonObject

_PROVIDERS = (
    Column(heading="PROVIDER", least=16),
    *(Column(heading=heading, right=True) for heading in ("KEYS", "CALLS", "MOST", "QUEUED")),
)
_KEYS = (Column(heading="KEY", least=16), Column(heading="COOLDOWN", least=24))
_CHECKS = (Column(heading="PROVIDER", least=16), Column(heading="CHECKED", least=24))
_TARGETS = (
    Column(heading="TARGET", least=16),
    Column(heading="HEALTH", least=24, styles={"healthy": GREEN, "cooldown": RED, "suspect": YELLOW}),
)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "status",
        help="show the health of providers",
        description="Show the state of the running gateway, its providers and targets.",
    )
    parser.add_argument("--reset", metavar="TARGET", help="end the cooldown of a target (provider/model) and its keys")
    parser.add_argument("--json", action="store_true", help="machine-readable (JSON)")
    add_gateway(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    settings = settings_of(options)
    address = _running(options, settings)
    key = find_key(settings, os.environ, options.key_file)
    warn_of_clear_text(address, key)
    if options.reset is not None:
        status = reset_target(address, key.sent, options.reset)
        documents.show(options, status, lambda _: as_reset(status))
    else:
        status = status_of(address, key.sent)
        documents.show(options, status, partial(as_text, address, status))
    return 0


def _running(options: argparse.Namespace, settings: Settings) -> str:
    if options.gateway is None and not settings.server.port:
        raise DragomanError("the configuration lets the gateway use any free port; name its address with --gateway URL")
    address = gateway_to_ask(options, settings)
    if address is None:
        place = addresses_of(settings.server)[0]
        raise DragomanError(f"no gateway is running at {place}; start it with `dragoman serve`")
    return address


def as_text(address: str, status: JsonObject, screen: OutputScreen) -> str:
    head = f"dragoman {text_of(status, 'version')} at {address}: "
    head += f"{_counted(status, 'workers')}, {_counted(status, 'in_flight', 'requests')} under way"
    figures = ("name", "keys", "calls", "concurrency", "queued")
    providers = [
        [text_of(row, name) or ("any" if name == "concurrency" else "") for name in figures]
        for row in _rows(status, "providers")
    ]
    targets = [(text_of(row, "target"), _health(row)) for row in _rows(status, "targets")]
    keys = [
        (f"{text_of(provider, 'name')} {_key(row, provider)}", _cooldown(row))
        for provider in _rows(status, "providers")
        for row in _rows(provider, "keys_in_cooldown")
    ]
    checks = [
        (text_of(provider, "name"), _check(check))
        for provider in _rows(status, "providers")
        if isinstance(check := provider.get("check"), dict)
    ]
    lines = [*wrapped(screen, head), *_database(status, screen), "", *table(screen, _PROVIDERS, providers), ""]
    if keys:
        lines += [*table(screen, _KEYS, keys), ""]
    if checks:
        lines += [*table(screen, _CHECKS, checks), ""]
    lines += table(screen, _TARGETS, targets) if targets else ["No failure is recorded for any target."]
    unnamed = status.get("unnamed")
    if isinstance(unnamed, dict) and unnamed:
        levels = ", ".join(f"{text_of(unnamed, level)} {printable(level)}" for level in unnamed)
        lines += ["", *wrapped(screen, f"Other targets, named only by clients: {levels}.")]
    return "\n".join(lines)


def _database(status: JsonObject, screen: OutputScreen) -> list[str]:
    """The database that several machines share, and why it is away; nothing for a file."""
    database = status.get("database")
    if not isinstance(database, dict):
        return []
    problem = text_of(database, "problem")
    return wrapped(screen, f"database {text_of(database, 'name')}: {f'away: {problem}' if problem else 'present'}")


def _counted(row: JsonObject, name: str, words: str = "") -> str:
    count, words = text_of(row, name), words or name
    return f"{count} {words.removesuffix('s') if count == '1' else words}"


def as_reset(status: JsonObject) -> str:
    target, health, keys = text_of(status, "target"), text_of(status, "health"), text_of(status, "keys")
    if health == "healthy" and keys == "0":
        return f"no failure was recorded for {target}"
    return f"{target} is healthy again (was {health}, {_counted(status, 'keys')} in cooldown)"


def _health(row: JsonObject) -> str:
    """The health of a target, and its reason: `cooldown for another 12.5 s, since 3 s ago: unreachable 3 s ago`."""
    text = text_of(row, "health") + _remaining(row)
    if text == "healthy":
        return text
    since = _seconds(row, "since")
    text += f", since {since} ago" if since else ""
    failed = f" {_seconds(row, 'failed') or '0 s'} ago" if row.get("failed") is not None else ""
    why = [f"{text_of(row, 'last')}{failed}"] if text_of(row, "last") else []
    if _seconds(row, "consecutive_failures"):
        why.append(_counted(row, "consecutive_failures", "consecutive failures"))
    if _seconds(row, "cooldowns"):
        why.append(_counted(row, "cooldowns"))
    return text + (f": {', '.join(why)}" if why else "")


def _key(row: JsonObject, provider: JsonObject) -> str:
    place = row.get("key")
    which = f"key {place + 1 if isinstance(place, int) else '?'} of {text_of(provider, 'keys')}"
    model = text_of(row, "model")
    return f"{which}, {model}" if model else which


def _cooldown(row: JsonObject) -> str:
    """Length and cause of a cooldown: `for another 890 s, since 10 s ago: rate_limited, the provider reported 86400
    s`."""
    why = [text_of(row, "why")] if text_of(row, "why") else []
    why += [f"the provider reported {_seconds(row, 'hint')}"] if _seconds(row, "hint") else []
    since = _seconds(row, "since")
    text = _remaining(row).strip() + (f", since {since} ago" if since else "")
    return text + (f": {', '.join(why)}" if why else "")


def _check(row: JsonObject) -> str:
    """The interval of health checks, and the last result: `every 30 s while a target is in cooldown: failing 12 s
    ago`."""
    text = f"every {_seconds(row, 'every')} while a target is in cooldown"
    outcome = text_of(row, "found")
    return f"{text}: {outcome} {_seconds(row, 'ago') or '0 s'} ago" if outcome else text


def _remaining(row: JsonObject) -> str:
    seconds = _seconds(row, "seconds")
    return f" for another {seconds}" if seconds else ""


def _seconds(row: JsonObject, name: str) -> str:
    value = row.get(name)
    return f"{value:.10g} s" if isinstance(value, (int, float)) and value > 0 else ""


def _rows(document: JsonObject, name: str) -> list[JsonObject]:
    value = document.get(name)
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
