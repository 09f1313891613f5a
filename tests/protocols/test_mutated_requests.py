"""What no real client sends is refused at its place, or told of; what real clients send stays welcome."""

from __future__ import annotations

import json
import re

import pytest

from dragoman.errors import WireError
from dragoman.translate import translate_failure, translate_request
from tests.protocols.mutating import Case, cases, is_at_its_place, is_carried, is_fault, is_reported, tell
from tests.sdk.names import CHAT, MESSAGES, RESPONSES

_WORD = "a word of tuning: newer versions know more of them, and an empty one is none"
_OWN = "the inside of a tool's own output is told as JSON text, whatever it is"
_REPLAYED = "clients replay items with and without the members that only answers have"
# (protocol, place) -> why what the types do not allow there is taken without a word.
WELCOME: dict[tuple[str, str], str] = {
    (MESSAGES, "service_tier"): _WORD,
    (MESSAGES, "system.[].cache_control.ttl"): _WORD,
    (CHAT, "reasoning_effort"): _WORD,
    (CHAT, "service_tier"): _WORD,
    (CHAT, "verbosity"): _WORD,
    (CHAT, "messages.[].content.[].image_url.detail"): _WORD,
    (CHAT, "messages.[].content.[].prompt_cache_breakpoint.ttl"): _WORD,
    (CHAT, "web_search_options.search_context_size"): _WORD,
    (RESPONSES, "reasoning.effort"): _WORD,
    (RESPONSES, "reasoning.summary"): _WORD,
    (RESPONSES, "service_tier"): _WORD,
    (RESPONSES, "prompt_cache_retention"): _WORD,
    (RESPONSES, "input.[].content.[].detail"): _WORD,
    (RESPONSES, "input.[].content"): "a string says what a list of one text does, in messages of the assistant too",
    (RESPONSES, "input.[].content.[].annotations"): _REPLAYED,
    (RESPONSES, "input.[].id"): _REPLAYED,
    (RESPONSES, "input.[].status"): _REPLAYED,
    (RESPONSES, "input.[].type"): "what has a role is a message; null equals absence",
    (RESPONSES, "input.[].execution"): "who searched shows in the call, not here",
    (RESPONSES, "input.[].output.[]"): _OWN,
}
# What the types allow and no vendor takes: the ends of places, and the mutation.
NEVER = (
    ("tools.[].name", "empty"),
    ("function.name", "empty"),
    ("custom.name", "empty"),
    ("tool_choice.name", "empty"),
    ("messages.[].content.[].name", "empty"),
    ("input.[].name", "empty"),
    ("max_tokens", "minus"),
    ("max_completion_tokens", "minus"),
    ("max_output_tokens", "minus"),
    ("max_tool_calls", "minus"),
    ("thinking.budget_tokens", "minus"),
    ("n", "minus"),
)


@pytest.mark.parametrize("protocol", [MESSAGES, CHAT, RESPONSES])
def test_item_21_no_wrong_member_is_taken_in_silence(protocol: str) -> None:
    silent: list[str] = []
    judged = 0
    for case in cases(protocol):
        never = _is_never_taken(case)
        if not never and ((protocol, case.place) in WELCOME or not is_fault(case)):
            continue
        judged += 1
        before = tell(protocol, case.body)
        for position, told in enumerate(tell(protocol, case.mutated)):
            if told.error is not None:
                assert is_at_its_place(told.error, case), f"{case.pointer} {case.mutation}: {told.error}"
            elif not is_reported(told, before[position], case) and (never or not is_carried(told, case, position)):
                silent.append(f"{case.pointer} {case.mutation} -> {position}: {case.request[:80]}")
    assert not silent, "\n".join(silent)
    assert judged > 100


def _is_never_taken(case: Case) -> bool:
    return any(f".{case.place}".endswith(f".{place}") and case.mutation == mutation for place, mutation in NEVER)


