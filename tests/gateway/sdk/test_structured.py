"""Structured output: each SDK's own parsing, against a provider that takes only schemas its service would take."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import pytest
from pydantic import BaseModel, Field

from tests.gateway.harness import CHAT, MESSAGES, PROTOCOLS, RESPONSES
from tests.gateway.sdk.desk import MODELS, Desk
from tests.sdk.digging import Object, dig
from tests.sdk.providers import Turn
from tests.sdk.test_conversations import ENDED

QUESTION = "How will the weather be?"


class Sky(Enum):
    """What the sky looks like."""

    CLEAR = "clear"
    GREY = "grey"


class Wind(BaseModel):
    """A wind."""

    direction: str
    strength: int | None


class Weather(BaseModel):
    """A forecast, with what services are particular about: limits, an enumeration, nested and nullable values."""

    summary: str = Field(description="In one sentence.")
    degrees: int = Field(ge=-90, le=60)
    sky: Sky
    winds: list[Wind]


FORECAST = Weather(summary="Mild, “grey” 🌫", degrees=18, sky=Sky.GREY, winds=[Wind(direction="W", strength=None)])

PAIRS = [(client, provider) for client in PROTOCOLS for provider in PROTOCOLS]
every_pair = pytest.mark.parametrize(("client", "provider"), PAIRS)
WAYS = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


@WAYS
@every_pair
def test_an_answer_is_parsed_into_the_clients_own_type(desk: Desk, client: str, provider: str, streamed: bool) -> None:
    with desk.scripted(Turn(stop=ENDED[provider], text=FORECAST.model_dump_json())) as strict:
        parsed = _PARSERS[client](desk, MODELS[provider], streamed)
    assert parsed == FORECAST
    schema = dig(strict.asked[0], *_PLACES[provider])
    assert isinstance(schema, dict)
    assert list(schema["properties"]) == ["summary", "degrees", "sky", "winds"]
    assert schema["required"] == ["summary", "degrees", "sky", "winds"]
    _check_limits(schema, provider, client)


def _check_limits(schema: Object, provider: str, client: str) -> None:
    """Limits stay limits where the service takes them, and become words where it does not (Z1)."""
    degrees = dig(schema, "properties", "degrees")
    assert isinstance(degrees, dict)
    if MESSAGES in (provider, client):
        assert "60" in str(degrees["description"]) and "maximum" not in degrees
    else:
        assert (degrees["minimum"], degrees["maximum"]) == (-90, 60)


def _parse_message(desk: Desk, model: str, streamed: bool) -> Weather | None:
    client = desk.anthropic.messages
    if streamed:
        with client.stream(
            model=model, max_tokens=1024, messages=[{"role": "user", "content": QUESTION}], output_format=Weather
        ) as stream:
            return stream.get_final_message().parsed_output
    return client.parse(
        model=model, max_tokens=1024, messages=[{"role": "user", "content": QUESTION}], output_format=Weather
    ).parsed_output


def _parse_completion(desk: Desk, model: str, streamed: bool) -> Weather | None:
    client = desk.openai.chat.completions
    if streamed:
        with client.stream(
            model=model, messages=[{"role": "user", "content": QUESTION}], response_format=Weather
        ) as stream:
            return stream.get_final_completion().choices[0].message.parsed
    told = client.parse(model=model, messages=[{"role": "user", "content": QUESTION}], response_format=Weather)
    return told.choices[0].message.parsed


def _parse_response(desk: Desk, model: str, streamed: bool) -> Weather | None:
    client = desk.openai.responses
    if streamed:
        with client.stream(model=model, input=QUESTION, text_format=Weather) as stream:
            return stream.get_final_response().output_parsed
    return client.parse(model=model, input=QUESTION, text_format=Weather).output_parsed


_PARSERS: dict[str, Callable[[Desk, str, bool], Weather | None]] = {
    MESSAGES: _parse_message,
    CHAT: _parse_completion,
    RESPONSES: _parse_response,
}
_PLACES = {
    MESSAGES: ("output_config", "format", "schema"),
    CHAT: ("response_format", "json_schema", "schema"),
    RESPONSES: ("text", "format", "schema"),
}
