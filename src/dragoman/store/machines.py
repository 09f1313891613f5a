"""Machines: the table of the machines that share a database, settings that all of them must have, and erasures that
each carries out (decision 47). Only PostgreSQL has these tables: a file has one machine."""

from __future__ import annotations

from msgspec import Struct

from dragoman.store.connection import Connection

# The shared setting by which histories are recognised.
HISTORY_SECRET = "history digest secret"
# The server's clock, in seconds since 1970.
_NOW = "extract(epoch FROM clock_timestamp())::double precision"
_COLUMNS = "id, name, epoch, instance, seen, version, configuration, backlog, erased"


class MachineRow(Struct, frozen=True, kw_only=True):
    """One machine. `epoch` grows when another start takes the row, and `instance` tells that start from a clone of its
    disk. `erased` is the number of the last erasure that the machine has carried out."""

    id: str
    name: str
    epoch: int
    instance: str
    # Seconds since 1970, by the server's clock.
    seen: float
    version: str
    configuration: str
    # Bytes of journals that are not ingested yet.
    backlog: int
    erased: int


class ErasureOrder(Struct, frozen=True, kw_only=True):
    """One erasure: a gateway key, or one session of it by a digest of its name, and when it was requested by the
    server's clock. Once it is closed, rows that a machine ingests late are removed by that machine."""

    number: int
    key: str
    session: str
    asked: float
    is_closed: bool


class Machines:
    """The tables, on a connection to PostgreSQL."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def now(self) -> float:
        """The server's time in seconds since 1970."""
        return float(self._db.rows(f"SELECT {_NOW}")[0][0])

    def database(self) -> str:
        """The id of the database, which was made with its tables."""
        return bytes(self._db.rows("SELECT database FROM schema_version")[0][0]).hex()

    def all(self) -> list[MachineRow]:
        """All machines, by their names."""
        return [_machine(row) for row in self._db.rows(f"SELECT {_COLUMNS} FROM machines ORDER BY name, id")]

    def get(self, machine: str) -> MachineRow | None:
        """The row of a machine."""
        row = self._db.row(f"SELECT {_COLUMNS} FROM machines WHERE id = ?", (machine,))
        return None if row is None else _machine(row)

    def add(self, machine: str, name: str, epoch: int, instance: str, erased: int) -> bool:
        """Add a machine; False if there is a row of this id."""
        return bool(
            self._db.change(
                f"INSERT INTO machines ({_COLUMNS}) VALUES (?, ?, ?, ?, {_NOW}, '', '', 0, ?)"
                " ON CONFLICT (id) DO NOTHING",
                (machine, name, epoch, instance, erased),
            )
        )

    def take(self, row: MachineRow, name: str, epoch: int, instance: str) -> bool:
        """Take a row for another start of its machine; False if it has changed since it was read."""
        return bool(
            self._db.change(
                f"UPDATE machines SET name = ?, epoch = ?, instance = ?, seen = {_NOW}"
                " WHERE id = ? AND epoch = ? AND instance = ? AND seen = ?",
                (name, epoch, instance, row.id, row.epoch, row.instance, row.seen),
            )
        )

    def renew(self, row: MachineRow) -> bool:
        """Renew a row; False if another start has taken it."""
        return bool(
            self._db.change(
                f"UPDATE machines SET name = ?, seen = {_NOW}, version = ?, configuration = ?, backlog = ?"
                " WHERE id = ? AND epoch = ? AND instance = ?",
                (row.name, row.version, row.configuration, row.backlog, row.id, row.epoch, row.instance),
            )
        )

    def holds(self, machine: str, epoch: int, instance: str) -> bool:
        """Whether this start of a machine still has its row."""
        return (
            self._db.row(
                "SELECT 1 FROM machines WHERE id = ? AND epoch = ? AND instance = ?", (machine, epoch, instance)
            )
            is not None
        )

    def remove_unseen(self, days: float) -> None:
        """Remove machines without a backlog that were not seen for some days; one that returns adds its row again."""
        self._db.change(f"DELETE FROM machines WHERE backlog = 0 AND seen < {_NOW} - ?", (days * 86400.0,))

    def shared(self, name: str, value: str) -> str:
        """The setting that all machines share; it gets this value if it has none."""
        self._db.change(
            "INSERT INTO shared_settings (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING", (name, value)
        )
        return str(self._db.rows("SELECT value FROM shared_settings WHERE name = ?", (name,))[0][0])

    def last_erasure(self) -> int:
        """The number of the last erasure; 0 without any."""
        return self._db.number("SELECT coalesce(max(number), 0) FROM erasures")

    def erasures_after(self, number: int) -> list[ErasureOrder]:
        """The erasures that were requested after one, in their order."""
        rows = self._db.rows(
            "SELECT number, key, session, asked, closed FROM erasures WHERE number > ? ORDER BY number", (number,)
        )
        return [
            ErasureOrder(number=number, key=key, session=session, asked=asked, is_closed=bool(closed))
            for number, key, session, asked, closed in rows
        ]

    def add_erasure(self, key: str, session: str) -> int:
        """Request an erasure of all machines, and return its number."""
        return self._db.number(
            f"INSERT INTO erasures (key, session, asked, closed) VALUES (?, ?, {_NOW}, 0) RETURNING number",
            (key, session),
        )

    def close_erasure(self, number: int) -> None:
        """The rows of an erasure are about to be removed. Later rows are removed by the machines that add them."""
        self._db.change("UPDATE erasures SET closed = 1 WHERE number = ?", (number,))

    def acknowledge(self, machine: str, number: int) -> None:
        """A machine has carried out all erasures up to a number."""
        self._db.change("UPDATE machines SET erased = ? WHERE id = ? AND erased < ?", (number, machine, number))


def _machine(row: tuple[str, str, int, str, float, str, str, int, int]) -> MachineRow:
    machine, name, epoch, instance, seen, version, configuration, backlog, erased = row
    return MachineRow(
        id=machine,
        name=name,
        epoch=epoch,
        instance=instance,
        seen=seen,
        version=version,
        configuration=configuration,
        backlog=backlog,
        erased=erased,
    )
