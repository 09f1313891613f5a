"""The ledger on a terminal: a table for people, JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman import translate
from dragoman.cli.terminal import Column, Screen, table
from dragoman.translate import LossLine
from dragoman.wire.json import encode_text

_COLUMNS = (
    Column(heading="FATE"),
    Column(heading="FEATURE", least=12),
    Column(heading="AT", least=12),
    Column(heading="NOTE", least=16),
)


def as_json(losses: Sequence[LossLine]) -> str:
    """The ledger as one JSON array."""
    return encode_text(translate.as_json(losses))


def as_table(losses: Sequence[LossLine], screen: Screen) -> str:
    """The ledger as a table; the notes go on below."""
    if not losses:
        return "nothing was lost"
    return "\n".join(
        table(screen, _COLUMNS, [(loss["fate"], loss["feature"], loss["at"], loss["note"]) for loss in losses])
    )
