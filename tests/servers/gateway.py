"""A gateway before a server that answers with its recording, in one transport: what stands between an SDK and it."""

from __future__ import annotations

import json
from collections.abc import Iterable

import httpx2

from dragoman.providers.catalogue import catalogue
from dragoman.streaming import StreamPipeline
from dragoman.translate import LossLine, TranslatedRequest, translate_request, translate_response
from tests.sdk.clients import EVENT_STREAM
from tests.sdk.digging import Object
from tests.sdk.gateway import PATHS
from tests.sdk.oracles import check_answer, check_stream
from tests.servers.recordings import Recording, Server, Turn

# Reads of so many bytes; 0 is all at once.
CUTS = (0, 1, 37)
ENOUGH = json.dumps({"error": {"type": "invalid_request_error", "message": "the recording is over"}}).encode()


class Gateway:
    """Translates each request for the server, keeps what the server gets, and answers with the next turn.

    `lost` are the ledgers of the answers. What a client of the server's own protocol gets as it came is not read.
    """

    def __init__(self, server: Server, recording: Recording) -> None:
        self._server, self._turns = server, list(recording.turns)
        self._model = recording.model or server.model
        listed = catalogue().get(server.provider)
        self._upstream = listed.vendor_or_name if listed is not None else server.provider or None
        self._rows = listed.capabilities if listed is not None else ()
        self.received: list[Object] = []
        self.lost: list[tuple[LossLine, ...]] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        client = PATHS[request.url.path]
        asked = translate_request(
            request.content,
            source=client,
            target=self._server.protocol,
            model=self._model,
            vendor=self._upstream,
            capability_rows=self._rows,
        )
        self.received.append(json.loads(asked.body))
        if not self._turns:
            return httpx2.Response(400, content=ENOUGH, headers={"content-type": "application/json"})
        turn = self._turns.pop(0)
        streamed = bool(json.loads(request.content).get("stream"))
        status, body = (
            self._streamed(client, asked, turn, streamed) if turn.stream else self._whole(client, asked, turn, streamed)
        )
        failed = status >= 400
        return httpx2.Response(
            status,
            content=body,
            headers={"content-type": EVENT_STREAM if streamed and not failed else "application/json"},
        )

    def _whole(self, client: str, asked: TranslatedRequest, turn: Turn, streamed: bool) -> tuple[int, bytes]:
        told = translate_response(
            turn.answer.encode(),
            source=self._server.protocol,
            target=client,
            request=asked,
            status=turn.status,
            stream=streamed,
        )
        self.lost.append(told.losses)
        if client == self._server.protocol and not streamed:
            assert told.body == turn.answer.encode(), "the relay changes nothing"
        elif client != self._server.protocol and not told.failed:
            _judge(client, told.body, streamed)
        return told.status, told.body

    def _streamed(self, client: str, asked: TranslatedRequest, turn: Turn, streamed: bool) -> tuple[int, bytes]:
        upstream = wire(turn.stream)
        told: list[bytes] = []
        for size in CUTS:
            translator = StreamPipeline(
                source=self._server.protocol, target=client, request=asked, collect=not streamed
            )
            told.append(b"".join([*map(translator.feed, _cut(upstream, size)), translator.close()]))
        assert told[0] == told[1] == told[2], "the cut shows"
        self.lost.append(translator.losses)
        if client == self._server.protocol and streamed:
            assert told[0] == upstream, "the relay changes nothing"
        elif client != self._server.protocol and translator.status < 400:
            _judge(client, told[0], streamed)
        return translator.status, told[0]


def wire(frames: Iterable[str]) -> bytes:
    """The frames as they stand on the wire."""
    return "".join(f"{frame}\n\n" for frame in frames).encode()


def _cut(stream: bytes, size: int) -> list[bytes]:
    return [stream[start : start + size] for start in range(0, len(stream), size)] if size else [stream]


def _judge(client: str, body: bytes, streamed: bool) -> None:
    """The official types have the last word on what was written; at home it also holds what only the server knows."""
    if streamed:
        check_stream(client, body)
    else:
        check_answer(client, json.loads(body))
