"""Spans say what is known of an exchange, in the words of the conventions, and leave out what is not."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from dragoman.records.journal_entry import (
    ANSWERED,
    COUNT,
    LIST,
    OPEN,
    OTHER,
    CallEntry,
    CandidateEntry,
    CostBreakdown,
    JournalEntry,
    LossEntry,
    TokenCounts,
)
from dragoman.telemetry.spans import ProviderPlace, SpanNames, TraceSpan, operation_of, spans_of
from dragoman.telemetry.trace_context import span_id_of, trace_id_of
from tests.records.told_exchanges import (
    BROKEN,
    FAILED_OVER,
    GONE,
    LOST,
    NOON,
    PLACES,
    SPAN,
    STREAMED,
    TRACE,
    TURNED_AWAY,
    WHOLE,
)

ALL = (WHOLE, STREAMED, FAILED_OVER, GONE, TURNED_AWAY, BROKEN, LOST)


def told(entry: JournalEntry) -> list[TraceSpan]:
    return spans_of(entry, PLACES, SpanNames())


def test_an_exchange_is_told_with_all_that_is_known() -> None:
    whole, call = told(WHOLE)
    assert whole.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "server.address": "api.anthropic.com",
        "server.port": 443,
        "gen_ai.request.model": "claude-sonnet-4-5",
        "gen_ai.response.model": "claude-sonnet-4-5-20250929",
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.response.finish_reasons": ("end_turn",),
        "gen_ai.conversation.id": "sess-1",
        "gen_ai.agent.name": "reviewer",
        "gen_ai.usage.input_tokens": 1000,
        "gen_ai.usage.output_tokens": 200,
        "gen_ai.usage.cache_read.input_tokens": 600,
        "gen_ai.usage.cache_write.input_tokens": 100,
        "gen_ai.usage.cache_creation.input_tokens": 100,
        "gen_ai.usage.reasoning.output_tokens": 50,
        "dragoman.request_id": "req_whole",
        "dragoman.outcome": "answered",
        "dragoman.status": 200,
        "dragoman.client_protocol": "openai-chat",
        "dragoman.requested_model": "large",
        "dragoman.route": "large",
        "dragoman.policy": "fallback",
        "dragoman.provider": "anthropic",
        "dragoman.provider_protocol": "anthropic-messages",
        "dragoman.key": "laptop",
        "dragoman.client": "claude-cli",
        "dragoman.calls": 1,
        "dragoman.losses": ("dropped:sampling",),
        "dragoman.searches": 2,
        "dragoman.cost_usd": 0.004455,
        "dragoman.thread.id": "agent-7",
        "dragoman.thread.parent": "agent-1",
        "dragoman.thread.class": "subagent",
    }
    assert call.attributes == {
        "dragoman.call.number": 1,
        "dragoman.provider": "anthropic",
        "dragoman.model": "claude-sonnet-4-5",
        "dragoman.provider_protocol": "anthropic-messages",
        "dragoman.call.outcome": "answered",
        "dragoman.call.provider_request_id": "req_up",
        "server.address": "api.anthropic.com",
        "server.port": 443,
        "http.response.status_code": 200,
        "dragoman.call.key": 0,
        "dragoman.call.input_tokens": 1000,
        "dragoman.call.output_tokens": 200,
        "dragoman.call.cost_usd": 0.004455,
    }
    assert (whole.name, call.name) == ("chat claude-sonnet-4-5", "call anthropic")
    assert (whole.failed, call.failed) == (False, False)


def test_tags_of_the_key_are_attributes_of_the_exchange() -> None:
    whole, call = told(replace(WHOLE, tags="team=web,zone=eu"))
    assert whole.attributes == {**told(WHOLE)[0].attributes, "dragoman.tag.team": "web", "dragoman.tag.zone": "eu"}
    assert call.attributes == told(WHOLE)[1].attributes


def test_times_are_those_of_the_entry() -> None:
    whole, call = told(WHOLE)
    assert (whole.started, whole.ended) == (NOON * 1000, NOON * 1000 + 2_500_000_000)
    assert (call.started, call.ended) == (NOON * 1000 + 1_000_000, NOON * 1000 + 2_400_000_000)
    for entry in ALL:
        first, *calls = told(entry)
        assert all(first.started <= each.started <= each.ended for each in calls)


def test_spans_hang_together_and_from_the_clients_own() -> None:
    whole, call = told(WHOLE)
    assert (whole.trace, whole.id, whole.parent, whole.remote) == (
        trace_id_of("req_whole", ""),
        span_id_of("req_whole"),
        "",
        False,
    )
    assert (call.trace, call.id, call.parent, call.remote) == (whole.trace, span_id_of("req_whole", 0), whole.id, False)
    whole, call = told(STREAMED)
    assert (whole.trace, whole.parent, whole.remote) == (TRACE, SPAN, True)
    assert (call.trace, call.parent) == (TRACE, whole.id)


def test_a_stream_says_so_and_when_it_began_to_speak() -> None:
    whole = told(STREAMED)[0].attributes
    assert (whole["gen_ai.request.stream"], whole["gen_ai.response.time_to_first_chunk"]) == (True, 0.25)
    assert not {"gen_ai.request.stream", "gen_ai.response.time_to_first_chunk"} & set(told(WHOLE)[0].attributes)


def test_whoever_is_asked_inside_of_this_process_is_no_call_to_somebody_else() -> None:
    assert [span.calls for span in told(STREAMED)] == [False, False]
    assert [span.calls for span in told(WHOLE)] == [True, True]
    assert [span.calls for span in told(TURNED_AWAY)] == [False]


def test_every_try_is_told_with_what_became_of_it() -> None:
    whole, *calls = told(FAILED_OVER)
    assert not whole.failed
    assert "error.type" not in whole.attributes
    assert [(call.name, call.failed, call.attributes.get("error.type")) for call in calls] == [
        ("call mistral", True, "rate_limited"),
        ("call mistral", True, "first_byte_timeout"),
        ("call home", False, None),
    ]
    assert [call.attributes.get("http.response.status_code") for call in calls] == [429, None, 200]
    assert calls[1].attributes["dragoman.call.maybe_billed"] is True
    assert (whole.attributes["dragoman.calls"], whole.attributes["dragoman.estimated"]) == (3, True)


def test_whom_it_might_have_gone_to_is_told_where_somebody_had_to_be_ranked() -> None:
    found = (
        CandidateEntry("anthropic/claude-sonnet-5", cost=1_500_000, first_token=200_000, rate=80.0),
        CandidateEntry("openai/gpt-5.1", "deprioritized: failed 3 s ago", cost=2_000_000),
        CandidateEntry(f"any/{'m' * 5000}", "left out: it takes no tools"),
    )
    said = told(replace(WHOLE, candidates=found, candidates_more=3))[0].attributes
    assert said["dragoman.candidates"] == (
        "anthropic/claude-sonnet-5",
        "openai/gpt-5.1 (deprioritized: failed 3 s ago)",
        f"any/{'m' * 196} (left out: it takes no tools)",
    )
    assert said["dragoman.candidates_more"] == 3
    assert "dragoman.candidates_more" not in told(replace(WHOLE, candidates=found))[0].attributes
    assert "dragoman.candidates" not in told(WHOLE)[0].attributes


@pytest.mark.parametrize(
    ("entry", "failed", "error", "reasons"),
    [
        (GONE, False, None, ("error",)),
        (TURNED_AWAY, True, "not_found", None),
        (BROKEN, True, "bad_gateway", ("error",)),
        (LOST, True, "crashed", ("error",)),
        (replace(TURNED_AWAY, failure=""), True, "404", None),
        (replace(TURNED_AWAY, failure="", status=0), True, "_OTHER", None),
    ],
    ids=["left by its client", "refused", "broken", "crashed", "refused with a status alone", "refused somehow"],
)
def test_what_went_wrong_is_told_in_a_word(
    entry: JournalEntry, failed: bool, error: str | None, reasons: tuple[str, ...] | None
) -> None:
    whole = told(entry)[0]
    assert (whole.failed, whole.attributes.get("error.type")) == (failed, error)
    assert whole.attributes.get("gen_ai.response.finish_reasons") == reasons


def test_a_call_that_was_not_heard_of_again_ends_with_its_exchange() -> None:
    _, call = told(LOST)
    assert call.ended == call.started
    _, call = told(replace(LOST, duration=5000))
    assert call.ended == NOON * 1000 + 6000 + 5_000_000


def test_pitfall_455_what_is_not_known_is_left_out_and_never_zero() -> None:
    for entry in (GONE, TURNED_AWAY, BROKEN, LOST):
        for span in told(entry):
            assert not [name for name in span.attributes if "usage" in name or "cost" in name or "tokens" in name]
            assert 0 not in [value for name, value in span.attributes.items() if name != "dragoman.calls"]
    assert "gen_ai.provider.name" not in told(TURNED_AWAY)[0].attributes
    # Of what has no price the cost is unknown; of what is known in part it is at least that.
    assert "dragoman.cost_usd" not in told(FAILED_OVER)[0].attributes
    assert told(FAILED_OVER)[0].attributes["dragoman.unpriced"] == ("model",)
    partly = told(replace(WHOLE, cost=CostBreakdown(input=5_000, unpriced=("search",), reported=7_000_000)))[
        0
    ].attributes
    assert (partly["dragoman.cost_usd"], partly["dragoman.unpriced"]) == (0.000005, ("search",))
    assert partly["dragoman.reported_cost_usd"] == 0.007
    # What costs nothing is known to.
    assert told(STREAMED)[0].attributes["dragoman.cost_usd"] == 0.0


def test_pitfall_455_caches_are_parts_of_the_input() -> None:
    tokens = TokenCounts(input=1000, cache_read=900, cache_write=50, output=1)
    said = told(replace(WHOLE, tokens=tokens))[0].attributes
    assert said["gen_ai.usage.input_tokens"] == 1000
    assert said["gen_ai.usage.cache_read.input_tokens"] == 900
    assert said["gen_ai.usage.cache_write.input_tokens"] == 50


def test_pitfall_455_nothing_is_added_up_twice() -> None:
    for entry in ALL:
        _, *calls = told(entry)
        assert not [name for call in calls for name in call.attributes if name.startswith("gen_ai.")]
        assert not [call for call in calls if "dragoman.cost_usd" in call.attributes]


def test_pitfall_454_models_that_clients_make_up_are_no_names_of_spans() -> None:
    names = SpanNames()
    junk = {spans_of(replace(WHOLE, id=f"req_{n}", model=f"junk-{n}"), PLACES, names)[0].name for n in range(10_000)}
    assert len(junk) == 201
    assert "chat" in junk
    # Those that are known by then stay, and what nobody knows takes no place.
    assert names.of("chat", replace(WHOLE, model="junk-3")) == "chat junk-3"
    assert SpanNames().of("chat", replace(WHOLE, model="no-such", status=404)) == "chat"


def test_texts_from_outside_are_cut() -> None:
    long = replace(WHOLE, model="m" * 5000, stop_reason="s" * 5000, response_model="a" * 5000)
    for span in told(long):
        assert len(span.name) < 300
        assert all(len(text) <= 200 for text in msgspec.to_builtins(span.attributes).values() if isinstance(text, str))


@pytest.mark.parametrize(
    ("entry", "operation"),
    [
        (WHOLE, "chat"),
        (replace(WHOLE, kind=COUNT), "count_tokens"),
        (replace(WHOLE, kind=OTHER, path="/embeddings"), "embeddings"),
        (replace(WHOLE, kind=OTHER, path="/completions"), "text_completion"),
        (replace(WHOLE, kind=OTHER, path="/files/file-1"), ""),
        (replace(WHOLE, kind=LIST, path="/models"), ""),
        (replace(WHOLE, outcome=OPEN), ""),
    ],
    ids=["a conversation", "a count", "embeddings", "a completion", "files", "a list", "one that is still open"],
)
def test_what_the_conventions_have_a_word_for_is_told(entry: JournalEntry, operation: str) -> None:
    assert operation_of(entry) == operation
    assert bool(told(entry)) == bool(operation)


def test_a_provider_that_is_no_longer_configured_is_told_by_its_name() -> None:
    whole, call = spans_of(WHOLE, {}, SpanNames())
    assert whole.attributes["gen_ai.provider.name"] == "anthropic"
    assert "server.address" not in {**whole.attributes, **call.attributes}


def test_the_status_of_a_call_is_its_error_where_nothing_else_is_known() -> None:
    entry = JournalEntry(
        id="req_1", time=NOON, outcome=ANSWERED, kind=COUNT, calls=(CallEntry("home", "m", "openai-chat", status=404),)
    )
    _, call = spans_of(entry, {"home": ProviderPlace(provider="home")}, SpanNames())
    assert (call.failed, call.attributes["error.type"]) == (True, "404")


def test_bookkeeping_is_an_attribute_of_its_own() -> None:
    whole = told(
        replace(
            WHOLE, losses=(LossEntry("cache_breakpoint", "dropped", "cache"), LossEntry("top_k", "dropped", "top_k"))
        )
    )[0]
    assert whole.attributes["dragoman.losses"] == ("dropped:top_k",)
    assert whole.attributes["dragoman.bookkeeping_losses"] == ("dropped:cache_breakpoint",)
