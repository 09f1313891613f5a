"""Requests of other protocols' clients, written by the mapping's sections 3, 4, 10, 12, 14 and 15."""

from __future__ import annotations

from hashlib import sha256

import pytest
from msgspec.structs import replace

from dragoman.errors import RefusedError
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import CacheBreakpoint, Extras, Text
from dragoman.model.request import (
    CacheOptions,
    Demand,
    OutputFormat,
    OutputKind,
    Reasoning,
    Sampling,
    ThinkingMode,
    Updates,
)
from dragoman.model.tools import FunctionTool
from tests.protocols.openai_responses.asking import (
    MESSAGES,
    encoded_request,
    from_chat,
    from_messages,
    items,
    said,
    written,
)

HELLO = said(Text(text="hi"))
ASKED = from_messages(HELLO)


def test_pitfall_110_every_request_is_stateless_and_asks_for_proofs() -> None:
    body, losses = written(ASKED)
    assert (body["store"], body["include"], losses) == (False, ["reasoning.encrypted_content"], [])


@pytest.mark.parametrize(("store", "sent"), [(None, False), (False, False), (True, True)])
def test_a_chat_client_keeps_its_say_over_storage(store: bool | None, sent: bool) -> None:
    body, _ = written(replace(from_chat(HELLO), store=store))
    assert body["store"] is sent


@pytest.mark.parametrize(("cap", "sent", "count"), [(None, None, 0), (5, 16, 1), (16, 16, 0), (4096, 4096, 0)])
def test_pitfall_123_124_the_cap_is_at_least_sixteen(cap: int | None, sent: int | None, count: int) -> None:
    body, losses = written(replace(ASKED, max_tokens=cap))
    assert (body.get("max_output_tokens"), len(losses)) == (sent, count)
    assert "max_tokens" not in body


def test_warming_the_cache_has_an_option_of_its_own() -> None:
    body, losses = written(replace(ASKED, prewarm=True, max_tokens=0))
    assert body["prompt_cache_options"] == {"prewarm": True}
    assert "max_output_tokens" not in body
    assert losses == ["approximated prewarm prewarm"]


def test_pitfall_127_stop_strings_are_left_to_be_emulated() -> None:
    encoded, losses = encoded_request(replace(ASKED, stop=("a", "b")))
    assert encoded.stops == ("a", "b")
    assert "stop" not in encoded.body
    assert losses == ["approximated stop_sequences stop"]


def test_pitfall_075_sampling_that_the_wire_lacks_is_dropped_by_name() -> None:
    sampling = Sampling(temperature=1, top_p=1, top_k=5, seed=1, frequency_penalty=1, others={"min_p": 1})
    body, losses = written(replace(from_chat(HELLO), sampling=sampling))
    assert (body["temperature"], body["top_p"]) == (1, 1)
    assert losses == [
        "dropped penalties sampling.frequency_penalty",
        "dropped top_k sampling.top_k",
        "dropped sampling sampling.seed",
        "dropped sampling sampling.others.min_p",
    ]


def test_penalties_are_sent_to_servers_that_take_them() -> None:
    body, losses = written(replace(from_chat(HELLO), sampling=Sampling(presence_penalty=1)), penalties=True)
    assert (body["presence_penalty"], losses) == (1, [])


def test_pitfall_129_a_long_user_id_is_hashed_and_makes_a_cache_key() -> None:
    user = "user_" + "x" * 80
    digest = sha256(user.encode()).hexdigest()
    body, losses = written(replace(ASKED, end_user=user))
    assert (body["safety_identifier"], body["prompt_cache_key"]) == (digest, digest[:32])
    assert losses == ["approximated end_user end_user", "approximated cache_key end_user"]


def test_a_chat_client_gets_only_the_cache_key_it_gave() -> None:
    body, losses = written(replace(from_chat(HELLO), end_user="u"))
    assert (body["safety_identifier"], "prompt_cache_key" in body, losses) == ("u", False, [])


