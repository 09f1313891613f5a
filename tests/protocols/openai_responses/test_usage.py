"""Token counts: inclusive totals, and what this wire does not count."""

from __future__ import annotations

import pytest

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.parts import Extras, Text
from dragoman.model.response import Usage
from dragoman.protocols.openai_responses.usage import decode_usage, encode_native_usage, encode_usage
from tests.protocols.openai_responses.asking import answer, lines, told

COUNTS: JsonObject = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 6},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 15,
}


def test_cached_tokens_that_a_server_counts_apart_are_added_and_reported() -> None:
    ledger = Ledger()
    usage = decode_usage({"usage": COUNTS}, ledger, native=False)
    assert usage is not None and (usage.input, usage.cache_read, usage.cache_write) == (80, 64, 6)
    assert lines(ledger) == ["approximated usage usage.input"]


def test_at_home_they_stay_as_they_were_said() -> None:
    ledger = Ledger()
    usage = decode_usage({"usage": COUNTS}, ledger, native=True)
    assert usage is not None and encode_native_usage(usage) == COUNTS
    assert lines(ledger) == []


def test_pitfall_178_details_are_there_even_where_nothing_was_counted() -> None:
    assert encode_usage(None) == {
        "input_tokens": 0,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 0,
    }


@pytest.mark.parametrize(
    ("details", "losses"),
    [
        ({"audio_tokens": 7, "accepted_prediction_tokens": 3}, ["dropped usage usage.extras"]),
        ({"audio_tokens": 0, "accepted_prediction_tokens": 0}, []),
        ({"reasoning_tokens": 3}, []),
    ],
    ids=["counted", "zeros are nothing", "counted elsewhere"],
)
def test_other_kinds_of_tokens_are_reported_once(details: JsonObject, losses: list[str]) -> None:
    extras = Extras(origin="openai-chat", fields={"completion_tokens_details": details})
    _, found = told(answer(Text(text="a"), usage=Usage(input=1, output=1, extras=extras)))
    assert found == losses
