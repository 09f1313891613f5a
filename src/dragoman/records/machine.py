"""Machine: the part of a worker that joins the machines of a database, and keeps its row there (decision 47).

the row                                       what a start does
is absent                                     adds it
has this epoch and this instance              uses it: another worker, or an earlier start, has taken it
has a later epoch                             takes a new id: a clone of the disk has this one
was not seen for 15 s, or is this instance's  takes it under the next epoch
is renewed by another instance                takes a new id
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from contextlib import closing, suppress

from msgspec.structs import replace

from dragoman import __version__
from dragoman.database_location import PostgresDatabase
from dragoman.errors import ConfigError
from dragoman.records.digest_key import replace_secret, secret_in
from dragoman.records.journal_directory import directory_of
from dragoman.records.machine_file import (
    MachineFile,
    instance_of,
    locked_machine,
    make_machine_file,
    new_machine,
    read_machine_file,
    write_machine_file,
)
from dragoman.records.time_range import zone_of
from dragoman.store.connection import Connection, Transaction
from dragoman.store.errors import StoreAway, StoreBusy, StoreError
from dragoman.store.machines import HISTORY_SECRET, MachineRow, Machines
from dragoman.store.postgres_database import connect_to

# Seconds between two renewals of a row, and after which a machine counts as gone.
_RENEW_EVERY, UNSEEN_AFTER = 3.0, 15.0
# Days after which a machine without a backlog is not listed any more.
_LISTED_DAYS = 30.0
# Settings that all machines share.
_ZONE = "time zone"
# The first of each month of 2026, at noon in UTC: zones that agree there are one zone under two names.
_MOMENTS = tuple(1_767_268_800 + 30 * 86400 * month for month in range(12))


class MachineRefused(StoreError):
    """This machine must not ingest into the database."""


class Machine:
    """The machine of one process; one thread at a time uses it. `configuration` gives the digest of the present one."""

    def __init__(
        self,
        database: PostgresDatabase,
        configuration: Callable[[], str] = lambda: "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory = directory_of(database)
        self._name = database.machine or platform.node()
        self._zone = described_zone(database.time_zone)
        self._configuration = configuration
        self._clock = clock
        self.file = make_machine_file(self._directory)
        # What the names of journals have. Before it has joined, the id in the file may be that of a clone.
        self.owner = f"{new_machine().id}.0"
        # What this process digests histories with, whatever the file has later.
        self._secret = secret_in(self._directory)
        self._instance = instance_of(self._directory)
        self._row: MachineRow | None = None
        # The row of another instance, when it was last looked at.
        self._other: MachineRow | None = None
        self._renews = 0.0
        # The server's clock less that of this machine, in seconds.
        self._ahead = 0.0
        # Number of the last erasure that any machine has requested.
        self.last_erasure = 0

    @property
    def erased(self) -> int:
        """Number of the last erasure that this machine has carried out."""
        return 0 if self._row is None else self._row.erased

    def now(self) -> float:
        """The server's time in seconds since 1970."""
        return time.time() + self._ahead

    def tend(self, db: Connection, backlog: Callable[[], int]) -> bool:
        """Join, and renew the row every few seconds; False while it is not known whose the id is. `MachineRefused` if
        this process must not ingest."""
        if self._row is not None and self._clock() < self._renews:
            return True
        with Transaction(db):
            machines = Machines(db)
            self._ahead = machines.now() - time.time()
            if not self._renew(machines, backlog):
                self._row = None
        if self._row is None:
            self._join(db)
        self._renews = self._clock() + _RENEW_EVERY
        return self._row is not None

    def is_joined(self, db: Connection) -> bool:
        """Whether a start on this machine has the row of its id, for commands."""
        machines = Machines(db)
        row = machines.get(self.file.id)
        if row is not None and (row.epoch, row.instance) == (self.file.epoch, self._instance):
            self._row = row
        return self._row is not None

    def check(self, db: Connection) -> None:
        """Refuse the open transaction if a clone has taken the row."""
        if self._row is None or not Machines(db).holds(self._row.id, self._row.epoch, self._instance):
            self._row = None
            raise MachineRefused("another machine has the id of this one, which takes a new one")

    def acknowledge(self, db: Connection, number: int) -> None:
        """All erasures up to a number were carried out here."""
        Machines(db).acknowledge(self.file.id, number)
        if self._row is not None:
            self._row = replace(self._row, erased=number)

    def _renew(self, machines: Machines, backlog: Callable[[], int]) -> bool:
        if self._row is None:
            return False
        row = machines.get(self._row.id)
        if row is None or (row.epoch, row.instance) != (self._row.epoch, self._instance):
            return False
        self.last_erasure = machines.last_erasure()
        if row.seen + _RENEW_EVERY <= self.now():
            configuration = self._configuration()
            row = replace(row, name=self._name, version=__version__, configuration=configuration, backlog=backlog())
            if not machines.renew(row):
                return False
        self._row = row
        return True

    def _join(self, db: Connection) -> None:
        with locked_machine(self._directory):
            file = read_machine_file(self._directory) or new_machine()
            with Transaction(db):
                machines = Machines(db)
                file = self._with_settings(machines, file)
                self.last_erasure = machines.last_erasure()
                row = machines.get(file.id)
            taken = self._identity(file, row)
            if taken is None:
                self._other = row
                return
            if taken != file or file != self.file:
                # First the file: a start after a crash in between takes the row again.
                write_machine_file(self._directory, taken)
            self.file = taken
            self._take(db, row if row is not None and row.id == taken.id else None)

    def _identity(self, file: MachineFile, row: MachineRow | None) -> MachineFile | None:
        """The identity that this start has, by the row of its id; None if that is not known yet."""
        if row is None:
            return replace(file, epoch=file.epoch + 1)
        if row.instance == self._instance:
            return replace(file, epoch=max(row.epoch, file.epoch))
        other = self._other
        is_renewed = other is not None and other.id == row.id and row.seen > other.seen
        if row.epoch > file.epoch or is_renewed:
            return replace(new_machine(), epoch=1, database=file.database, time_zone=file.time_zone)
        if row.seen + UNSEEN_AFTER > self.now():
            return None
        return replace(file, epoch=file.epoch + 1)

    def _take(self, db: Connection, row: MachineRow | None) -> None:
        with Transaction(db):
            machines, file = Machines(db), self.file
            if row is None:
                # Its directory may have journals of another id, or of a time before its row was removed.
                done = machines.add(file.id, self._name, file.epoch, self._instance, erased=0)
            elif (row.epoch, row.instance) == (file.epoch, self._instance):
                done = True
            else:
                done = machines.take(row, self._name, file.epoch, self._instance)
            taken = machines.get(file.id) if done else None
            machines.remove_unseen(_LISTED_DAYS)
        self._row, self._other = taken, None
        if taken is not None:
            self.owner = file.owner

    def _with_settings(self, machines: Machines, file: MachineFile) -> MachineFile:
        """The file with the database and its settings, which must be those of this machine."""
        database = machines.database()
        if file.database not in ("", database):
            raise MachineRefused(
                f"its journals belong to another database; to use this one, remove {self._directory / 'machine.json'}"
            )
        zone = machines.shared(_ZONE, self._zone)
        if not _is_same_zone(zone, self._zone):
            raise MachineRefused(_other_zone(zone, self._zone))
        secret = machines.shared(HISTORY_SECRET, self._secret.hex())
        if secret != self._secret.hex():
            replace_secret(self._directory, bytes.fromhex(secret))
            raise MachineRefused("this machine was started while the database was away: restart it to join the others")
        return replace(file, database=database, time_zone=self._zone)


