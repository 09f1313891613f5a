"""Pieces: equal elements are one, whatever their breakpoints and the order of their members."""

from __future__ import annotations

from collections import OrderedDict

import pytest

from dragoman.contents.compression import changed
from dragoman.contents.piece import PieceCache, PieceReader, normalised, without_breakpoints
from dragoman.contents.redaction import ContentsRedactor
from tests.contents.fakes import FAKES


def reader(key: bytes = b"key", cache: PieceCache | None = None) -> PieceReader:
    return PieceReader(key, ContentsRedactor(), OrderedDict() if cache is None else cache)


MARK = b'"cache_control": {"type": "ephemeral", "ttl": "5m"}'


@pytest.mark.parametrize(
    ("element", "without"),
    [
        (b'{"type": "text", ' + MARK + b"}", b'{"type": "text"}'),
        (b"{" + MARK + b', "type": "text"}', b'{"type": "text"}'),
        (b"{" + MARK + b"}", b"{}"),
        (b'{"a":[{"b":1,"cache_control":null},2]}', b'{"a":[{"b":1},2]}'),
        (b'{"text":"\\"cache_control\\":null,"}', b'{"text":"\\"cache_control\\":null,"}'),
        (b'{"text":"cache_control"}', b'{"text":"cache_control"}'),
    ],
)
def test_breakpoints_are_left_out(element: bytes, without: bytes) -> None:
    assert without_breakpoints(element) == without
    piece = reader().piece(element)
    assert changed(without, piece.difference) == element


def test_equal_elements_have_one_digest() -> None:
    one, two, other = b'{"a": 1.50, "b": "x"}', b'{"b":"\\u0078","a":1.50}', b'{"a": 1.5, "b": "x"}'
    pieces = [reader().piece(element) for element in (one, two, other)]
    assert pieces[0].digest == pieces[1].digest != pieces[2].digest
    assert pieces[0].spelling != pieces[1].spelling
    assert reader(b"other").piece(one).digest != pieces[0].digest


def test_digests_are_taken_after_redaction() -> None:
    token = FAKES["github-token"][0][0]
    first, second = (reader().piece(b'{"a":"%b"}' % text.encode()) for text in (token, token[:-1] + "x"))
    assert first.cleaned == second.cleaned == b'{"a":"[redacted:github-token:44]"}'
    assert first.digest == second.digest


def test_the_cache_knows_keys_apart_and_is_bounded() -> None:
    cache: PieceCache = OrderedDict()
    first = reader(b"one", cache)
    assert first.piece(b"{}") is first.piece(b"{}")
    assert reader(b"two", cache).piece(b"{}").digest != first.piece(b"{}").digest
    for number in range(20_001):
        first.piece(b"%d" % number)
    assert len(cache) == 20_000


def test_what_cannot_be_read_is_its_own_form() -> None:
    for content in (b"data: x", b"\xff", b"[" * 2000, b'"\\ud800"'):
        assert normalised(content) == content
