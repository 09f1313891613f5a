"""Updates: what the conversation itself changed about a request, applied for wires that cannot say it in place."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.model.request import Request, Updates
from dragoman.model.tools import FunctionTool, TextTool, ToolSpec

_NOTHING = Updates()


def effective(request: Request) -> Request:
    """The request with its updates applied; the items that said them are reported where they stood (T9, I2)."""
    updates = request.updates
    if updates == _NOTHING:
        return request
    removed = frozenset(updates.removed)
    tools = tuple([tool for tool in request.tools + updates.tools if _name(tool) not in removed])
    reasoning = request.reasoning
    if updates.effort is not None:
        reasoning = replace(reasoning, effort=updates.effort)
    return replace(
        request,
        tools=tools,
        reasoning=reasoning,
        output=updates.output or request.output,
        updates=_NOTHING,
    )


def _name(tool: ToolSpec) -> str | None:
    return tool.name if isinstance(tool, FunctionTool | TextTool) else None
