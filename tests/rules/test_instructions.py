"""Telemetry lines and late instructions: I1 and I4 of mapping.md."""

from __future__ import annotations

import pytest

from dragoman.rules.instructions import tagged, without_telemetry

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
