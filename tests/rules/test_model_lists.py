"""Lists of models, in the words of many servers."""

from __future__ import annotations

import pytest

from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.listing import ListedModel
from dragoman.rules.model_lists import (
    OPENAI,
    decode_models,
    encode_openai_model,
    encode_openai_models,
    extras_for,
    is_list,
    restated,
)
from dragoman.wire.json import decode

# What a server says beside the name, and the window and the cap that it means.
SIZES: dict[str, tuple[str, int | None, int | None]] = {
    "nothing": ("{}", None, None),
    "Anthropic": ('{"max_input_tokens": 200000, "max_tokens": 64000}', 200000, 64000),
    "Groq": ('{"context_window": 131072, "max_completion_tokens": 32768}', 131072, 32768),
    "Mistral": ('{"max_context_length": 131072}', 131072, None),
    "vLLM": ('{"max_model_len": 32768, "root": "/data/model"}', 32768, None),
    "llama.cpp": ('{"meta": {"n_ctx_train": 131072, "n_ctx": 8192}}', 8192, None),
    "LM Studio": ('{"max_context_length": 131072, "loaded_context_length": 4096}', 4096, None),
    "OpenRouter": (
        '{"context_length": 1000000, "top_provider": {"context_length": 200000, "max_completion_tokens": 64000}}',
        200000,
        64000,
    ),
    "OpenRouter, when it does not know": (
        '{"context_length": 8192, "top_provider": {"context_length": null, "max_completion_tokens": null}}',
        8192,
        None,
    ),
    "GitHub": (
        '{"capabilities": {"limits": {"max_context_window_tokens": 128000, "max_output_tokens": 16384}}}',
        128000,
        16384,
    ),
    "a text": ('{"context_length": "131072"}', 131072, None),
    "a fraction that is none": ('{"context_length": 131072.0}', 131072, None),
    "the window by a second word": ('{"context_length": 8192, "max_tokens": 8192}', 8192, None),
    "no numbers": ('{"context_length": true, "max_tokens": "many", "max_model_len": [], "n_ctx": 1.5}', None, None),
    "no sizes": ('{"context_length": 0, "max_tokens": -1, "max_model_len": 99999999999}', None, None),
}


@pytest.mark.parametrize("server", SIZES)
def test_sizes_are_found_whatever_they_are_called(server: str) -> None:
    said, window, cap = SIZES[server]
    (model,) = decode_models({"data": [{"id": "m", **objects(said)}]}, OPENAI)
    assert (model.id, model.window, model.cap) == ("m", window, cap)


def objects(text: str) -> JsonObject:
    """An object as it comes off a wire."""
    value = decode(text)
    assert isinstance(value, dict)
    return value


@pytest.mark.parametrize(
    ("said", "created"),
    [
        ({"created": 1700000000}, 1700000000),
        ({"created": 1700000000123}, 1700000000),
        ({"created_at": "2023-11-14T22:13:20Z"}, 1700000000),
        ({"created_at": "2023-11-14"}, 1699920000),
        ({"created": 0}, None),
        ({"created_at": "1970-01-01T00:00:00Z"}, None),
        ({"created": "<string>", "created_at": 5}, 5),
        ({"created": "soon"}, None),
    ],
)
def test_dates_are_found_in_both_spellings(said: JsonObject, created: int | None) -> None:
    (model,) = decode_models({"data": [{"id": "m", **said}]}, OPENAI)
    assert model.created == created


@pytest.mark.parametrize("body", [{"data": [{"id": "m"}, {"id": ""}, {"odd": 1}, 5, {"id": "x" * 201}]}, [{"id": "m"}]])
def test_what_is_no_model_is_left_out(body: JsonValue) -> None:
    assert decode_models(body, OPENAI) == [ListedModel(id="m")]


@pytest.mark.parametrize("body", [{}, {"data": 5}, {"models": [{"id": "m"}]}, None, "m"])
def test_what_is_no_list_has_no_models(body: JsonValue) -> None:
    assert decode_models(body, OPENAI) == []


def test_what_else_is_said_is_for_those_who_read_the_same_form() -> None:
    said: JsonObject = {
        "id": "m",
        "object": "model",
        "created": 7,
        "owned_by": "us",
        "context_length": 9,
        "pricing": {"prompt": "0.1"},
        "root": "/data/m",
        "shutdown_date": "2026-12-31",
    }
    (model,) = decode_models({"data": [said]}, OPENAI)
    kept = {name: value for name, value in said.items() if name != "root"}
    assert encode_openai_model(model) == kept
    assert encode_openai_models([model]) == {"object": "list", "data": [kept]}
    assert extras_for(model, "another") == {}


def test_what_contradicts_other_sizes_is_not_told() -> None:
    (model,) = decode_models({"data": [{"id": "m", "context_length": 9, "max_tokens": 4, "mode": "chat"}]}, OPENAI)
    assert restated(model, 9, 4) is model
    smaller = restated(model, 5, 4)
    assert (smaller.window, smaller.cap, extras_for(smaller, OPENAI)) == (5, 4, {"mode": "chat"})
    assert restated(ListedModel(id="m"), 5, None) == ListedModel(id="m", window=5)


def test_what_is_not_known_of_a_model_is_told_as_openai_tells_it() -> None:
    assert encode_openai_model(ListedModel(id="m", owner="us", window=5, cap=4)) == {
        "id": "m",
        "object": "model",
        "created": 0,
        "owned_by": "us",
    }


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"data": [{"id": "m"}]}, True),
        ({"data": []}, True),
        ({"object": "list", "data": None}, True),
        ([], True),
        ({"data": {}}, False),
        ({"error": {"message": "no"}}, False),
        ("models", False),
        (None, False),
    ],
)
def test_a_list_is_known_from_what_is_none(body: JsonValue, expected: bool) -> None:
    assert is_list(body) is expected
