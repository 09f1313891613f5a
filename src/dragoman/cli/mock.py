"""`dragoman mock`: runs a provider for tests, in all three protocols, that follows a script in the conversation."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dragoman.cli.parser import refuse_windows
from dragoman.config.values import address_to_call
from dragoman.errors import UsageError

_LAST_PORT = 65535
_SCRIPT = "<mock>say Hello from the script</mock>"


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("mock", help="start a scripted provider for tests")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=4100, help="port to listen on; 0 for any free one (default: 4100)")
    parser.add_argument("--record", metavar="FILE", help="append a line of JSON for every request and response")
    parser.add_argument("--lenient", action="store_true", help="accept requests that the real services would reject")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    if not 0 <= options.port <= _LAST_PORT:
        raise UsageError(f"--port: {options.port} is not a port from 0 to {_LAST_PORT}")
    refuse_windows()
    # Imported here, so that other commands start without a server's modules.
    import asyncio

    from dragoman.gateway.processes.listen_socket import bind
    from dragoman.mint import system_mint
    from dragoman.mock.app import MockApp, serve
    from dragoman.mock.recorder import Recorder

    recorder = Recorder(Path(options.record)) if options.record is not None else None
    try:
        listener = bind(options.host, options.port)
        port: int = listener.getsockname()[1]
        app = MockApp(system_mint(), lenient=options.lenient, recorder=recorder)
        with listener:
            asyncio.run(serve(app, listener, lambda: _greet(options, port)))
    finally:
        if recorder is not None:
            recorder.close()
    return 0


def _greet(options: argparse.Namespace, port: int) -> None:
    """Print the address of the mock, and one example per protocol."""
    address = address_to_call(options.host, port)
    lines = [
        f"dragoman mock listens on {address}, {'lenient' if options.lenient else 'as strict as the services'}",
        *([f"every request is recorded in {options.record}"] if options.record is not None else []),
        "any key and any model is accepted; a script in the last prompt sets the response",
        "try:",
        *(f"  {line}" for line in curl_lines(address)),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def curl_lines(address: str) -> list[str]:
    requests = (
        (
            "messages",
            "-H 'x-api-key: test' -H 'anthropic-version: 2023-06-01'",
            f'{{"model":"claude-opus-5","max_tokens":100,"messages":[{{"role":"user","content":"{_SCRIPT}"}}]}}',
        ),
        (
            "chat/completions",
            "-H 'authorization: Bearer test'",
            f'{{"model":"gpt-5.1","messages":[{{"role":"user","content":"{_SCRIPT}"}}]}}',
        ),
        ("responses", "-H 'authorization: Bearer test'", f'{{"model":"gpt-5.1","input":"{_SCRIPT}"}}'),
    )
    return [
        f"curl {address}/v1/{path} -H 'content-type: application/json' {headers} -d '{body}'"
        for path, headers, body in requests
    ]
