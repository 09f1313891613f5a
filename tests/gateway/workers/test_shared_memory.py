"""Shared: what one process notes in the page, the others see; a mark that is set stays."""

from __future__ import annotations

import os

from dragoman.gateway.workers.protection import Protection
from dragoman.gateway.workers.shared_memory import SharedMemory

CLOSED = Protection(requires_keys=True, keys_in_file=True, owners=frozenset({b"1", b"2"}))


def test_what_a_child_notes_its_parent_sees() -> None:
    page = SharedMemory(3)
    page.turn(0)
    child = os.fork()
    if not child:
        page.record(CLOSED)
        page.turn(1)
        page.set_port(2, 65535)
        os._exit(0)
    os.waitpid(child, 0)
    assert page.requires_keys
    assert page.turned(2) == 0
    page.turn(2)
    assert 0 < page.turned(0) <= page.turned(1) <= page.turned(2)
    assert [page.port(number) for number in range(page.workers)] == [0, 0, 65535]


def test_a_mark_is_never_taken_back() -> None:
    page = SharedMemory()
    assert page.closed_with(Protection()) == Protection()
    page.record(CLOSED)
    page.record(Protection())
    found = page.closed_with(Protection(passed_over=True))
    assert (found.requires_keys, found.keys_in_file, found.several_owners) == (True, True, True)
    # A process that is closed by itself stays so.
    assert SharedMemory().closed_with(CLOSED) == CLOSED


def test_the_database_of_the_keys_is_known_to_all_processes() -> None:
    page = SharedMemory(2)
    assert not any(page.key_database)
    page.set_key_database(b"\xff\0database"[:8])
    assert page.key_database == b"\xff\0databa"


def test_a_table_that_nobody_has_to_obey_is_not_why_keys_are_asked_for() -> None:
    page = SharedMemory()
    page.record(Protection(passed_over=True, keys_in_file=True))
    page.record(Protection(requires_keys=True))
    assert not page.closed_with(Protection()).keys_in_file


def test_a_worker_that_rests_need_not_turn_and_the_next_in_its_place_has_not_begun() -> None:
    page = SharedMemory(2)
    page.turn(1)
    page.set_ending(1)
    assert page.turned(1) < 0
    page.set_port(1, 4000)
    page.clear(1)
    assert (page.turned(1), page.port(1)) == (0, 0)


def test_how_many_exchanges_a_worker_waits_for_is_known_once_it_stops() -> None:
    page = SharedMemory(3)
    page.wait_for(0, 0)
    page.wait_for(2, 7)
    assert [page.waits_for(number) for number in range(3)] == [0, None, 7]
    page.clear(2)
    assert page.waits_for(2) is None
