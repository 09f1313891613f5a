"""Compression of stored bytes by zstd, and the difference between two texts that are nearly the same.

No dictionary is trained: it would be a copy of text that no deletion reaches (decision 48).
"""

from __future__ import annotations

import msgspec
import zstandard
from msgspec import Struct

from dragoman.store.errors import StoreError

_LEVEL = 3
# Shorter texts gain nothing.
_MIN_COMPRESSED = 64
# Texts up to so long are compared as a whole, beyond what both begin and end with.
_MAX_PREFIX = 1 << 20
_PLAIN, _ZSTD = b"\0", b"\1"


class _Difference(Struct, frozen=True, array_like=True):
    """What is before and behind is that of the other text. `is_relative`: the middle refers to the other's middle."""

    before: int
    behind: int
    size: int
    is_relative: bool
    middle: bytes


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_Difference)


def compress(data: bytes) -> bytes:
    """The same bytes in fewer, if that is possible."""
    if len(data) >= _MIN_COMPRESSED:
        packed = zstandard.ZstdCompressor(level=_LEVEL).compress(data)
        if len(packed) < len(data):
            return _ZSTD + packed
    return _PLAIN + data


def decompress(packed: bytes, max_size: int) -> bytes:
    """The bytes that were compressed; more than `max_size` are damage."""
    if packed[:1] == _PLAIN:
        return packed[1:]
    return _decompressed(zstandard.ZstdDecompressor(), packed[1:], max_size)


def difference(text: bytes, other: bytes) -> bytes:
    """What makes the text out of the other one; b"" if they are equal."""
    if text == other:
        return b""
    before = _common(text, other, min(len(text), len(other)))
    behind = _common(text[before:][::-1], other[before:][::-1], min(len(text), len(other)) - before)
    middle, prefix = text[before : len(text) - behind], other[before : len(other) - behind]
    is_relative = bool(prefix) and len(prefix) + len(middle) <= _MAX_PREFIX and len(middle) >= _MIN_COMPRESSED
    if is_relative:
        packed = zstandard.ZstdCompressor(level=_LEVEL, dict_data=_dictionary(prefix)).compress(middle)
    else:
        packed = compress(middle)
    return _ENCODER.encode(_Difference(before, behind, len(middle), is_relative, packed))


def changed(other: bytes, packed: bytes) -> bytes:
    """The text that a difference makes out of the other one."""
    if not packed:
        return other
    try:
        made = _DECODER.decode(packed)
    except msgspec.DecodeError:
        raise StoreError("a stored difference is damaged") from None
    prefix = other[made.before : len(other) - made.behind]
    if made.is_relative:
        decompressor = zstandard.ZstdDecompressor(dict_data=_dictionary(prefix))
        middle = _decompressed(decompressor, made.middle, made.size)
    else:
        middle = decompress(made.middle, made.size)
    return other[: made.before] + middle + other[len(other) - made.behind :]


def _dictionary(prefix: bytes) -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(prefix, dict_type=zstandard.DICT_TYPE_RAWCONTENT)


def _decompressed(decompressor: zstandard.ZstdDecompressor, packed: bytes, max_size: int) -> bytes:
    try:
        # The frame states its size, which is compared before anything is allocated.
        if zstandard.frame_content_size(packed) > max_size:
            raise StoreError("a stored text is damaged: it is larger than its row states")
        return decompressor.decompress(packed)
    except zstandard.ZstdError:
        raise StoreError("a stored text is damaged") from None


def _common(text: bytes, other: bytes, most: int) -> int:
    """How many bytes two texts begin with in common, by halves: a loop over bytes would be slow."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if text[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
