"""Loss ledger: what a translation dropped, approximated or invented, and where. `at` is a location in the model
(`messages[3].parts[0]`), the same for every protocol, in the decoded request or response. Each `Feature` is one word
shared by the member, the row in `docs/mapping.md` and the golden file."""

from __future__ import annotations

from enum import Enum
from typing import Literal, TypeAlias

from msgspec import Struct

from dragoman.model.features import Feature, weight_of

# A place in the model, outermost first: ("messages", 3, "parts", 0).
Place: TypeAlias = tuple[str | int, ...]


class Fate(Enum):
    """The fate of something that could not be expressed exactly."""

    DROPPED = "dropped"
    APPROXIMATED = "approximated"
    INVENTED = "invented"


# Strict mode refuses requests with losses (decision 38): `True` means losses that change the response, "all" also
# bookkeeping.
Strict: TypeAlias = bool | Literal["all"]


def strictest(*values: Strict) -> Strict:
    """The strict mode that holds where several places state one."""
    return "all" if "all" in values else True in values


class Loss(Struct, frozen=True):
    """One line of the ledger."""

    fate: Fate
    feature: Feature
    at: str
    note: str


def render_place(place: Place) -> str:
    """Write a place the way people do: `messages[3].parts[0]`."""
    # A long history loses something in every turn.
    return "".join([f"[{step}]" if type(step) is int else f".{step}" for step in place]).removeprefix(".")


# One line of a ledger, before it is written out.
LedgerEntry: TypeAlias = tuple[Fate, Feature, Place, str]


class Ledger(Struct, eq=False):
    """The losses of one translation in order. They are formatted on access."""

    # None for most translations.
    entries: list[LedgerEntry] = []

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The lines of the ledger."""
        if not self.entries:
            return ()
        return tuple([Loss(fate, feature, render_place(at), note) for fate, feature, at, note in self.entries])

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def changes(self) -> int:
        """The number of losses that change the response; the others are bookkeeping."""
        return sum([weight_of(entry[1]._value_) == "changes_response" for entry in self.entries])

    def refused_by(self, strict: Strict) -> tuple[Loss, ...]:
        """The losses that strict mode refuses."""
        if not strict or not self.entries:
            return ()
        if strict == "all":
            return self.losses
        return tuple([loss for loss in self.losses if weight_of(loss.feature._value_) == "changes_response"])

    def dropped(self, feature: Feature, at: Place, note: str) -> None:
        """Record that something was left out."""
        self.entries.append((_DROPPED, feature, at, note))

    def approximated(self, feature: Feature, at: Place, note: str) -> None:
        """Record that something was expressed in another way."""
        self.entries.append((_APPROXIMATED, feature, at, note))

    def invented(self, feature: Feature, at: Place, note: str) -> None:
        """Record that the translation added something."""
        self.entries.append((_INVENTED, feature, at, note))


_DROPPED, _APPROXIMATED, _INVENTED = Fate.DROPPED, Fate.APPROXIMATED, Fate.INVENTED
