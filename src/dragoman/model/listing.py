"""Listing: a model as a list of models tells of it."""

from __future__ import annotations

from msgspec import Struct

from dragoman.model.parts import Extras


class ListedModel(Struct, frozen=True, kw_only=True):
    """One model of a list; None and "" stand for what it does not tell."""

    id: str
    # What people call it, and whose it is.
    title: str = ""
    owner: str = ""
    # When it was made and when it will be gone, in unix seconds.
    created: int | None = None
    retires: int | None = None
    # How many tokens it takes, and how many it says at most.
    window: int | None = None
    cap: int | None = None
    # What else was told of it, for those who read lists of the same form.
    extras: Extras | None = None
