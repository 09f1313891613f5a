"""Loss ledger output: a table, or JSON."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman import translate
from dragoman.cli import formatting
from dragoman.cli.terminal import Column, OutputScreen, table
from dragoman.translate import LossLine, changes_in
from dragoman.wire.json import encode_text

_COLUMNS = (
    Column(heading="FATE"),
    Column(heading="FEATURE", least=12),
    Column(heading="AT", least=12),
    Column(heading="NOTE", least=16),
)


def as_json(losses: Sequence[LossLine]) -> str:
    return encode_text(translate.as_json(losses))


def as_table(losses: Sequence[LossLine], screen: OutputScreen, *, all_losses: bool = False) -> str:
    """The ledger as a table. Without `all_losses`, bookkeeping is only counted."""
    if not losses:
        return "no losses"
    listed = losses if all_losses else changes_in(losses)
    rows = [(loss["fate"], loss["feature"], loss["at"], loss["note"]) for loss in listed]
    lines = table(screen, _COLUMNS, rows) if rows else []
    return "\n".join([*lines, *left_out(len(losses) - len(listed), len(rows))])


def left_out(bookkeeping: int, listed: int) -> list[str]:
    if not bookkeeping:
        return []
    number = formatting.counted(bookkeeping, "bookkeeping loss", "bookkeeping losses")
    return [f"{'and ' if listed else ''}{number} without effect on the response; --all-losses lists them"]
