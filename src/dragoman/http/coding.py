"""Content codings gzip, deflate, br and zstd, decoded in steps of bounded size. A few bytes may expand to gigabytes,
and many bytes to none: each decoder takes and gives one step at a time, and no inner coding gives more than the limit
of the whole. So work is linear in input and limit. The packages of br and zstd are imported on first use."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Protocol

from dragoman.errors import ClientError, DragomanError

# Maximum output of a decoder step, and its input.
STEP = 256 * 1024
STEP_IN = 64 * 1024
# Input of the packages at once: zlib and br copy the unread rest. The largest block of zstd is 128 KiB and the shortest
# takes four bytes: a slice of this size gives 16 MiB at most.
SLICE = 16 * 1024
ZSTD_SLICE = 512
# Members of gzip, frames of zstd: each costs time, and empty ones fit into twenty bytes.
MAX_MEMBERS = 4096
# The window that every HTTP decoder of zstd must support, and no encoder may exceed: RFC 9659, section 3.
ZSTD_WINDOW = 8 * 1024 * 1024
# Real clients apply no more. A long list is an attack.
MAX_CODINGS = 2


class BrokenCoding(DragomanError):
    """Bytes that do not match their content coding; never leaves this package."""


class OversizeCoding(BrokenCoding):
    """An inner coding has more output than the whole may have."""


class Decoder(Protocol):
    """One coding being undone; while `pending`, more output waits and only `feed(b"")` may be called."""

    pending: bool

    def feed(self, data: bytes) -> bytes:
        """The next output, a step at most; `BrokenCoding` if the bytes make no sense."""
        ...

    def finish(self) -> None:
        """Mark the end of the input; `BrokenCoding` if the coding was not at its end."""
        ...


class SlicedDecoder:
    """Shared by all decoders: input waits here and is decoded slice by slice until a step is full."""

    __slots__ = ("_at", "_full", "_given", "_rest", "_surplus", "pending")

    slice_size = SLICE

    def __init__(self) -> None:
        self.pending = False
        self._rest = b""
        self._at = 0
        # Whether the package may hold output although it took all its input.
        self._full = False
        # Output beyond a step, if the package cannot be stopped, and the part of it that was returned.
        self._surplus = b""
        self._given = 0

    def feed(self, data: bytes) -> bytes:
        """The next output, a step at most, of a step of input at most."""
        if self._surplus:
            return self._give(self._surplus)
        if data:
            self._rest, self._at = self._rest[self._at :] + data, 0
        pieces = []
        size = 0
        stop = self._at + STEP_IN
        while size < STEP and self._at < stop and (self._at < len(self._rest) or self._full):
            piece = self._undo(self._rest[self._at : self._at + self.slice_size], STEP - size)
            pieces.append(piece)
            size += len(piece)
        if self._at == len(self._rest):
            self._rest, self._at = b"", 0
        return self._give(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def _give(self, out: bytes) -> bytes:
        """One step of output; the rest is returned later without a copy."""
        start, self._given = self._given, self._given + STEP
        if self._given >= len(out):
            self._surplus, self._given = b"", 0
        else:
            self._surplus = out
        self.pending = self._full or bool(self._surplus or self._rest)
        return out if len(out) <= STEP else out[start : start + STEP]

    def _undo(self, part: bytes, max_bytes: int) -> bytes:
        """Undo a slice, note how much of it was taken, and give out about as much as is wanted."""
        raise NotImplementedError


class ZlibDecoder(SlicedDecoder):
    """The gzip form, of one member or several, or one of the two forms that go by the name of deflate."""

    __slots__ = ("_gzip", "_inflate", "_members", "_start")

    def __init__(self, *, gzip: bool) -> None:
        super().__init__()
        self._gzip = gzip
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 16) if gzip else None
        # Of deflate, the two bytes that distinguish its forms.
        self._start = b""
        self._members = 1

    def feed(self, data: bytes) -> bytes:
        """The next output, a step at most."""
        if self._inflate is None:
            data = self._start = self._start + data
            if len(data) < 2:
                return b""
            self._start = b""
            self._inflate = zlib.decompressobj(deflate_form(data))
        return super().feed(data)

    def _undo(self, part: bytes, max_bytes: int) -> bytes:
        inflate = self._inflate
        assert inflate is not None
        if inflate.eof:
            inflate = self._next()
        try:
            out = inflate.decompress(part, max_bytes)
        except zlib.error as error:
            raise BrokenCoding("a body that cannot be inflated") from error
        self._at += len(part) - len(inflate.unused_data if inflate.eof else inflate.unconsumed_tail)
        self._full = len(out) == max_bytes and not inflate.eof
        return out

    def _next(self) -> zlib._Decompress:
        """Begin another member."""
        if not self._gzip:
            raise BrokenCoding("bytes after the end of a deflate body")
        self._members += 1
        if self._members > MAX_MEMBERS:
            raise BrokenCoding("a gzip body of too many members")
        self._inflate = inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
        return inflate

    def finish(self) -> None:
        """Check that the last member was complete."""
        if self._inflate is None or not self._inflate.eof:
            raise BrokenCoding("a compressed body that breaks off")


def deflate_form(data: bytes) -> int:
    """The window bits for a deflate body: with the zlib header, as the standard requires, or raw."""
    wrapped = data[0] & 0x0F == 8 and data[0] >> 4 <= 7 and (data[0] << 8 | data[1]) % 31 == 0
    return zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS


class BrotliDecoder(SlicedDecoder):
    """The br coding."""

    __slots__ = ("_brotli", "_error")

    def __init__(self) -> None:
        import brotli  # type: ignore[import-untyped]  # the package carries no types

        super().__init__()
        self._brotli = brotli.Decompressor()
        self._error: type[Exception] = brotli.error

    def _undo(self, part: bytes, max_bytes: int) -> bytes:
        if self._brotli.is_finished():
            raise BrokenCoding("bytes after the end of a br body")
        if self._full:
            # It takes no more input before its output was returned.
            part = b""
        try:
            out: bytes = self._brotli.process(part, output_buffer_limit=max_bytes)
        except self._error as error:
            raise BrokenCoding("a body that is not br") from error
        self._at += len(part)
        self._full = not self._brotli.is_finished() and (
            not self._brotli.can_accept_more_data() or len(out) >= max_bytes
        )
        return out

    def finish(self) -> None:
        """Check that the body was complete."""
        if not self._brotli.is_finished():
            raise BrokenCoding("a compressed body that breaks off")


class ZstdDecoder(SlicedDecoder):
    """The zstd coding, of one frame or several; its package cannot limit the output of a slice."""

    __slots__ = ("_complete", "_error", "_frame", "_frames", "_new_frame")

    slice_size = ZSTD_SLICE

    def __init__(self) -> None:
        import zstandard

        super().__init__()
        self._error = zstandard.ZstdError
        self._new_frame = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).decompressobj
        self._frame = self._new_frame()
        self._frames = 1
        self._complete = False

    def _undo(self, part: bytes, max_bytes: int) -> bytes:
        if self._frame.eof:
            self._frames += 1
            if self._frames > MAX_MEMBERS:
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
    """Two codings over each other: what `outer` gives is what `inner` takes, and no more than `most` of it."""

    __slots__ = ("_inner", "_max_bytes", "_outer", "_size", "pending")

    def __init__(self, outer: Decoder, inner: Decoder, max_bytes: int) -> None:
        self.pending = False
        self._outer = outer
        self._inner = inner
        self._max_bytes = max_bytes
        self._size = 0

    def feed(self, data: bytes) -> bytes:
        """The next output of the inner coding."""
        between = b""
        if not self._inner.pending:
            between = self._outer.feed(data)
            self._size += len(between)
            if self._size > self._max_bytes:
                raise OversizeCoding("a body that is too large between two codings")
        out = self._inner.feed(between)
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


def decoder(coding: bytes, max_bytes: int) -> Decoder | None:
    """A decoder for a header value of up to two codings, with a total of about `max_bytes` bytes; None for no coding.
    `BrokenCoding` if one is unknown, or there are more."""
    names = names_of(coding)
    if len(names) > MAX_CODINGS or not all(name in DECODERS for name in names):
        raise BrokenCoding("a content coding that is not known")
    chain: Decoder | None = None
    for name in reversed(names):
        made = DECODERS[name]()
        # A coding slightly enlarges incompressible data.
        chain = made if chain is None else Chain(chain, made, max_bytes + STEP)
    return chain


class BodyDecoder:
    """A client's body whose codings are removed step by step; each step may raise a `ClientError` with the problem."""

    __slots__ = ("_decoder", "_limit", "_pieces", "_raw", "_size")

    def __init__(self, raw: bytes, codings: bytes, limit: int) -> None:
        try:
            self._decoder = decoder(codings, limit) if raw else None
        except BrokenCoding as error:
            supported = ", ".join(name.decode() for name in DECODERS)
            raise ClientError(
                415, f"the body's content-encoding is not supported; supported are {supported}, and two of them at most"
            ) from error
        self._raw = raw
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    def step(self) -> bool:
        """Decode as much as one turn of the loop allows; returns whether that was all."""
        undo, data, self._raw = self._decoder, self._raw, b""
        try:
            piece = data if undo is None else undo.feed(data)
            if undo is not None and not undo.pending:
                undo.finish()
        except OversizeCoding as error:
            raise ClientError(413, too_large(self._limit)) from error
        except BrokenCoding as error:
            raise ClientError(400, "the body does not match its content-encoding") from error
        self._size += len(piece)
        if self._size > self._limit:
            raise ClientError(413, too_large(self._limit))
        self._pieces.append(piece)
        return undo is None or not undo.pending

    def run(self) -> None:
        """Undo the rest, and make one piece of it: also that takes time."""
        while not self.step():
            pass
        self._pieces = [self.body()]

    def body(self) -> bytes:
        """The whole, after the last step."""
        pieces = self._pieces
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def decode_body(raw: bytes, codings: bytes, limit: int) -> bytes:
    """A client's body without its codings, if it is not larger than `limit`; a `ClientError` has the problem."""
    undoing = BodyDecoder(raw, codings, limit)
    undoing.run()
    return undoing.body()


def too_large(limit: int) -> str:
    """The message for a body above the limit."""
    return f"the body is larger than {limit} bytes when decoded"