@pytest.mark.parametrize(
    ("tier", "speed", "sent"),
    [("auto", None, "auto"), ("standard_only", None, "default"), (None, "fast", "fast"), (None, None, None)],
)
def test_pitfall_131_tiers_are_told_in_this_protocols_words(
    tier: str | None, speed: str | None, sent: str | None
) -> None:
    body, _ = written(replace(ASKED, service_tier=tier, speed=speed))
    assert body.get("service_tier") == sent


@pytest.mark.parametrize(
    ("reasoning", "efforts", "reasons", "sent"),
    [
        (Reasoning(), None, True, None),
        (Reasoning(effort="high", mode=ThinkingMode.ADAPTIVE), None, True, {"effort": "high", "summary": "auto"}),
        (Reasoning(mode=ThinkingMode.ADAPTIVE), None, True, {"summary": "auto"}),
        (Reasoning(mode=ThinkingMode.ADAPTIVE, display="omitted"), None, True, None),
        (Reasoning(effort="max"), None, True, {"effort": "high"}),
        (Reasoning(effort="max"), ("low", "xhigh"), True, {"effort": "xhigh"}),
        (Reasoning(mode=ThinkingMode.ENABLED, budget=2048), None, True, {"effort": "low", "summary": "auto"}),
        (Reasoning(mode=ThinkingMode.DISABLED), None, True, {"effort": "low"}),
        (Reasoning(mode=ThinkingMode.DISABLED), None, None, None),
        (Reasoning(mode=ThinkingMode.DISABLED), ("none", "low"), None, {"effort": "none"}),
        (Reasoning(effort="high"), None, False, None),
    ],
)
def test_pitfall_119_120_effort_of_messages_clients(
    reasoning: Reasoning, efforts: tuple[str, ...] | None, reasons: bool | None, sent: JsonObject | None
) -> None:
    changes: JsonObject = {"reasons": reasons}
    body, _ = written(replace(ASKED, reasoning=reasoning), **changes, efforts=efforts)  # type: ignore[arg-type]  # one table, many members
    assert body.get("reasoning") == sent


@pytest.mark.parametrize(
    ("effort", "sent"),
    [("xhigh", {"effort": "xhigh", "summary": "auto"}), ("none", {"effort": "none"}), (None, None)],
)
def test_effort_of_chat_clients_passes_unchanged(effort: str | None, sent: JsonValue) -> None:
    body, losses = written(replace(from_chat(HELLO), reasoning=Reasoning(effort=effort)))
    assert (body.get("reasoning"), losses) == (sent, [])


def test_pitfall_148_an_output_schema_without_a_name_gets_one() -> None:
    loose: JsonObject = {"type": "object", "properties": {"a": {"type": "string"}}}
    body, losses = written(replace(ASKED, output=OutputFormat(kind=OutputKind.SCHEMA, schema=loose)))
    assert body["text"] == {"format": {"type": "json_schema", "name": "response", "schema": loose, "strict": False}}
    assert losses == ["approximated output_schema output.schema"]
    strict: JsonObject = {**loose, "required": ["a"], "additionalProperties": False}
    body, losses = written(replace(ASKED, output=OutputFormat(kind=OutputKind.SCHEMA, schema=strict)))
    assert (body["text"], losses) == (
        {"format": {"type": "json_schema", "name": "response", "schema": strict, "strict": True}},
        [],
    )


def test_pitfall_006_007_instructions_are_joined_without_the_telemetry_line() -> None:
    blocks = (Text(text="x-anthropic-billing-header: v=1"), Text(text="one"), Text(text="two"))
    body, losses = written(replace(ASKED, instructions=blocks))
    assert body["instructions"] == "one\n\ntwo"
    assert losses == ["approximated telemetry_line instructions[0]"]


def test_pitfall_175_breakpoints_stand_on_parts_where_the_model_takes_them() -> None:
    mark = CacheBreakpoint(origin=MESSAGES, ttl="1h")
    request = replace(ASKED, instructions=(Text(text="one", cache=mark),))
    body, losses = written(request)
    assert (body["instructions"], losses) == ("one", ["dropped cache_breakpoint instructions[0].cache"])
    body, _ = written(request, breakpoints=True)
    part = {"type": "input_text", "text": "one", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}}
    assert items(body)[0] == {"type": "message", "role": "developer", "content": [part]}


