"""What can break, as one tree; what a provider answered is no error but a `Failure` value of the model.

DragomanError
├── WireError          bytes or values that break a protocol's rules: path, expected, found
├── RefusedError       well formed, but the target cannot say it and leaving it out would change the meaning
└── StrictError        something would be lost, and the caller asked that nothing be
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.model.losses import Loss


class DragomanError(Exception):
    """Everything this library raises on purpose."""


class WireError(DragomanError):
    """A document that breaks its protocol's rules, with the place and both sides."""

    def __init__(self, path: str, expected: str, found: str) -> None:
        self.path = path
        self.expected = expected
        self.found = found
        super().__init__(f"{path or '/'}: expected {expected}, found {found}")


class RefusedError(DragomanError):
    """A request that the target protocol cannot express without losing what the user said."""

    def __init__(self, feature: str, at: str, note: str) -> None:
        self.feature = feature
        self.at = at
        self.note = note
        super().__init__(f"{at}: {note}" if at else note)


class StrictError(DragomanError):
    """A translation that strict mode refuses, naming every loss."""

    def __init__(self, losses: Sequence[Loss]) -> None:
        self.losses = tuple(losses)
        named = "; ".join(f"{loss.at}: {loss.fate.value} ({loss.feature.value}) {loss.note}" for loss in self.losses)
        super().__init__(f"{len(self.losses)} loss{'es' if len(self.losses) != 1 else ''} refused: {named}")
