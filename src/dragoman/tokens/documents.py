"""Documents: a text counts by its words, a PDF by its pages, each of which the model gets as text and as a picture."""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator

# Reading stops here; the pages of a larger file are counted by its size.
_READ = 12 * 1024 * 1024
_BYTES_PER_PAGE = 45_000
# So much is looked through at once, and a little more for what begins at its end.
_SEARCHED = 256 * 1024
_OVERLAP = 64
# What a densely printed page says.
PAGE_TEXT = 1500
# A page at the resolution at which providers draw it.
PAGE_SIZE = (1240, 1754)
_PDF = "JVBERi"
_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_PAGES = re.compile(rb"/Count\s+(\d{1,5})(?!\d)")


def is_pdf(data: str) -> bool:
    """Whether a payload in base64 begins as a PDF does."""
    return data.startswith(_PDF)


def pages_of(data: str) -> int:
    """The pages of a file in base64: those that it lists, else as many as a file of its size usually has."""
    by_size = max(1, len(data) * 3 // 4 // _BYTES_PER_PAGE)
    if not is_pdf(data) or len(data) > _READ:
        return by_size
    try:
        raw = binascii.a2b_base64(data)
    except ValueError:
        return by_size
    listed = sum(1 for _ in _each(_PAGE, raw))
    # A file with compressed objects shows no page, but often the count at the root of their tree.
    return listed or max((int(match[1]) for match in _each(_PAGES, raw)), default=0) or by_size


def _each(pattern: re.Pattern[bytes], raw: bytes) -> Iterator[re.Match[bytes]]:
    """All that match, looked for in pieces: nobody can interrupt a search."""
    for start in range(0, len(raw), _SEARCHED):
        end = start + _SEARCHED
        for match in pattern.finditer(raw, start, end + _OVERLAP):
            if match.start() < end:
                yield match
