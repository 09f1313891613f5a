"""Compression, and differences between texts that are nearly the same."""

from __future__ import annotations

import random

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from dragoman.contents.compression import changed, compress, decompress, difference
from dragoman.store.errors import StoreError

TEXT = random.Random(1).randbytes(3000)


@given(st.binary(max_size=300) | st.binary(max_size=8).map(lambda data: data * 50))
def test_compressed_bytes_come_back(data: bytes) -> None:
    assert decompress(compress(data), len(data)) == data
    assert len(compress(data)) <= len(data) + 1


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_a_difference_makes_the_text(text: bytes, other: bytes) -> None:
    for one, two in (
        (text, other),
        (text + TEXT + other, TEXT),
        (TEXT, text + TEXT),
        (TEXT + text + TEXT, TEXT + TEXT),
    ):
        assert changed(two, difference(one, two)) == one


def test_small_changes_are_small_differences() -> None:
    marked = TEXT[:1500] + b',"cache_control":{"type":"ephemeral"}' + TEXT[1500:]
    assert difference(TEXT, TEXT) == b""
    assert len(difference(marked, TEXT)) < 60
    reordered = TEXT[2000:] + TEXT[1000:2000] + TEXT[:1000]
    assert len(difference(reordered, TEXT)) < 150


@pytest.mark.parametrize("damage", [b"\1no frame", b"\1" + zstandard.ZstdCompressor().compress(b"x" * 1000), b"\1"])
def test_damage_is_an_error_of_the_store(damage: bytes) -> None:
    with pytest.raises(StoreError, match="damaged"):
        decompress(damage, 999)
    with pytest.raises(StoreError, match="damaged"):
        changed(b"other", b"\xc1" + damage)
