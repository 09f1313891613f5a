"""Token counts: three kinds of input here, one inclusive total in the model."""

from __future__ import annotations

import pytest

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.parts import Extras
from dragoman.model.response import Usage
from dragoman.protocols.anthropic_messages.usage import (
    decode_usage,
    encode_native_usage,
    encode_streamed_usage,
    encode_usage,
    merged_usage,
)
from dragoman.wire.fields import Fields
from tests.protocols.anthropic_messages.support import losses

COUNTS: JsonObject = {
    "input_tokens": 5,
    "cache_creation_input_tokens": 2,
    "cache_read_input_tokens": 3,
    "output_tokens": 7,
    "output_tokens_details": {"thinking_tokens": 4},
    "server_tool_use": {"web_search_requests": 1, "web_fetch_requests": 0},
    "service_tier": "priority",
}


def test_each_token_is_counted_once() -> None:
    usage = decode_usage(Fields(COUNTS))
    assert (usage.input, usage.cache_read, usage.cache_write, usage.output, usage.thinking) == (10, 3, 2, 7, 4)


def test_counts_come_home_as_they_were() -> None:
    given: JsonObject = {**COUNTS, "cache_creation": {"ephemeral_1h_input_tokens": 2}, "inference_geo": "eu"}
    assert encode_native_usage(decode_usage(Fields(given))) == given


def test_counts_of_others_have_all_members() -> None:
    ledger = Ledger()
    written = encode_usage(Usage(input=10, output=7, cache_read=3, cache_write=2, thinking=4), ledger)
    assert written == {key: COUNTS[key] for key in list(COUNTS)[:5]}
    assert not ledger.losses


def test_no_counts_are_zeros_and_reported() -> None:
    ledger = Ledger()
    assert encode_usage(None, ledger)["input_tokens"] == 0
    assert losses(ledger) == [("invented", "usage", "usage")]


@pytest.mark.parametrize(
    ("tier", "whole", "lost"),
    [(None, None, False), ("default", "standard", False), ("flex", "standard", False), ("fast", "priority", True)],
)
def test_the_end_of_a_stream_has_no_tier(tier: str | None, whole: str | None, lost: bool) -> None:
    usage = Usage(input=1, output=1, service_tier=tier)
    assert encode_usage(usage, Ledger()).get("service_tier") == whole
    ledger = Ledger()
    assert "service_tier" not in encode_streamed_usage(usage, ledger)
    assert losses(ledger) == ([("dropped", "service_tier", "usage.service_tier")] if lost else [])


@pytest.mark.parametrize(
    ("details", "lost"),
    [({"audio_tokens": 3}, True), ({"audio_tokens": 0}, False), ({"cached_tokens": 3}, False)],
    ids=["sound", "no sound", "what is told elsewhere"],
)
def test_counts_of_other_kinds_are_reported_once(details: JsonObject, lost: bool) -> None:
    fields: JsonObject = {"prompt_tokens_details": details, "completion_tokens_details": details}
    ledger = Ledger()
    encode_usage(Usage(input=9, output=1, extras=Extras(origin="openai-chat", fields=fields)), ledger)
    assert losses(ledger) == ([("dropped", "usage", "usage.extras")] if lost else [])


def test_later_counts_win_and_nulls_do_not() -> None:
    earlier: JsonObject = {"input_tokens": 5, "output_tokens": 1}
    assert merged_usage(earlier, {"input_tokens": None, "output_tokens": 9}) == {"input_tokens": 5, "output_tokens": 9}


def test_item_17_input_that_is_counted_anew_takes_its_cache_along() -> None:
    earlier: JsonObject = {"input_tokens": 100, "cache_read_input_tokens": 5000, "output_tokens": 1}
    after: JsonObject = {"input_tokens": 180, "cache_read_input_tokens": 0, "output_tokens": 8}
    assert merged_usage(earlier, after) == after
    # The same count with zeros beside it is one that the server left out.
    same = merged_usage(earlier, {**after, "input_tokens": 100})
    assert same == {**earlier, "output_tokens": 8}
    assert merged_usage(earlier, {**after, "input_tokens": 0}) == same
