"""Identity table: the gateway keys that one worker accepts, those of the configuration and those of the database. A
thread asks the database twice a second for changes; requests only read the table (decision 46).

    the file `storage.path`                    requests without a key      other texts than keys of the configuration
    never read, and present (locked, damaged)  503                         503
    absent since the start, or none            open, if nothing closes it  401
    read                                       closed by any identity      identity, or 401
    read, but not at the last time             closed as before            identity, or 503: it may have a new one
    read, but not for `storage.key_grace`,     closed as before            503
    also because it is absent now, or another
    database, as one that was made anew

Keys of the configuration are accepted always. One that is also in the database, by its name or a digest, hides the
identity of the database: an administrator of keys cannot take a configured one over.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from msgspec import Struct

from dragoman.config.settings import Storage
from dragoman.gateway.access.identity_rows import NO_ROWS, IdentityRows
from dragoman.gateway.access.unknown_key_limit import UnknownKeyLimit
from dragoman.gateway.workers.protection import Protection
from dragoman.gateway.workers.shared_memory import SharedMemory
from dragoman.identities.identity import DATABASE, LOCAL_OWNER, Identity
from dragoman.identities.key_text import digest_of, is_mistyped
from dragoman.store import StoreError
from dragoman.store.identity_reader import IdentitySource, NoIdentities, reader_of
from dragoman.store.server_state import ServerState

# Seconds between two questions to the database, and for its thread to end.
POLL_INTERVAL = 0.5
_MAX_END_SECONDS = 5.0
# Texts whose identity is looked up once: most requests bring the same ones.
_MAX_KNOWN_TEXTS = 10_000
_NEVER_READ = -math.inf
_REVOKED = "this gateway key is revoked"
_MISSING = "the file is missing"
_REPLACED = "the database is another one, without the keys known before: restore it, or restart the gateway to use it"
_HIDDEN = "this gateway key is not in force: the configuration has a key of the same name, or the same key"


class KnownKey(Struct, frozen=True, kw_only=True, gc=False):
    """An identity that a text belongs to."""

    identity: Identity
    # When this text of a rotated identity ends, in seconds since 1970; None is never.
    until: float | None = None
    # Why the text is never accepted; "" if it is.
    refusal: str = ""


class UnknownKey(Struct, frozen=True, kw_only=True):
    """A text that is no key; a mistyped one has the form of a key and a wrong checksum."""

    is_mistyped: bool = False


class UnreadableKey(Struct, frozen=True):
    """A text that may be a key of the database, which cannot be read now."""


# Logs a warning: its message, and its fields.
Report: TypeAlias = Callable[[str, Mapping[str, str]], None]
LookUp: TypeAlias = KnownKey | UnknownKey | UnreadableKey
_UNKNOWN, _MISTYPED, _UNREADABLE = UnknownKey(), UnknownKey(is_mistyped=True), UnreadableKey()


class IdentityTable:
    """The keys of one worker. It outlives configurations. `reader` is None for a gateway without keys in a database."""

    def __init__(
        self,
        reader: IdentitySource | None = None,
        *,
        key_grace: float = 0.0,
        page: SharedMemory | None = None,
        report: Report | None = None,
        clock: Callable[[], float] = time.monotonic,
        reports_outages: bool = True,
    ) -> None:
        self._reader = reader
        self._key_grace = key_grace
        self._page = page or SharedMemory()
        self._warn = report
        # Whether an outage of the database is logged here, and not for all that the database has.
        self._reports_outages = reports_outages
        self._clock = clock
        self._configured: dict[bytes, Identity] = {}
        self._configured_owners: dict[bytes, Identity] = {}
        # Owners of all keys that a configuration had since the start: their rows are still there.
        self._all_configured: frozenset[bytes] = frozenset()
        self._rows = NO_ROWS
        # Until when the identities of the database are known well enough to accept or refuse a text by them.
        self._current_until = _NEVER_READ if reader is not None else math.inf
        # Why it cannot be read; "" if it can.
        self.problem = ""
        # Names of identities that the configuration hides.
        self.hidden: frozenset[str] = frozenset()
        self.several_owners = False
        # How often the keys of either source were changed.
        self.changes = 0
        # Looked-up texts, which a change of either source forgets.
        self._known: dict[bytes, KnownKey] = {}
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self.unknown_keys = UnknownKeyLimit(clock)

    # Requests.

    def look_up(self, text: bytes) -> LookUp:
        """The result for a text: a key, no key, or unknown at present."""
        known = self._known.get(text)
        if known is None:
            if is_mistyped(text):
                return _MISTYPED
            known = self._find(digest_of(text))
            if known is None:
                # While the database cannot be read, it may have got another key.
                return _UNKNOWN if self.is_current() and not self.problem else _UNREADABLE
            if len(self._known) >= _MAX_KNOWN_TEXTS:
                self._known.clear()
            self._known[text] = known
        return known if known.identity.source != DATABASE or self.is_current() else _UNREADABLE

    @property
    def was_read(self) -> bool:
        """Whether it was known at any time which identities the database has."""
        return self._current_until > _NEVER_READ

    def is_current(self) -> bool:
        """Whether the identities of the database are known at present."""
        return self._clock() <= self._current_until

    @property
    def count(self) -> int:
        """The number of keys."""
        return len(self._configured_owners) + self._rows.count

    def named(self, name: str) -> Identity | None:
        """The identity of a name."""
        configured = next((each for each in self._configured_owners.values() if each.name == name), None)
        return configured or self._rows.by_name.get(name)

    # Changes.

    def configure(self, keys: Sequence[Identity]) -> None:
        """Accept the keys of a configuration, and no other of one before."""
        self._configured = {accepted.digest: key for key in keys for accepted in key.digests}
        self._configured_owners = {key.owner: key for key in keys}
        self._all_configured |= self._configured_owners.keys() - {LOCAL_OWNER}
        self._record(self._rows)
        self._changed()

    def load(self) -> None:
        """Read the database before the first request."""
        if self._reader is not None:
            self._refresh(_call)

    def follow(self, schedule: Callable[[Callable[[], None]], object]) -> None:
        """Read changes of the database in a thread; `schedule` calls a function on the event loop."""
        if self._reader is not None:
            self._thread = threading.Thread(target=self._poll, args=(schedule,), name="identities", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread, and let go of the file."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_MAX_END_SECONDS)
        # A thread that waits for the file still has it, and ends with the process.
        if self._reader is not None and (self._thread is None or not self._thread.is_alive()):
            self._reader.close()

    def _poll(self, schedule: Callable[[Callable[[], None]], object]) -> None:
        assert self._reader is not None
        while not self._stopping.wait(POLL_INTERVAL * self._reader.patience):
            try:
                self._refresh(schedule)
            except Exception as error:
                # The outer edge of the thread: without it, no later change would be in force.
                schedule(partial(self._failed, f"unexpected error: {error!r}"))

    def _refresh(self, schedule: Callable[[Callable[[], None]], object]) -> None:
        """Read what changed, which may take a second, and let the event loop apply it."""
        try:
            rows = self._read()
        except StoreError as error:
            schedule(partial(self._failed, str(error)))
            return
        if rows is self._rows and self.was_read and not self.problem:
            # As nearly always: the event loop need not wake up.
            self._current_until = self._clock() + self._key_grace
        else:
            schedule(partial(self._apply, rows))

    def _read(self) -> IdentityRows:
        reader, rows = self._reader, self._rows
        assert reader is not None
        generation, known = reader.generation(), self._page.key_database
        if any(known) and (generation is None or reader.origin[: len(known)] != known):
            # It had keys a moment ago: whether they are in force is not known, as while it is restored.
            raise StoreError(_MISSING if generation is None else _REPLACED)
        if generation is None:
            return NO_ROWS
        if reader.file != rows.file or generation < rows.generation:
            # Another file, or an earlier state of this one: nothing that was read holds.
            rows = IdentityRows(file=reader.file)
        elif generation == rows.generation:
            return rows
        changed = reader.changes_since(rows.generation, partial(rows.with_changes, generation))
        if reader.origin:
            # Also for workers that start later, which would take another database for the first one.
            self._page.set_key_database(reader.origin[: len(known)])
        return changed

    def _failed(self, problem: str) -> None:
        if self._reports_outages and not self.problem:
            self._report("cannot read the gateway keys of the database", reason=problem)
        self.problem = problem

    def _apply(self, rows: IdentityRows) -> None:
        is_first = not self.was_read
        self._current_until = self._clock() + self._key_grace
        if self._reports_outages and self.problem:
            self._report("reads the gateway keys of the database again")
        self.problem = ""
        if rows is self._rows:
            return
        if rows.count and not is_first and not self.count:
            self._report("requests without a gateway key are refused from now on: the database has a key")
        # Every worker is closed before any of them accepts the first key.
        self._record(rows)
        self._rows = rows
        self._changed()

    def _record(self, rows: IdentityRows) -> None:
        if rows.count:
            several = self._has_several_owners(rows)
            self._page.record(Protection(requires_keys=True, several_elsewhere=several))

    def _changed(self) -> None:
        """Know what follows from the keys of both sources."""
        self.changes += 1
        self._known.clear()
        rows = self._rows
        self.several_owners = self._has_several_owners(rows)
        hidden, before = self._hidden_by_configuration(), self.hidden
        self.hidden = hidden
        for name in sorted(hidden - before):
            self._report("a gateway key of the database is refused: the configuration has the same", key=name)

    def _has_several_owners(self, rows: IdentityRows) -> bool:
        configured = self._all_configured
        if rows.count > 1 or len(configured) > 1:
            return True
        return len(configured | {identity.owner for identity in rows.by_name.values()}) > 1

    def _hidden_by_configuration(self) -> frozenset[str]:
        rows, names = self._rows, {key.name for key in self._configured_owners.values()}
        if not rows.count or not names:
            return frozenset()
        same = (rows.by_digest.get(digest) for digest in self._configured)
        named = (rows.by_name.get(name) for name in names)
        found = {identity.owner: identity.name for identity in (*same, *named) if identity is not None}
        return frozenset(name for owner, name in found.items() if owner not in rows.revoked)

    # Look-ups.

    def _find(self, digest: bytes) -> KnownKey | None:
        configured = self._configured.get(digest)
        if configured is not None:
            return KnownKey(identity=configured)
        identity = self._rows.by_digest.get(digest)
        if identity is None:
            return None
        for accepted in identity.digests:
            if accepted.digest == digest:
                return KnownKey(identity=identity, until=accepted.until, refusal=self._refusal_of(identity))
        return None

    def _refusal_of(self, identity: Identity) -> str:
        if identity.owner in self._rows.revoked:
            return _REVOKED
        return _HIDDEN if identity.name in self.hidden else ""

    def _report(self, message: str, **fields: str) -> None:
        if self._warn is not None:
            self._warn(message, fields)


def identity_table(
    storage: Storage,
    page: SharedMemory | None,
    report: Report | None,
    *,
    reads_database: bool,
    server: ServerState | None = None,
) -> IdentityTable:
    """The table of a worker, with the keys of the database."""
    reader: IdentitySource | None = None
    if storage.is_persistent and (reads_database or server is not None):
        reader = reader_of(storage.location, server)
    if reader is not None and not reads_database:
        reader = NoIdentities(reader)
    return IdentityTable(reader, key_grace=storage.key_grace, page=page, report=report, reports_outages=server is None)


def _call(call: Callable[[], None]) -> None:
    call()
