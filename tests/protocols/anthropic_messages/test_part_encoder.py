"""Parts of other protocols as blocks for a Messages provider."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.errors import RefusedError
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import (
    Audio,
    CacheBreakpoint,
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
    Part,
    Refusal,
    Seal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Url,
)
from dragoman.model.request import Message
from dragoman.model.tools import ChoiceMode, FunctionTool, McpTool, ToolChoice, ToolRef
from dragoman.protocols.anthropic_messages import NAME
from dragoman.wire.media import parse_data_url
from tests.protocols.anthropic_messages.support import (
    ADAPTIVE,
    assistant,
    at,
    body_of,
    chat,
    encoded,
    losses,
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


def test_a_list_of_a_declared_servers_tools_is_sent_back() -> None:
    call = HostedCall(call_id="mcpl_1", kind=HostedKind.MCP_LISTING, name="x", arguments="{}", server="s")
    listed = HostedResult(call_id="mcpl_1", kind=HostedKind.MCP_LISTING, text='[{"name":"n"}]')
    history = chat(user("q"), assistant(call, listed, "a"), user("n"))
    request = replace(history, tools=(McpTool(label="s", url="https://s", approval="never"),))
    result, ledger = encoded(request)
    listing = {"type": "mcp_tool_listing", "mcp_server_name": "s", "tools": [{"name": "n", "input_schema": {}}]}
    assert at(result.body, "messages", 1, "content", 0) == listing
    assert ("approximated", "mcp", "messages[1].parts[1]") in losses(ledger)
    # The list needs the feature even where no server is offered in this turn.
    alone = ToolChoice(mode=ChoiceMode.ALLOWED, allowed=(ToolRef(kind="function", name="f"),))
    result, _ = encoded(replace(request, tools=(*request.tools, FunctionTool(name="f")), tool_choice=alone))
    assert "mcp_servers" not in result.body
    assert at(result.body, "messages", 1, "content", 0) == listing
    assert result.headers["anthropic-beta"] == "mcp-client-2025-11-20"
    _, ledger = encoded(history)
    assert losses(ledger) == [("dropped", "mcp", f"messages[1].parts[{index}]") for index in (0, 1)]


@pytest.mark.parametrize(
    ("arguments", "value"),
    [("{oops", {"_raw_arguments": "{oops"}), ("[1]", {"_value": [1]}), ('"x"', {"_value": "x"}), ("null", {})],
)
def test_pitfall_050_051_arguments_that_are_no_object_are_wrapped(arguments: str, value: JsonObject) -> None:
    result, ledger = encoded(chat(user("q"), assistant(replace(CALL, arguments=arguments)), user(RESULT)))
    assert at(result.body, "messages", 1, "content", 0, "input") == value
    expected = [] if arguments == "null" else [("approximated", "arguments", "messages[1].parts[0].arguments")]
    assert losses(ledger) == expected


def test_pitfall_103_thinking_stands_first_and_in_order() -> None:
    first, second = BLOCK, {**BLOCK, "signature": "s2"}
    sealed = [Thinking(text="t", seal=Seal(origin=NAME, kind="thinking", body=body)) for body in (first, second)]
    written = messages(user("q"), assistant(*sealed, CALL), user(RESULT))
    blocks = at(written, 1, "content")
    assert isinstance(blocks, list)
    assert blocks[:2] == [first, second]


def test_pitfall_106_thinking_is_never_marked() -> None:
    marked = replace(CALL, cache=CacheBreakpoint(origin="openai-chat"))
    sealed = Thinking(text="t", seal=Seal(origin=NAME, kind="thinking", body=BLOCK))
    written = messages(user("q"), assistant(sealed, marked), user(RESULT))
    assert at(written, 1, "content", 0) == BLOCK
    assert at(written, 1, "content", 1, "cache_control") == {"type": "ephemeral"}


def test_pitfall_167_no_prefix_is_left_in_the_data() -> None:
    found = parse_data_url(f"data:image/png;name=a.png;base64,{PNG}")
    assert found is not None
    source = Inline(media_type=found[0], data=found[1])
    assert at(content(Image(source=source)), 0, "source") == {"type": "base64", "media_type": "image/png", "data": PNG}


def test_pitfall_168_addresses_are_passed_on() -> None:
    assert at(content(Image(source=Url(url="https://x/y.png"))), 0, "source") == {
        "type": "url",
        "url": "https://x/y.png",
    }
