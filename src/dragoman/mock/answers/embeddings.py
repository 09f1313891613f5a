"""Embeddings: small vectors derived from the text, to test paths other than conversations."""

from __future__ import annotations

import math
import struct
from base64 import b64encode
from hashlib import sha256

from dragoman.mock.answers.tokens import count
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.wire.fields import Fields
from dragoman.wire.json import encode

EMBEDDING_MODEL = "embedding"
_DIMENSIONS = 8
_MAX_DIMENSIONS = 4096


def embed(body: JsonObject) -> JsonObject:
    fields = Fields(body)
    size = fields.optional_integer("dimensions") or _DIMENSIONS
    if not 1 <= size <= _MAX_DIMENSIONS:
        raise fields.wrong("dimensions", f"a number from 1 to {_MAX_DIMENSIONS}", str(size))
    packed = fields.optional_text("encoding_format") == "base64"
    inputs = _inputs(fields)
    data: JsonList = []
    for index, one in enumerate(inputs):
        vector = _vector(encode(one), size)
        embedding: JsonValue = b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode() if packed else [*vector]
        data.append({"object": "embedding", "index": index, "embedding": embedding})
    used = sum(count(one) if isinstance(one, str) else len(one) for one in inputs)
    return {
        "object": "list",
        "data": data,
        "model": EMBEDDING_MODEL,
        "usage": {"prompt_tokens": used, "total_tokens": used},
    }


def _inputs(fields: Fields) -> list[str | JsonList]:
    """The texts, or lists of token numbers, to embed."""
    given = fields.value.get("input")
    if isinstance(given, str):
        return [given]
    if not isinstance(given, list) or not given:
        raise fields.fail("input", "string or array", given)
    if all(isinstance(one, int) for one in given):
        return [given]
    inputs: list[str | JsonList] = []
    for one in given:
        if not isinstance(one, str | list):
            raise fields.fail("input", "strings or arrays of tokens", one)
        inputs.append(one)
    return inputs


def _vector(seed: bytes, size: int) -> list[float]:
    """A vector of length 1, in single precision, so that both encodings have equal numbers."""
    numbers: list[float] = []
    state = seed
    while len(numbers) < size:
        state = sha256(state).digest()
        numbers += [value / 0x7FFF_FFFF for value in struct.unpack("<8i", state)]
    length = math.sqrt(math.fsum(number * number for number in numbers[:size])) or 1.0
    return list(struct.unpack(f"<{size}f", struct.pack(f"<{size}f", *(number / length for number in numbers[:size]))))
