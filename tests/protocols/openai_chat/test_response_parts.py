"""What whole answers and streams share: names and forms restored, turns sealed, hidden parts reported."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.parts import (
    Citation,
    Compaction,
    Foreign,
    HostedCall,
    HostedKind,
    HostedResult,
    InputForm,
    Part,
    Text,
    ToolCall,
)
from dragoman.model.tools import FunctionTool, TextTool
from dragoman.protocols.openai_chat.response_parts import (
    Paragraphs,
    ResponseText,
    annotate,
    client_name,
    completion_id,
    report_hidden,
    restore_call,
    seal_turn,
)
from tests.protocols.openai_chat.room import A, C, R, ask, losses, mint


@pytest.mark.parametrize(
    ("arguments", "text", "bent"),
    [('{"input":"x"}', "x", False), ('{"input":"x","more":1}', "x", True), ("x", "x", True)],
)
def test_custom_input_is_unwrapped_and_what_was_bent_is_reported(arguments: str, text: str, bent: bool) -> None:
    ledger = Ledger()
    call = ToolCall(call_id="a", name="sql", arguments=arguments)
    part = restore_call(call, ask(TextTool(name="sql")), 1, ledger)
    assert (part.arguments, part.form) == (text, InputForm.TEXT)
    assert losses(ledger) == ({("approximated", "arguments", "parts[1]")} if bent else set())


def test_wrapped_raw_arguments_are_unwrapped_for_a_declared_function() -> None:
    call = ToolCall(call_id="a", name="f", arguments='{"_raw_arguments":"{"}')
    assert restore_call(call, ask(FunctionTool(name="f")), 1, Ledger()).arguments == "{"


def test_pitfall_039_ids_carry_no_state() -> None:
    assert completion_id("msg_" + "a" * 20, mint()) == "chatcmpl-" + "a" * 20
    assert completion_id("msg_x__thought__" + "=" * 20, mint()) == "chatcmpl-" + "1".rjust(24, "t")


def test_a_grouped_tool_has_one_plain_name_for_the_client() -> None:
    assert client_name(ToolCall(call_id="a", name="find", namespace="crm", arguments="{}")) == "crm__find"


@pytest.mark.parametrize(
    ("part", "feature"),
    [
        (HostedCall(call_id="a", kind=HostedKind.WEB_SEARCH, name="web_search", arguments="{}"), "web_search"),
        (HostedResult(call_id="a", kind=HostedKind.CODE), "code_execution"),
        (HostedCall(call_id="a", kind=HostedKind.MCP, name="x", arguments="{}"), "mcp"),
        (HostedResult(call_id="a", kind=HostedKind.MCP_LISTING), "mcp"),
        (Compaction(summary="s"), "compaction"),
        (Foreign(origin=R, kind="image_generation_call", body={}), "unsupported_content"),
    ],
)
def test_what_an_answer_cannot_show_is_reported_under_its_feature(part: Part, feature: str) -> None:
    ledger = Ledger()
    report_hidden(part, 1, ledger)
    assert losses(ledger) == {("dropped", feature, "parts[1]")}


@pytest.mark.parametrize(
    ("citation", "annotations", "reported"),
    [
        (Citation(origin=A, native={"encrypted_index": "x"}, url="https://x", cited_text="so"), 1, True),
        (Citation(origin=R, native={}, url="https://x"), 1, False),
        (Citation(origin=R, native={}, file_id="f"), 0, True),
    ],
    ids=["a page with its words", "a page", "a file"],
)
def test_what_citations_lose_is_reported_once_each(citation: Citation, annotations: int, reported: bool) -> None:
    ledger = Ledger()
    assert len(annotate((citation,), 0, 4, 2, ledger)) == annotations
    assert losses(ledger) == ({("dropped", "citations", "parts[2].citations[0]")} if reported else set())


def test_paragraphs_stand_apart_after_something_else_or_in_another_unit() -> None:
    paragraphs = Paragraphs()
    found = [paragraphs.separates(None), paragraphs.separates(None)]
    paragraphs.interrupt()
    found += [paragraphs.separates("a"), paragraphs.separates("a"), paragraphs.separates("b")]
    assert found == [False, False, True, False, True]


def test_spoken_text_is_joined_and_no_text_is_null() -> None:
    spoken = ResponseText()
    assert spoken.content() is None
    spoken.add(Text(text="a"), 0, Ledger())
    spoken.interrupt()
    spoken.add(Text(text="b"), 1, Ledger())
    assert spoken.content() == "a\n\nb"


@pytest.mark.parametrize(
    ("origin", "parts", "sealed"),
    [
        (A, (Text(text="a"), Text(text="b")), True),
        (A, (Text(text="a"),), False),
        (C, (Text(text="a"), Text(text="b")), False),
    ],
)
def test_only_a_turn_that_the_echo_would_not_rebuild_is_sealed(
    origin: str, parts: tuple[Part, ...], sealed: bool
) -> None:
    block: JsonObject = {"type": "text"}
    asked = replace(ask(), render_turn=lambda parts: [block])
    seal = seal_turn(parts, origin, asked)
    assert (seal is not None) is sealed
    if seal is not None:
        assert (seal.kind, seal.body) == ("turn", {"blocks": [block]})
