"""Parts of another protocol's answer as blocks for a Messages client."""

from __future__ import annotations

import pytest

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import (
    Citation,
    Compaction,
    HostedCall,
    HostedKind,
    HostedResult,
    Part,
    Refusal,
    Seal,
    Text,
    Thinking,
    ToolCall,
)
from dragoman.model.request import Request
from dragoman.model.response import StopReason
from dragoman.model.tools import WebSearchTool
from dragoman.protocols.anthropic_messages import NAME
from dragoman.rules.seals import from_envelope
from tests.protocols.anthropic_messages.support import SEARCH, at, losses, written

CALL: JsonObject = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
ITEM = Seal(
    origin="openai-responses", kind="item", body={"type": "reasoning", "id": "rs_1"}, model="g", vendor="openai"
)


def test_pitfall_108_reasoning_of_another_issuer_rides_in_the_signature() -> None:
    body, _ = written(Thinking(text="t", seal=ITEM))
    signature = at(body, "content", 0, "signature")
    assert isinstance(signature, str)
    assert from_envelope(signature) == ITEM


def test_a_call_has_an_object_as_input() -> None:
    body, _ = written(ToolCall(call_id="call_1", name="f", arguments=""), stop=StopReason.TOOL_CALL)
    assert body["content"] == [{"type": "tool_use", "id": "call_1", "name": "f", "input": {}}]
    assert body["stop_reason"] == "tool_use"


def test_an_empty_answer_has_no_blocks() -> None:
    body, _ = written(Text(text=" "))
    assert body["content"] == []


def test_pitfall_172_citations_cut_the_text_at_their_spans() -> None:
    cited = Citation(origin="openai-responses", native={}, url="https://x", title="X", span=(2, 4))
    body, ledger = written(Text(text="a bc d", citations=(cited,)))
    assert [at(block, "text") for block in body["content"]] == ["a ", "bc", " d"]  # type: ignore[union-attr]  # a list
    assert at(body, "content", 1, "citations", 0, "cited_text") == "bc"
    assert losses(ledger) == [("approximated", "citations", "parts[0].citations")]


@pytest.mark.parametrize(
    ("text", "span", "pieces"),
    [
        ("ab  ", (0, 2), ["ab  "]),
        ("  ab", (2, 4), ["  ab"]),
        ("ab", (0, 99), ["ab"]),
        ("ab", (5, 1), ["ab"]),
        ("a", None, ["a"]),
    ],
)
def test_no_cut_leaves_a_blank_block(text: str, span: tuple[int, int] | None, pieces: list[str]) -> None:
    cited = Citation(origin="openai-responses", native={}, url="https://x", span=span)
    body, _ = written(Text(text=text, citations=(cited,)))
    assert [at(block, "text") for block in body["content"]] == pieces  # type: ignore[union-attr]  # a list


def test_pitfall_153_a_search_is_told_as_the_providers_own() -> None:
    request = Request(origin=NAME, model="alias", tools=(WebSearchTool(),))
    body, _ = written(*SEARCH, request=request)
    assert at(body, "content", 0) == {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "web_search",
        "input": {"query": "q"},
    }
    assert at(body, "content", 1, "tool_use_id") == "srvtoolu_1"
    assert at(body, "content", 1, "content", 0, "url") == "https://x"


def test_a_search_nobody_declared_is_left_out() -> None:
    body, ledger = written(*SEARCH)
    assert body["content"] == []
    assert [loss[1] for loss in losses(ledger)] == ["web_search", "web_search"]


def test_tool_servers_are_told_in_this_protocols_words() -> None:
    body, _ = written(
        HostedCall(call_id="mcpl_1", kind=HostedKind.MCP_LISTING, name="mcp_list_tools", arguments="{}", server="s"),
        HostedResult(call_id="mcpl_1", kind=HostedKind.MCP_LISTING, text='[{"name":"n"}]'),
        HostedCall(call_id="mcp_1", kind=HostedKind.MCP, name="n", arguments="{}", server="s"),
        HostedResult(call_id="mcp_1", kind=HostedKind.MCP, text="ok"),
    )
    kinds = [at(block, "type") for block in body["content"]]  # type: ignore[union-attr]  # a list
    assert kinds == ["mcp_tool_listing", "mcp_tool_use", "mcp_tool_result"]
    assert at(body, "content", 0, "mcp_server_name") == "s"


def test_a_compaction_carries_its_issuers_seal() -> None:
    seal = Seal(origin="openai-responses", kind="compaction", body={"id": "cmp_1"})
    body, _ = written(Compaction(summary=None, seal=seal))
    assert at(body, "content", 0, "content") == "[compacted]"
    assert from_envelope(str(at(body, "content", 0, "signature"))) == seal


def test_pitfall_150_a_call_is_only_what_the_provider_called() -> None:
    body, _ = written(Text(text='{"a":1}'))
    assert body["content"] == [{"type": "text", "text": '{"a":1}'}]
    assert body["stop_reason"] == "end_turn"


@pytest.mark.parametrize("part", [Text(text="x", logprobs=[]), Refusal(text="x", logprobs=[])], ids=["text", "refusal"])
def test_log_probabilities_are_reported(part: Part) -> None:
    _, ledger = written(part)
    assert losses(ledger) == [("dropped", "logprobs", "parts[0].logprobs")]


def test_arguments_that_are_no_object_are_wrapped_and_reported() -> None:
    body, ledger = written(ToolCall(call_id="c", name="f", arguments="[1]"))
    assert at(body, "content", 0, "input") == {"_value": [1]}
    assert losses(ledger) == [("approximated", "arguments", "parts[0].arguments")]


def test_calls_to_tool_servers_and_their_lists_are_reported() -> None:
    _, ledger = written(
        HostedCall(call_id="l", kind=HostedKind.MCP_LISTING, name="x", arguments="{}", server="s"),
        HostedResult(call_id="l", kind=HostedKind.MCP_LISTING, text="down", is_error=True),
        HostedCall(call_id="c", kind=HostedKind.MCP, name="n", arguments="{}", server="s"),
    )
    assert losses(ledger) == [
        ("approximated", "mcp", "parts[0]"),
        ("dropped", "mcp", "parts[1]"),
        ("approximated", "mcp", "parts[2]"),
    ]
