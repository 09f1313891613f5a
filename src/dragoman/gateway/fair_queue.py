"""Fair queue: items that wait, key by key. Keys take turns, and the items of one key keep their order.

The queue has no limit of its own and no lock. Admission and large work share it: the owner decides how much may wait,
and refuses items of the key that has most waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Waiting items; each is in there once."""

    __slots__ = ("_length", "_rows")

    def __init__(self) -> None:
        # The first key is the next to be served.
        self._rows: dict[str, dict[T, None]] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, key: str, item: T) -> None:
        """Put an item behind the others of its key."""
        self._rows.setdefault(key, {})[item] = None
        self._length += 1

    def pop(self) -> T:
        """Remove and return the next item; the other keys go before its own then."""
        key, row = next(iter(self._rows.items()))
        item = next(iter(row))
        self.remove(key, item)
        if row:
            self._rows[key] = self._rows.pop(key)
        return item

    def remove(self, key: str, item: T) -> bool:
        """Remove an item; False if it does not wait."""
        row = self._rows.get(key)
        if row is None or item not in row:
            return False
        del row[item]
        self._length -= 1
        if not row:
            del self._rows[key]
        return True

    def largest(self, key: str, added: int = 1, measure: Callable[[dict[T, None]], int] = len) -> dict[T, None]:
        """The items of the key that has most waiting, in order; none if `key` has as much with what is `added`."""
        rows, nothing = self._rows, dict[T, None]()
        row = max(rows.values(), key=measure, default=nothing)
        return row if measure(row) > measure(rows.get(key, nothing)) + added else nothing
