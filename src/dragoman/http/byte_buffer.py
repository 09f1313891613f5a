"""Pieces: bytes that come bit by bit and are wanted as a whole."""

from __future__ import annotations

from msgspec import Struct

# From here on a piece is worth an object of its own; smaller ones are joined up to a block.
SMALL = 4 * 1024
BLOCK = 64 * 1024


class ByteBuffer(Struct, eq=False):
    """Bytes in order of arrival. Small pieces are joined, since a list of them takes twenty times their size; large
    ones are stored as they are, and a single one is never copied."""

    size: int = 0
    _pieces: list[bytes] = []
    # Small pieces since the last large one.
    _small: bytearray | None = None

    def append(self, piece: bytes) -> None:
        """Add a piece."""
        self.size += len(piece)
        if not self._pieces or len(piece) >= SMALL:
            if self._small is not None:
                self._flush_small(self._small)
            self._pieces.append(piece)
        elif self._small is None:
            self._small = bytearray(piece)
        else:
            self._small += piece
            if len(self._small) >= BLOCK:
                self._flush_small(self._small)

    def take(self) -> bytes:
        """All bytes as one; the buffer is empty then."""
        if self._small is not None:
            self._flush_small(self._small)
        pieces, self._pieces, self.size = self._pieces, [], 0
        # One piece is not copied.
        return b"".join(pieces)

    def clear(self) -> None:
        """Drop all bytes."""
        self.size = 0
        self._pieces = []
        self._small = None

    def _flush_small(self, small: bytearray) -> None:
        self._pieces.append(bytes(small))
        self._small = None


# A buffer without bytes for an owner that has none yet: it is replaced by the first piece, and never appended to.
EMPTY = ByteBuffer()
