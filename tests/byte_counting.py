"""Counts the bytes that methods of a text examine or copy, where C functions do the work and steps say nothing.

    body = CountedBytes(b"...")
    parse(body)
    assert body.counter.examined <= 3 * len(body)

A search counts the bytes from its start to its match, a slice and a copy count the bytes copied. Patterns of `re` read
the buffer without calling a method, so their work is not counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, SupportsIndex, overload

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    Sought = ReadableBuffer | SupportsIndex
    Position = SupportsIndex | None


class ByteCounter:
    """Bytes examined, in all and by the largest single call."""

    def __init__(self) -> None:
        self.examined = 0
        self.largest = 0

    def add(self, size: int) -> None:
        """Count one call."""
        self.examined += size
        self.largest = max(self.largest, size)

    def add_range(self, size: int, start: Position, end: Position) -> None:
        """Count one call that examines a range of a text of `size` bytes."""
        self.add(len(range(*slice(start, end).indices(size))))


class CountedBytes(bytes):
    """Bytes that count what is examined of them."""

    def __init__(self, *_: object) -> None:
        self.counter = ByteCounter()

    def find(self, sought: Sought, start: Position = None, end: Position = None, /) -> int:
        """Count the way to the match."""
        match = super().find(sought, start, end)
        self.counter.add_range(len(self), start, end if match < 0 else match)
        return match

    def rfind(self, sought: Sought, start: Position = None, end: Position = None, /) -> int:
        """Count the way to the match."""
        match = super().rfind(sought, start, end)
        self.counter.add_range(len(self), start if match < 0 else match, end)
        return match

    def count(self, sought: Sought, start: Position = None, end: Position = None, /) -> int:
        """Count the range."""
        self.counter.add_range(len(self), start, end)
        return super().count(sought, start, end)

    def __contains__(self, sought: Sought, /) -> bool:  # type: ignore[override]  # as bytes declare it
        """Count the whole text."""
        self.counter.add(len(self))
        return super().__contains__(sought)

    @overload
    def __getitem__(self, key: SupportsIndex, /) -> int: ...

    @overload
    def __getitem__(self, key: slice[Position], /) -> bytes: ...

    def __getitem__(self, key: SupportsIndex | slice[Position], /) -> int | bytes:
        """Count what a slice copies."""
        if isinstance(key, slice):
            self.counter.add_range(len(self), key.start, key.stop)
        return super().__getitem__(key)


class CountedBytearray(bytearray):
    """A buffer that counts what is examined of it."""

    def __init__(self, counter: ByteCounter) -> None:
        super().__init__()
        self.counter = counter

    def find(self, sought: Sought, start: Position = None, end: Position = None, /) -> int:
        """Count the way to the match."""
        match = super().find(sought, start, end)
        self.counter.add_range(len(self), start, end if match < 0 else match)
        return match

    def rfind(self, sought: Sought, start: Position = None, end: Position = None, /) -> int:
        """Count the way to the match."""
        match = super().rfind(sought, start, end)
        self.counter.add_range(len(self), start if match < 0 else match, end)
        return match

    def __contains__(self, sought: Sought, /) -> bool:  # type: ignore[override]  # as bytearray declares it
        """Count the whole text."""
        self.counter.add(len(self))
        return super().__contains__(sought)

    def __bytes__(self) -> bytes:
        """Count the copy."""
        self.counter.add(len(self))
        with memoryview(self) as view:
            return view.tobytes()
