"""Errors of a database, as everybody else sees them."""

from __future__ import annotations

import sqlite3

from dragoman.errors import DragomanError
from dragoman.store import StoreBusy, StoreError
from dragoman.store import sqlite as engine
from dragoman.store.errors import StoreFull, StoreInterrupted, store_error


def test_an_error_keeps_its_kind_and_words_and_nothing_leads_back() -> None:
    for kind in (StoreError, StoreBusy, StoreFull, StoreInterrupted):
        try:
            raise kind("what it is")
        except StoreError as error:
            told = store_error(error)
        assert type(told) is kind and str(told) == "what it is"
        assert told.__traceback__ is None and told.__cause__ is None and told.__context__ is None
    assert issubclass(StoreBusy, StoreError) and issubclass(StoreError, DragomanError)


def test_an_error_without_words_is_given_some() -> None:
    assert str(store_error(ValueError())) == "the store failed"
    assert str(engine.store_error(sqlite3.Error())) == "the store failed"
