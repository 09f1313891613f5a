"""What the conversation changed about the request: T9 and I2 of mapping.md."""

from __future__ import annotations

from dragoman.model.request import OutputFormat, OutputKind, Reasoning, Request, Updates
from dragoman.model.tools import FunctionTool
from dragoman.rules.updates import effective

FORMAT = OutputFormat(kind=OutputKind.JSON)


def test_the_last_word_counts() -> None:
    request = Request(
        origin="openai-responses",
        model="m",
        tools=(FunctionTool(name="a"), FunctionTool(name="b")),
        reasoning=Reasoning(effort="low", summary="auto"),
        updates=Updates(tools=(FunctionTool(name="c"),), removed=("a",), effort="high", output=FORMAT),
    )
    changed = effective(request)
    assert [tool.name for tool in changed.tools if isinstance(tool, FunctionTool)] == ["b", "c"]
    assert changed.reasoning == Reasoning(effort="high", summary="auto")
    assert changed.output == FORMAT


def test_nothing_said_changes_nothing() -> None:
    request = Request(origin="openai-chat", model="m")
    assert effective(request) is request
