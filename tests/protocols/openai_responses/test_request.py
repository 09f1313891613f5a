"""Requests: read as they were said, written for a provider by the mapping's sections 3, 4, 10, 12, 14 and 15."""

from __future__ import annotations

from hashlib import sha256

import pytest
from msgspec.structs import replace

from dragoman.errors import RefusedError, WireError
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import CacheMark, Extras, Foreign, Text
from dragoman.model.request import (
    CacheOptions,
    Demand,
    OutputFormat,
    OutputKind,
    Reasoning,
    Role,
    Sampling,
    ThinkingMode,
)
from dragoman.protocols.openai_responses import CODEC
from tests.protocols.openai_responses.asking import (
    MESSAGES,
    decoded,
    encoded_request,
    from_chat,
    from_messages,
    items,
    said,
    written,
)

HELLO = said(Text(text="hi"))
ASKED = from_messages(HELLO)


@pytest.mark.parametrize(
    ("body", "known"),
    [
        ({"input": "hi"}, True),
        ({"instructions": "x"}, True),
        ({"previous_response_id": "resp_1"}, True),
        ({"messages": [], "input": "hi"}, False),
        ({"prompt": {"id": "p"}}, True),
        ({}, False),
    ],
)
def test_the_shape_of_a_body_tells_the_protocol(body: JsonObject, known: bool) -> None:
    assert CODEC.recognises(body) is known


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"input": 3}, "/input"),
        ({"input": []}, "/input"),
        ({"input": None}, "/input"),
        ({"tools": [{"type": "function", "name": 1}]}, "/tools/0/name"),
        ({"include": ["a", 1]}, "/include/1"),
        ({"temperature": "warm"}, "/temperature"),
        ({"text": {"format": {"type": "poem"}}}, "/text/format/type"),
        ({"tool_choice": "maybe"}, "/tool_choice"),
        ({"input": [{"role": "tool", "content": "x"}]}, "/input/0/role"),
        ({"input": [{"role": "user", "content": [{"type": "input_text", "text": 1}]}]}, "/input/0/content/0/text"),
        ({"context_management": 1}, "/context_management"),
    ],
)
def test_a_wrong_member_is_named_by_its_path(body: JsonObject, path: str) -> None:
    with pytest.raises(WireError) as caught:
        decoded(body)
    assert caught.value.path == path


def test_input_may_be_absent_where_stored_context_is_continued() -> None:
    request = CODEC.decode_request({"model": "m", "previous_response_id": "resp_1"})
    assert (request.messages, request.continues) == ((), "resp_1")


@pytest.mark.parametrize(
    ("body", "member"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": {"id": "conv_1"}}, "conversation"),
        ({"background": True}, "background"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"multi_agent": {"enabled": True}}, "multi_agent"),
        ({"moderation": {"model": "m", "policy": {"input": {"mode": "block"}}}}, "moderation"),
        ({"input": [{"type": "item_reference", "id": "rs_1"}]}, "input"),
        ({"input": [{"role": "user", "content": "x"}, {"type": "compaction_trigger"}]}, "input"),
    ],
)
def test_pitfall_161_164_what_only_this_protocol_can_do_is_demanded(body: JsonObject, member: str) -> None:
    assert [demand.member for demand in decoded(body).demands] == [member]


def test_pitfall_005_instructions_and_instruction_messages_are_both_read() -> None:
    request = decoded({"instructions": "top", "input": [{"role": "developer", "content": "later"}]})
    assert [text.text for text in request.instructions] == ["top"]
    assert request.messages[0].role is Role.DEVELOPER


def test_pitfall_159_163_items_that_steer_are_read_into_updates() -> None:
    tool: JsonObject = {"type": "function", "name": "late", "parameters": {}}
    request = decoded(
        {
            "tools": [{"type": "function", "name": "early"}],
            "input": [
                {
                    "type": "additional_tools",
                    "role": "developer",
                    "tools": [tool, {"type": "function", "name": "early"}],
                },
                {"type": "tool_search_output", "tools": [tool]},
                {"type": "configuration_update", "reasoning": {"effort": "low"}},
                {"type": "configuration_update", "reasoning": {"effort": "high"}, "text": {"format": {"type": "text"}}},
            ],
        }
    )
    assert [tool.name for tool in request.updates.tools if not isinstance(tool, str)] == ["late"]  # type: ignore[union-attr]
    assert request.updates.effort == "high"
    steering = [part for message in request.messages for part in message.parts if isinstance(part, Foreign)]
    assert [part.superseded for part in steering] == [False, False, True, False]
    assert request.updates.output == OutputFormat(kind=OutputKind.TEXT)


def test_a_user_who_came_under_the_older_name_goes_home_under_it() -> None:
    body, _ = written(decoded({"user": "u"}))
    assert (body["user"], "safety_identifier" in body) == ("u", False)


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
    body, _ = written(replace(ASKED, reasoning=reasoning), **changes, efforts=efforts)  # type: ignore[arg-type]
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
    mark = CacheMark(origin=MESSAGES, ttl="1h")
    request = replace(ASKED, instructions=(Text(text="one", cache=mark),))
    body, losses = written(request)
    assert (body["instructions"], losses) == ("one", ["dropped cache_mark instructions[0].cache"])
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
