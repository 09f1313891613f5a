"""Shared: what one process notes in the page, the others see; a mark that is set stays."""

from __future__ import annotations

import os

from dragoman.gateway.protection import Protection
from dragoman.gateway.shared import Page

CLOSED = Protection(asks_keys=True, keys_in_file=True, owners=frozenset({b"1", b"2"}))


def test_what_a_child_notes_its_parent_sees() -> None:
    page = Page(3)
    child = os.fork()
    if not child:
        page.note(CLOSED)
        os._exit(0)
    os.waitpid(child, 0)
    assert page.asks_keys


def test_a_mark_is_never_taken_back() -> None:
    page = Page()
    assert page.closed_with(Protection()) == Protection()
    page.note(CLOSED)
    page.note(Protection())
    found = page.closed_with(Protection(open=True))
    assert (found.asks_keys, found.keys_in_file, found.several_owners) == (True, True, True)
    # A process that is closed by itself stays so.
    assert Page().closed_with(CLOSED) == CLOSED


def test_a_table_that_nobody_has_to_obey_is_not_why_keys_are_asked_for() -> None:
    page = Page()
    page.note(Protection(open=True, keys_in_file=True))
    page.note(Protection(asks_keys=True))
    assert not page.closed_with(Protection()).keys_in_file
