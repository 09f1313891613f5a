"""Requests: read as they were said, written for a provider by the mapping's sections 3, 4, 10, 12, 14 and 15."""

from __future__ import annotations

import pytest

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import Text
from dragoman.model.request import (
    OutputFormat,
    OutputKind,
    Role,
)
from dragoman.protocols.openai_responses import CODEC
from tests.protocols.openai_responses.asking import (
    decoded,
    from_messages,
    said,
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
        ({"input": [{"type": "compaction_trigger"}, {"role": "user", "content": "x"}]}, "input"),
        ({"input": [{"type": "compaction_trigger"}, {"type": "compaction_trigger"}]}, "input"),
    ],
)
def test_pitfall_161_164_what_only_this_protocol_can_do_is_demanded(body: JsonObject, member: str) -> None:
    assert [demand.member for demand in decoded(body).demands] == [member]


def test_a_trigger_at_the_end_asks_for_a_compaction() -> None:
    request = decoded({"input": [{"role": "user", "content": "x"}, {"type": "compaction_trigger"}]})
    assert request.compacts and not request.demands
    assert not decoded({"input": [{"role": "user", "content": "x"}]}).compacts


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
    assert [tool.name for tool in request.updates.tools if not isinstance(tool, str)] == ["late"]  # type: ignore[union-attr]  # function tools
    assert request.updates.effort == "high"
    assert request.updates.output == OutputFormat(kind=OutputKind.TEXT)


def test_a_user_who_came_under_the_older_name_is_told_so() -> None:
    assert (decoded({"user": "u"}).end_user, decoded({"user": "u"}).spellings) == ("u", ("user",))
    assert (decoded({"safety_identifier": "u"}).end_user, decoded({"safety_identifier": "u"}).spellings) == ("u", ())
