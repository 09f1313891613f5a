"""A file of `storage.path` with rows in every table, as a gateway writes them: mixed traffic, most of it assigned to
sessions, stored responses and conversations, cached turns, cooldowns, and changed gateway keys."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from dragoman.config.configured_keys import configured_names
from dragoman.config.settings import Settings
from dragoman.identities.changes import LOCAL_MAKER
from dragoman.identities.members import KeyMembers
from dragoman.records.rows import Batch
from dragoman.records.thread_assignment import AssignedThread, ThreadAssigner
from dragoman.store.database import open_tables
from dragoman.store.record_tables import RecordTables, open_record_tables
from tests.records.filled import some_entries
from tests.records.mixed_traffic import traffic
from tests.store.opened import ALICE, BOB, item, kept

# Exchanges per transaction.
_AT_ONCE = 100


def write_full_file(path: Path, exchanges: int = 300) -> None:
    """Write the file."""
    # Keys come before their requests.
    _write_stored(path)
    with closing(open_record_tables(str(path))) as tables:
        _write_records(tables, exchanges)


def _write_records(tables: RecordTables, exchanges: int) -> None:
    entries = traffic(7, exchanges)
    for at in range(0, len(entries), _AT_ONCE):
        batch, assigner = Batch(), ThreadAssigner(tables.sessions)
        with tables.transaction():
            some = entries[at : at + _AT_ONCE]
            # The last ones wait for their assignment.
            if at + _AT_ONCE < len(entries):
                assigner.expect(some)
                for each in some:
                    batch.add(each, assigner.assign_thread(each))
                assigner.finish()
            else:
                for each in some:
                    batch.add_unassigned(each)
            batch.write_rows(tables)
            batch.write_rollups(tables)
    # Of other months, with tags, costs and all outcomes, and names that a terminal or SQL could trip over.
    batch = Batch()
    for number, (entry, _) in enumerate(some_entries(3, 200)):
        named = replace(entry, id=f"req_other_{number}", requested_model="größe\x7f'\"\\\n\t")
        batch.add(named, AssignedThread(0, 0))
    with tables.transaction():
        batch.write_rows(tables)
        batch.write_rollups(tables)
        tables.offsets.move("01800000000000000-1-1.log", 0, 4711, damaged=2)
        # A row that is gone, of which rollups are left.
        tables.connection.change("DELETE FROM records WHERE id = 'req_other_0'")


def _write_stored(path: Path) -> None:
    with closing(open_tables(str(path), 30)) as tables:
        for owner, name in ((ALICE, "alice"), (BOB, "bob")):
            tables.responses.add(owner, kept(f"resp_{name}"))
            tables.responses.add(owner, kept(f"resp_{name}_2", f"resp_{name}", status="in_progress", background=True))
            tables.responses.keep_alive(owner, f"resp_{name}_2", 2_000_000_000)
            tables.conversations.create(owner, f"conv_{name}", b'{"a":"\xc3\xa4\\u0000"}', [item(f"msg_{name}")])
            tables.turns.add(owner, f"call_{name}", b"\x00turn\xff")
        tables.events.add("resp_alice_2", 0, b"event: a\n\n")
        tables.cooldowns.persist("target", 4_000_000_000.125, b"{}")
        names = configured_names(Settings())
        changes = tables.identity_changes
        for name in ("laptop", "server", "gone"):
            changes.create(
                name, KeyMembers(tags={"team": name}), name.encode() * 8, maker=LOCAL_MAKER, configured=names
            )
        changes.change("laptop", KeyMembers(models=("large",)), maker=LOCAL_MAKER)
        changes.rotate("laptop", b"digest" * 5, 60.0, maker=LOCAL_MAKER)
        changes.revoke("gone", maker=LOCAL_MAKER)
        tables.identities.bind_names({"configured": b"o" * 32})
