"""A usage as disjoint classes, and the tier that it was served in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import Extras
from dragoman.model.response import Usage
from dragoman.prices.classes import TokenClasses, runs_of, server_of, tier_of, tokens_of
from dragoman.protocols.anthropic_messages.usage import decode_usage
from dragoman.wire.fields import Fields

COUNTS = st.none() | st.integers(0, 10**6)


def usage(fields: JsonObject | None = None, **members: object) -> Usage:
    extras = Extras(origin="x", fields=fields) if fields is not None else None
    return Usage(extras=extras, **members)  # type: ignore[arg-type]  # the members of one struct


@given(plain=st.integers(0, 10**6), read=COUNTS, written=COUNTS, output=st.integers(0, 10**6), thinking=COUNTS)
def test_pitfall_180_no_token_is_in_two_classes(
    plain: int, read: int | None, written: int | None, output: int, thinking: int | None
) -> None:
    total = plain + (read or 0) + (written or 0)
    tokens = tokens_of(Usage(input=total, output=output, cache_read=read, cache_write=written, thinking=thinking))
    assert (tokens.input, tokens.cache_read, tokens.cache_write) == (plain, read or 0, written or 0)
    assert tokens.total_input == total
    assert tokens.output == output and tokens.thinking <= output


def test_a_server_that_counts_caches_apart() -> None:
    tokens = tokens_of(Usage(input=10, cache_read=100))
    assert (tokens.input, tokens.cache_read, tokens.total_input) == (10, 100, 110)


@pytest.mark.parametrize(
    ("written", "split", "told"),
    [
        (100, {"ephemeral_5m_input_tokens": 60, "ephemeral_1h_input_tokens": 40}, (60, 40)),
        (100, {"ephemeral_1h_input_tokens": 100}, (0, 100)),
        (100, {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 0}, (100, 0)),
        (100, {}, (100, 0)),
        (None, {"ephemeral_5m_input_tokens": 60, "ephemeral_1h_input_tokens": 40}, (60, 40)),
        (100, None, (100, 0)),
        (100, {"ephemeral_1h_input_tokens": None}, (100, 0)),
    ],
)
def test_pitfall_404_lifetimes_of_caches_are_apart_and_never_added_to_their_total(
    written: int | None, split: JsonObject | None, told: tuple[int, int]
) -> None:
    tokens = tokens_of(usage({"cache_creation": split}, input=500, cache_write=written))
    assert (tokens.cache_write, tokens.cache_write_1h) == told


@pytest.mark.parametrize("details", ["input_tokens_details", "prompt_tokens_details"])
def test_pitfall_405_other_lifetimes_are_classes_of_their_own(details: str) -> None:
    split: JsonObject = {"cache_write_tokens_details": {"ttl_30m_tokens": 20, "ttl_12h_tokens": 10}}
    tokens = tokens_of(usage({details: split}, input=100, cache_write=30))
    # Half an hour is what is usual there.
    assert tokens == TokenClasses(input=70, cache_write=20, others={"cache_write_12h": 10})
    assert tokens.total_input == 100


def test_kinds_of_tokens_within_totals() -> None:
    fields: JsonObject = {
        "prompt_tokens_details": {"audio_tokens": 5, "image_tokens": 0},
        "completion_tokens_details": {"audio_tokens": 6},
    }
    assert tokens_of(usage(fields, input=9, output=9)).others == {"input_audio": 5, "output_audio": 6}
    said_none: JsonObject = {
        "prompt_tokens_details": {"audio_tokens": 0, "cache_write_tokens_details": {}},
        "completion_tokens_details": {"audio_tokens": 0},
    }
    assert tokens_of(usage(said_none, input=9, output=9)) == TokenClasses(input=9, output=9)


@pytest.mark.parametrize(
    ("told", "tier"),
    [
        (None, ""),
        ("default", ""),
        ("standard", ""),
        ("on_demand", ""),
        ("priority", "priority"),
        ("fast", "priority"),
        ("flex", "flex"),
        ("batch", "batch"),
        ("scale", "scale"),
    ],
)
def test_pitfall_407_the_tier_is_the_one_that_was_served(told: str | None, tier: str) -> None:
    assert tier_of(Usage(service_tier=told), requested_tier="priority") == tier


def test_pitfall_408_an_answer_that_does_not_know_its_tier_is_not_believed() -> None:
    assert tier_of(Usage(service_tier="default"), requested_tier="priority", label="codex") == "priority"
    assert tier_of(Usage(service_tier="default"), requested_tier="priority", label="openai") == ""


@pytest.mark.parametrize(
    ("fields", "tier"),
    [
        ({"speed": "fast"}, "speed-fast"),
        ({"speed": "standard", "inference_geo": "global"}, ""),
        ({"inference_geo": "us"}, "geo-us"),
        ({"speed": "fast", "inference_geo": "us"}, "speed-fast+geo-us"),
        ({"speed": None, "inference_geo": "not_available"}, ""),
    ],
)
def test_pitfall_409_speed_and_place_are_tiers(fields: JsonObject, tier: str) -> None:
    assert tier_of(usage(fields, service_tier="standard")) == tier


def test_pitfall_411_what_ran_beside_the_answer_is_told_apart() -> None:
    compaction: JsonObject = {
        "type": "compaction",
        "input_tokens": 100,
        "output_tokens": 10,
        "cache_read_input_tokens": 7,
        "cache_creation_input_tokens": 5,
        "cache_creation": {"ephemeral_1h_input_tokens": 5},
    }
    adviser: JsonObject = {"type": "advisor_message", "model": "wise", "input_tokens": 1, "output_tokens": 2}
    turn: JsonObject = {"type": "message", "input_tokens": 9, "output_tokens": 9}
    served: JsonObject = {"type": "fallback_message", "model": "other", "input_tokens": 9, "output_tokens": 9}
    told = usage({"iterations": [turn, compaction, adviser, "?"]})
    first, second = runs_of(told)
    assert (first.model, second.model) == ("", "wise")
    assert first.tokens == TokenClasses(input=100, output=10, cache_read=7, cache_write_1h=5, requests=0)
    assert server_of(told) == ""
    # A hop that declined is a turn, and not added.
    assert not list(runs_of(usage({"iterations": [turn, served]})))
    assert server_of(usage({"iterations": [turn, served]})) == "other"


def test_what_codecs_read_comes_out_as_classes() -> None:
    """The members that are read here are those that the rooms keep."""
    read = decode_usage(
        Fields(
            {
                "input_tokens": 10,
                "cache_creation_input_tokens": 30,
                "cache_read_input_tokens": 5,
                "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
                "output_tokens": 7,
                "speed": "fast",
                "server_tool_use": {"web_search_requests": 2},
            }
        )
    )
    tokens = tokens_of(read)
    assert tokens == TokenClasses(input=10, cache_read=5, cache_write=10, cache_write_1h=20, output=7, searches=2)
    assert tier_of(read) == "speed-fast"


def test_words_of_providers_are_cut_and_lifetimes_bounded() -> None:
    long = "t" * 100_000
    tier = tier_of(usage({"speed": long, "inference_geo": long}, input=1, output=1, service_tier=long))
    assert len(tier) < 256
    split: JsonObject = {f"ttl_{number}{long}_tokens": 1 for number in range(1000)}
    tokens = tokens_of(
        usage({"input_tokens_details": {"cache_write_tokens_details": split}}, input=1000, cache_write=1000)
    )
    assert len(tokens.others) <= 17
    assert max(map(len, tokens.others)) < 100
    assert sum(tokens.others.values()) == tokens.total_input == 1000