def test_compaction_and_obfuscation_are_asked_for() -> None:
    body, losses = written(replace(ASKED, compact_at=9000, stream=True))
    assert body["context_management"] == [{"type": "compaction", "compact_threshold": 9000}]
    assert body["stream_options"] == {"include_obfuscation": False}
    assert losses == ["approximated context_management compact_at"]


def test_log_probabilities_are_asked_for_by_inclusion() -> None:
    body, _ = written(replace(from_chat(HELLO), logprobs=True, top_logprobs=3))
    assert body["include"] == ["reasoning.encrypted_content", "message.output_text.logprobs"]
    assert body["top_logprobs"] == 3


def test_options_of_the_cache_pass_between_the_openai_protocols() -> None:
    cache = CacheOptions(explicit=True, ttl="30m", retention="24h")
    body, _ = written(replace(from_chat(HELLO), cache=cache, cache_key="k", metadata={"a": "b"}))
    assert body["prompt_cache_options"] == {"mode": "explicit", "ttl": "30m"}
    assert (body["prompt_cache_retention"], body["prompt_cache_key"], body["metadata"]) == ("24h", "k", {"a": "b"})


def test_pitfall_212_members_of_another_protocol_are_reported() -> None:
    _, losses = written(replace(ASKED, extras=Extras(origin=MESSAGES, fields={"inference_geo": "eu"})))
    assert losses == ["dropped unknown_field extras.inference_geo"]


def test_several_choices_and_other_demands_are_refused() -> None:
    with pytest.raises(RefusedError):
        written(replace(from_chat(HELLO), choices=2))
    demand = Demand(feature=Feature.MODALITIES, member="modalities", note="audio")
    with pytest.raises(RefusedError):
        written(replace(from_chat(HELLO), demands=(demand,)))


def test_moderation_that_blocks_passes_between_the_openai_protocols() -> None:
    demand = Demand(feature=Feature.MODERATION, member="moderation", note="blocks")
    policy: JsonObject = {"model": "m", "policy": {"input": {"mode": "block"}}}
    body, _ = written(replace(from_chat(HELLO), demands=(demand,), moderation=policy))
    assert body["moderation"] == policy


def test_both_names_of_the_end_user_pass_between_the_openai_protocols() -> None:
    chat = replace(from_chat(HELLO), end_user="a", extras=Extras(origin="openai-chat", fields={"user": "b", "odd": 1}))
    body, losses = written(chat)
    assert (body["safety_identifier"], body["user"]) == ("a", "b")
    assert losses == ["dropped unknown_field extras.odd"]


def test_the_speed_says_more_than_a_default_tier() -> None:
    body, losses = written(replace(ASKED, service_tier="auto", speed="fast"))
    assert body["service_tier"] == "fast"
    assert losses == ["approximated service_tier speed"]


def test_tools_that_the_conversation_removed_are_reported_where_they_were_declared() -> None:
    tools = (FunctionTool(name="a"), FunctionTool(name="b"), FunctionTool(name="c.d"))
    body, losses = written(replace(ASKED, tools=tools, updates=Updates(removed=("b",))))
    found = body["tools"]
    assert isinstance(found, list) and len(found) == 2
    assert losses == ["approximated tools_in_items tools[1]", "approximated tool_name tools[2].name"]


def test_item_19_other_vendors_words_of_a_chat_client_are_told_in_this_protocols() -> None:
    body, losses = written(replace(from_chat(said(Text(text="q"))), service_tier="on_demand"))
    assert body["service_tier"] == "default"
    assert losses == ["approximated service_tier service_tier"]
    asked = replace(from_chat(said(Text(text="q"))), reasoning=Reasoning(effort="default"))
    body, losses = written(asked)
    assert "reasoning" not in body
    assert "approximated effort reasoning.effort" in losses
    body, _ = written(asked, efforts=["none", "default"])
    assert body["reasoning"] == {"effort": "default", "summary": "auto"}
