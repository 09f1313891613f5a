"""Compaction for providers without it: the model itself writes a summary (mapping.md K1)."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.model.failure import Failure
from dragoman.model.features import Feature
from dragoman.model.losses import Ledger
from dragoman.model.parts import Compaction, Text
from dragoman.model.request import Message, Request, Role, Updates
from dragoman.model.response import Response
from dragoman.rules.failures import bad_gateway

_SUMMARY_PROMPT = (
    "The conversation so far is about to be replaced by a summary, and whoever goes on has nothing else to go by. "
    "Write that summary now, and nothing beside it. Be complete rather than short: what the user asked for, word for "
    "word where the wording matters; what was decided and why; every file, name, number, command and address that is "
    "still needed; what was done and what came of it, errors and their remedies included; what is open, and the next "
    "step as it was last understood. Do not call tools and do not go on with the work itself."
)
_NO_SUMMARY = "the provider gave no summary of the conversation, so that it could not be compacted"


def summarising(request: Request, ledger: Ledger) -> Request:
    at = ("messages", len(request.messages) - 1)
    ledger.approximated(Feature.COMPACTION, at, "the model is asked for a summary, which stands for the conversation")
    _report_unneeded(request, ledger)
    prompt = Message(role=Role.USER, parts=(Text(text=_SUMMARY_PROMPT),))
    return replace(
        request,
        messages=(*request.messages[:-1], prompt),
        tools=(),
        tool_choice=None,
        parallel_calls=None,
        output=None,
        # The summary needs no tools, neither those of the request nor those of the conversation.
        updates=Updates(effort=request.updates.effort),
        compact_at=None,
        compacts=False,
    )


def _report_unneeded(request: Request, ledger: Ledger) -> None:
    """Report members that the request for a summary leaves out, including changes inside the conversation."""
    updates = request.updates
    if request.output is not None or updates.output is not None:
        ledger.dropped(Feature.OUTPUT_SCHEMA, ("output",), "a summary is written in words, whatever form was asked for")
    if request.tools or updates.tools:
        ledger.dropped(Feature.COMPACTION, ("tools",), "a summary is written without tools")
    if request.tool_choice is not None:
        ledger.dropped(Feature.TOOL_CHOICE, ("tool_choice",), "a summary is written without tools")
    if request.parallel_calls is not None:
        ledger.dropped(Feature.PARALLEL_CALLS, ("parallel_calls",), "a summary is written without tools")
    if request.compact_at is not None:
        ledger.dropped(Feature.CONTEXT_MANAGEMENT, ("compact_at",), "a summary is asked for once, now")


def as_compaction(response: Response) -> Response | Failure:
    summary = "".join([part.text for part in response.parts if isinstance(part, Text)]).strip()
    if not summary:
        return bad_gateway(_NO_SUMMARY)
    return replace(response, parts=(Compaction(summary=summary),), alternatives=())
