"""Requests of other protocols, written for a provider of this one: members, and what is lost of them."""

from __future__ import annotations

import pytest

from dragoman.errors import RefusedError
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.parts import Extras, Text, ToolCall, ToolResult
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
from dragoman.model.tools import ChoiceMode, FunctionTool, ToolChoice, ToolRef
from dragoman.protocols.openai_chat.request_encoder import REFUSABLE, split_parallel_calls
from tests.protocols.openai_chat.room import A, R, assistant, dig, losses, objects, said, target, user, written

HI = user(Text(text="hi"))
F = FunctionTool(name="f", parameters={"type": "object", "properties": {}})


def test_the_least_request_has_model_and_messages_only() -> None:
    body, ledger, _ = written(said(HI))
    assert body == {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    assert len(ledger) == 0


@pytest.mark.parametrize(
    ("upstream", "model", "member"),
    [("", "m", "max_tokens"), ("openai", "m", "max_completion_tokens"), ("", "o3-mini", "max_completion_tokens")],
)
def test_pitfall_124_the_cap_is_spelled_as_the_server_knows_it(upstream: str, model: str, member: str) -> None:
    body, _, _ = written(said(HI, max_tokens=9), target(model, upstream))
    assert body[member] == 9


def test_pitfall_070_usage_is_always_asked_for_in_streams() -> None:
    assert written(said(HI, stream=True))[0]["stream_options"] == {"include_usage": True}
    official, _, _ = written(said(HI, stream=True), target("m", "openai"))
    assert official["stream_options"] == {"include_usage": True, "include_obfuscation": False}


def test_members_that_a_server_refuses_are_left_out() -> None:
    every = Sampling(frequency_penalty=0.5, presence_penalty=0.5, seed=7, logit_bias={"1": 2})
    request = said(
        HI,
        sampling=every,
        logprobs=True,
        top_logprobs=2,
        end_user="u",
        stream=True,
        tools=(F,),
        parallel_calls=False,
    )
    there = target(refuses=tuple(REFUSABLE))
    body, ledger, _ = written(request, there)
    assert body.keys() == {"model", "messages", "stream", "tools"}
    reported = {(feature.value, at) for feature, at in filter(None, REFUSABLE.values())}
    assert {(loss.feature.value, tuple(loss.at.split("."))) for loss in ledger.losses} == reported
    assert {loss.fate.value for loss in ledger.losses} == {"dropped"}
    assert written(request)[0].keys() >= set(REFUSABLE)


def test_what_is_refused_and_was_not_said_is_no_loss() -> None:
    body, ledger, _ = written(said(HI, stream=True), target(refuses=("user", "seed", "stream_options", "unheard")))
    assert body == {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    assert len(ledger) == 0


@pytest.mark.parametrize(
    ("reasoning", "switched", "effort"),
    [
        (Reasoning(mode=ThinkingMode.DISABLED), "disabled", None),
        (Reasoning(effort="none"), "disabled", None),
        (Reasoning(mode=ThinkingMode.ADAPTIVE), "enabled", None),
        (Reasoning(mode=ThinkingMode.ADAPTIVE, effort="max"), "enabled", "max"),
        (Reasoning(mode=ThinkingMode.ENABLED, budget=2048), "enabled", "low"),
        (Reasoning(effort="high"), "enabled", "high"),
        (Reasoning(), None, None),
    ],
    ids=["off", "no effort", "adaptive", "to the utmost", "a budget", "an effort", "nothing said"],
)
def test_a_server_with_a_switch_is_told_whether_to_think(
    reasoning: Reasoning, switched: str | None, effort: str | None
) -> None:
    there = target(thinking_switch=True, efforts=("low", "high", "max"))
    body, ledger, _ = written(said(HI, reasoning=reasoning), there)
    assert body.get("thinking") == ({"type": switched} if switched else None)
    assert body.get("reasoning_effort") == effort
    assert losses(ledger) == ({("approximated", "effort", "reasoning.budget")} if reasoning.budget else set())
    assert "thinking" not in written(said(HI, reasoning=reasoning))[0]


@pytest.mark.parametrize("asked", [Reasoning(), Reasoning(effort="high")])
def test_who_must_call_does_not_think_where_both_are_too_much(asked: Reasoning) -> None:
    choice = ToolChoice(mode=ChoiceMode.REQUIRED)
    request = said(HI, reasoning=asked, tools=(F,), tool_choice=choice)
    body, ledger, _ = written(request, target(thinking_switch=True, forced_with_thinking=False))
    assert (body["tool_choice"], body["thinking"]) == ("required", {"type": "disabled"})
    assert "reasoning_effort" not in body
    assert losses(ledger) == ({("approximated", "effort", "reasoning")} if asked.effort else set())
    both, _, _ = written(request, target(thinking_switch=True))
    assert both.get("thinking") == ({"type": "enabled"} if asked.effort else None)


def test_pitfall_123_a_cache_prewarm_is_refused() -> None:
    with pytest.raises(RefusedError):
        written(said(HI, prewarm=True))


def test_a_demand_is_refused() -> None:
    with pytest.raises(RefusedError):
        written(said(HI, demands=(Demand(feature=Feature.STORED_STATE, member="background", note="no"),)))


def test_pitfall_127_stop_strings_beyond_the_limit_are_emulated() -> None:
    body, ledger, encoded = written(said(HI, stop=("a", "b", "c", "d", "e")))
    assert body["stop"] == ["a", "b", "c", "d"]
    assert encoded.stops == ("e",)
    assert ("approximated", "stop_sequences", "stop") in losses(ledger)
    none, _, reasoning = written(said(HI, stop=("a",)), target("o3"))
    assert "stop" not in none and reasoning.stops == ("a",)


@pytest.mark.parametrize(
    ("length", "upstream", "member"), [(10, "", "user"), (10, "openai", "safety_identifier"), (65, "", "user")]
)
def test_pitfall_129_the_end_user_is_bounded(length: int, upstream: str, member: str) -> None:
    body, ledger, _ = written(said(HI, end_user="u" * length), target("m", upstream))
    value = body[member]
    assert isinstance(value, str) and len(value) <= 64
    assert (value == "u" * length) == (length <= 64)
    assert (("approximated", "end_user", "end_user") in losses(ledger)) == (length > 64)


def test_a_cache_key_is_made_of_the_user_only_at_openai() -> None:
    key = written(said(HI, end_user="u"), target("m", "openai"))[0]["prompt_cache_key"]
    assert isinstance(key, str) and len(key) == 32
    assert "prompt_cache_key" not in written(said(HI, end_user="u"))[0]


@pytest.mark.parametrize(
    ("reasoning", "changes", "effort"),
    [
        (Reasoning(), {}, None),
        (Reasoning(mode=ThinkingMode.ADAPTIVE), {}, None),
        (Reasoning(mode=ThinkingMode.ADAPTIVE, effort="max"), {}, "high"),
        (Reasoning(effort="max"), {"efforts": ("low", "max")}, "max"),
        (Reasoning(mode=ThinkingMode.ENABLED, budget=1024), {}, "low"),
        (Reasoning(mode=ThinkingMode.ENABLED, budget=8192), {}, "medium"),
        (Reasoning(mode=ThinkingMode.ENABLED, budget=8192, effort="high"), {}, "high"),
        (Reasoning(mode=ThinkingMode.DISABLED), {}, None),
        (Reasoning(mode=ThinkingMode.DISABLED), {"reasons": True}, "low"),
        (Reasoning(mode=ThinkingMode.BETWEEN_TOOLS), {"efforts": ("none", "low")}, "none"),
        (Reasoning(effort="high"), {"efforts": ()}, None),
    ],
)
def test_pitfall_120_messages_thinking_becomes_a_level_the_model_knows(
    reasoning: Reasoning, changes: dict[str, object], effort: str | None
) -> None:
    body, _, _ = written(said(HI, reasoning=reasoning), target(**changes))  # type: ignore[arg-type]  # test data
    assert body.get("reasoning_effort") == effort


def test_the_level_of_a_responses_client_passes_unless_a_set_is_declared() -> None:
    request = said(HI, origin=R, reasoning=Reasoning(effort="xhigh"))
    assert written(request)[0]["reasoning_effort"] == "xhigh"
    assert written(request, target(efforts=("low", "high")))[0]["reasoning_effort"] == "high"


def test_pitfall_121_a_forced_choice_excludes_effort_where_the_server_refuses_the_pair() -> None:
    request = said(HI, tools=(F,), tool_choice=ToolChoice(mode=ChoiceMode.REQUIRED), reasoning=Reasoning(effort="high"))
    body, ledger, _ = written(request, target("m", "deepseek"))
    assert "reasoning_effort" not in body and body["tool_choice"] == "required"
    assert ("approximated", "effort", "reasoning") in losses(ledger)


@pytest.mark.parametrize(
    ("origin", "members", "upstream", "expected"),
    [
        (A, {"service_tier": "standard_only"}, "openai", {"service_tier": "default"}),
        (A, {"speed": "fast"}, "openai", {"service_tier": "fast"}),
        (R, {"service_tier": "ultrafast"}, "openai", {"service_tier": "fast"}),
        (R, {"service_tier": "flex"}, "", {}),
        (R, {"verbosity": "low"}, "openai", {"verbosity": "low"}),
        (R, {"verbosity": "low"}, "", {}),
        (R, {"cache_key": "k"}, "openai", {"prompt_cache_key": "k"}),
        (R, {"cache_key": "k"}, "", {}),
        (R, {"metadata": {"a": "b"}}, "openai", {}),
        (R, {"max_tool_calls": 3}, "openai", {}),
        (R, {"logprobs": True, "top_logprobs": 2}, "", {"logprobs": True, "top_logprobs": 2}),
        (
            R,
            {"cache": CacheOptions(explicit=True, ttl="30m")},
            "openai",
            {"prompt_cache_options": {"mode": "explicit", "ttl": "30m"}},
        ),
    ],
)
def test_optional_members_are_sent_where_the_server_knows_them(
    origin: str, members: dict[str, object], upstream: str, expected: JsonObject
) -> None:
    body, ledger, _ = written(said(HI, origin=origin, **members), target("m", upstream))
    body.pop("model"), body.pop("messages")
    assert body == expected
    assert bool(expected) or len(ledger) == 1


@pytest.mark.parametrize("upstream", ["openai", ""])
def test_unknown_options_of_a_cache_are_reported(upstream: str) -> None:
    cache = CacheOptions(extras=Extras(origin=R, fields={"scope": "all"}))
    body, ledger, _ = written(said(HI, origin=R, cache=cache), target("m", upstream))
    assert "prompt_cache_options" not in body
    assert losses(ledger) == {("dropped", "unknown_field", "cache.extras.scope")}


def test_sampling_passes_and_what_the_model_refuses_is_reported() -> None:
    request = said(HI, sampling=Sampling(temperature=0.5, top_p=0.9, top_k=3))
    body, ledger, _ = written(request)
    assert (body["temperature"], body["top_p"]) == (0.5, 0.9)
    assert losses(ledger) == {("dropped", "top_k", "sampling.top_k")}
    assert "temperature" not in written(request, target(sampling=False))[0]


def test_pitfall_148_a_schema_gets_a_name_and_is_strict_only_where_that_is_legal() -> None:
    closed: JsonObject = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    loose: JsonObject = {"type": "object", "properties": {"a": {"type": "string"}}}
    for schema, strict in ((closed, True), (loose, False)):
        body, _, _ = written(said(HI, output=OutputFormat(kind=OutputKind.SCHEMA, schema=schema)))
        assert body["response_format"] == {
            "type": "json_schema",
            "json_schema": {"name": "response", "schema": schema, "strict": strict},
        }


def test_a_server_without_schemas_is_asked_by_instruction() -> None:
    request = said(
        HI, instructions=(Text(text="s"),), output=OutputFormat(kind=OutputKind.SCHEMA, schema={"type": "object"})
    )
    body, ledger, _ = written(request, target(output_schema=False))
    assert body["response_format"] == {"type": "json_object"}
    messages = body["messages"]
    assert isinstance(messages, list) and isinstance(messages[0], dict)
    assert str(messages[0]["content"]).startswith("s\n\nRespond with a single JSON object and nothing else.")
    assert ("approximated", "output_schema", "output") in losses(ledger)


def test_pitfall_139_choice_and_parallel_switch_go_with_the_tools() -> None:
    request = said(HI, tool_choice=ToolChoice(mode=ChoiceMode.AUTO), parallel_calls=False)
    body, ledger, _ = written(request)
    assert "tool_choice" not in body and "parallel_tool_calls" not in body
    assert {feature for _, feature, _ in losses(ledger)} == {"tool_choice", "parallel_calls"}


def test_unknown_members_of_another_protocol_are_reported() -> None:
    body, ledger, _ = written(said(HI, extras=Extras(origin=A, fields={"container": "c", "zz": 1})))
    assert set(body) == {"model", "messages"}
    assert losses(ledger) == {("dropped", "container", "extras.container"), ("dropped", "unknown_field", "extras.zz")}


def test_what_the_conversation_changed_is_applied() -> None:
    late = FunctionTool(name="late")
    request = said(HI, tools=(F,), updates=Updates(tools=(late,), removed=("f",), effort="low"))
    body, ledger, _ = written(request)
    assert [dig(tool, "function", "name") for tool in objects(body, "tools")] == ["late"]
    assert body["reasoning_effort"] == "low"
    assert ("approximated", "tools_in_items", "tools[0]") in losses(ledger)


def test_a_choice_is_refused_if_nothing_stands_for_the_tool() -> None:
    choice = ToolChoice(mode=ChoiceMode.HOSTED, tool=ToolRef(kind="file_search"))
    with pytest.raises(RefusedError):
        written(said(HI, origin=R, tools=(F,), tool_choice=choice))


BLOCKING: JsonObject = {"model": "x", "policy": {"output": {"mode": "block"}}}


def test_moderation_that_blocks_passes_where_it_is_known_and_is_refused_elsewhere() -> None:
    request = said(user(Text(text="hi")), origin=R, moderation=BLOCKING)
    assert written(request, target(upstream="openai"))[0]["moderation"] == BLOCKING
    with pytest.raises(RefusedError) as caught:
        written(request)
    assert caught.value.feature == "moderation"
    ledger = written(said(user(Text(text="hi")), origin=R, moderation={"model": "x"}))[1]
    assert losses(ledger) == {("dropped", "moderation", "moderation")}


def test_notes_speak_of_this_library() -> None:
    ledger = written(said(user(Text(text="hi")), stop=("a", "b", "c", "d", "e")))[1]
    assert [loss.note for loss in ledger.losses] == ["1 stop strings are matched by this library"]


def call(call_id: str) -> JsonObject:
    return {"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}"}}


def calls(*ids: str, content: str | None = None) -> JsonObject:
    return {"role": "assistant", "content": content, "tool_calls": [call(one) for one in ids]}


def result(call_id: str) -> JsonObject:
    return {"role": "tool", "tool_call_id": call_id, "content": f"of {call_id}"}


def test_every_result_stands_after_its_own_call() -> None:
    ledger = Ledger()
    first = {**calls("a", "b", content="Both."), "reasoning": "Two."}
    told = split_parallel_calls([first, result("b"), result("a"), {"role": "user", "content": "go on"}], ledger)
    assert told == [
        {**first, "tool_calls": [call("a")]},
        result("a"),
        calls("b"),
        result("b"),
        {"role": "user", "content": "go on"},
    ]
    assert losses(ledger) == {("approximated", "parallel_calls", "messages")}


@pytest.mark.parametrize(
    "messages",
    [
        [calls("a"), result("a")],
        [calls("a", "b"), result("a")],
        [calls("a", "b"), result("a"), result("c")],
        [calls("a", "b"), result("a"), result("b"), result("b")],
        [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}],
        [],
    ],
    ids=["one call", "a result is missing", "a stranger's", "one said twice", "no calls", "nothing"],
)
def test_what_does_not_pair_stays_as_it_is(messages: JsonList) -> None:
    ledger = Ledger()
    assert split_parallel_calls(messages, ledger) == messages
    assert len(ledger) == 0


def test_a_row_asks_for_it() -> None:
    request = said(
        user(Text(text="hi")),
        assistant(ToolCall(call_id="a", name="f", arguments="{}"), ToolCall(call_id="b", name="f", arguments="{}")),
        user(
            ToolResult(call_id="a", parts=(Text(text="1"),)),
            ToolResult(call_id="b", parts=(Text(text="2"),)),
        ),
    )
    roles = [message["role"] for message in _messages(written(request, target(results_apart=True))[0])]
    assert roles == ["user", "assistant", "tool", "assistant", "tool"]
    assert [message["role"] for message in _messages(written(request)[0])] == ["user", "assistant", "tool", "tool"]


def _messages(body: JsonObject) -> list[JsonObject]:
    found = body["messages"]
    assert isinstance(found, list)
    return [message for message in found if isinstance(message, dict)]
