"""Row follower: finds rows in the order in which they were added, each once. Their numbers may be given again: after a
failover that took the latest rows, or after these were erased. So it knows which row had which number, and goes back to
the last one that is still there (decision 47)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from dragoman.records import exchanges
from dragoman.records.exchanges import RecordedExchange
from dragoman.store.record_queries import RecordFilter, RecordQueries
from dragoman.store.record_tables import RecordTables

# Reads whose last row is known, and rows that are known as returned: of more than an hour at a read per second.
_READS, _RETURNED = 4096, 65_536
# Rows before the first read that are known: a failover may take those, too.
_BEFORE = 1000


class RowFollower:
    """Follows the rows that match a filter, from the present ones on."""

    def __init__(self, wanted: RecordFilter) -> None:
        self._wanted = wanted
        # Rows by number and id: those before the first read, and the last one of each read, whether it matched or not.
        self._known: deque[tuple[int, str]] = deque([(0, "")], _READS)
        self._returned: dict[str, None] = {}

    @property
    def number(self) -> int:
        """The number behind which the next rows are."""
        return self._known[-1][0]

    def begin(self, tables: RecordTables, most: int) -> list[RecordedExchange]:
        """The latest rows, in the order in which they began."""
        with tables.reading():
            before = RecordQueries(tables.connection).last_ids(_BEFORE)
            batch = exchanges.latest(tables, self._wanted, most)
        if before:
            self._known = deque(reversed(before), _READS)
        self._note([name for _, name in self._known])
        return batch

    def read(self, tables: RecordTables, most: int) -> list[RecordedExchange]:
        """Some of the rows that were added since the last read."""
        with tables.reading():
            queries = RecordQueries(tables.connection)
            last = next(iter(queries.last_ids(1)), (0, ""))
            self._go_back(queries, last[0])
            batch = exchanges.after(tables, self.number, self._wanted, most)
        if len(batch) == most:
            last = batch[-1].number, batch[-1].entry.id
        if last != self._known[-1]:
            self._known.append(last)
        added = [each for each in batch if each.entry.id not in self._returned]
        self._note([each.entry.id for each in added])
        return added

    def _go_back(self, queries: RecordQueries, newest: int) -> None:
        """Go back to the last known row that still has its number, or to the first one."""
        while len(self._known) > 1 and queries.id_of(self.number) != self._known[-1][1]:
            self._known.pop()
        if self.number > newest:
            self._known[-1] = newest, queries.id_of(newest)

    def _note(self, names: Iterable[str]) -> None:
        self._returned.update(dict.fromkeys(names))
        while len(self._returned) > _RETURNED:
            del self._returned[next(iter(self._returned))]
