"""Conversations of other protocols as Messages providers get them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.errors import RefusedError
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import (
    Audio,
    Citation,
    Compaction,
    Document,
    FileRef,
    Foreign,
    HostedCall,
    HostedKind,
    HostedResult,
    Image,
    Inline,
    InputForm,
    Part,
    Refusal,
    Seal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Url,
)
from dragoman.model.request import Message, Role
from dragoman.model.tools import FunctionTool, McpTool
from dragoman.protocols.anthropic_messages import CODEC, NAME
from tests.protocols.anthropic_messages.support import (
    ADAPTIVE,
    MANUAL,
    assistant,
    at,
    body_of,
    chat,
    encoded,
    losses,
    said,
    user,
)

PNG = "iVBORw0KGgo="
CALL = ToolCall(call_id="c1", name="f", arguments="")
RESULT = ToolResult(call_id="c1", parts=(Text(text="r"),))
BLOCK: JsonObject = {"type": "thinking", "thinking": "t", "signature": "s"}


def messages(*given: Message, model: str = ADAPTIVE) -> JsonValue:
    """The messages as they are written."""
    return body_of(chat(*given), model)["messages"]


def content(*parts: Part) -> JsonValue:
    """The content of a user message."""
    return at(messages(user(*parts)), 0, "content")


def test_pitfall_002_only_the_leading_instructions_go_to_the_top() -> None:
    given = (said(Role.SYSTEM, "a"), said(Role.DEVELOPER, "b"), user("q"), said(Role.SYSTEM, "late"))
    body = body_of(replace(chat(*given), instructions=(Text(text="first"),)))
    assert [at(block, "text") for block in body["system"]] == ["first", "a", "b"]  # type: ignore[union-attr]  # a list
    assert at(body, "messages", 1) == {"role": "system", "content": "late"}


@pytest.mark.parametrize(
    "after",
    [(user("next"),), (assistant("a"), said(Role.SYSTEM, "x"), user("n"))],
    ids=["before a user", "after an assistant"],
)
def test_late_instructions_in_an_illegal_place_are_tagged(after: tuple[Message, ...]) -> None:
    written = messages(user("q"), said(Role.SYSTEM, "late"), *after)
    if len(after) == 1:
        assert at(written, 0, "content", 1, "text") == "<system-reminder>\nlate\n</system-reminder>"
    else:
        assert at(written, 3, "content", 0, "text") == "<system-reminder>\nx\n</system-reminder>"


def test_pitfall_022_results_stand_first_in_one_message_in_call_order() -> None:
    calls = [replace(CALL, call_id=one) for one in ("c1", "c2")]
    written = messages(
        user("q"),
        assistant("t", *calls),
        user(replace(RESULT, call_id="c2")),
        said(Role.SYSTEM, "note"),
        user("more", RESULT),
        model=MANUAL,
    )
    blocks = at(written, 2, "content")
    assert isinstance(blocks, list)
    kinds = [(at(block, "type"), block.get("tool_use_id")) for block in blocks if isinstance(block, dict)]
    assert kinds == [("tool_result", "c1"), ("tool_result", "c2"), ("text", None), ("text", None)]


def test_pitfall_025_an_orphan_is_labelled_text() -> None:
    assert at(messages(user(RESULT)), 0, "content") == "[result of unknown tool call c1]\nr"


def test_pitfall_027_an_interrupted_call_is_answered_as_an_error() -> None:
    answered = at(messages(user("q"), assistant(CALL)), 2, "content", 0)
    assert at(answered, "is_error") is True


@pytest.mark.parametrize("arguments", ["", "  ", "null"])
def test_pitfall_046_no_arguments_are_an_empty_object(arguments: str) -> None:
    written = messages(user("q"), assistant(replace(CALL, arguments=arguments)), user(RESULT))
    assert at(written, 1, "content") == [{"type": "tool_use", "id": "c1", "name": "f", "input": {}}]


@pytest.mark.parametrize(
    ("call", "value"),
    [
        (replace(CALL, arguments="not json"), {"_raw_arguments": "not json"}),
        (replace(CALL, arguments="[1]"), {"_value": [1]}),
        (replace(CALL, arguments="x", form=InputForm.TEXT), {"input": "x"}),
    ],
    ids=["pitfall 50: no JSON", "pitfall 51: no object", "free text"],
)
def test_arguments_become_objects(call: ToolCall, value: JsonObject) -> None:
    assert at(messages(user("q"), assistant(call), user(RESULT)), 1, "content", 0, "input") == value


def test_history_calls_of_a_wrapped_tool_are_wrapped() -> None:
    tool = FunctionTool(name="f", parameters={"type": "array"})
    request = replace(chat(user("q"), assistant(replace(CALL, arguments="[1]")), user(RESULT)), tools=(tool,))
    assert at(body_of(request), "messages", 1, "content", 0, "input") == {"value": [1]}


def test_pitfall_036_ids_are_made_to_fit_on_both_sides() -> None:
    written = messages(user("q"), assistant(replace(CALL, call_id="a:1")), user(replace(RESULT, call_id="a:1")))
    made = at(written, 1, "content", 0, "id")
    assert made == at(written, 2, "content", 0, "tool_use_id")
    assert made != "a:1"


def test_pitfall_009_an_assistant_is_never_last_unless_the_model_continues() -> None:
    assert at(messages(user("q"), assistant("a")), 2) == {"role": "user", "content": "Continue."}
    written = messages(user("q"), assistant("a"), model=MANUAL)
    assert isinstance(written, list)
    assert len(written) == 2


@pytest.mark.parametrize(
    ("given", "first"),
    [
        ((assistant("a"), user("q")), "Continue."),
        ((said(Role.SYSTEM, "s"),), "s"),
        ((user(" "),), "Continue."),
        ((), "hi"),
    ],
    ids=["an assistant began", "pitfall 12: only instructions", "pitfall 14: only blanks", "a plain one"],
)
def test_the_first_message_is_the_users_and_says_something(given: tuple[Message, ...], first: str) -> None:
    assert at(messages(*given), 0) == {"role": "user", "content": first}


def test_pitfall_013_empty_text_is_left_out() -> None:
    written = messages(user("q"), assistant("", CALL), user(RESULT))
    assert [at(block, "type") for block in at(written, 1, "content")] == ["tool_use"]  # type: ignore[union-attr]  # a list


def test_an_empty_result_is_a_string() -> None:
    written = messages(user("q"), assistant(CALL), user(replace(RESULT, parts=(Text(text=""),))))
    assert at(written, 2, "content", 0, "content") == ""


@pytest.mark.parametrize(
    ("part", "source"),
    [
        (Image(source=Url(url="https://x")), {"type": "url", "url": "https://x"}),
        (
            Image(source=Inline(media_type="image/jpg", data="/9j/x")),
            {"type": "base64", "media_type": "image/jpeg", "data": "/9j/x"},
        ),
        (
            Image(source=Inline(media_type="image/jpeg", data=PNG)),
            {"type": "base64", "media_type": "image/png", "data": PNG},
        ),
        (
            Document(source=Inline(media_type="application/pdf", data="JVBE")),
            {"type": "base64", "media_type": "application/pdf", "data": "JVBE"},
        ),
        (
            Document(source=Inline(media_type="text/csv", data="YQ==")),
            {"type": "text", "media_type": "text/plain", "data": "a"},
        ),
        (Document(source=Url(url="https://x")), {"type": "url", "url": "https://x"}),
    ],
    ids=["an address", "pitfall 166: jpg", "pitfall 166: a wrong label", "a PDF", "a text file", "a PDF's address"],
)
def test_media(part: Part, source: JsonObject) -> None:
    assert at(content(part), 0, "source") == source


def test_pitfall_169_a_pdf_that_came_as_an_image_is_a_document() -> None:
    assert at(content(Image(source=Inline(media_type="application/pdf", data="JVBE"))), 0, "type") == "document"


@pytest.mark.parametrize(
    "part",
    [
        Audio(source=Inline(media_type="audio/wav", data="x")),
        Image(source=Inline(media_type="image/svg+xml", data="PHN2Zz4=")),
        Image(source=FileRef(issuer="openai", file_id="f")),
        Document(source=Inline(media_type="application/zip", data="eA==")),
        Foreign(origin="openai-responses", kind="item", body={}),
        Compaction(summary=None),
    ],
    ids=["pitfall 171: audio", "svg", "pitfall 170: a file id", "a zip file", "something unknown", "a sealed summary"],
)
def test_user_content_that_cannot_be_said_is_refused(part: Part) -> None:
    with pytest.raises(RefusedError):
        content(part)


@pytest.mark.parametrize(
    ("seal", "kept"),
    [
        (Seal(origin=NAME, kind="thinking", body=BLOCK), True),
        (Seal(origin=NAME, kind="thinking", body=BLOCK, model=ADAPTIVE), True),
        (Seal(origin=NAME, kind="thinking", body=BLOCK, model="claude-older"), False),
        (Seal(origin="openai-responses", kind="item", body={}), False),
        (None, False),
    ],
    ids=["its own", "its own, named", "another model's", "pitfall 104: another vendor's", "unsigned"],
)
def test_thinking_returns_only_to_its_issuer(seal: Seal | None, kept: bool) -> None:
    result, ledger = encoded(chat(user("q"), assistant(Thinking(text="x", seal=seal), "a"), user("n")))
    blocks = at(result.body, "messages", 1, "content")
    assert (blocks == [BLOCK, {"type": "text", "text": "a"}]) is kept
    assert bool(ledger) is not kept


def test_a_sealed_turn_is_restored_exactly() -> None:
    turn = (
        Text(text="a"),
        Thinking(text="t", seal=Seal(origin=NAME, kind="thinking", body=BLOCK)),
        replace(CALL, arguments='{"x": 1}'),
    )
    blocks: list[JsonValue] = [*CODEC.encode_turn(turn)]
    assert CODEC.decode_turn([block for block in blocks if isinstance(block, dict)])[2] == turn[2]
    echo = replace(assistant("a", turn[2]), turn=Seal(origin=NAME, kind="turn", body={"blocks": blocks}))
    written = messages(user("q"), echo, user(RESULT))
    assert [at(block, "type") for block in at(written, 1, "content")] == ["text", "thinking", "tool_use"]  # type: ignore[union-attr]  # a list


def test_pitfall_020_a_refusal_is_assistant_text() -> None:
    result, ledger = encoded(chat(user("q"), assistant(Refusal(text="no")), user("n")))
    assert at(result.body, "messages", 1, "content") == "no"
    assert losses(ledger) == [("approximated", "refusal", "messages[1].parts[0]")]


def test_citations_of_others_are_not_sent_back() -> None:
    cited = Text(text="a", citations=(Citation(origin="openai-chat", native={}, url="u"),))
    result, ledger = encoded(chat(user("q"), assistant(cited), user("n")))
    assert at(result.body, "messages", 1, "content") == "a"
    assert losses(ledger) == [("dropped", "citations", "messages[1].parts[0].citations")]


def test_a_readable_summary_is_told_by_the_user() -> None:
    written = messages(assistant(Compaction(summary="so far")), user("go on"))
    assert at(written, 0, "content", 0, "text") == "Summary of the conversation so far:\nso far"


def test_a_compaction_of_its_own_returns_with_its_beta() -> None:
    body: JsonObject = {"type": "compaction", "content": "c", "encrypted_content": "e"}
    part = Compaction(summary="c", seal=Seal(origin=NAME, kind="compaction", body=body))
    result, _ = encoded(chat(user("q"), assistant(part), user("n")))
    assert at(result.body, "messages", 1, "content") == [body]
    assert result.headers["anthropic-beta"] == "compact-2026-01-12"


def test_calls_to_a_declared_tool_server_are_sent_back() -> None:
    call = HostedCall(call_id="mcp_1", kind=HostedKind.MCP, name="x", arguments="{}", server="s")
    outcome = HostedResult(call_id="mcp_1", kind=HostedKind.MCP, text="ok")
    request = replace(
        chat(user("q"), assistant(call, outcome), user("n")),
        tools=(McpTool(label="s", url="https://s", approval="never"),),
    )
    blocks = at(body_of(request), "messages", 1, "content")
    assert at(blocks, 0, "id") == at(blocks, 1, "tool_use_id") == "mcptoolu_1"


def test_what_another_provider_ran_is_not_sent_back() -> None:
    call = HostedCall(call_id="ws_1", kind=HostedKind.WEB_SEARCH, name="web_search", arguments="{}")
    _, ledger = encoded(chat(user("q"), assistant(call, "a"), user("n")))
    assert losses(ledger) == [("dropped", "web_search", "messages[1].parts[0]")]
