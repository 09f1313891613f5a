"""Embeddings: the same text gives the same vector, in both encodings."""

from __future__ import annotations

import base64
import math
import struct

import pytest
from openai.types import CreateEmbeddingResponse

from dragoman.errors import WireError
from dragoman.mock.answers.embeddings import EMBEDDING_MODEL, embed
from dragoman.model.jsonvalue import JsonObject, JsonValue
from tests.mock.calling import asked, message_of
from tests.sdk.names import CHAT, MESSAGES

URL = "echo:/embeddings"


def vectors(**members: JsonValue) -> list[list[float]]:
    body: JsonObject = {"model": EMBEDDING_MODEL, **members}
    return [one.embedding for one in CreateEmbeddingResponse.model_validate(embed(body)).data]


def test_the_same_text_gives_the_same_vector_and_another_another() -> None:
    first, second, third = vectors(input=["one", "two", "one"])
    assert first == third != second
    assert math.isclose(sum(number * number for number in first), 1, rel_tol=1e-5)


@pytest.mark.parametrize("size", [1, 8, 100])
def test_the_number_of_dimensions_can_be_asked_for(size: int) -> None:
    assert len(vectors(input="one", dimensions=size)[0]) == size


def test_base64_holds_the_same_numbers() -> None:
    data = embed({"input": "one", "encoding_format": "base64"})["data"]
    assert isinstance(data, list) and isinstance(data[0], dict)
    packed = data[0]["embedding"]
    assert isinstance(packed, str)
    assert list(struct.unpack("<8f", base64.b64decode(packed))) == vectors(input="one")[0]


@pytest.mark.parametrize(("given", "number"), [([1, 2, 3], 1), ([[1, 2], [3]], 2)], ids=["one list", "two lists"])
def test_tokens_are_taken_as_well(given: JsonValue, number: int) -> None:
    assert len(vectors(input=given)) == number


@pytest.mark.parametrize("given", [None, 1, [], ["a", 1], {}], ids=str)
def test_anything_else_is_refused(given: JsonValue) -> None:
    with pytest.raises(WireError):
        embed({"input": given})


def test_too_many_dimensions_are_refused() -> None:
    with pytest.raises(WireError):
        embed({"input": "a", "dimensions": 1_000_000})


def test_embeddings_are_reached_under_their_path() -> None:
    status, found = asked(CHAT, {"model": EMBEDDING_MODEL, "input": "one two"}, URL)
    assert status == 200
    assert found["usage"] == {"prompt_tokens": 2, "total_tokens": 2}


def test_other_models_embed_nothing() -> None:
    status, error = asked(CHAT, {"model": "text", "input": "one"}, URL)
    assert status == 404
    assert EMBEDDING_MODEL in message_of(CHAT, error)


def test_messages_has_no_embeddings() -> None:
    assert asked(MESSAGES, {"model": EMBEDDING_MODEL, "input": "one"}, URL)[0] == 404