def check_machine(database: PostgresDatabase) -> None:
    """Refuse a start of this machine if its time zone is not that of the others, and take over their secret before its
    workers read it. If the database is away, the zone is compared that this machine joined it with."""
    directory = directory_of(database)
    zone = described_zone(database.time_zone)
    file = read_machine_file(directory)
    shared_zone = "" if file is None else file.time_zone
    with suppress(StoreAway, StoreBusy), closing(connect_to(database)) as db, Transaction(db):
        machines = Machines(db)
        shared_zone = machines.shared(_ZONE, zone)
        secret = bytes.fromhex(machines.shared(HISTORY_SECRET, secret_in(directory).hex()))
        if secret != secret_in(directory):
            replace_secret(directory, secret)
    if shared_zone and not _is_same_zone(shared_zone, zone):
        raise ConfigError(
            key="storage.time_zone", problem=_other_zone(shared_zone, zone), remedy="set the same zone on all machines"
        )


def shared_secret(db: Connection) -> bytes:
    """What the machines of a database digest histories with."""
    return bytes.fromhex(Machines(db).shared(HISTORY_SECRET, os.urandom(32).hex()))


def described_zone(name: str) -> str:
    """A zone as a text: its name, and its distances from UTC, which are compared."""
    zone = zone_of(name)
    distances = [zone.local(moment).utcoffset() for moment in _MOMENTS]
    minutes = [0 if distance is None else int(distance.total_seconds()) // 60 for distance in distances]
    return f"{zone.name} {','.join(map(str, minutes))}"


def _is_same_zone(one: str, other: str) -> bool:
    return one.rpartition(" ")[2] == other.rpartition(" ")[2]


def _other_zone(shared: str, own: str) -> str:
    return (
        f"the machines of this database have the time zone {shared.rpartition(' ')[0]}, and this one has"
        f" {own.rpartition(' ')[0]}"
    )
