"""Recipe: how a body is rebuilt from its pieces."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from dragoman.store.errors import StoreError


class ListRecipe(Struct, frozen=True, array_like=True):
    """A list by its last node, its number of elements, the bytes between them, and the elements that differ from their
    pieces, by their index."""

    node: bytes
    count: int
    separator: bytes
    differences: tuple[tuple[int, bytes], ...] = ()


class Recipe(Struct, frozen=True, array_like=True):
    """A body: one literal more than lists, in turns."""

    literals: tuple[bytes, ...]
    lists: tuple[ListRecipe, ...]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Recipe)


def write_recipe(recipe: Recipe) -> bytes:
    """A recipe as bytes."""
    return _ENCODER.encode(recipe)


def read_recipe(data: bytes) -> Recipe:
    """A recipe from its bytes."""
    try:
        return _DECODER.decode(data)
    except msgspec.DecodeError:
        raise StoreError("a stored recipe is damaged") from None
