"""Token counts: made inclusive with a report, written with what is known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw, json
from msgspec.structs import replace

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.parts import Extras
from dragoman.model.response import Usage
from dragoman.protocols.openai_chat import usage as chat_usage
from dragoman.protocols.openai_chat.usage import decode_usage, decode_usual, encode_usage, usage_of, usual_usage
from dragoman.rules.counts import UsageMembers
from dragoman.wire.json import encode
from tests.protocols.openai_chat.room import A, losses


def test_cached_tokens_beside_the_total_are_added_and_reported() -> None:
    ledger = Ledger()
    usage = decode_usage(
        {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 64}}, None, ledger
    )
    assert (usage.input, usage.cache_read) == (74, 64)
    assert losses(ledger) == {("approximated", "usage", "usage.input")}


@pytest.mark.parametrize("total", [103, 1184, None])
def test_reasoning_that_is_more_than_the_answer_was_not_counted_in_it(total: int | None) -> None:
    wire: JsonObject = {
        "prompt_tokens": 19,
        "completion_tokens": 84,
        "total_tokens": total,
        "completion_tokens_details": {"reasoning_tokens": 1081},
    }
    usage = decode_usage(wire, None, Ledger())
    assert (usage.input, usage.output, usage.thinking) == (19, 1165, 1081)


def test_what_was_written_to_the_cache_has_another_word_too() -> None:
    details: JsonObject = {"cached_tokens": 0, "cache_creation_input_tokens": 900, "cache_type": "ephemeral"}
    usage = decode_usage(
        {"prompt_tokens": 1000, "completion_tokens": 5, "prompt_tokens_details": details}, None, Ledger()
    )
    assert (usage.input, usage.cache_read, usage.cache_write) == (1000, 0, 900)


@pytest.mark.parametrize(
    "wire",
    [
        {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
        {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12, "prompt_tokens_details": {"audio_tokens": 1}},
        {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5, "prompt_cache_hit_tokens": 2, "cost": 0},
    ],
)
def test_counts_come_home_as_they_were(wire: JsonObject) -> None:
    ledger = Ledger()
    home = encode_usage(decode_usage(wire, None, ledger), ledger)
    assert {key: home[key] for key in wire if not isinstance(wire[key], dict)} == {
        key: value for key, value in wire.items() if not isinstance(value, dict)
    }
    assert not ledger.losses


def test_no_usage_is_told_as_zeros_and_reported_as_made_up() -> None:
    ledger = Ledger()
    assert encode_usage(None, ledger) == {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    assert losses(ledger) == {("invented", "usage", "usage")}


SEARCHED: JsonObject = {"web_search_requests": 2}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"server_tool_use": SEARCHED}, set()),
        ({"cache_creation": {"ephemeral_5m_input_tokens": 5}}, set()),
        ({"input_tokens_details": {"cache_write_tokens_details": {"x": 1}}}, set()),
        (
            {"server_tool_use": {**SEARCHED, "web_fetch_requests": 1}},
            {("dropped", "unknown_field", "usage.extras.server_tool_use")},
        ),
        ({"inference_geo": "eu"}, {("dropped", "unknown_field", "usage.extras.inference_geo")}),
    ],
    ids=["searches", "lifetimes", "lifetimes of Responses", "other counts", "something else"],
)
def test_searches_are_reported_once_and_lifetimes_never(
    fields: JsonObject, expected: set[tuple[str, str, str]]
) -> None:
    ledger = Ledger()
    encode_usage(Usage(web_searches=2, extras=Extras(origin=A, fields=fields)), ledger)
    assert losses(ledger) == expected | {("dropped", "usage", "usage.web_searches")}


@pytest.mark.parametrize(
    ("counts", "is_usual"),
    [
        ({}, True),
        ({"prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0}}, True),
        (
            {"prompt_tokens_details": None, "completion_tokens_details": {"reasoning_tokens": 3, "audio_tokens": 0}},
            True,
        ),
        ({"completion_tokens_details": {"accepted_prediction_tokens": 2, "rejected_prediction_tokens": 1}}, True),
        ({"prompt_tokens_details": {"cached_tokens": 40}}, False),
        ({"completion_tokens_details": {"reasoning_tokens": 30}}, False),
        ({"total_tokens": 19}, False),
        ({"prompt_tokens": "10"}, False),
        ({"prompt_cache_hit_tokens": 3}, False),
    ],
)
def test_the_usual_counts_are_what_the_rules_make_of_them(counts: JsonObject, is_usual: bool) -> None:
    usage: JsonObject = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, **counts}
    members = UsageMembers(usage=Raw(json.encode(usage)), service_tier=Raw(b'"flex"'))
    found, ruled = usual_usage(members), decode_usage(usage, "flex", Ledger())
    assert (found is not None) is is_usual
    if found is None:
        found = usage_of({"usage": usage, "service_tier": "flex"})
    assert found is not None
    # What says nothing of them is left out where nobody writes it again.
    assert replace(found, extras=None) == replace(ruled, extras=None)


COUNTS = st.one_of(st.integers(-1, 12), st.integers(0, 12), st.none(), st.just("3"), st.just(2.0))
INPUT_DETAILS = ("cached_tokens", "audio_tokens", "cache_write_tokens", "text_tokens")
OUTPUT_DETAILS = ("reasoning_tokens", "audio_tokens", "rejected_prediction_tokens", "image_tokens")


@st.composite
def reported(draw: st.DrawFn) -> JsonObject:
    """Counts of a server: usual ones, and others."""
    prompt, completion = draw(st.integers(0, 12)), draw(st.integers(0, 12))
    total = prompt + completion + draw(st.sampled_from([0, 0, 0, 1]))
    usage: JsonObject = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}
    for member, names in (("completion_tokens_details", OUTPUT_DETAILS), ("prompt_tokens_details", INPUT_DETAILS)):
        details = st.dictionaries(st.sampled_from(names), COUNTS, max_size=3)
        if draw(st.booleans()):
            usage[member] = None if draw(st.integers(0, 4)) == 0 else {**draw(details)}
    if draw(st.integers(0, 4)) == 0:
        usage[draw(st.sampled_from(["cached_tokens", "cost", "prompt_tokens", "total_tokens"]))] = draw(COUNTS)
    return usage


@given(reported(), st.sampled_from([None, "flex"]))
def test_usual_counts_are_read_in_one_step_as_any_others(usage: JsonObject, tier: str | None) -> None:
    usual, ledger = decode_usual(usage, tier), Ledger()
    if usual is not None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(chat_usage, "decode_usual", lambda *_arguments: None)
            counted = decode_usage(usage, tier, ledger)
        assert usual == counted
        assert not ledger.entries
        extras = [None if one.extras is None else encode(one.extras.fields) for one in (usual, counted)]
        assert extras[0] == extras[1]


def test_the_usual_counts_take_the_short_way() -> None:
    usage: JsonObject = {
        "prompt_tokens": 81352,
        "completion_tokens": 812,
        "total_tokens": 82164,
        "prompt_tokens_details": {"cached_tokens": 81000, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 230, "audio_tokens": 0},
    }
    assert decode_usual(usage, None) is not None
    assert decode_usual({**usage, "cost": 1}, None) is None
