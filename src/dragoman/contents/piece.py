"""Pieces: messages, tools and texts as they are stored, once per gateway key.

    element ── redaction ──► cleaned ── without cache breakpoints ──► content ── normalised, keyed ──► digest

The digest is that of the normalised form, so that a piece is found again when its cache breakpoint moved or its members
are in another order. `spelling` tells its bytes from other ones of the same form.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from hashlib import blake2b
from typing import TypeAlias

import msgspec
from msgspec import Struct

from dragoman.contents.compression import difference
from dragoman.contents.redaction import ContentsRedactor
from dragoman.wire.json import encode_sorted, read_json

DIGEST_SIZE, SPELLING_SIZE = 16, 8
# Elements that are remembered by their bytes, since an agent sends them with every call.
_REMEMBERED = 20_000
# A cache breakpoint with a comma beside it. What stands in a string has a backslash before its quotes.
_NAME = rb'(?<!\\)"cache_control"[ \t\n\r]*+:[ \t\n\r]*+(?:\{[^{}]*+\}|null)'
_breakpoints = re.compile(rb",[ \t\n\r]*+" + _NAME + rb"|" + _NAME + rb"(?:[ \t\n\r]*+,[ \t\n\r]*+)?+")


class Piece(Struct, frozen=True):
    """An element as it is stored: its digest, the digest of its bytes, and what its body has besides (`difference`).
    `cleaned` is the element after redaction, None if that changed nothing."""

    digest: bytes
    spelling: bytes
    difference: bytes
    cleaned: bytes | None


PieceCache: TypeAlias = "OrderedDict[bytes, Piece]"


class PieceReader:
    """Makes the pieces of one gateway key; `key` is what its digests are keyed with. The cache is for all keys."""

    def __init__(self, key: bytes, redactor: ContentsRedactor, cache: PieceCache) -> None:
        self._key = key
        self._redactor = redactor
        self._known = cache

    def digest(self, *parts: bytes) -> bytes:
        """A digest of parts of known sizes, of which the last may have any size."""
        return blake2b(b"".join(parts), key=self._key, digest_size=DIGEST_SIZE).digest()

    def clean(self, data: bytes) -> bytes:
        """Bytes without credentials."""
        return self._redactor.clean(data)

    def piece(self, element: bytes) -> Piece:
        """The piece of an element."""
        name = blake2b(element, key=self._key, salt=self._redactor.salt, digest_size=DIGEST_SIZE).digest()
        piece = self._known.get(name)
        if piece is not None:
            self._known.move_to_end(name)
            return piece
        cleaned = self._redactor.clean(element)
        content = without_breakpoints(cleaned)
        spelling = blake2b(content, key=self._key, digest_size=SPELLING_SIZE).digest()
        piece = Piece(
            self.digest(b"piece", normalised(content)),
            spelling,
            difference(cleaned, content),
            None if cleaned == element else cleaned,
        )
        self._known[name] = piece
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return piece


def without_breakpoints(element: bytes) -> bytes:
    """An element without cache breakpoints, which clients move with every call."""
    return _breakpoints.sub(b"", element) if b'"cache_control"' in element else element


def normalised(content: bytes) -> bytes:
    """The form by which equal pieces are found: members in their order, no white space; of what is no JSON, itself."""
    try:
        return encode_sorted(read_json(content))
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeError, RecursionError):
        return content
