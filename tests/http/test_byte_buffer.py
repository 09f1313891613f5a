"""Pieces: what comes in bits is the same as a whole, and takes about its own size."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.http.byte_buffer import BLOCK, SMALL, ByteBuffer

MEBIBYTE = 1024 * 1024


@given(st.lists(st.sampled_from([0, 1, 2, 100, SMALL - 1, SMALL, SMALL + 1, BLOCK]), max_size=60))
def test_what_is_taken_is_what_came_in_order(sizes: list[int]) -> None:
    pieces = ByteBuffer()
    came = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
    for piece in came:
        pieces.append(piece)
    assert pieces.size == sum(sizes)
    assert pieces.take() == b"".join(came)
    assert (pieces.size, pieces.take()) == (0, b"")


@pytest.mark.parametrize("size", [0, 1, SMALL, 5 * MEBIBYTE])
def test_a_single_piece_is_not_copied(size: int) -> None:
    pieces, piece = ByteBuffer(), bytes(size)
    pieces.append(piece)
    assert pieces.take() is piece


def test_what_was_cleared_does_not_come_back() -> None:
    pieces = ByteBuffer()
    for piece in (b"a", b"b", bytes(SMALL)):
        pieces.append(piece)
    pieces.clear()
    pieces.append(b"c")
    assert (pieces.size, pieces.take()) == (1, b"c")


@pytest.mark.parametrize("size", [1, 2, 100, SMALL - 1, SMALL])
def test_item_5_small_pieces_take_little_more_than_their_size(size: int) -> None:
    # Eight mebibytes in pieces of two bytes once took 227.
    pieces = ByteBuffer()
    count = min(MEBIBYTE // size, 2 * BLOCK)
    tracemalloc.start()
    try:
        for number in range(count):
            pieces.append(b"%d" % (number % 10) * size)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < count * size * 1.25
