"""Listing: a model as in a model list."""

from __future__ import annotations

from msgspec import Struct

from dragoman.model.parts import Extras


class ListedModel(Struct, frozen=True, kw_only=True):
    """One model of a list; None and "" mean not stated."""

    id: str
    # Its title, and its owner.
    title: str = ""
    owner: str = ""
    # When it was made and when it will be gone, in unix seconds.
    created: int | None = None
    retires: int | None = None
    # Context window, and maximum output in tokens.
    window: int | None = None
    cap: int | None = None
    # Other members, for lists of the same form.
    extras: Extras | None = None
