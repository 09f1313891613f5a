"""The steps that a dialogue is made of: what client, provider, time, store and operator do."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from dragoman.errors import Truncated, Unanswered
from dragoman.http.upstream_connection import BROKE_OFF, NO_RESPONSE
from tests.playbooks.printing import lines_of, message_lines
from tests.playbooks.stage import Stage

Step: TypeAlias = Callable[[Stage], Awaitable[None] | None]

JSON = {"content-type": "application/json"}
EVENTS = {"content-type": "text/event-stream"}
CLIENT_KEY, OTHER_KEY = "sk-client-0123456789abcdef", "sk-other-0123456789abcdef"
# What stands in a request for the id that the client was last told.
_REFERENCES = re.compile(rb"\$(resp|conv)")


def asks(path: str, body: object = None, *, method: str = "", client: str = "client", **headers: str) -> Step:
    """A client sends a request; `$resp` and `$conv` in it stand for the last such id that any client was told."""
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    given = {name.replace("_", "-"): value for name, value in headers.items()}

    def step(stage: Stage) -> None:
        said = _REFERENCES.sub(lambda found: _last_id(stage, found[1]), data)
        where = _REFERENCES.sub(lambda found: _last_id(stage, found[1]), path.encode()).decode()
        lines = [f"{method or ('POST' if data else 'GET')} {where} HTTP/1.1", "host: localhost"]
        lines += [f"{name}: {value}" for name, value in given.items()]
        lines += [f"content-length: {len(said)}"] if data else []
        message = "\r\n".join([*lines, "", ""]).encode() + said
        end = stage.client(client)
        stage.does(f"{client} asks", message_lines(message))
        end.say(message)

    return step


def _last_id(stage: Stage, prefix: bytes) -> bytes:
    told = b"".join(end.heard for end in stage.clients)
    *_, last = re.finditer(rb'"id": ?"(%b_\w+)"' % prefix, told)
    return bytes(last[1])


def _client(words: str, act: str) -> Callable[..., Step]:
    def made(client: str = "client") -> Step:
        def step(stage: Stage) -> None:
            stage.does(f"{client} {words}")
            getattr(stage.client(client), act)()

        return step

    return made


hangs_up = _client("hangs up", "hang_up")
stops_reading = _client("stops reading", "stop_reading")
reads_on = _client("reads on", "read_on")


def answers(status: int = 200, headers: dict[str, str] = JSON, *, call: int = 0) -> Step:
    """The provider sends status and headers, on the last call or the one of a number."""

    def step(stage: Stage) -> None:
        stage.does(f"provider answers {status}", [f"| {name}: {value}" for name, value in headers.items()])
        stage.provider.lines[call - 1].answer(status, headers)

    return step


def says(data: bytes, *, call: int = 0) -> Step:
    """The provider sends a piece of the body."""

    def step(stage: Stage) -> None:
        stage.does("provider says", lines_of(data))
        stage.provider.lines[call - 1].say(data)

    return step


def ends(*, call: int = 0) -> Step:
    """The provider's answer is at its end."""

    def step(stage: Stage) -> None:
        stage.does("provider ends")
        stage.provider.lines[call - 1].end()

    return step


def cuts(*, head: bool = True, call: int = 0) -> Step:
    """The provider's connection breaks; `head` says that the answer had begun."""

    def step(stage: Stage) -> None:
        stage.does("provider breaks off")
        stage.provider.lines[call - 1].cut(Truncated(BROKE_OFF) if head else Unanswered(NO_RESPONSE))

    return step


def is_unreachable(stage: Stage) -> None:
    """Nobody listens where the provider should be."""
    stage.does("provider is not there")
    stage.provider.unreachable = True


def passes(seconds: float) -> Step:
    """Time passes."""

    async def step(stage: Stage) -> None:
        stage.does(f"{seconds:g} s pass")
        await asyncio.sleep(seconds)

    return step


def holds_store(stage: Stage) -> None:
    """Another process has the store for itself."""
    stage.does("another process holds the store")
    stage.hold()


def frees_store(stage: Stage) -> None:
    """The other process is done."""
    stage.does("the other process lets go of the store")
    stage.release()


def will_stop(stage: Stage) -> None:
    """The gateway serves on, and tells that it will not for long."""
    stage.does("the gateway is to stop soon")
    stage.app.lame_duck = True
    stage.server.close_after_responses()


def drains(stage: Stage) -> None:
    """The gateway stops accepting, and lets run what runs."""
    stage.does("the gateway drains")
    stage.app.runtime.draining = True
    stage.server.retire()


async def stops(stage: Stage) -> None:
    """The gateway ends what still runs."""
    stage.does("the gateway stops")
    stage.server.cancel_all()
    await stage.app.runtime.state.background.finish(0.0)
