"""Unknowns of a stream: members and events that nobody reads are reported, each once, as a whole answer reports them.

What a decoder puts into its events, the extras of a part above all, is the encoder's to report; here is only what goes
no further than the decoder.
"""

from __future__ import annotations

from collections.abc import Container

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger, Place
from dragoman.rules.extras import FEATURES, is_neutral


class UnknownFields:
    """Reports what one stream says and nobody reads; a name counts once at its place, however often it comes."""

    __slots__ = ("_ledger", "_origin", "_reported")

    def __init__(self, ledger: Ledger, origin: str) -> None:
        self._ledger = ledger
        self._origin = origin
        self._reported: set[Place] = set()

    def members(self, body: JsonObject, expected: Container[str], at: Place = ()) -> bool:
        """Report the members that are not known; False if one says nothing now and may say something later."""
        if all(map(expected.__contains__, body)):
            return True
        is_final = True
        for key, value in body.items():
            if key not in expected:
                is_final = self.name(key, value, at) and is_final
        return is_final

    def name(self, name: str, value: JsonValue = True, at: Place = ()) -> bool:
        """Report a member, or by its name alone an event or a delta; False if its value says nothing."""
        if is_neutral(name, value):
            return False
        place = (*at, "extras", name)
        if place not in self._reported:
            self._reported.add(place)
            feature = FEATURES.get(name, Feature.UNKNOWN_FIELD)
            self._ledger.dropped(feature, place, f"only {self._origin} knows {name!r}")
        return True


def part_place(index: int | None) -> Place:
    """The place of a part; a part that was not announced leaves what it says to the answer."""
    return () if index is None or index < 0 else ("parts", index)
