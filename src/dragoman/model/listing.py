"""One entry of a model list, in the form that all protocols share."""

from __future__ import annotations

from msgspec import Struct

from dragoman.model.parts import Extras


class ListedModel(Struct, frozen=True, kw_only=True):
    """One model. None and "" mean that the provider did not report the field."""

    id: str
    title: str = ""
    owner: str = ""
    # Creation and retirement date, in Unix seconds.
    created: int | None = None
    retires: int | None = None
    # Context window and maximum output, in tokens.
    window: int | None = None
    cap: int | None = None
    # Other members, for lists in the same protocol.
    extras: Extras | None = None
