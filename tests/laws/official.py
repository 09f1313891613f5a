"""The official SDKs as second opinion: bytes of a stream go through the real client classes, over no network."""

from __future__ import annotations

import warnings
from functools import lru_cache

import anthropic
import httpx2
import openai
from openai.types.responses import ResponseCompletedEvent, ResponseFailedEvent, ResponseIncompleteEvent

from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.wire.json import decode_object, encode
from tests.laws.shapes import as_list, as_object
from tests.laws.strategies import CHAT, MESSAGES, RESPONSES

_ADDRESS = "http://provider.invalid"


class _Scripted:
    """A transport that answers every call with the stream it was given last."""

    def __init__(self) -> None:
        self.stream = b""

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=self.stream)


@lru_cache(maxsize=1)
def _scripted() -> tuple[_Scripted, anthropic.Anthropic, openai.OpenAI]:
    script = _Scripted()
    http = httpx2.Client(transport=httpx2.MockTransport(script))
    return (
        script,
        anthropic.Anthropic(api_key="none", base_url=_ADDRESS, http_client=http, max_retries=0),
        openai.OpenAI(api_key="none", base_url=_ADDRESS, http_client=http, max_retries=0),
    )


def accumulated(protocol: str, stream: bytes) -> JsonObject:
    """The whole answer as the official SDK assembles it; raises what the SDK raises."""
    with warnings.catch_warnings():
        # The SDKs serialise what they were told even where their own types are older, and say so.
        warnings.simplefilter("ignore", UserWarning)
        return {MESSAGES: _messages, CHAT: _chat, RESPONSES: _responses}[protocol](stream)


def _messages(stream: bytes) -> JsonObject:
    script, client, _ = _scripted()
    script.stream = stream
    with client.messages.stream(model="any", max_tokens=1, messages=[{"role": "user", "content": "any"}]) as plain:
        plain.until_done()
    # Only the beta client knows every block: the plain one takes them, but not what grows in them.
    with client.beta.messages.stream(
        model="any", max_tokens=1, messages=[{"role": "user", "content": "any"}]
    ) as events:
        message = events.get_final_message()
    return _plain(message.model_dump(mode="json", exclude_unset=True, warnings=False))


def _chat(stream: bytes) -> JsonObject:
    script, _, client = _scripted()
    script.stream = stream
    with client.chat.completions.stream(model="any", messages=[{"role": "user", "content": "any"}]) as events:
        # Not `get_final_completion`: it parses what was accumulated, and raises on every answer that was cut short.
        completion = events.until_done().current_completion_snapshot
    body = _plain(completion.model_dump(mode="json", exclude_unset=True, warnings=False))
    message = as_object(as_object(as_list(body["choices"])[0])["message"])
    for call in as_list(message.get("tool_calls") or []):
        # The position among the fragments is no member of a whole call.
        as_object(call).pop("index", None)
    return _without(body, "parsed", "parsed_arguments")


def _responses(stream: bytes) -> JsonObject:
    script, _, client = _scripted()
    script.stream = stream
    final: JsonObject | None = None
    with client.responses.stream(model="any", input="any") as events:
        for event in events:
            if isinstance(event, ResponseCompletedEvent | ResponseIncompleteEvent | ResponseFailedEvent):
                final = _plain(event.response.model_dump(mode="json", exclude_unset=True, warnings=False))
    assert final is not None, "no terminal event"
    return _without(final, "parsed", "parsed_arguments")


def _plain(dumped: dict[str, JsonValue]) -> JsonObject:
    """The values as this library reads them."""
    return decode_object(encode(dumped))


def _without(value: JsonObject, *names: str) -> JsonObject:
    return as_object(_pruned(value, names))


def _pruned(value: JsonValue, names: tuple[str, ...]) -> JsonValue:
    if isinstance(value, dict):
        return {name: _pruned(member, names) for name, member in value.items() if name not in names}
    if isinstance(value, list):
        return [_pruned(item, names) for item in value]
    return value
