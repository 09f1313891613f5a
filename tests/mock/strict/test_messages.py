"""The Messages service takes what agents send, and each of its rules refuses what breaks it."""

from __future__ import annotations

import pytest

from dragoman.mock.answers.signatures import MESSAGES
from tests.mock.calling import CITY
from tests.mock.judging import HEADERS, MARK, Spoil, good, judged, spoiled
from tests.sdk.digging import Object, dig_object, dig_objects


def _messages(body: Object) -> list[Object]:
    return dig_objects(body, "messages")


def _result(body: Object) -> Object:
    return dig_object(body, "messages", 3, "content", 0)


def _tool(body: Object) -> Object:
    return dig_object(body, "tools", 0)


def test_what_an_agent_sends_is_taken() -> None:
    assert judged(MESSAGES, good(MESSAGES)) == []


SPOILED: list[tuple[str, Spoil]] = [
    ("seed: Extra inputs", lambda body: body.update(seed=1)),
    ("max_tokens: Field required", lambda body: body.pop("max_tokens")),
    ("max_tokens: Input should be", lambda body: body.update(max_tokens=-1)),
    ("model: Field required", lambda body: body.pop("model")),
    ("stop_sequences", lambda body: body.update(stop_sequences=[" "])),
    ("metadata.name", lambda body: dig_object(body, "metadata").update(name="x")),
    ("metadata.user_id", lambda body: dig_object(body, "metadata").update(user_id="x" * 257)),
    ("at least one message", lambda body: body.update(messages=[])),
    ("first message", lambda body: _messages(body).insert(0, {"role": "assistant", "content": "Hi."})),
    ("prefill", lambda body: _messages(body).append({"role": "assistant", "content": "So"})),
    ("messages.1.name", lambda body: _messages(body)[1].update(name="x")),
    ("messages.0.role", lambda body: _messages(body)[0].update(role="tool")),
    ("role 'system' is not supported", lambda body: body.update(model="claude-sonnet-5")),
    ("must be non-empty", lambda body: _messages(body)[1].update(content="")),
    ("text content blocks", lambda body: dig_object(body, "messages", 0, "content", 0).update(text=" ")),
    ("system.0", lambda body: dig_object(body, "system", 0).update(text="")),
    ("does not match any of the expected tags", lambda body: _result(body).update(type="input_text")),
    ("Extra inputs", lambda body: _result(body).update(name="x")),
    ("content: Input tag", lambda body: _result(body).update(content=[{"type": "thinking"}])),
    ("without cache_control", lambda body: _messages(body)[1].update(content=[{"type": "thinking"}])),
    ("exactly their tool_result", lambda body: _result(body).update(tool_use_id="toolu_2")),
    ("come first", lambda body: dig_objects(body, "messages", 3, "content").reverse()),
    ("without tool_result", lambda body: _messages(body).pop(3)),
    ("does not match the pattern", lambda body: dig_object(body, "messages", 2, "content", 0).update(id="a.b")),
    ("input should be an object", lambda body: dig_object(body, "messages", 2, "content", 0).update(input="{}")),
    ("input_schema: Field required", lambda body: _tool(body).pop("input_schema")),
    ("root has to be an object", lambda body: _tool(body).update(input_schema={})),
    ("custom.parameters", lambda body: _tool(body).update(parameters={})),
    ("no name of a tool", lambda body: _tool(body).update(name="a b")),
    ("is not unique", lambda body: _tool(body).update(name="mcp__files__read")),
    ("tools: Input tag 'function'", lambda body: _tool(body).update(type="function")),
    ("while providing tools", lambda body: body.pop("tools")),
    ("is not declared", lambda body: body.update(tool_choice={"type": "tool", "name": "other"})),
    ("output_config.format", lambda body: _config(body, {"type": "json_schema", "schema": CITY})),
    ("'maximum' is not", lambda body: _config(body, {"schema": {"type": "integer", "maximum": 3}})),
    ("output_config.verbosity", lambda body: dig_object(body, "output_config").update(verbosity="low")),
    ("breakpoints", lambda body: [tool.update(cache_control=MARK) for tool in dig_objects(body, "tools")]),
    ("is no mark", lambda body: _tool(body).update(cache_control={"type": "ephemeral", "ttl": "2h"})),
    ("temperature: not accepted by this model", lambda body: body.update(temperature=0.5)),
    ("forcing a tool", lambda body: body.update(model="claude-opus-5-5", tool_choice={"type": "any"})),
]


def _config(body: Object, form: Object) -> None:
    dig_object(body, "output_config").update(format=form)


@pytest.mark.parametrize(("words", "how"), SPOILED, ids=[words for words, _ in SPOILED])
def test_a_broken_rule_is_named(words: str, how: Spoil) -> None:
    found = spoiled(MESSAGES, how)
    assert any(words in reason for reason in found), found


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({}, "not a valid version"),
        ({"anthropic-version": "2020-01-01"}, "not a valid version"),
        ({**HEADERS, "anthropic-beta": "context-management-2025-06-27, surprise"}, "Unexpected value(s) `surprise`"),
        ({"anthropic-version": "2023-06-01"}, "context_management: Extra inputs"),
    ],
    ids=["no version", "unknown version", "unknown beta", "no beta"],
)
def test_the_headers_are_looked_at(headers: dict[str, str], words: str) -> None:
    found = judged(MESSAGES, good(MESSAGES), headers={**headers, "x": "y"})
    assert any(words in reason for reason in found), found


def test_the_later_version_is_stricter() -> None:
    body = {**good(MESSAGES), "model": "claude-sonnet-4-5", "thinking": {"type": "disabled"}, "temperature": 1}
    _messages(body).pop()
    del body["output_config"]
    cited = {"type": "text", "text": "x", "citations": [{"type": "char_location"}]}
    _messages(body)[1]["content"] = [cited]
    assert judged(MESSAGES, body) == []
    found = judged(MESSAGES, body, headers={**HEADERS, "anthropic-version": "2026-10-21"})
    assert any("temperature: not accepted by version" in reason for reason in found)
    assert any("citations are not permitted" in reason for reason in found)


def test_the_default_of_sampling_is_taken_by_the_earlier_version() -> None:
    assert judged(MESSAGES, {**good(MESSAGES), "temperature": 1.0}) == []
    assert judged(
        MESSAGES, {**good(MESSAGES), "temperature": 1.0}, headers={**HEADERS, "anthropic-version": "2026-10-21"}
    )


def test_an_older_model_may_be_led() -> None:
    body: Object = {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": []}
    _messages(body).extend([{"role": "user", "content": "Go."}, {"role": "assistant", "content": "So"}])
    assert judged(MESSAGES, body) == []
    assert judged(MESSAGES, {**body, "thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2000})
