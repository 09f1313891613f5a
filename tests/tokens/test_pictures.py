"""Pictures count by their pixels, whatever file they are in."""

from __future__ import annotations

import base64
import struct
import zlib

import pytest

from dragoman.tokens.families import Area, Patches, Tiles
from dragoman.tokens.pictures import UNREAD, picture_tokens, size_of


def png(width: int, height: int) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + head + struct.pack(">I", zlib.crc32(b"IHDR" + head))


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0" * 20


def jpeg(width: int, height: int, before: bytes = b"") -> bytes:
    frame = b"\xff\xc2" + struct.pack(">HBHHB", 17, 8, height, width, 3) + b"\0" * 9
    return b"\xff\xd8" + b"\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0" + b"\0" * 9 + before + frame + b"\xff\xd9"


def webp(kind: bytes, width: int, height: int) -> bytes:
    if kind == b"VP8X":
        body = b"\0" * 4 + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    elif kind == b"VP8L":
        body = b"\x2f" + ((width - 1) | (height - 1) << 14).to_bytes(4, "little") + b"\0" * 8
    else:
        body = b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height) + b"\0" * 8
    return b"RIFF" + struct.pack("<I", 4 + 8 + len(body)) + b"WEBP" + kind + struct.pack("<I", len(body)) + body


COMMENT = b"\xff\xe1" + struct.pack(">H", 40_002) + b"\xff\xc0" * 20_000
FILES = {
    "PNG": png(800, 600),
    "GIF": gif(800, 600),
    "JPEG": jpeg(800, 600),
    "a JPEG with a preview before its frame": jpeg(800, 600, COMMENT * 3),
    "a JPEG with filling": jpeg(800, 600, b"\xff\xff\xff"[:2]),
    "WebP, extended": webp(b"VP8X", 800, 600),
    "WebP, lossless": webp(b"VP8L", 800, 600),
    "WebP, lossy": webp(b"VP8 ", 800, 600),
}


@pytest.mark.parametrize("case", FILES)
def test_the_size_is_read_from_the_file(case: str) -> None:
    assert size_of(base64.b64encode(FILES[case]).decode()) == (800, 600)


def test_line_breaks_in_the_data_do_not_matter() -> None:
    assert size_of(base64.encodebytes(png(3, 4)).decode()) == (3, 4)


@pytest.mark.parametrize(
    "data",
    ["", "A", "iVBORw0KGgo=", "%%%%", "é" * 50, "/9j/", base64.b64encode(b"\xff\xd8\xff\xe0\xff\xff").decode()]
    + [
        base64.b64encode(octets).decode()
        for octets in (b"GIF8", png(0, 9), b"RIFF1234WEBPVP9 " + b"\0" * 20, b"BM" * 40)
    ],
)
def test_what_cannot_be_read_counts_as_a_large_picture(data: str) -> None:
    assert size_of(data) == UNREAD


@pytest.mark.parametrize(
    ("size", "tokens"),
    [((200, 200), 54), ((1000, 1000), 1334), ((1092, 1092), 1590), ((9000, 3000), 1093), ((1, 1), 1)],
)
def test_claude_counts_pixels(size: tuple[int, int], tokens: int) -> None:
    assert picture_tokens(size, Area(edge=1568, max_tokens=1600), "") == tokens


def test_claude_has_a_highest_price() -> None:
    assert picture_tokens((8000, 8000), Area(edge=1568, max_tokens=1600), "") == 1600


@pytest.mark.parametrize(
    ("size", "detail", "tokens"),
    [
        ((1024, 1024), "high", 765),
        ((2048, 4096), "high", 1105),
        ((4096, 8192), "low", 85),
        ((512, 512), "auto", 255),
        ((100, 10), "", 255),
    ],
)
def test_tiles_are_counted_as_the_maker_describes(size: tuple[int, int], detail: str, tokens: int) -> None:
    assert picture_tokens(size, Tiles(base=85, tile=170), detail) == tokens


@pytest.mark.parametrize(
    ("size", "detail", "tokens"),
    [((1024, 1024), "", 1024), ((1800, 2400), "", 1536), ((1024, 1024), "low", 256), ((1, 1), "", 1)],
)
def test_patches_are_counted_up_to_a_number(size: tuple[int, int], detail: str, tokens: int) -> None:
    assert picture_tokens(size, Patches(max_patches=1536), detail) == tokens
    assert picture_tokens(size, Patches(max_patches=1536, factor=2.0), detail) == 2 * tokens
