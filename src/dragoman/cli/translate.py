"""`dragoman translate`: translates a request, a response or a stream to another protocol, with the ledger of losses."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator

from dragoman.cli import documents, ledger
from dragoman.cli.parser import add_all_losses
from dragoman.cli.terminal import screen_of
from dragoman.errors import DragomanError, WireError
from dragoman.mint import system_mint
from dragoman.protocols.registry import PROTOCOL_NAMES, recognise_response
from dragoman.streaming import StreamPipeline
from dragoman.translate import LossLine, TranslatedRequest, changes_in, translate_request, translate_response
from dragoman.wire.json import decode_object
from dragoman.wire.sse import SseReader

LOST = 3
FAILED = 1


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "translate",
        help="translate a request, a response or a stream",
        description="Prints translated JSON to standard output and the ledger of losses to standard error.",
    )
    parser.add_argument(
        "file", nargs="?", default="-", metavar="FILE", help="the document to translate; - is standard input"
    )
    parser.add_argument(
        "--from",
        dest="source",
        choices=PROTOCOL_NAMES,
        metavar="PROTOCOL",
        help=f"its protocol ({', '.join(PROTOCOL_NAMES)}; default: detected)",
    )
    parser.add_argument(
        "--to",
        dest="target",
        choices=PROTOCOL_NAMES,
        metavar="PROTOCOL",
        required=True,
        help="the protocol to translate to",
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--response", action="store_true", help="the document is a provider's response, not a request")
    kind.add_argument("--stream", action="store_true", help="the document is a provider's stream of events")
    parser.add_argument("--request", metavar="FILE", help="with --response or --stream: the client's request")
    parser.add_argument("--model", help="the model's name at the provider, if it differs or the request has none")
    parser.add_argument("--vendor", help="the vendor of the endpoint, for example openai or deepseek")
    strict = parser.add_mutually_exclusive_group()
    strict.add_argument(
        "--strict",
        action="store_const",
        const=True,
        default=False,
        help=f"exit with status {LOST} if a loss changes the response",
    )
    # A separate option: an optional value would consume FILE.
    strict.add_argument(
        "--strict=all",
        dest="strict",
        action="store_const",
        const="all",
        default=False,
        help=f"exit with status {LOST} on any loss, including bookkeeping",
    )
    add_all_losses(parser, "the ledger")
    parser.add_argument("--json", action="store_true", help="the ledger as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    if options.stream:
        return _stream(options)
    if options.response:
        return _response(options)
    out = _request(options, options.file, options.source, options.target)
    return _write_result(options, out.body + b"\n", out.losses)


def _request(options: argparse.Namespace, file: str, source: str | None, target: str) -> TranslatedRequest:
    body = documents.read(file)
    try:
        return translate_request(body, source=source, target=target, model=options.model, vendor=options.vendor)
    except WireError as error:
        raise DragomanError(documents.request_problem(error)) from None


def _response(options: argparse.Namespace) -> int:
    body = documents.read(options.file)
    source = options.source or _recognised(body)
    out = translate_response(
        body, source=source, target=options.target, request=_original_request(options, source), mint=system_mint()
    )
    return _write_result(options, out.body + b"\n", out.losses)


def _stream(options: argparse.Namespace) -> int:
    """Translate as data arrives. Strict mode can report a loss only by the exit status."""
    chunks = documents.chunks(options.file)
    source = options.source
    if source is None:
        source, chunks = _recognised_stream(chunks)
    stream = StreamPipeline(
        source=source, target=options.target, request=_original_request(options, source), mint=system_mint()
    )
    for chunk in chunks:
        documents.write(stream.feed(chunk))
        if stream.finished:
            break
    documents.write(stream.close())
    _print_ledger(options, stream.losses)
    if stream.failure is not None:
        documents.complain(stream.failure.message)
        return FAILED
    return LOST if _is_refused(options, stream.losses) else 0


def _original_request(options: argparse.Namespace, source: str) -> TranslatedRequest | None:
    if options.request is None:
        return None
    return _request(options, options.request, options.target, source)


def _recognised(body: bytes) -> str:
    codec = recognise_response(decode_object(body))
    if codec is None:
        raise WireError(
            "", "a response in one of the three protocols", "another document; name its protocol with --from"
        )
    return codec.name


def _recognised_stream(chunks: Iterator[bytes]) -> tuple[str, Iterator[bytes]]:
    """Read until the first event shows the protocol of the stream."""
    reader, seen = SseReader(), []
    for chunk in chunks:
        seen.append(chunk)
        frames = reader.feed(chunk)
        if frames:
            return _recognised(frames[0].data), itertools.chain(seen, chunks)
    raise WireError("", "a stream of events", "none; name its protocol with --from")


def _write_result(options: argparse.Namespace, data: bytes, losses: tuple[LossLine, ...]) -> int:
    if _is_refused(options, losses):
        _print_ledger(options, losses)
        if not options.json:
            which = "every loss" if options.strict == "all" else "losses that change the response"
            documents.complain(f"strict mode rejected {which}: nothing was written")
        return LOST
    documents.write(data)
    _print_ledger(options, losses)
    return 0


def _is_refused(options: argparse.Namespace, losses: tuple[LossLine, ...]) -> bool:
    return bool(losses if options.strict == "all" else changes_in(losses)) if options.strict else False


def _print_ledger(options: argparse.Namespace, losses: tuple[LossLine, ...]) -> None:
    # Strict mode shows the losses that it rejects.
    all_losses, screen = options.all_losses or options.strict == "all", screen_of(sys.stderr, options.color)
    print(
        ledger.as_json(losses) if options.json else ledger.as_table(losses, screen, all_losses=all_losses),
        file=sys.stderr,
    )
