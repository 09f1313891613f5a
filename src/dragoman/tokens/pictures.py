"""Tokens of pictures by their size, read from the first bytes of the file, and of documents by their words or PDF
pages."""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from math import ceil

from dragoman.tokens.families import Area, Patches, Tiles

# A picture without a readable size (a URL, a file ID) counts as a large photograph.
UNREAD = (1600, 1600)

# In a JPEG the size follows previews and colour profiles.
_HEAD = 512 * 1024
_MIN_HEAD = 64
_PIXELS_PER_TOKEN = 750
_TILE = 512
_PATCH = 32
_TILED_EDGE, _TILED_SHORT = 2048, 768
_LOW_PATCHES = 256
_START_OF_FRAME = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xDA)})


def size_of(data: str) -> tuple[int, int]:
    """Width and height of a picture in base64: PNG, GIF, WebP or JPEG. Other formats count as a large picture."""
    head = _decoded(data, _MIN_HEAD)
    size: tuple[int, int] | None = None
    if head.startswith(b"\x89PNG") and len(head) >= 24:
        size = int.from_bytes(head[16:20]), int.from_bytes(head[20:24])
    elif head.startswith(b"GIF8") and len(head) >= 10:
        size = int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
    elif head.startswith(b"RIFF") and head[8:12] == b"WEBP" and len(head) >= 30:
        size = _webp(head)
    elif head.startswith(b"\xff\xd8"):
        size = _jpeg(_decoded(data, _HEAD))
    return size if size is not None and min(size) > 0 else UNREAD


def _decoded(data: str, size: int) -> bytes:
    head = re.sub(r"[^A-Za-z0-9+/]", "", data[: size * 4 // 3 + 4])
    return binascii.a2b_base64(head[: len(head) // 4 * 4])


def _webp(head: bytes) -> tuple[int, int] | None:
    kind = head[12:16]
    if kind == b"VP8X":
        return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    if kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        return int.from_bytes(head[26:28], "little") & 0x3FFF, int.from_bytes(head[28:30], "little") & 0x3FFF
    return None


def _jpeg(head: bytes) -> tuple[int, int] | None:
    """The size in the first frame. Segments before it are skipped by their lengths."""
    at = 2
    while at + 9 <= len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if marker in _START_OF_FRAME:
            return int.from_bytes(head[at + 7 : at + 9]), int.from_bytes(head[at + 5 : at + 7])
        if marker == 0xFF:
            at += 1
        elif marker in _WITHOUT_LENGTH:
            at += 2
        else:
            at += 2 + int.from_bytes(head[at + 2 : at + 4])
    return None


def picture_tokens(size: tuple[int, int], rule: Tiles | Patches | Area, detail: str) -> int:
    """Tokens of a picture. `detail` is the client's value for the requested resolution."""
    match rule:
        case Area(edge=edge, max_tokens=most):
            width, height = _within(size, edge)
            return min(most, max(1, ceil(width * height / _PIXELS_PER_TOKEN)))
        case Patches(max_patches=most, factor=factor):
            patches = ceil(size[0] / _PATCH) * ceil(size[1] / _PATCH)
            return ceil(min(patches, _LOW_PATCHES if detail == "low" else most) * factor)
        case Tiles(base=base, tile=tile):
            if detail == "low":
                return base
            width, height = _within(size, _TILED_EDGE)
            shrunk = min(1.0, _TILED_SHORT / min(width, height))
            return base + tile * ceil(width * shrunk / _TILE) * ceil(height * shrunk / _TILE)


def _within(size: tuple[int, int], edge: int) -> tuple[float, float]:
    shrunk = min(1.0, edge / max(size))
    return max(1.0, size[0] * shrunk), max(1.0, size[1] * shrunk)


# Bytes to search. The pages of a larger file are estimated by its size.
_READ = 12 * 1024 * 1024
_BYTES_PER_PAGE = 45_000
# Bytes to search at once, and the overlap for a match that crosses a boundary.
_SEARCHED = 256 * 1024
_OVERLAP = 64
PAGE_TEXT = 1500
# The pixels of a page at the resolution that providers render.
PAGE_SIZE = (1240, 1754)
_PDF = "JVBERi"
_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_PAGES = re.compile(rb"/Count\s+(\d{1,5})(?!\d)")


def is_pdf(data: str) -> bool:
    return data.startswith(_PDF)


def pages_of(data: str) -> int:
    """The pages of a base64 file: as listed in it, else estimated from its size."""
    by_size = max(1, len(data) * 3 // 4 // _BYTES_PER_PAGE)
    if not is_pdf(data) or len(data) > _READ:
        return by_size
    try:
        raw = binascii.a2b_base64(data)
    except ValueError:
        return by_size
    listed = sum(1 for _ in _each(_PAGE, raw))
    # A file with compressed objects shows no pages, but often the count at the root of their tree.
    return listed or max((int(match[1]) for match in _each(_PAGES, raw)), default=0) or by_size


def _each(pattern: re.Pattern[bytes], raw: bytes) -> Iterator[re.Match[bytes]]:
    """All matches, searched in pieces, because a search blocks the interpreter."""
    for start in range(0, len(raw), _SEARCHED):
        end = start + _SEARCHED
        for match in pattern.finditer(raw, start, end + _OVERLAP):
            if match.start() < end:
                yield match
