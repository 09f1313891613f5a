"""Fair queue without lock or limit: keys take turns, one key's items keep their order. Its owner refuses items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Waiting items; each is in there once."""

    __slots__ = ("_length", "_queues")

    def __init__(self) -> None:
        # The first key is the next to be served.
        self._queues: dict[str, dict[T, None]] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, key: str, item: T) -> None:
        """Put an item behind the others of its key."""
        self._queues.setdefault(key, {})[item] = None
        self._length += 1

    def pop(self) -> T:
        """Remove and return the next item; the other keys go before its own then."""
        key, queue = next(iter(self._queues.items()))
        item = next(iter(queue))
        self.remove(key, item)
        if queue:
            self._queues[key] = self._queues.pop(key)
        return item

    def remove(self, key: str, item: T) -> bool:
        """Remove an item; False if it does not wait."""
        queue = self._queues.get(key)
        if queue is None or item not in queue:
            return False
        del queue[item]
        self._length -= 1
        if not queue:
            del self._queues[key]
        return True

    def largest(self, key: str, added: int = 1, measure: Callable[[dict[T, None]], int] = len) -> dict[T, None]:
        """The items of the key with the longest queue, in order; none if `key` has as many with the `added` ones."""
        queues = self._queues
        nothing: dict[T, None] = {}
        queue = max(queues.values(), key=measure, default=nothing)
        return queue if measure(queue) > measure(queues.get(key, nothing)) + added else nothing
