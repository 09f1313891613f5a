"""A gateway and a scripted provider in one transport: what stands between an SDK and its model in the tests."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx2

from dragoman.mint import system_mint
from dragoman.streaming import StreamPipeline
from dragoman.translate import TranslatedRequest, translate_request, translate_response
from tests.sdk.clients import EVENT_STREAM
from tests.sdk.digging import Object
from tests.sdk.names import CHAT, MESSAGES, RESPONSES
from tests.sdk.oracles import check_request
from tests.sdk.providers import Turn, answer, stream

PATHS = {"/v1/messages": MESSAGES, "/v1/chat/completions": CHAT, "/v1/responses": RESPONSES}
MODELS = {MESSAGES: "claude-opus-5", CHAT: "llama-4", RESPONSES: "gpt-5"}
# Reads of this many bytes cut frames, lines and characters anywhere.
READ = 37


class Gateway:
    """Translates each request for a provider of one protocol that answers with the next scripted turn."""

    def __init__(self, provider: str, turns: list[Turn]) -> None:
        self._provider = provider
        self._turns = iter(turns)
        self._mint = system_mint()
        self.received: list[Object] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        client = PATHS[request.url.path]
        asked = translate_request(request.content, source=client, target=self._provider, model=MODELS[self._provider])
        body: Object = json.loads(asked.body)
        if client != self._provider:
            # What stays in its protocol is the SDK's own doing.
            check_request(self._provider, body, asked.headers)
        self.received.append(body)
        turn = next(self._turns)
        if body.get("stream"):
            translated = self._streamed(client, asked, turn)
            return httpx2.Response(200, content=b"".join(translated), headers={"content-type": EVENT_STREAM})
        told = translate_response(
            json.dumps(answer(self._provider, turn)),
            source=self._provider,
            target=client,
            request=asked,
            mint=self._mint,
        )
        return httpx2.Response(told.status, content=told.body, headers={"content-type": "application/json"})

    def _streamed(self, client: str, asked: TranslatedRequest, turn: Turn) -> Iterator[bytes]:
        translator = StreamPipeline(source=self._provider, target=client, request=asked, mint=self._mint)
        upstream = stream(self._provider, turn)
        for start in range(0, len(upstream), READ):
            yield translator.feed(upstream[start : start + READ])
        yield translator.close()
