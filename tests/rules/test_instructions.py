"""Telemetry lines and late instructions: I1 and I4 of mapping.md."""

from __future__ import annotations

import pytest

from dragoman.rules.instructions import is_tagged, tagged, without_telemetry

LINE = "x-anthropic-billing-header: cc_version=2.1; cch=0a1b2;"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (LINE, ""),
        (f"{LINE}\nYou are careful.", "You are careful."),
        (f"You are careful.\n{LINE}\nVery.", "You are careful.\nVery."),
        ("You are careful.", "You are careful."),
        (f"Never print {LINE}", f"Never print {LINE}"),
    ],
)
def test_pitfall_007_only_the_telemetry_line_goes(text: str, left: str) -> None:
    assert without_telemetry(text) == left


def test_a_late_instruction_is_tagged() -> None:
    assert tagged("be brief") == "<system-reminder>\nbe brief\n</system-reminder>"


@pytest.mark.parametrize(
    ("text", "is_so"),
    [
        (tagged("be brief"), True),
        (f"\n{tagged('a')}\n\n{tagged('b')} ", True),
        ("<system-reminder>a</system-reminder>", True),
        (f"{tagged('a')}\n\nnow what?", False),
        (f"now what? {tagged('a')}", False),
        (f"{tagged('a')} and {tagged('b')}", False),
        ("<system-reminder>a", False),
        ("</system-reminder>", False),
        ("", False),
        ("<system-reminder>" * 5000 + "</system-reminder>" * 5000, False),
    ],
)
def test_text_of_nothing_but_late_instructions_is_told_from_a_users(text: str, is_so: bool) -> None:
    assert is_tagged(text) is is_so
