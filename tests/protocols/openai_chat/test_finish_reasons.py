"""Why answers end: what is read, what is written, and what is reported as bent."""

from __future__ import annotations

import pytest

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.parts import Extras
from dragoman.model.response import Stop, StopReason
from dragoman.protocols.openai_chat.finish_reasons import finish_reason_of, report_stop, stop_of, stop_sequence
from dragoman.protocols.openai_chat.shapes import FINISH_REASONS
from tests.protocols.openai_chat.room import A, C, losses


@pytest.mark.parametrize(
    ("choice", "found"),
    [
        ({"stop_reason": "END"}, ("stop_reason", "END")),
        ({"matched_stop": "END"}, ("matched_stop", "END")),
        ({"stop_reason": 128009, "matched_stop": ""}, None),
        ({}, None),
    ],
)
def test_the_stop_string_is_found_where_servers_say_it(choice: JsonObject, found: tuple[str, str] | None) -> None:
    assert stop_sequence(choice) == found


def test_a_stop_string_that_counts_comes_home_in_its_member() -> None:
    stop = stop_of("stop", calls=False, refusal=None, sequence=("matched_stop", "END"))
    assert stop == Stop(
        reason=StopReason.SEQUENCE,
        native="stop",
        sequence="END",
        extras=Extras(origin=C, fields={"matched_stop": "END"}),
    )
    assert stop_of("stop", calls=True, refusal=None, sequence=("stop_reason", "END")).extras is None


@pytest.mark.parametrize("word", ["", None, "stop", "made_up"])
def test_pitfall_132_every_word_ends_in_a_reason(word: str | None) -> None:
    stop = stop_of(word, calls=False, refusal=None, sequence=None)
    assert finish_reason_of(stop, calls=False, refusal=False, legacy=False) == "stop"


def test_every_reason_has_a_word() -> None:
    assert set(FINISH_REASONS) == set(StopReason)


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        (Stop(reason=StopReason.END), set()),
        (Stop(reason=StopReason.LENGTH), set()),
        (Stop(reason=StopReason.PAUSE), {("approximated", "pause", "stop")}),
        (Stop(reason=StopReason.CONTEXT_FULL), {("approximated", "stop_reason", "stop.reason")}),
        (Stop(reason=StopReason.OTHER), {("approximated", "stop_reason", "stop.reason")}),
        (Stop(reason=StopReason.SEQUENCE, sequence="x"), {("dropped", "stop_sequence", "stop.sequence")}),
        (Stop(reason=StopReason.REFUSAL, category="bio"), {("dropped", "stop_reason", "stop.category")}),
        (
            Stop(reason=StopReason.END, extras=Extras(origin=A, fields={"mood": 1})),
            {("dropped", "unknown_field", "stop.extras.mood")},
        ),
    ],
)
def test_what_the_finish_reason_does_not_say_is_reported(stop: Stop, expected: set[tuple[str, str, str]]) -> None:
    ledger = Ledger()
    report_stop(stop, ledger)
    assert losses(ledger) == expected
