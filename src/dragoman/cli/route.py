"""`dragoman route`: shows where a request would go, and why. No provider gets the request."""

from __future__ import annotations

import argparse
import os
from functools import partial

from dragoman.cli import documents
from dragoman.cli.env import add_gateway, gateway_to_ask, settings_of, warn_of_clear_text
from dragoman.cli.formatting import tokens
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
from dragoman.launching.gateway import route_of
from dragoman.launching.keys import find_key
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.prices.money import dollars
from dragoman.protocols.registry import PROTOCOL_NAMES
from dragoman.sessions.classes import CLASSES, is_class
from dragoman.translate import translate_request
from dragoman.wire.json import encode

_NUMBERS = ("PRICE", "TTFT", "TOKENS/S", "SUCCESS", "AGE", "LOSSES", "WINDOW")
_COLUMNS = (
    Column(heading="", right=True),
    Column(heading="TARGET", least=8),
    *(Column(heading=heading, right=True) for heading in _NUMBERS),
    Column(heading="HEALTH", below=True, styles={"healthy": GREEN, "cooldown": RED, "suspect": YELLOW}),
    Column(heading="NOTE", below=True),
)
_UNKNOWN = "?"


class _Classes(tuple[str, ...]):
    __slots__ = ()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and is_class(name)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "route",
        help="explain where a request goes",
        description=(
            "Explain where a request would go and why. The running gateway knows the health of its "
            "targets; without one, the plan is made from the configuration alone. No provider gets "
            "the request."
        ),
    )
    parser.add_argument("model", metavar="MODEL", help="the requested model name")
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="the request; - is standard input (default: a small one)"
    )
    parser.add_argument("--json", action="store_true", help="machine-readable (JSON)")
    parser.add_argument(
        "--protocol",
        choices=PROTOCOL_NAMES,
        metavar="PROTOCOL",
        help=f"the protocol of the request ({', '.join(PROTOCOL_NAMES)}; default: detected)",
    )
    parser.add_argument("--key", metavar="NAME", help="the gateway key of the request, for rules")
    parser.add_argument("--client", metavar="NAME", help="the client of the request, by its User-Agent")
    parser.add_argument(
        "--thread",
        choices=_Classes(CLASSES),
        metavar="CLASS",
        help=(f"the class of the request's thread, for rules ({', '.join(CLASSES)}, other:NAME; default: detected)"),
    )
    add_gateway(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    settings = settings_of(options)
    body = documents.read(options.file) if options.file is not None else _small(options.model, options.protocol)
    query = {"model": options.model, "protocol": options.protocol or "", "key": options.key or ""}
    query |= {"thread": options.thread} if options.thread else {}
    address = gateway_to_ask(options, settings)
    if address is None:
        decision = _planned(settings, query, body, options.client or "")
    else:
        key = find_key(settings, os.environ, options.key_file)
        warn_of_clear_text(address, key)
        decision = route_of(address, key.sent, query, body, options.client or "")
    decision = {**decision, "gateway": address, "measured": address is not None}
    documents.show(options, decision, partial(as_text, decision))
    return 0


def _small(model: str, protocol: str | None) -> bytes:
    body = encode({"model": model, "messages": [{"role": "user", "content": "Hello."}]})
    return body if protocol is None else translate_request(body, target=protocol).body


def _planned(settings: Settings, query: dict[str, str], body: bytes, client: str) -> JsonObject:
    # Imported here, because only this case needs the gateway.
    import asyncio

    from dragoman.gateway.endpoints.route import Question, planned

    model, protocol, key, thread = (query.get(name, "") for name in ("model", "protocol", "key", "thread"))
    question = Question(model=model, protocol=protocol, key=key, client=client, thread=thread)
    return asyncio.run(planned(settings, body, question))


def as_text(decision: JsonObject, screen: OutputScreen) -> str:
    rules = _list(decision, "rules")
    chosen = text_of(decision, "chosen") or "nobody"
    head = [f"{text_of(decision, 'model')} -> {chosen} ({text_of(decision, 'policy')}): {text_of(decision, 'because')}"]
    if rules:
        head.append(f"by the rule {', '.join(printable(str(rule)) for rule in rules)}")
    tokens = text_of(decision, "tokens")
    head.append(
        f"{text_of(decision, 'client_protocol')}, {text_of(decision, 'bytes')} bytes, about {tokens} tokens of input"
    )
    if text_of(decision, "client"):
        head.append(f"of {text_of(decision, 'client')}, a thread of the class {text_of(decision, 'thread')}")
    gateway = text_of(decision, "gateway")
    head.append(
        f"planned by the gateway at {gateway}"
        if gateway
        else "no gateway is running: planned from the configuration alone, without measurements"
    )
    rows = [_row(row, exact=not screen.terminal) for row in _list(decision, "candidates") if isinstance(row, dict)]
    lines = [line for sentence in head for line in wrapped(screen, sentence)]
    return "\n".join([*lines, "", *table(screen, _COLUMNS, rows)])


def _row(row: JsonObject, *, exact: bool) -> tuple[str, ...]:
    speed = row.get("speed")
    speed = speed if isinstance(speed, dict) else {}
    cost, window, rate = row.get("nano_dollars"), row.get("window"), speed.get("tokens_per_second")
    return (
        text_of(row, "place") or "-",
        text_of(row, "target"),
        dollars(cost) if isinstance(cost, int) else _UNKNOWN,
        _number(speed.get("first_token"), "{:.3g} s"),
        # To three digits, or as an integer if it has more.
        _number(rate, "{:.0f}" if isinstance(rate, (int, float)) and rate >= 1000 else "{:.3g}"),
        _number(speed.get("success_rate"), "{:.0%}"),
        _number(speed.get("age"), "{:.0f} s"),
        _number(row.get("losses"), "{}"),
        tokens(window, exact=exact) if isinstance(window, int) else _UNKNOWN,
        _health(row),
        _note(row),
    )


def _number(value: JsonValue, form: str) -> str:
    return form.format(value) if isinstance(value, (int, float)) else _UNKNOWN


def _health(row: JsonObject) -> str:
    seconds = row.get("seconds")
    left = f" for {seconds:g} s" if isinstance(seconds, (int, float)) and seconds > 0 else ""
    return text_of(row, "health") + left


def _note(row: JsonObject) -> str:
    for name, words in (("left_out", "left out: "), ("deprioritized", "deprioritized: ")):
        reason = row.get(name)
        if isinstance(reason, dict):
            return words + text_of(reason, "why")
    return ""


def _list(document: JsonObject, name: str) -> list[JsonValue]:
    value = document.get(name)
    return value if isinstance(value, list) else []
