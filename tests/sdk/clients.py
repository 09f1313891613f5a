"""The official SDK clients over an in-process transport: nothing leaves the test."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import anthropic
import httpx2
import openai

Handler = Callable[[httpx2.Request], httpx2.Response]

BASE = "http://gateway.test"
EVENT_STREAM = "text/event-stream; charset=utf-8"


def anthropic_client(handler: Handler) -> anthropic.Anthropic:
    """An Anthropic client whose requests are answered by `handler`."""
    http = httpx2.Client(transport=httpx2.MockTransport(handler))
    return anthropic.Anthropic(api_key="test", base_url=BASE, http_client=http, max_retries=0)


def openai_client(handler: Handler) -> openai.OpenAI:
    """An OpenAI client whose requests are answered by `handler`."""
    http = httpx2.Client(transport=httpx2.MockTransport(handler))
    return openai.OpenAI(api_key="test", base_url=f"{BASE}/v1", http_client=http, max_retries=0)


class Replay:
    """Both clients, answered with whatever was set last; one of a kind, because clients are slow to make."""

    def __init__(self) -> None:
        self._status, self._body, self._type = 500, b"", ""
        self.anthropic = anthropic_client(self._answered)
        self.openai = openai_client(self._answered)

    def stream(self, body: bytes) -> None:
        """Answer the next requests with an event stream."""
        self._set(200, body, EVENT_STREAM)

    def whole(self, body: bytes, status: int = 200) -> None:
        """Answer the next requests with a JSON body."""
        self._set(status, body, "application/json")

    def _set(self, status: int, body: bytes, content_type: str) -> None:
        self._status, self._body, self._type = status, body, content_type

    def _answered(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(self._status, content=self._body, headers={"content-type": self._type})


@cache
def replay() -> Replay:
    """The shared pair of clients."""
    return Replay()
