"""The ledger on a terminal."""

from __future__ import annotations

import json

from dragoman.cli.ledger import as_json, as_table
from dragoman.translate import LossLine

LOSSES = (
    LossLine(fate="dropped", feature="penalties", at="sampling.frequency_penalty", note="Messages has no penalties"),
    LossLine(fate="invented", feature="max_tokens", at="messages[3].parts[0].extras.something_long", note="word " * 40),
)


def test_a_table_fits_its_width() -> None:
    table = as_table(LOSSES, 80)
    assert max(len(line) for line in table.splitlines()) <= 80
    assert table.splitlines()[0].split() == ["FATE", "FEATURE", "AT", "NOTE"]
    assert "Messages has no" in table


def test_no_losses_are_said_so() -> None:
    assert as_table(()) == "nothing was lost"
    assert as_json(()) == "[]"


def test_json_is_for_programs() -> None:
    assert json.loads(as_json(LOSSES)) == list(LOSSES)
