"""Connection: what tables know of a database. One implementation per engine; errors are those of the store, and
transactions are begun by `Transaction` and by the code that runs work items (decision 47)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

# Values for the `?` of a statement in their order.
Values: TypeAlias = Sequence[object]
# The columns of one row.
Row: TypeAlias = tuple[Any, ...]
# The values of one row to be added, in two parts: `AppendTable`.
AppendRow: TypeAlias = tuple[tuple[object, ...], tuple[object, ...]]


class AppendTable(Struct, frozen=True, kw_only=True):
    """A table of many columns to which rows are added, of which consecutive ones mostly agree in the `shared` columns.
    0 in the column `optional` is NULL. The column `number`, if there is one, counts the rows, and the column `time` has
    microseconds, by whose months an engine may divide the table."""

    name: str
    own: tuple[str, ...]
    shared: tuple[str, ...]
    optional: str
    number: str = ""
    time: str = ""


class Connection(Protocol):
    """One connection, used by one thread at a time."""

    # Whether all writes belong to one transaction, which must not restart after it was lost.
    in_unit: bool
    # Whether several work items in one transaction are a gain: where only one transaction at a time can write.
    shares_transactions: bool

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open; a failed write may have taken it back."""

    def change(self, statement: str, values: Values = (), /) -> int:
        """Run a statement; returns the number of changed rows."""

    def many(self, statement: str, rows: Iterable[Values], /) -> None:
        """Run a statement once for each of these values."""

    def queue(self, statement: str, rows: Iterable[Values], /) -> None:
        """Run a statement once for each of these values, at once or together with the next statement of the
        transaction, which then fails if this one does."""

    def append(self, table: AppendTable, rows: Sequence[AppendRow], /) -> None:
        """Add many rows, in their order, the fastest way that the engine has."""

    def drop_before(self, table: AppendTable, time: int, lock: bytes, /) -> int:
        """Drop the parts of a table whose rows all have earlier times, each in a transaction with a lock; returns how
        many. There are none where the engine does not divide the table."""

    def row(self, statement: str, values: Values = (), /) -> Row | None:
        """The first row of a query."""

    def rows(self, statement: str, values: Values = (), /) -> list[Any]:
        """All rows of a query."""

    def number(self, statement: str, values: Values = (), /) -> int:
        """The number in the first column of the first row, which there must be."""

    def each(self, statement: str, values: Values = (), /) -> Iterator[Any]:
        """The rows of a query, read while they are taken."""

    def begin(self, *, writes: bool = True, lock: bytes = b"") -> None:
        """Begin a transaction. Where several can write at once, none has the same lock meanwhile; b"" is no lock."""

    def commit(self) -> None:
        """Make the open transaction durable."""

    def rollback(self) -> None:
        """Take back the open transaction, if there is one."""

    def savepoint(self, name: str) -> None:
        """Begin a part of the open transaction."""

    def release(self, name: str) -> None:
        """End a part of the open transaction."""

    def rollback_to(self, name: str) -> None:
        """Take back a part of the open transaction."""

    @property
    def version(self) -> int:
        """The version of the tables: the number of their migrations."""

    def problems(self, most: int) -> list[str]:
        """Damages that the engine itself detects, at most so many."""

    def set_durable(self, is_durable: bool) -> None:
        """Whether each commit is on the disk when it returns."""

    def set_interrupt(self, must_end: Callable[[], bool], steps: int) -> None:
        """Set the function that is called before each query, and after a number of steps where the engine counts them,
        to learn whether the query must end with an error: one query may be long, and many may be short."""

    def wipe(self) -> bool:
        """Overwrite deleted data wherever the engine still has it; False if other connections prevent that."""

    def commits(self) -> int:
        """A number that another one follows when another connection commits."""

    def close(self) -> None:
        """Let go of the database."""


def exists(db: Connection, statement: str, values: Values) -> bool:
    """Whether a query gives any row."""
    return db.row(statement, values) is not None


# The locks of transactions that write records, or gateway keys. Work items have the lock of their owner.
RECORDS, KEYS = b"records", b"keys"


class Transaction:
    """Several writes that are one: all or nothing. A nested one is a savepoint, under the lock of the outer one."""

    __slots__ = ("_db", "_lock", "_outermost")

    def __init__(self, db: Connection, lock: bytes = b"") -> None:
        self._db = db
        self._lock = lock
        self._outermost = False

    def __enter__(self) -> None:
        db = self._db
        if db.in_transaction:
            db.savepoint("inner")
        else:
            db.begin(lock=self._lock)
            self._outermost = True

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        db = self._db
        if not self._outermost:
            # A transaction that was rolled back has no savepoints.
            if db.in_transaction:
                if kind is not None:
                    db.rollback_to("inner")
                db.release("inner")
            return
        try:
            if kind is None:
                db.commit()
        finally:
            # Also after a failed commit: an open transaction would swallow all later writes.
            db.rollback()
