"""Every recorded habit, through the clients of all protocols, whole and streamed, and what the server gets next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from _pytest.mark import ParameterSet

from dragoman.translate import LossLine
from tests.sdk.clients import BASE
from tests.sdk.gateway import PATHS
from tests.sdk.names import CHAT, MESSAGES, RESPONSES
from tests.servers.gateway import Gateway
from tests.servers.programs import PROGRAMS, QUESTION
from tests.servers.reading import check
from tests.servers.recordings import FILES, Recording, Turn, read

CLIENTS = {MESSAGES: "messages", CHAT: "chat", RESPONSES: "responses"}


def _rows() -> Iterator[ParameterSet]:
    """One row for each file, recording and client, and for whether the client asks for a stream."""
    for path in FILES:
        for recording in read(path).recording:
            for client, short in CLIENTS.items():
                for streamed in (False, True):
                    way = _way(recording, streamed)
                    yield pytest.param(
                        path, recording, client, streamed, id=f"{path.stem}-{recording.name}-{short}-{way}"
                    )


def _way(recording: Recording, streamed: bool) -> str:
    if recording.stream:
        return "streamed" if streamed else "collected"
    return "told-as-stream" if streamed else "whole"


@pytest.mark.parametrize(("path", "recording", "client", "streamed"), list(_rows()))
def test_what_the_server_says_is_heard_and_comes_back(
    path: Path, recording: Recording, client: str, streamed: bool
) -> None:
    server = read(path)
    gateway = Gateway(server, recording)
    if client == server.protocol and streamed is bool(recording.stream):
        # The server's own client gets every byte as it came, which the gateway holds it to.
        for _ in recording.turns:
            gateway(_plain_request(client, streamed))
        return
    heard = PROGRAMS[client](gateway, recording, recording.model or server.model, streamed)
    for number, turn in enumerate(recording.turns):
        check(heard[number], turn)
        lost = [line for line in gateway.lost[number] if not _beside(line)]
        assert {line["feature"] for line in lost} == _expected(turn, client), lost
        # A server that does not stream has its reasoning told to its own clients in the member that most servers have.
        if not turn.says.error and (client != server.protocol or not streamed):
            _check_next(gateway.received[number + 1], turn)


def _plain_request(client: str, streamed: bool) -> httpx2.Request:
    said = {"input" if client == RESPONSES else "messages": [{"role": "user", "content": QUESTION}]}
    path = next(path for path, protocol in PATHS.items() if protocol == client)
    return httpx2.Request("POST", f"{BASE}{path}", json={"model": "m", "stream": streamed, **said})


def _beside(line: LossLine) -> bool:
    """Whether it tells of a member of the server's own beside the content: every imitator has some."""
    return line["feature"] == "unknown_field" and "extras." in line["at"]


def _expected(turn: Turn, client: str) -> set[str]:
    return set(turn.losses.get(client, ()) if isinstance(turn.losses, dict) else turn.losses)


def _check_next(body: object, turn: Turn) -> None:
    for pointer, meant in turn.returns.items():
        assert at(body, pointer) == [meant], f"{pointer} in {body}"
    for pointer in turn.absent:
        assert at(body, pointer) == [], f"{pointer} in {body}"


def at(value: object, pointer: str) -> list[object]:
    """What stands at a JSON pointer, alone in a list; an empty list if nothing does."""
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return []
    return [value]
