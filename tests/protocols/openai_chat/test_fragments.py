"""Fragments of calls as servers send them, each shape with its source; contents are made up."""

from __future__ import annotations

import pytest

from dragoman.model.events import Failed
from dragoman.model.folding import fold
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import Text, Thinking, ToolCall
from dragoman.model.response import Response
from dragoman.model.tools import FunctionTool
from tests.laws.growth import assert_copies_little, counting_work
from tests.protocols.openai_chat.room import C, ask, chunk, heard, losses

F, G = FunctionTool(name="f"), FunctionTool(name="g")
MINTED = "call_" + "1".rjust(24, "t")
AGAIN = "call_" + "2".rjust(24, "t")
Call = tuple[str, str, str]


def said(index: JsonValue = "none", given: JsonValue = None, **inner: JsonValue) -> JsonObject:
    """One fragment; the index is left out if none is given."""
    one: JsonObject = {} if index == "none" else {"index": index}
    if given is not None:
        one |= {"id": given, "type": "function"}
    return {**one, "function": inner} if inner else one


def stream(*fragments: JsonObject) -> list[JsonObject]:
    return [*(chunk({"tool_calls": [one]}) for one in fragments), chunk({}, "tool_calls")]


def calls(chunks: list[JsonObject], ledger: Ledger | None = None) -> list[Call]:
    ledger = Ledger() if ledger is None else ledger
    response = fold(heard(chunks, ask(F, G), ledger=ledger), C)
    assert isinstance(response, Response), response
    return [(part.call_id, part.name, part.arguments) for part in response.parts if isinstance(part, ToolCall)]


