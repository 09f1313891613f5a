"""Envelope (§11): carries a signature through a client of another protocol, which returns it as an opaque string. The
format is `rsv1.` and base64url of a small JSON object, or `rsv1z.` if compressed. It is neither secret nor signed: the
issuer verifies the signature inside."""

from __future__ import annotations

import zlib
from base64 import urlsafe_b64encode
from binascii import Error as Base64Error
from binascii import a2b_base64

from msgspec import Struct

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonObject
from dragoman.wire.json import decode, encode

ORIGINS = frozenset({"a", "c", "r"})
KINDS = frozenset({"thinking", "redacted", "item", "text", "turn", "compaction", "web", "call"})
_MEMBERS = frozenset("omukd")

_PLAIN = "rsv1."
_COMPRESSED = "rsv1z."
_COMPRESS_ABOVE = 1024
# A client may send any text with the prefix, so expansion is limited to the size of a plain request.
_SIZE_LIMIT = 32 * 1024 * 1024
_GROWTH_LIMIT = 50
_RAW_DEFLATE = -zlib.MAX_WBITS
# Fixed, because the same signature must have the same bytes in every turn.
_LEVEL = 6

# To the standard alphabet. Characters of that alphabet in the input (`+`, `/`, padding) become invalid.
_TO_STANDARD = bytes.maketrans(b"-_+/=", b"+/!!!")


class Envelope(Struct, frozen=True, kw_only=True):
    """The full material of one issuer, and the target to which it may return."""

    origin: str
    model: str
    vendor: str
    kind: str
    data: JsonObject


def is_envelope(text: str) -> bool:
    """Whether a text has the prefix of an envelope. Its content is not checked."""
    return text.startswith((_PLAIN, _COMPRESSED))


def seal(envelope: Envelope) -> str:
    """Encode an envelope. Equal envelopes give equal text."""
    if envelope.origin not in ORIGINS or envelope.kind not in KINDS:
        raise ValueError(f"no envelope has origin {envelope.origin!r} and kind {envelope.kind!r}")
    members: JsonObject = {
        "o": envelope.origin,
        "m": envelope.model,
        "u": envelope.vendor,
        "k": envelope.kind,
        "d": envelope.data,
    }
    content = encode(members)
    prefix = _PLAIN
    if len(content) > _COMPRESS_ABOVE:
        deflater = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW_DEFLATE)
        compressed = deflater.compress(content) + deflater.flush()
        if len(content) <= len(compressed) * _GROWTH_LIMIT:
            prefix, content = _COMPRESSED, compressed
    return prefix + urlsafe_b64encode(content).decode().rstrip("=")


def unseal(text: str) -> Envelope | None:
    """Decode an envelope; None if it is not well formed."""
    prefix = _PLAIN if text.startswith(_PLAIN) else _COMPRESSED if text.startswith(_COMPRESSED) else None
    if prefix is None:
        return None
    content = _from_base64url(text[len(prefix) :])
    if content is not None and prefix is _COMPRESSED:
        content = _inflate(content)
    if content is None or len(content) > _SIZE_LIMIT:
        return None
    try:
        members = decode(content)
    except WireError:
        return None
    return _from_members(members) if isinstance(members, dict) else None


def _from_members(members: JsonObject) -> Envelope | None:
    if members.keys() != _MEMBERS:
        return None
    origin, model, vendor, kind, data = (members["o"], members["m"], members["u"], members["k"], members["d"])
    if not (isinstance(origin, str) and isinstance(model, str) and isinstance(vendor, str)):
        return None
    if not (isinstance(kind, str) and isinstance(data, dict)) or origin not in ORIGINS or kind not in KINDS:
        return None
    return Envelope(origin=origin, model=model, vendor=vendor, kind=kind, data=data)


def _from_base64url(text: str) -> bytes | None:
    if not text.isascii() or not text:
        return None
    encoded = text.encode().translate(_TO_STANDARD)
    try:
        return a2b_base64(encoded + b"=" * (-len(encoded) % 4), strict_mode=True)
    except Base64Error:
        return None


def _inflate(content: bytes) -> bytes | None:
    inflater = zlib.decompressobj(_RAW_DEFLATE)
    try:
        inflated = inflater.decompress(content, min(_SIZE_LIMIT, len(content) * _GROWTH_LIMIT) + 1)
    except zlib.error:
        return None
    return inflated if inflater.eof and not inflater.unused_data else None
