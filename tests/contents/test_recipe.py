"""Recipes as bytes."""

from __future__ import annotations

import pytest

from dragoman.contents.recipe import ListRecipe, Recipe, read_recipe, write_recipe
from dragoman.store.errors import StoreError


def test_a_recipe_comes_back() -> None:
    recipe = Recipe((b"{", b"}"), (ListRecipe(b"n" * 16, 3, b",", ((1, b"x"),)),))
    assert read_recipe(write_recipe(recipe)) == recipe


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x92\x90"])
def test_a_damaged_recipe_is_an_error_of_the_store(data: bytes) -> None:
    with pytest.raises(StoreError, match="damaged"):
        read_recipe(data)