CONVERSATIONS: dict[str, dict[str, object]] = {
    MESSAGES: {
        "model": "m",
        "max_tokens": 64,
        "tools": [{"name": "look_up", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Where is Faro?"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "South."}]},
        ],
    },
    CHAT: {
        "model": "m",
        "tools": [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Where is Faro?"}]},
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "South."},
        ],
    },
    RESPONSES: {
        "model": "m",
        "tools": [{"type": "function", "name": "look_up", "parameters": {"type": "object"}, "strict": False}],
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Where is Faro?"}]},
            {"type": "function_call", "call_id": "call_1", "name": "look_up", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "South."},
        ],
    },
}
_SDK = "the OpenAI SDK's `model_dump()`"
# (protocol, pointer, value, who sends it): said or not, it is the same request.
SENT: tuple[tuple[str, str, object, str], ...] = (
    (CHAT, "/messages/1/content", None, _SDK),
    (CHAT, "/messages/1/refusal", None, _SDK),
    (CHAT, "/messages/1/audio", None, _SDK),
    (CHAT, "/messages/1/annotations", None, _SDK),
    (CHAT, "/messages/1/function_call", None, _SDK),
    (CHAT, "/messages/1/function_call", {"name": "", "arguments": ""}, "clients of Snowflake, whose answers have it"),
    (CHAT, "/messages/1/name", None, "typed clients that write every member"),
    (CHAT, "/messages/0/tool_calls", None, "typed clients that write every member"),
    (CHAT, "/messages/0/name", None, "typed clients that write every member"),
    (CHAT, "/tools/0/function/strict", None, "agent frameworks"),
    (CHAT, "/tools/0/function/description", None, "agent frameworks"),
    (CHAT, "/tool_choice", None, "agent frameworks"),
    (CHAT, "/max_tokens", None, "agent frameworks"),
    (CHAT, "/n", None, "agent frameworks"),
    (CHAT, "/stop", None, "agent frameworks"),
    (CHAT, "/response_format", None, "agent frameworks"),
    (CHAT, "/reasoning_effort", None, "agent frameworks"),
    (CHAT, "/stream_options", None, "agent frameworks"),
    (RESPONSES, "/input/1/id", None, "Codex, for items that were not stored"),
    (RESPONSES, "/input/1/status", None, _SDK),
    (RESPONSES, "/input/1/namespace", None, _SDK),
    (RESPONSES, "/input/2/status", None, _SDK),
    (RESPONSES, "/input/0/type", None, _SDK),
    (RESPONSES, "/tools/0/description", None, _SDK),
    (RESPONSES, "/max_output_tokens", None, _SDK),
    (RESPONSES, "/instructions", None, _SDK),
    (RESPONSES, "/previous_response_id", None, _SDK),
    (RESPONSES, "/text", None, _SDK),
    (RESPONSES, "/reasoning", None, _SDK),
    (MESSAGES, "/messages/0/content/0/citations", None, "the Anthropic SDK's `model_dump()`"),
    (MESSAGES, "/messages/0/content/0/cache_control", None, "the Anthropic SDK's `model_dump()`"),
    (MESSAGES, "/messages/1/content/0/cache_control", None, "the Anthropic SDK's `model_dump()`"),
    (MESSAGES, "/messages/2/content/0/is_error", None, "typed clients that write every member"),
)


def _with(protocol: str, pointer: str, value: object) -> object:
    body: object = json.loads(json.dumps(CONVERSATIONS[protocol]))
    owner = body
    *steps, last = pointer.split("/")[1:]
    for step in steps:
        owner = owner[int(step) if step.isdigit() else step]  # type: ignore[index]  # a wrong shape fails as it should
    owner[last] = value  # type: ignore[index]  # likewise
    return body


@pytest.mark.parametrize(
    ("protocol", "pointer", "value"), [row[:3] for row in SENT], ids=[f"{row[0]}{row[1]}" for row in SENT]
)
def test_item_21_what_real_clients_send_stays_welcome(protocol: str, pointer: str, value: object) -> None:
    for told, before in zip(
        tell(protocol, _with(protocol, pointer, value)), tell(protocol, CONVERSATIONS[protocol]), strict=True
    ):
        assert told.error is None
        assert (told.body, told.losses) == (before.body, before.losses)


def test_item_21_nulls_and_defaults_are_no_losses() -> None:
    for protocol, pointer, value in (
        (MESSAGES, "/tools/0/type", None),
        (MESSAGES, "/output_config", {"effort": None, "format": None}),
        (MESSAGES, "/metadata", {"user_id": None}),
        (MESSAGES, "/messages/1/content/0/caller", {"type": "direct"}),
        (CHAT, "/messages/1/annotations", []),
        (RESPONSES, "/text", {"format": None, "verbosity": None}),
    ):
        told, before = tell(protocol, _with(protocol, pointer, value)), tell(protocol, CONVERSATIONS[protocol])
        assert [one.losses for one in told] == [one.losses for one in before], pointer
        assert [one.body for one in told] == [one.body for one in before], pointer


@pytest.mark.parametrize("protocol", [MESSAGES, CHAT, RESPONSES])
def test_item_21_a_message_that_says_nothing_at_all_is_refused(protocol: str) -> None:
    where = "input" if protocol == RESPONSES else "messages"
    for said, pointer in (([], f"/{where}"), ([{"role": "user"}], f"/{where}/0/content")):
        for told in tell(protocol, {**CONVERSATIONS[protocol], where: said}):
            assert isinstance(told.error, WireError)
            assert told.error.path == pointer


