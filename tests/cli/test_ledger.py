"""The ledger on a terminal."""

from __future__ import annotations

import json

import pytest

from dragoman.cli.ledger import as_json, as_table
from dragoman.cli.terminal import OutputScreen
from dragoman.translate import LossLine

LOSSES = (
    LossLine(
        fate="dropped",
        feature="penalties",
        weight="changes_response",
        at="sampling.frequency_penalty",
        note="Messages has no penalties",
    ),
    LossLine(
        fate="invented",
        feature="max_tokens",
        weight="changes_response",
        at="messages[3].parts[0].extras.something_long",
        note="word " * 40,
    ),
)


def test_a_table_fits_its_width() -> None:
    table = as_table(LOSSES, OutputScreen(terminal=True, width=80))
    assert max(len(line) for line in table.splitlines()) <= 80
    assert table.splitlines()[0].split() == ["FATE", "FEATURE", "AT", "NOTE"]
    assert "Messages has no" in table


def test_no_losses_are_said_so() -> None:
    assert as_table((), OutputScreen()) == "no losses"
    assert as_json(()) == "[]"


def test_json_is_for_programs() -> None:
    assert json.loads(as_json(LOSSES)) == list(LOSSES)


@pytest.mark.parametrize(
    ("sign", "shown"),
    [
        ("\x1b", "\\x1b"),
        ("\x9b", "\\x9b"),
        ("\x07", "\\x07"),
        ("\x7f", "\\x7f"),
        ("\r", "\\r"),
        ("\n", "\\n"),
        ("\u202e", "\\u202e"),
        ("\ud800", "\\ud800"),
        ("é", "é"),
    ],
    ids=ascii,
)
def test_a_table_shows_control_characters_instead_of_sending_them(sign: str, shown: str) -> None:
    loss = LossLine(
        fate="dropped",
        feature="unknown_field",
        weight="changes_response",
        at=f"a{sign}[2J",
        note=f"only one knows 'a{sign}[2J'",
    )
    table = as_table((loss,), OutputScreen(terminal=True))
    assert table.splitlines()[1].split() == ["dropped", "unknown_field", f"a{shown}[2J", "only", "one", "knows",
                                             f"'a{shown}[2J'"]  # fmt: skip
    assert len(table.splitlines()) == 2
