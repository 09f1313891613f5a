"""Echo and the mock say what they said before, to the byte: every answer, refusal, header and rest.

Of each exchange a short digest is kept. `REWRITE_GOLDEN=1` writes what is told now; the diff names what has changed.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from hashlib import blake2b
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from dragoman.http.server import ServerRequest
from dragoman.http.upstream_call import HeaderList, UpstreamRequest
from dragoman.mock.app import MockApp
from dragoman.mock.echo import respond_to
from dragoman.protocols.codec import Mint
from dragoman.translate import derived_mint
from tests.mock.recorded import MESSAGES, Ask, Told, dialogues

FILE = Path(__file__).with_name("recorded.json")


def ask_echo(protocol: str, method: str, path: str, body: bytes) -> Told:
    """One call of echo."""
    reply = respond_to(UpstreamRequest(method=method, url=f"echo:{path}", headers=[], body=body), protocol)
    return Told(
        status=reply.status,
        headers=[("wait", str(reply.delivery.wait)), *_text(reply.headers)],
        pieces=[(rest, piece.decode(errors="replace")) for rest, piece in reply.delivery.pieces],
        broken=reply.delivery.breaks,
    )


class FakeRequest:
    """A request to the mock without a socket; what is answered is kept, with the rests before it."""

    def __init__(self, protocol: str, method: str, path: str, body: bytes) -> None:
        self.method, self.query = method, ""
        self.path = "/v1" + path.removeprefix("/v1")
        self.headers: HeaderList = [(b"authorization", b"Bearer test")]
        if protocol == MESSAGES:
            self.headers.append((b"anthropic-version", b"2023-06-01"))
        self._body = body
        self.told = Told(status=0, headers=[], pieces=[])
        self.rest = 0.0

    def header(self, name: bytes) -> bytes | None:
        return dict(self.headers).get(name)

    async def body(self, limit: int) -> bytes:
        assert len(self._body) <= limit
        return self._body

    def start(self, status: int, headers: HeaderList) -> None:
        self.told = Told(status=status, headers=_text(headers), pieces=[])

    def respond(self, status: int, headers: HeaderList, body: bytes) -> None:
        self.start(status, headers)
        self.write(body)

    def write(self, piece: bytes) -> None:
        self.told.pieces.append((self.rest, piece.decode(errors="replace")))
        self.rest = 0.0

    async def drained(self) -> None:
        return

    def end(self) -> None:
        return

    def abort(self) -> None:
        self.told = replace(self.told, broken=True)


@contextmanager
def mock_asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    """A mock whose times are the same in every run, and whose ids follow from each request."""
    mint = derived_mint(b"")
    app = MockApp(Mint(token=lambda length: mint.token(length), now=lambda: 1_800_000_000))

    def ask(protocol: str, method: str, path: str, body: bytes) -> Told:
        nonlocal mint
        mint = derived_mint(b" ".join((protocol.encode(), path.encode(), body)))
        request = FakeRequest(protocol, method, path, body)

        async def rest(seconds: float) -> None:
            request.rest += seconds

        with monkeypatch.context() as patch:
            patch.setattr("dragoman.mock.app.asyncio.sleep", rest)
            runner.run(app(cast(ServerRequest, request)))
        return request.told

    with asyncio.Runner() as runner:
        yield ask


def _text(headers: HeaderList) -> list[tuple[str, str]]:
    return [(name.decode(), value.decode()) for name, value in headers]


def _digest(told: Told) -> str:
    pieces = [[rest, text] for rest, text in told.pieces]
    whole = json.dumps([told.status, told.headers, pieces, told.broken]).encode()
    return f"{told.status} {blake2b(whole, digest_size=6).hexdigest()}"


@pytest.mark.parametrize("who", ["echo", "mock"])
def test_what_is_told_is_what_was_told(who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asking, prefix = (nullcontext(ask_echo), "") if who == "echo" else (mock_asked(monkeypatch), "mock-")
    with asking as ask:
        told = {name: _digest(one) for name, one in dialogues(ask, prefix)}
    assert len(told) > 700
    recorded: dict[str, dict[str, str]] = json.loads(FILE.read_bytes())
    if os.environ.get("REWRITE_GOLDEN"):
        FILE.write_text(_written({**recorded, who: told}), encoding="utf-8")
        return
    changed = {name: (recorded[who].get(name), now) for name, now in told.items() if recorded[who].get(name) != now}
    assert (changed, set(recorded[who]) - set(told)) == ({}, set())


def _written(recorded: dict[str, dict[str, str]]) -> str:
    """One exchange per line."""
    return json.dumps({who: recorded[who] for who in sorted(recorded)}, indent=1, ensure_ascii=False) + "\n"
