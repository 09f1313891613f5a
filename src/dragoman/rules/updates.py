"""Updates: applies changes of a request inside its own conversation, for protocols that cannot express them in
place."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.model.features import Feature
from dragoman.model.losses import Ledger, Place
from dragoman.model.request import Request, Updates
from dragoman.model.tools import FunctionTool, TextTool, ToolSpec

_NOTHING = Updates()


def effective(request: Request) -> Request:
    """Apply the updates of a request, and report their items at their locations (T9, I2)."""
    updates = request.updates
    if updates == _NOTHING:
        return request
    removed = frozenset(updates.removed)
    tools = tuple([tool for tool in request.tools + updates.tools if _name(tool) not in removed])
    reasoning = request.reasoning
    if updates.effort is not None:
        reasoning = replace(reasoning, effort=updates.effort)
    return replace(request, tools=tools, reasoning=reasoning, output=updates.output or request.output, updates=_NOTHING)


def placed_tools(request: Request, original: Request, ledger: Ledger) -> list[tuple[ToolSpec, Place]]:
    """The tools of an effective request, each with its location in the original. Removed tools are reported."""
    placed: list[tuple[ToolSpec, Place]] = []
    if request is original:
        for index, tool in enumerate(request.tools):
            placed.append((tool, ("tools", index)))
        return placed
    active_ids = {id(tool) for tool in request.tools}
    for at, tools in ((("tools",), original.tools), (("updates", "tools"), original.updates.tools)):
        for index, tool in enumerate(tools):
            if id(tool) in active_ids:
                placed.append((tool, (*at, index)))
            else:
                ledger.approximated(Feature.TOOLS_IN_ITEMS, (*at, index), "removed by the conversation")
    return placed


def _name(tool: ToolSpec) -> str | None:
    return tool.name if isinstance(tool, FunctionTool | TextTool) else None
