"""Content codings: gzip, deflate, br and zstd, undone in steps of bounded size.

A few bytes may stand for gigabytes, so no decoder gives out more than about a step at a time, and whoever asks for a
whole body says how large it may become. The packages of br and zstd are imported when a body first needs them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Protocol

from dragoman.errors import ClientError, DragomanError

STEP = 256 * 1024
# The largest block of zstd is 128 KiB and the shortest takes four bytes: a slice of this size gives 16 MiB at most.
ZSTD_SLICE = 512
# What zlib is given at once: it copies what it leaves of it, at the end of every member.
ZLIB_SLICE = 16 * 1024
# Members of gzip, frames of zstd: each costs time, and empty ones fit into twenty bytes.
MOST_MEMBERS = 4096
# What an HTTP decoder of zstd must support, and an encoder may not exceed: RFC 9659, section 3.
ZSTD_WINDOW = 8 * 1024 * 1024
# Nobody applies more than two; a long list is an attempt to make work.
MOST_CODINGS = 4


class BrokenCoding(DragomanError):
    """Bytes that are not what their content coding says; never leaves this package."""


class Decoder(Protocol):
    """One coding being undone; while `pending`, more output waits and only `feed(b"")` may be called."""

    pending: bool

    def feed(self, data: bytes) -> bytes:
        """The next output, about a step at most; `BrokenCoding` if the bytes make no sense."""
        ...

    def finish(self) -> None:
        """Say that no more bytes come; `BrokenCoding` if the coding was not at its end."""
        ...


class ZlibDecoder:
    """The gzip form, of one member or several, or one of the two forms that go by the name of deflate."""

    __slots__ = ("_at", "_full", "_gzip", "_inflate", "_members", "_rest", "_start", "pending")

    def __init__(self, *, gzip: bool) -> None:
        self.pending = False
        self._gzip = gzip
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 16) if gzip else None
        # Of deflate, the two bytes that tell its forms apart; afterwards, what waits to be undone, and from where on.
        self._start = b""
        self._rest = b""
        self._at = 0
        # Whether output may be left inside zlib although all input was taken.
        self._full = False
        self._members = 1

    def feed(self, data: bytes) -> bytes:
        """The next output, a step at most; the input goes in slices, since zlib copies what it leaves of each."""
        inflate = self._inflate
        if inflate is None:
            self._start += data
            if len(self._start) < 2:
                return b""
            data, self._start = self._start, b""
            inflate = self._inflate = zlib.decompressobj(deflate_form(data))
        if data:
            self._rest = self._rest[self._at :] + data
            self._at = 0
        pieces = []
        size = 0
        while size < STEP and (self._at < len(self._rest) or self._full):
            inflate = self._next() if inflate.eof else inflate
            piece = self._slice(inflate, STEP - size)
            pieces.append(piece)
            size += len(piece)
        self.pending = self._full or self._at < len(self._rest)
        if self._at == len(self._rest):
            self._rest, self._at = b"", 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _slice(self, inflate: zlib._Decompress, most: int) -> bytes:
        part = self._rest[self._at : self._at + ZLIB_SLICE]
        try:
            out = inflate.decompress(part, most)
        except zlib.error as error:
            raise BrokenCoding("a body that cannot be inflated") from error
        self._at += len(part) - len(inflate.unused_data if inflate.eof else inflate.unconsumed_tail)
        self._full = len(out) == most and not inflate.eof
        return out

    def _next(self) -> zlib._Decompress:
        """Begin another member."""
        if not self._gzip:
            raise BrokenCoding("bytes after the end of a deflate body")
        self._members += 1
        if self._members > MOST_MEMBERS:
            raise BrokenCoding("a gzip body of too many members")
        self._inflate = inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
        return inflate

    def finish(self) -> None:
        """Check that the last member was complete."""
        if self._inflate is None or not self._inflate.eof:
            raise BrokenCoding("a compressed body that breaks off")


def deflate_form(data: bytes) -> int:
    """The window bits for a deflate body: with the two bytes of zlib around it, as the standard says, or bare."""
    wrapped = data[0] & 0x0F == 8 and data[0] >> 4 <= 7 and (data[0] << 8 | data[1]) % 31 == 0
    return zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS


class BrotliDecoder:
    """The br coding."""

    __slots__ = ("_brotli", "_error", "pending")

    def __init__(self) -> None:
        import brotli  # type: ignore[import-untyped]  # the package carries no types

        self.pending = False
        self._brotli = brotli.Decompressor()
        self._error: type[Exception] = brotli.error

    def feed(self, data: bytes) -> bytes:
        """The next output, about a step at most."""
        if self._brotli.is_finished():
            if data:
                raise BrokenCoding("bytes after the end of a br body")
            return b""
        try:
            out: bytes = self._brotli.process(data, output_buffer_limit=STEP)
        except self._error as error:
            raise BrokenCoding("a body that is not br") from error
        self.pending = not self._brotli.is_finished() and (not self._brotli.can_accept_more_data() or len(out) >= STEP)
        return out

    def finish(self) -> None:
        """Check that the body was complete."""
        if not self._brotli.is_finished():
            raise BrokenCoding("a compressed body that breaks off")


class ZstdDecoder:
    """The zstd coding, of one frame or several."""

    __slots__ = ("_at", "_complete", "_error", "_frame", "_frames", "_new_frame", "_rest", "pending")

    def __init__(self) -> None:
        import zstandard

        self.pending = False
        self._error = zstandard.ZstdError
        self._new_frame = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).decompressobj
        self._frame = self._new_frame()
        self._frames = 1
        self._complete = False
        self._rest = b""
        self._at = 0

    def feed(self, data: bytes) -> bytes:
        """The next output: the package cannot limit it, so the input goes in slices until a step is full."""
        if data:
            self._rest = self._rest[self._at :] + data
            self._at = 0
        pieces = []
        size = 0
        while self._at < len(self._rest) and size < STEP:
            piece = self._slice()
            pieces.append(piece)
            size += len(piece)
        self.pending = self._at < len(self._rest)
        if not self.pending:
            self._rest, self._at = b"", 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _slice(self) -> bytes:
        part = self._rest[self._at : self._at + ZSTD_SLICE]
        if self._frame.eof:
            self._frames += 1
            if self._frames > MOST_MEMBERS:
                raise BrokenCoding("a zstd body of too many frames")
            self._frame = self._new_frame()
        try:
            piece = self._frame.decompress(part)
        except self._error as error:
            raise BrokenCoding("a body that is not zstd") from error
        self._complete = self._frame.eof
        self._at += len(part) - len(self._frame.unused_data) if self._complete else len(part)
        return piece

    def finish(self) -> None:
        """Check that the last frame was complete."""
        if not self._complete:
            raise BrokenCoding("a compressed body that breaks off")


class Chain:
    """Two codings over each other: what `outer` gives is what `inner` takes."""

    __slots__ = ("_inner", "_outer", "pending")

    def __init__(self, outer: Decoder, inner: Decoder) -> None:
        self.pending = False
        self._outer = outer
        self._inner = inner

    def feed(self, data: bytes) -> bytes:
        """The next output of the inner coding."""
        out = self._inner.feed(b"" if self._inner.pending else self._outer.feed(data))
        self.pending = self._inner.pending or self._outer.pending
        return out

    def finish(self) -> None:
        """Check that both were complete."""
        self._outer.finish()
        self._inner.finish()


DECODERS: dict[bytes, Callable[[], Decoder]] = {
    b"gzip": lambda: ZlibDecoder(gzip=True),
    b"x-gzip": lambda: ZlibDecoder(gzip=True),
    b"deflate": lambda: ZlibDecoder(gzip=False),
    b"br": BrotliDecoder,
    b"zstd": ZstdDecoder,
}


def names_of(codings: bytes) -> list[bytes]:
    """The codings that a header value lists, in the order they were applied; `identity` is none."""
    names = (name.strip().lower() for name in codings.split(b","))
    return [name for name in names if name and name != b"identity"]


def decoder(coding: bytes) -> Decoder | None:
    """A decoder for a header value of one coding or several; None if nothing is to be undone.

    `BrokenCoding` if one of them is unknown.
    """
    names = names_of(coding)
    if len(names) > MOST_CODINGS or not all(name in DECODERS for name in names):
        raise BrokenCoding("a content coding that is not known")
    chain: Decoder | None = None
    for name in reversed(names):
        made = DECODERS[name]()
        chain = made if chain is None else Chain(chain, made)
    return chain


def decode_body(raw: bytes, codings: bytes, limit: int) -> bytes:
    """A client's body without its codings, if it is not larger than `limit`; a `ClientError` says what is wrong."""
    try:
        undone = decoder(codings)
    except BrokenCoding as error:
        known = ", ".join(name.decode() for name in DECODERS)
        raise ClientError(415, f"the body's content-encoding is not supported; supported are {known}") from error
    if undone is None or not raw:
        if len(raw) > limit:
            raise ClientError(413, too_large(limit))
        return raw
    pieces = []
    size = 0
    data = raw
    try:
        while True:
            piece = undone.feed(data)
            data = b""
            size += len(piece)
            if size > limit:
                raise ClientError(413, too_large(limit))
            pieces.append(piece)
            if not undone.pending:
                break
        undone.finish()
    except BrokenCoding as error:
        raise ClientError(400, "the body is not what its content-encoding says") from error
    return b"".join(pieces)


def too_large(limit: int) -> str:
    """The words for a body above the limit."""
    return f"the body is larger than {limit} bytes when decoded"
