"""Content codings: every form comes back, nothing broken passes, and no bomb goes off."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable
from typing import TypeVar

import brotli  # type: ignore[import-untyped]  # the package carries no types
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ClientError
from dragoman.http.coding import (
    MAX_MEMBERS,
    SLICE,
    STEP,
    STEP_IN,
    ZSTD_SLICE,
    BodyDecoder,
    BrokenCoding,
    BrotliDecoder,
    SlicedDecoder,
    ZlibDecoder,
    ZstdDecoder,
    decode_body,
    decoder,
)

MEBIBYTE = 1024 * 1024
Kind = TypeVar("Kind", bound=SlicedDecoder)
TEXT = b"".join(b'{"line": %d, "text": "what was said"}\n' % number for number in range(3000))


def raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()


def zstd_unsized(data: bytes) -> bytes:
    compressor = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    return compressor.compress(data) + compressor.flush()


def br(data: bytes) -> bytes:
    out: bytes = brotli.compress(data, quality=5)
    return out


FORMS: dict[str, tuple[bytes, Callable[[bytes], bytes]]] = {
    "gzip": (b"gzip", gzip.compress),
    "gzip by its old name": (b"x-gzip", gzip.compress),
    "gzip in capitals": (b" GZip ", gzip.compress),
    "gzip of two members": (b"gzip", lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:])),
    "deflate in its zlib wrapping": (b"deflate", zlib.compress),
    "deflate without wrapping": (b"deflate", raw_deflate),
    "br": (b"br", br),
    "zstd with a content size": (b"zstd", zstandard.compress),
    "zstd without a content size": (b"zstd", zstd_unsized),
    "zstd of three frames": (
        b"zstd",
        lambda d: zstandard.compress(d[:9]) + zstd_unsized(d[9:20]) + zstd_unsized(d[20:]),
    ),
    "zstd with a frame to skip": (b"zstd", lambda d: b"\x50\x2a\x4d\x18\x03\0\0\0abc" + zstandard.compress(d)),
    "gzip, then br": (b"gzip, br", lambda data: br(gzip.compress(data))),
    "zstd, then deflate": (b"zstd , deflate", lambda d: zlib.compress(zstd_unsized(d))),
    "gzip between identities": (b"identity, gzip, identity", gzip.compress),
    "identity": (b"identity", bytes),
    "no coding": (b"", bytes),
}
CODED = {name: form for name, form in FORMS.items() if name not in ("identity", "no coding")}
every_form = pytest.mark.parametrize(("coding", "encode"), FORMS.values(), ids=FORMS)
coded_form = pytest.mark.parametrize(("coding", "encode"), CODED.values(), ids=CODED)


def undo(coding: bytes, pieces: list[bytes]) -> bytes:
    undone = decoder(coding, 64 * MEBIBYTE)
    assert undone is not None
    out = []
    for piece in pieces:
        out.append(undone.feed(piece))
        while undone.pending:
            out.append(undone.feed(b""))
    undone.finish()
    return b"".join(out)


@every_form
def test_a_body_comes_back(coding: bytes, encode: Callable[[bytes], bytes]) -> None:
    assert decode_body(encode(TEXT), coding, len(TEXT)) == TEXT


@every_form
def test_a_small_and_a_large_body_come_back(coding: bytes, encode: Callable[[bytes], bytes]) -> None:
    for body in (b"", b"x", TEXT * 20, bytes(STEP), bytes(STEP * 2), bytes(STEP * 3 + 1)):
        assert decode_body(encode(body), coding, len(body)) == body


@every_form
def test_one_byte_above_the_limit_is_refused(coding: bytes, encode: Callable[[bytes], bytes]) -> None:
    with pytest.raises(ClientError) as caught:
        decode_body(encode(TEXT), coding, len(TEXT) - 1)
    assert caught.value.status == 413


@coded_form
def test_bytes_may_come_one_by_one(coding: bytes, encode: Callable[[bytes], bytes]) -> None:
    body = encode(TEXT[:2000])
    assert undo(coding, [body[at : at + 1] for at in range(len(body))]) == TEXT[:2000]


@coded_form
def test_a_body_cut_anywhere_is_refused(coding: bytes, encode: Callable[[bytes], bytes]) -> None:
    body = encode(b'{"a": "what was said, and said again"}')
    for end in range(1, len(body)):
        try:
            part = decode_body(body[:end], coding, 1000)
        except ClientError as error:
            assert error.status == 400
        else:
            # Only the end of a member or a frame is an end.
            assert coding in (b"gzip", b"zstd")
            assert len(part) < 38


@coded_form
@pytest.mark.parametrize("garbage", [b"\0", b"trailing garbage that goes on for a while"], ids=["a null byte", "text"])
def test_bytes_after_the_end_are_refused(coding: bytes, encode: Callable[[bytes], bytes], garbage: bytes) -> None:
    with pytest.raises(ClientError) as caught:
        decode_body(encode(TEXT) + garbage, coding, MEBIBYTE)
    assert caught.value.status == 400


@coded_form
def test_bytes_after_the_end_are_refused_when_they_come_later(coding: bytes, encode: Callable[[bytes], bytes]) -> None:
    with pytest.raises(BrokenCoding):
        undo(coding, [encode(TEXT), b"garbage"])


@coded_form
def test_plain_text_under_a_coding_is_refused(coding: bytes, encode: Callable[[bytes], bytes]) -> None:
    with pytest.raises(ClientError) as caught:
        decode_body(b'{"model": "m"}', coding, MEBIBYTE)
    assert caught.value.status == 400


@pytest.mark.parametrize("coding", [b"compress", b"gzip, rot13", b"gzip" + b", gzip" * 9, b"gzip;q=1"])
def test_an_unknown_coding_or_a_long_list_is_refused(coding: bytes) -> None:
    with pytest.raises(ClientError) as caught:
        decode_body(b"x", coding, MEBIBYTE)
    assert caught.value.status == 415


@coded_form
def test_an_empty_body_stays_empty(coding: bytes, encode: Callable[[bytes], bytes]) -> None:
    assert decode_body(b"", coding, 0) == b""


def zlib_bomb(mebibytes: int, form: int) -> bytes:
    """Nothing but zeros, compressed piece by piece."""
    compressor = zlib.compressobj(1, wbits=form)
    zeros = bytes(MEBIBYTE)
    return b"".join(compressor.compress(zeros) for _ in range(mebibytes)) + compressor.flush()


def zstd_bomb(gibibytes: int) -> bytes:
    """A frame of nothing but blocks that repeat one byte, four bytes for 128 KiB: the densest that zstd allows."""
    block = (128 * 1024 << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    last = (128 * 1024 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\0"
    return b"\x28\xb5\x2f\xfd\x00\x58" + block * (gibibytes * 8192 - 1) + last


# More than the limit and what decoders may take besides.
BOMBS: dict[str, tuple[bytes, Callable[[], bytes]]] = {
    "gzip": (b"gzip", lambda: zlib_bomb(48, 31)),
    "deflate": (b"deflate", lambda: zlib_bomb(48, 15)),
    "zstd": (b"zstd", lambda: zstandard.compress(bytes(48 * MEBIBYTE))),
    "zstd at its densest, 10 GiB": (b"zstd", lambda: zstd_bomb(10)),
    "br": (b"br", lambda: br(bytes(48 * MEBIBYTE))),
    "gzip in gzip, 1 GiB": (b"gzip, gzip", lambda: gzip.compress(b"".join([zlib_bomb(32, 31)] * 32), 1)),
    "br in br": (b"br, br", lambda: br(br(bytes(48 * MEBIBYTE)))),
    "gzip in zstd": (b"gzip, zstd", lambda: zstandard.compress(zlib_bomb(48, 31))),
}


@pytest.mark.parametrize(("coding", "make"), BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_refused_and_takes_no_memory(coding: bytes, make: Callable[[], bytes]) -> None:
    body = make()
    limit = 4 * MEBIBYTE
    tracemalloc.start()
    try:
        with pytest.raises(ClientError) as caught:
            decode_body(body, coding, limit)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.status == 413
    assert peak < limit + 36 * MEBIBYTE


MANY = {
    "gzip": (b"gzip", gzip.compress(b"")),
    "zstd": (b"zstd", zstandard.compress(b"")),
    "gzip in gzip": (b"gzip, gzip", gzip.compress(gzip.compress(b""))),
}


@pytest.mark.parametrize(("coding", "member"), MANY.values(), ids=MANY)
def test_a_body_of_endless_empty_members_is_refused(coding: bytes, member: bytes) -> None:
    # Each of them once cost a copy of all that followed: this one stood still for half an hour.
    with pytest.raises(ClientError) as caught:
        decode_body(member * (16 * MEBIBYTE // len(member)), coding, 32 * MEBIBYTE)
    assert caught.value.status == 400


# Bytes that stand for nothing, as many as one likes: a head, and what is repeated after it.
GZIP_HEAD = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
ZSTD_HEAD = b"\x28\xb5\x2f\xfd\x00\x58"
NOTHINGS: dict[str, tuple[bytes, bytes, bytes]] = {
    "gzip, empty stored blocks": (b"gzip", GZIP_HEAD, b"\0\0\0\xff\xff"),
    "gzip, empty blocks of fixed codes": (b"gzip", GZIP_HEAD, b"\x02\x08\x20\x80\0"),
    "gzip, empty members": (b"gzip", b"", gzip.compress(b"")),
    "gzip, a name without end": (b"gzip", b"\x1f\x8b\x08\x08\0\0\0\0\0\xff", b"name"),
    "zstd, empty blocks": (b"zstd", ZSTD_HEAD, b"\0\0\0"),
    "zstd, empty frames": (b"zstd", b"", zstandard.compress(b"")),
    "zstd, frames to skip": (b"zstd", b"", b"\x50\x2a\x4d\x18\0\0\0\0"),
    "zstd, frames with large windows": (b"zstd", b"", b"\x28\xb5\x2f\xfd\x00\x68\x01\0\0"),
    "br, empty metadata": (b"br", b"\x0c", b"\x06"),
}


class Work:
    """What decoders do: slices that they hand to the packages, the bytes in them and out of them, and those used up."""

    def __init__(self) -> None:
        self.slices = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.bytes_used = 0

    @property
    def all(self) -> int:
        """All of it, as one number."""
        return self.slices + self.bytes_in + self.bytes_out


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    """Count the work of all decoders."""
    counted = Work()

    def counting(undo: Callable[[Kind, bytes, int], bytes]) -> Callable[[Kind, bytes, int], bytes]:
        def counted_undo(decoder: Kind, part: bytes, most: int) -> bytes:
            at = decoder._at
            out = undo(decoder, part, most)
            counted.bytes_used += decoder._at - at
            counted.slices += 1
            counted.bytes_in += len(part)
            counted.bytes_out += len(out)
            return out

        return counted_undo

    monkeypatch.setattr(ZlibDecoder, "_undo", counting(ZlibDecoder._undo))
    monkeypatch.setattr(BrotliDecoder, "_undo", counting(BrotliDecoder._undo))
    monkeypatch.setattr(ZstdDecoder, "_undo", counting(ZstdDecoder._undo))
    return counted


@pytest.mark.parametrize(("coding", "head", "nothing"), NOTHINGS.values(), ids=NOTHINGS)
def test_no_step_does_much_for_bytes_that_stand_for_nothing(
    coding: bytes, head: bytes, nothing: bytes, work: Work
) -> None:
    def undo_all(size: int) -> int:
        before = work.all
        undoing = BodyDecoder(head + nothing * (size // len(nothing)), coding, 32 * MEBIBYTE)
        with pytest.raises(ClientError) as caught:
            done = False
            while not done:
                slices, given, used = work.slices, work.bytes_in, work.bytes_used
                done = undoing.step()
                assert work.bytes_used - used <= STEP_IN + SLICE
                # A slice for each of the members that are allowed, or for each part of a step.
                assert work.slices - slices <= MAX_MEMBERS + STEP_IN // ZSTD_SLICE
                assert work.bytes_in - given <= MAX_MEMBERS * SLICE
        assert caught.value.status == 400
        return work.all - before

    once, twice = undo_all(MEBIBYTE), undo_all(2 * MEBIBYTE)
    assert twice <= 2.2 * once


def nested(coding: bytes, mebibytes: int, layers: int) -> bytes:
    """Zeros under many layers of one coding."""
    _, encode = next(form for form in FORMS.values() if form[0] == coding)
    body = bytes(mebibytes * MEBIBYTE)
    for _ in range(layers):
        body = encode(body)
    return body


# A slice of zstd may give 16 MiB at once.
@pytest.mark.parametrize(("coding", "mebibytes"), [(b"gzip", 16), (b"deflate", 16), (b"br", 16), (b"zstd", 64)])
def test_item_4_a_small_body_of_nested_codings_is_refused_at_once(coding: bytes, mebibytes: int, work: Work) -> None:
    # Four layers were once undone without a limit between them: 35 KB took minutes.
    body = nested(coding, mebibytes, 2)
    for layers in (2, 3, 4, 100):
        with pytest.raises(ClientError) as caught:
            decode_body(body, b", ".join([coding] * layers), MEBIBYTE)
        assert caught.value.status == (413 if layers == 2 else 415)
        assert work.bytes_out < mebibytes * MEBIBYTE / 2
        if layers == 2:
            done = work.all
        # The list is refused before anything is undone.
        assert work.all == done


@pytest.mark.parametrize(("inner", "outer"), [(b"gzip", b"gzip"), (b"br", b"zstd"), (b"zstd", b"deflate")])
def test_item_4_what_lies_between_two_codings_is_limited_too(inner: bytes, outer: bytes) -> None:
    # The inner coding gives nothing for all that the outer one gives it, so the end would never be too large.
    coding, head, nothing = next(found for found in NOTHINGS.values() if found[0] == inner)
    encode = next(form for name, form in FORMS.values() if name == outer)
    body = encode(head + nothing * (12 * MEBIBYTE // len(nothing)))
    undone = decoder(coding + b"," + outer, MEBIBYTE)
    assert undone is not None
    fed = 0
    with pytest.raises(BrokenCoding):
        undone.feed(body)
        while undone.pending:
            undone.feed(b"")
            fed += 1
    assert fed < 8 * MEBIBYTE // STEP


@coded_form
def test_a_step_gives_out_no_more_than_a_step(coding: bytes, encode: Callable[[bytes], bytes]) -> None:
    undone = decoder(coding, 64 * MEBIBYTE)
    assert undone is not None
    pieces = [undone.feed(encode(bytes(4 * MEBIBYTE)))]
    while undone.pending:
        pieces.append(undone.feed(b""))
    undone.finish()
    assert max(map(len, pieces)) <= STEP
    assert sum(map(len, pieces)) == 4 * MEBIBYTE


def test_a_body_of_many_members_comes_back() -> None:
    assert decode_body(gzip.compress(b"ab") * 4096, b"gzip", MEBIBYTE) == b"ab" * 4096


def test_a_zstd_frame_may_not_ask_for_a_huge_window() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    body = compressor.compress(b"x" * 1000) + compressor.flush()
    with pytest.raises(ClientError) as caught:
        decode_body(body, b"zstd", MEBIBYTE)
    assert caught.value.status == 400


def test_what_was_flushed_is_given_out_at_once() -> None:
    compressor = zlib.compressobj(wbits=31)
    undone = decoder(b"gzip", MEBIBYTE)
    assert undone is not None
    for event in (b"data: one\n\n", b"data: two\n\n"):
        assert undone.feed(compressor.compress(event) + compressor.flush(zlib.Z_SYNC_FLUSH)) == event
        assert not undone.pending


@given(st.binary(max_size=300), st.sampled_from([b"gzip", b"deflate", b"br", b"zstd", b"br, gzip"]))
def test_any_bytes_are_a_body_or_are_refused(body: bytes, coding: bytes) -> None:
    try:
        decode_body(body, coding, MEBIBYTE)
    except ClientError as error:
        assert error.status in (400, 413)


@given(st.binary(max_size=5000), st.lists(st.integers(1, 400), max_size=20), st.sampled_from(sorted(CODED)))
def test_any_cut_gives_the_same(body: bytes, sizes: list[int], name: str) -> None:
    coding, encode = CODED[name]
    raw = encode(body)
    pieces = []
    for size in sizes:
        pieces.append(raw[:size])
        raw = raw[size:]
    assert undo(coding, [*(piece for piece in pieces if piece), raw]) == body
