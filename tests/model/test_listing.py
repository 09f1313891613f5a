"""A model of a list, as a value."""

from __future__ import annotations

import pytest

from dragoman.model.listing import ListedModel


def test_what_a_list_does_not_tell_is_not_known() -> None:
    model = ListedModel(id="m")
    assert (model.title, model.owner) == ("", "")
    assert {model.created, model.retires, model.window, model.cap, model.extras} == {None}


def test_it_does_not_change() -> None:
    with pytest.raises(AttributeError):
        ListedModel(id="m").window = 5  # type: ignore[misc]