def test_item_21_a_tool_without_any_schema_is_refused_where_it_is_demanded() -> None:
    for told in tell(MESSAGES, {**CONVERSATIONS[MESSAGES], "tools": [{"name": "look_up"}]}):
        assert isinstance(told.error, WireError)
        assert told.error.path == "/tools/0/input_schema"
    bare = {"type": "function", "function": {"name": "look_up"}}
    for told in (
        *tell(MESSAGES, {**CONVERSATIONS[MESSAGES], "tools": [bare]}),
        *tell(CHAT, {**CONVERSATIONS[CHAT], "tools": [bare]}),
    ):
        assert told.error is None


REFUSED: tuple[tuple[str, str, object], ...] = (
    (MESSAGES, "/max_tokens", -1),
    (MESSAGES, "/max_tokens", None),
    (MESSAGES, "/tools/0/name", ""),
    (MESSAGES, "/tools/0/input_schema", None),
    (MESSAGES, "/messages/0/content", None),
    (MESSAGES, "/messages/0/content/0/type", None),
    (MESSAGES, "/messages/1/content/0/type", ""),
    (MESSAGES, "/messages/1/content/0/name", ""),
    (MESSAGES, "/messages/1/content/0/input", None),
    (MESSAGES, "/messages/2/content/0/tool_use_id", None),
    (CHAT, "/max_tokens", -1),
    (CHAT, "/max_completion_tokens", -1),
    (CHAT, "/n", -1),
    (CHAT, "/tools/0/type", None),
    (CHAT, "/tools/0/type", ""),
    (CHAT, "/tools/0/function/name", ""),
    (CHAT, "/messages/0/content", None),
    (CHAT, "/messages/0/content/0/type", None),
    (CHAT, "/messages/0/content/0/type", ""),
    (CHAT, "/messages/1/tool_calls/0/type", "wrong"),
    (CHAT, "/messages/1/tool_calls/0/type", ""),
    (CHAT, "/messages/1/tool_calls/0/type", None),
    (CHAT, "/messages/1/tool_calls/0/id", None),
    (CHAT, "/messages/1/tool_calls/0/function/name", ""),
    (CHAT, "/messages/1/tool_calls/0/function/arguments", None),
    (CHAT, "/messages/2/tool_call_id", None),
    (CHAT, "/messages/2/content", None),
    (RESPONSES, "/max_output_tokens", -1),
    (RESPONSES, "/max_tool_calls", -1),
    (RESPONSES, "/tools/0/type", ""),
    (RESPONSES, "/tools/0/name", ""),
    (RESPONSES, "/input/0/content/0/type", None),
    (RESPONSES, "/input/0/content/0/type", ""),
    (RESPONSES, "/input/1/type", ""),
    (RESPONSES, "/input/1/call_id", None),
    (RESPONSES, "/input/1/name", ""),
    (RESPONSES, "/input/1/arguments", None),
    (RESPONSES, "/input/2/call_id", None),
    (RESPONSES, "/input/2/output", None),
)


def test_item_21_the_search_of_the_provider_itself_has_no_call_id() -> None:
    search = {"type": "tool_search_call", "id": "ts_1", "execution": "server", "arguments": {}, "status": "completed"}
    found = {"type": "tool_search_output", "id": "to_1", "execution": "server", "tools": [], "status": "completed"}
    for null in ({}, {"call_id": None}):
        items = [{"role": "user", "content": "Go."}, {**search, **null}, {**found, **null}]
        for told in tell(RESPONSES, {"model": "m", "input": items}):
            assert told.error is None


@pytest.mark.parametrize(
    ("protocol", "pointer", "value"), REFUSED, ids=[f"{row[0]}{row[1]}={json.dumps(row[2])}" for row in REFUSED]
)
def test_item_21_the_client_is_told_the_place_in_its_own_protocol(protocol: str, pointer: str, value: object) -> None:
    text = json.dumps(_with(protocol, pointer, value))
    for target in (MESSAGES, CHAT, RESPONSES):
        if target == protocol:
            continue
        with pytest.raises(WireError) as caught:
            translate_request(text, source=protocol, target=target)
        assert caught.value.path == pointer
        told = translate_failure(caught.value, target=protocol)
        error = json.loads(told.body)["error"]
        assert (told.status, error["type"]) == (400, "invalid_request_error")
        # As a person writes it: messages[0].content.
        place = re.sub(r"/(\d+)", r"[\1]", pointer).replace("/", ".").removeprefix(".")
        assert error["message"].startswith(f"{place}: ")
        assert protocol == MESSAGES or error["param"] == pointer[1:].replace("/", ".")