ONE: list[Call] = [("a", "f", '{"x":1}')]
TWO: list[Call] = [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')]

SHAPES: dict[str, tuple[list[JsonObject], list[Call]]] = {
    "all so far each time, cut before a value": (
        [said(0, "a", name="f"), *(said(0, arguments=text) for text in ('{"x":', '{"x":1', '{"x":1}'))],
        ONE,
    ),
    "a value inside that begins like the outer one": (
        [said(0, "a", name="f"), *(said(0, arguments=text) for text in ('{"x":', '{"x":1', "}", "}"))],
        [("a", "f", '{"x":{"x":1}}')],
    ),
    "stand-ins before all arguments, which come mixed": (
        [
            said(0, "a", name="f", arguments="{}"),
            said(1, "b", name="g", arguments="{}"),
            said(0, arguments='{"x"'),
            said(1, arguments='{"y"'),
            said(0, arguments=":1}"),
            said(1, arguments=":2}"),
        ],
        TWO,
    ),
    "a call without arguments, and the next one's said again at an index of nobody": (
        [
            said(0, "a", name="f", arguments="{}"),
            said(1, "b", name="g", arguments='{"y":2}'),
            said(2, arguments='{"y":2}'),
        ],
        [("a", "f", "{}"), ("b", "g", '{"y":2}')],
    ),
    "the name in each fragment, the id in the first, the index one too high": (
        [said(0, "a", name="f"), said(1, name="f", arguments='{"x"'), said(1, name="f", arguments=":1}")],
        ONE,
    ),
    "the name again with the arguments again, at an index of nobody": (
        [said(0, "a", name="f", arguments='{"x":1}'), said(5, name="f", arguments='{"x":1}')],
        ONE,
    ),
    "an id that comes later than the name, at another index": (
        [said(0, name="f"), said(1, "a", arguments='{"x"'), said(1, arguments=":1}")],
        [(MINTED, "f", '{"x":1}')],
    ),
    "one tool twice, without ids and indexes": (
        [
            said(name="f", arguments=""),
            said(arguments='{"x":1}'),
            said(name="f", arguments=""),
            said(arguments='{"x"'),
            said(arguments=":3}"),
        ],
        [(MINTED, "f", '{"x":1}'), (AGAIN, "f", '{"x":3}')],
    ),
    "one id for all calls of one tool, in pieces": (
        [
            said(0, "a", name="f"),
            said(0, arguments='{"x":1}'),
            said(1, "a", name="f"),
            said(1, arguments='{"x"'),
            said(1, arguments=":3}"),
        ],
        [("a", "f", '{"x":1}'), (MINTED, "f", '{"x":3}')],
    ),
    "a whole call opened again elsewhere, in pieces": (
        [
            said(0, "a", name="f"),
            said(0, arguments='{"x":1}'),
            said(1, "a", name="f"),
            said(1, arguments='{"x"'),
            said(1, arguments=":1}"),
        ],
        ONE,
    ),
    "indexes as texts and as broken numbers": (
        [
            said("0", "a", name="f"),
            said(1.0, "b", name="g"),
            said(0.0, arguments='{"x":1}'),
            said("1", arguments='{"y":2}'),
        ],
        TWO,
    ),
    # https://github.com/agno-agi/agno/issues/8879
    "the head of the second at the first's index, its tail at its own": (
        [
            said(0, "a", name="f", arguments='{"x":1}'),
            said(0, "b", name="g", arguments='{"y"'),
            said(1, arguments=":2}"),
        ],
        TWO,
    ),
    "an id beats the index": (
        [
            said(0, "a", name="f", arguments=""),
            said(1, "b", name="g", arguments=""),
            said(1, "a", arguments='{"x":1}'),
            said(1, "b", arguments='{"y":2}'),
        ],
        TWO,
    ),
    "ids swapped between indexes, and what follows without an id": (
        [
            said(0, "a", name="f", arguments=""),
            said(1, "b", name="g", arguments=""),
            said(1, "a", arguments='{"x"'),
            said(0, "b", arguments='{"y"'),
            said(1, arguments=":1}"),
            said(0, arguments=":2}"),
        ],
        TWO,
    ),
    # https://github.com/sgl-project/sglang/pull/6645
    "arguments at an index that was never opened": (
        [said(1, "a", name="f", arguments=""), said(0, arguments='{"x"'), said(0, arguments=":1}")],
        ONE,
    ),
    # https://github.com/sgl-project/sglang/issues/6310
    "names by their place among the tools, arguments by that of the call": (
        [
            said(1, "a", name="f", arguments=""),
            said(0, arguments='{"x":1}'),
            said(0, "b", name="g", arguments=""),
            said(1, arguments='{"y"'),
            said(1, arguments=":2}"),
        ],
        TWO,
    ),
    # https://github.com/mudler/LocalAI/issues/9722
    "the same call at several indexes": (
        [
            said(0, "a", name="f", arguments=""),
            said(0, "a", arguments='{"x":1}'),
            said(1, "a", name="f", arguments='{"x":1}'),
            said(2, "a", name="f", arguments='{"x": 1}'),
        ],
        ONE,
    ),
    "the same call at several indexes, before the next one": (
        [
            said(0, "a", name="f", arguments=""),
            said(1, "a", arguments='{"x":1}'),
            said(1, "b", name="g", arguments='{"y":2}'),
        ],
        TWO,
    ),
    # https://github.com/mudler/LocalAI/pull/9470
    "one id for all calls": (
        [said(0, "a", name="f", arguments='{"x":1}'), said(1, "a", name="f", arguments='{"x":2}')],
        [("a", "f", '{"x":1}'), (MINTED, "f", '{"x":2}')],
    ),
    # https://github.com/skye-harris/hass_local_openai_llm/pull/92
    "one id and one index for all calls": (
        [said(0, "a", name="f", arguments='{"x":1}'), said(0, "a", name="g", arguments='{"y":2}')],
        [("a", "f", '{"x":1}'), (MINTED, "g", '{"y":2}')],
    ),
    # https://github.com/BerriAI/litellm/issues/20480
    "the id in every chunk, then all of it as a JSON string of JSON": (
        [
            said(0, "a", name="f", arguments='{"x"'),
            said(0, "a", arguments=":1}"),
            said(0, "a", name="f", arguments='"{\\"x\\":1}"'),
        ],
        ONE,
    ),
    # https://github.com/SillyTavern/SillyTavern/pull/5948
    "id, type and name in every chunk": (
        [
            said(0, "a", name="f", arguments=""),
            said(0, "a", name="f", arguments='{"x"'),
            said(0, "a", name="f", arguments=":1}"),
        ],
        ONE,
    ),
    # https://github.com/lidge-jun/opencodex/issues/361
    "arguments again in full after the deltas": (
        [said(0, "a", name="f", arguments=""), said(0, arguments='{"x":1}'), said(0, arguments='{"x":1}')],
        ONE,
    ),
    "arguments again in full, in pieces and spelled otherwise": (
        [
            said(0, "a", name="f", arguments='{"x"'),
            said(0, arguments=":1}"),
            said(0, arguments='{"x": '),
            said(0, arguments="1.0}\n"),
        ],
        ONE,
    ),
    # https://github.com/vllm-project/vllm/issues/44098
    "the rest of the arguments with id and name again": (
        [
            said(0, "a", name="f", arguments='{"x"'),
            said(0, arguments=":1"),
            said(0, "a", name="f", arguments="}"),
        ],
        ONE,
    ),
    "all arguments with an end that the deltas did not bring": (
        [said(0, "a", name="f", arguments='{"x"'), said(0, arguments=":1"), said(0, arguments='{"x":1}')],
        ONE,
    ),
    "all arguments so far in every chunk": (
        [said(0, "a", name="f", arguments='{"x'), said(0, arguments='{"x":1'), said(0, arguments='{"x":1}')],
        ONE,
    ),
    "a value inside that looks like the beginning": (
        [said(0, "a", name="f", arguments='{"x":'), said(0, arguments='{"x":1}'), said(0, arguments="}")],
        [("a", "f", '{"x":{"x":1}}')],
    ),
    # https://github.com/BerriAI/litellm/issues/4537
    "an empty object before the real arguments": (
        [said(0, "a", name="f", arguments="{}"), said(0, arguments='{"x"'), said(0, arguments=":1}")],
        ONE,
    ),
    "empty objects of two calls before the real arguments": (
        [
            said(0, "a", name="f", arguments={}),
            said(1, "b", name="g", arguments="{}"),
            said(0, arguments='{"x":1}'),
            said(1, arguments='{"y":2}'),
        ],
        TWO,
    ),
    "an empty object, said twice, is the arguments": (
        [said(0, "a", name="f", arguments="{}"), said(0, arguments="{}")],
        [("a", "f", "{}")],
    ),
    "null and nothing before the real arguments": (
        [
            said(0, "a", name="f", arguments=None),
            said(0, arguments=""),
            said(0, arguments="null"),
            said(0, arguments='{"x":1}'),
        ],
        ONE,
    ),
    # https://github.com/ollama/ollama/issues/15457, https://github.com/ai-dynamo/dynamo/pull/4723
    "all calls at index 0": (
        [said(0, "a", name="f", arguments='{"x":1}'), said(0, "b", name="g", arguments='{"y":2}')],
        TWO,
    ),
    # https://github.com/run-llama/llama_index/issues/22464
    "the same call twice, under two ids": (
        [said(0, "a", name="f", arguments='{"x":1}'), said(0, "b", name="f", arguments='{"x":1}')],
        [("a", "f", '{"x":1}'), ("b", "f", '{"x":1}')],
    ),
    # https://github.com/comet-ml/opik/issues/8362
    "no index": (
        [said("none", "a", name="f", arguments='{"x":1}'), said("none", "b", name="g", arguments='{"y":2}')],
        TWO,
    ),
    "the index as null": (
        [
            said(None, "a", name="f", arguments='{"x"'),
            said(None, arguments=":1}"),
            said(None, "b", name="g", arguments={"y": 2}),
        ],
        TWO,
    ),
    "no index, no ids, no arguments": (
        [said(name="f", arguments=""), said(name="g", arguments="")],
        [(MINTED, "f", ""), (AGAIN, "g", "")],
    ),
    # https://github.com/vercel/ai/pull/15879
    "no index, the name after the arguments": (
        [
            said("none", "a", arguments='{"x"'),
            said("none", "a", arguments=":1}"),
            said("none", "a", name="f", arguments=""),
        ],
        ONE,
    ),
    # https://github.com/BerriAI/litellm/pull/28223
    "another id in every chunk, no name": (
        [said(0, "a", name="f", arguments=""), said(0, "n1", arguments='{"x"'), said(0, "n2", arguments=":1}")],
        ONE,
    ),
    # https://github.com/vllm-project/vllm/pull/23522
    "another id in every chunk, and the name": (
        [
            said(0, "a", name="f", arguments="{"),
            said(0, "n1", name="f", arguments='"x'),
            said(0, "n2", name="f", arguments='":1}'),
        ],
        ONE,
    ),
    "another id in every chunk, without an index": (
        [said("none", "a", name="f", arguments='{"x"'), said("none", "n1", arguments=":1}")],
        ONE,
    ),
    # https://github.com/openai/openai-python/pull/3245
    "names that are empty, and a blank before the arguments": (
        [said(0, "a", name="f"), said(0, "", name="", arguments=' {"x"'), said(0, "", name="", arguments=":1}")],
        [("a", "f", ' {"x":1}')],
    ),
    # https://github.com/vllm-project/vllm/pull/38274
    "the end of the first with the name of the second": (
        [
            said(0, "a", name="f", arguments='{"x"'),
            said(1, "b", name="g", arguments=":1}"),
            said(1, arguments='{"y":2}'),
        ],
        TWO,
    ),
    "a whole call said again under its id": (
        [
            said(0, "a", name="f", arguments='{"x":1}'),
            said(1, "b", name="g", arguments='{"y":2}'),
            said(0, "a", name="f", arguments='{"x":1}'),
            said("none", "b", name="g", arguments={"y": 2}),
        ],
        TWO,
    ),
    "the name and all arguments again, without the id": (
        [said(0, "a", name="f", arguments='{"x"'), said(0, arguments=":1}"), said(0, name="f", arguments='{"x":1}')],
        ONE,
    ),
    "all of the name so far in every chunk": (
        [said(0, "a", name="loo"), said(0, "a", name="look"), said(0, arguments="{}")],
        [("a", "look", "{}")],
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_item_7_fragments_of_calls(shape: str) -> None:
    fragments, expected = SHAPES[shape]
    ledger = Ledger()
    assert calls(stream(*fragments), ledger) == expected
    assert losses(ledger) == set()


@pytest.mark.parametrize("shape", SHAPES)
def test_item_7_fragments_of_one_chunk(shape: str) -> None:
    fragments, expected = SHAPES[shape]
    together = chunk({"tool_calls": list[JsonValue](fragments)})
    assert calls([together, chunk({}, "tool_calls")]) == expected


def test_item_7_the_whole_calls_again_with_the_finish() -> None:
    pieces = [said(0, "a", name="f", arguments='{"x"'), said(0, arguments=":1}"), said(1, "b", name="g", arguments="")]
    again: list[JsonValue] = [
        said("none", "a", name="f", arguments='{"x":1}'),
        said("none", "b", name="g", arguments='{"y":2}'),
    ]
    start = [chunk({"tool_calls": [one]}) for one in pieces]
    assert calls([*start, chunk({"tool_calls": again}, "tool_calls")]) == TWO
    last = chunk({}, "tool_calls")
    choice = last["choices"][0]  # type: ignore[index]  # the shape is known
    assert isinstance(choice, dict)
    choice["message"] = {"role": "assistant", "content": None, "tool_calls": again}
    assert calls([*start, last]) == TWO


def test_item_7_a_whole_message_that_nobody_streamed() -> None:
    last = chunk({}, "tool_calls")
    choice = last["choices"][0]  # type: ignore[index]  # the shape is known
    assert isinstance(choice, dict)
    whole: list[JsonValue] = [said("none", name="f", arguments={"x": 1}), said("none", name="g", arguments="{}")]
    choice["message"] = {"role": "assistant", "content": "Sure.", "tool_calls": whole}
    response = fold(heard([last], ask(F, G)), C)
    assert isinstance(response, Response)
    assert [type(part).__name__ for part in response.parts] == ["Text", "ToolCall", "ToolCall"]


def test_item_7_a_whole_message_says_only_what_is_new() -> None:
    last = chunk({}, "stop")
    choice = last["choices"][0]  # type: ignore[index]  # the shape is known
    assert isinstance(choice, dict)
    choice["message"] = {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."}
    response = fold(heard([chunk({"reasoning_content": "Hm."}), last], ask(F, G)), C)
    assert isinstance(response, Response)
    assert [part.text for part in response.parts if isinstance(part, Text | Thinking)] == ["Hm.", "Yes."]


def test_item_7_both_forms_of_one_call_are_one() -> None:
    first: JsonObject = {"tool_calls": [said(0, "a", name="f", arguments="")], "function_call": {"name": "f"}}
    more: JsonObject = {
        "tool_calls": [said(0, arguments='{"x":1}')],
        "function_call": {"arguments": '{"x":1}'},
    }
    assert calls([chunk(first), chunk(more), chunk({}, "tool_calls")]) == ONE


BROKEN: dict[str, list[JsonObject]] = {
    "a name whose other piece came after something else": [
        said(0, "a", name="f"),
        said(1, "b", name="un"),
        said(2, "c", name="f", arguments="{}"),
        said(1, name="f"),
    ],
    "pieces of one value that nothing holds together": [
        said(0, name="f", arguments='{"x":'),
        said(1, name="f", arguments='{"y"'),
        said(2, name="f", arguments=":2}}"),
    ],
    "arguments of one call again while another has none": [
        said(0, "a", name="f", arguments='{"x":1}'),
        said(1, "b", name="f"),
        said(0, arguments='{"x":1}'),
    ],
    "another value under the same id": [
        said(0, "a", name="f", arguments='{"x":1}'),
        said(0, "a", name="f", arguments='{"x":2}'),
    ],
    "another value without id and name": [
        said(0, "a", name="f", arguments='{"x":1}'),
        said(0, arguments='{"x":2}'),
    ],
    "another value in pieces, after the call ended": [
        said(0, "a", name="f", arguments='{"x":1}'),
        said(1, "b", name="g", arguments='{"y":2}'),
        said(0, "a", arguments='{"x":'),
        said(0, "a", arguments="2}"),
    ],
    "true is not 1": [said(0, "a", name="f", arguments='{"x":1}'), said(0, arguments='{"x":true}')],
    "arguments of nobody while a call has none": [
        said(0, "a", name="f", arguments=""),
        said(1, "b", name="g", arguments=""),
        said(2, arguments='{"x":1}'),
    ],
}


@pytest.mark.parametrize("shape", BROKEN)
@pytest.mark.parametrize("finish", ["tool_calls", None])
def test_item_7_wrong_arguments_are_never_run(shape: str, finish: str | None) -> None:
    events = heard([*stream(*BROKEN[shape])[:-1], chunk({}, finish)], ask(F, G))
    assert isinstance(events[-1], Failed)


def test_item_7_what_is_no_value_after_a_value_is_reported() -> None:
    ledger = Ledger()
    # https://github.com/weicj/vLLM-2080Ti-Definitive/issues/122
    assert calls(stream(said(0, "a", name="f", arguments='{"x":1}'), said(0, arguments="}")), ledger) == ONE
    assert losses(ledger) == {("dropped", "arguments", "parts[0]")}


NOTHING: dict[str, JsonObject] = {
    "an empty legacy call": {"function_call": {"name": "", "arguments": ""}},
    "a legacy call of nulls": {"function_call": {"name": None, "arguments": None}},
    "an empty object": {"tool_calls": [{}]},
    "an index alone": {"tool_calls": [{"index": 0}]},
    "an empty function": {"tool_calls": [{"index": 0, "id": "", "type": "function", "function": {}}]},
    "null as the function": {"tool_calls": [{"index": 0, "type": "function", "function": None}]},
    "empty words": {"tool_calls": [{"index": 0, "id": None, "function": {"name": "", "arguments": ""}}]},
}


@pytest.mark.parametrize("shape", NOTHING)
def test_item_9_an_empty_call_is_none(shape: str) -> None:
    ledger = Ledger()
    chunks = [chunk({"content": "Hi", **NOTHING[shape]}), chunk(NOTHING[shape]), chunk({}, "stop")]
    response = fold(heard(chunks, ask(F, G), ledger=ledger), C)
    assert isinstance(response, Response)
    assert [type(part).__name__ for part in response.parts] == ["Text"]
    assert response.stop.reason.value == "end"
    assert losses(ledger) == set()


def test_item_7_free_text_said_again_after_its_end_is_nothing() -> None:
    ledger = Ledger()
    whole: JsonObject = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "g", "input": "SELECT 1"}}
    chunks = [chunk({"tool_calls": [whole]}), chunk({}, "tool_calls"), chunk({"tool_calls": [whole]})]
    assert calls(chunks, ledger) == [("a", "g", "SELECT 1")]
    assert losses(ledger) == set()


@pytest.mark.parametrize("inputs", [("{", "}"), ("x", ", y")], ids=["one value together", "not how a value begins"])
def test_free_text_of_several_calls_is_never_taken_for_pieces_of_one_value(inputs: tuple[str, str]) -> None:
    first: JsonObject = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "g", "input": inputs[0]}}
    second: JsonObject = {"index": 1, "id": "b", "type": "custom", "custom": {"name": "g", "input": inputs[1]}}
    assert calls(stream(first, second)) == [("a", "g", inputs[0]), ("b", "g", inputs[1])]


