"""Loss ledger: everything that a translation dropped, approximated or invented, with its location. `at` is a location
in the decoded request or response (`messages[3].parts[0]`), so it is the same for every protocol. Each `Feature` has
one name in code, in `docs/mapping.md` and in the golden files."""

from __future__ import annotations

from enum import Enum
from typing import Literal, TypeAlias

from msgspec import Struct

from dragoman.model.features import Feature, weight_of

# A location in the model, outermost step first: ("messages", 3, "parts", 0).
Place: TypeAlias = tuple[str | int, ...]


class Fate(Enum):
    DROPPED = "dropped"
    APPROXIMATED = "approximated"
    INVENTED = "invented"


# Strict mode rejects requests with losses (decision 38): `True` for losses that change the response, "all" for every
# loss.
Strict: TypeAlias = bool | Literal["all"]


def strictest(*values: Strict) -> Strict:
    return "all" if "all" in values else True in values


class Loss(Struct, frozen=True):
    fate: Fate
    feature: Feature
    at: str
    note: str


def render_place(place: Place) -> str:
    """Format a location: `messages[3].parts[0]`."""
    # Fast, because a long history has losses in every turn.
    return "".join([f"[{step}]" if type(step) is int else f".{step}" for step in place]).removeprefix(".")


LedgerEntry: TypeAlias = tuple[Fate, Feature, Place, str]


class Ledger(Struct, eq=False):
    """The losses of one translation, in order. They are formatted on access."""

    entries: list[LedgerEntry] = []

    @property
    def losses(self) -> tuple[Loss, ...]:
        if not self.entries:
            return ()
        return tuple([Loss(fate, feature, render_place(at), note) for fate, feature, at, note in self.entries])

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def changes(self) -> int:
        """The number of losses that change the response."""
        return sum([weight_of(entry[1]._value_) == "changes_response" for entry in self.entries])

    def refused_by(self, strict: Strict) -> tuple[Loss, ...]:
        if not strict or not self.entries:
            return ()
        if strict == "all":
            return self.losses
        return tuple([loss for loss in self.losses if weight_of(loss.feature._value_) == "changes_response"])

    def dropped(self, feature: Feature, at: Place, note: str) -> None:
        self.entries.append((_DROPPED, feature, at, note))

    def approximated(self, feature: Feature, at: Place, note: str) -> None:
        self.entries.append((_APPROXIMATED, feature, at, note))

    def invented(self, feature: Feature, at: Place, note: str) -> None:
        self.entries.append((_INVENTED, feature, at, note))


_DROPPED, _APPROXIMATED, _INVENTED = Fate.DROPPED, Fate.APPROXIMATED, Fate.INVENTED