def test_item_7_many_short_pieces_after_a_long_value_cost_little() -> None:
    long = '{"x":"' + "a" * 200_000 + '"}'

    def tell(pieces: bytes) -> int:
        short = [said(0, arguments=chr(letter)) for letter in pieces]
        chunks = stream(said(0, "a", name="f", arguments=long), said(1, "b", name="g", arguments='{"y":"'), *short)
        found = calls([*chunks[:-1], chunk({"tool_calls": [said(1, arguments='"}')]}), chunks[-1]])
        assert found == [("a", "f", long), ("b", "g", '{"y":"' + pieces.decode() + '"}')]
        return len(long) + len(pieces)

    assert_copies_little(tell, b"}" * 50, b"}" * 100)
    with counting_work() as counter:
        counter.assert_linear(tell, [b"}" * count for count in (50, 100, 200)])


def test_item_9_a_fragment_with_both_members_is_the_one_that_is_filled() -> None:
    ledger = Ledger()
    empty: JsonObject = {"custom": {"name": "", "input": ""}}
    assert calls(stream({**said(0, "a", name="f", arguments='{"x"'), **empty}, said(0, arguments=":1}")), ledger) == ONE
    free: JsonObject = {"index": 0, "id": "a", "function": {"name": ""}, "custom": {"name": "g", "input": "x"}}
    assert calls(stream(free), ledger) == [("a", "g", "x")]
    assert losses(ledger) == set()
