"""Builds the response of a model: truncated, counted, signed and with IDs, in one form for full and streamed
delivery."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from dragoman.mock.answers.models import MAX_OUTPUT_TOKENS
from dragoman.mock.answers.signatures import MESSAGES, sealed
from dragoman.mock.answers.tokens import count, count_parts, count_request, tokens
from dragoman.model.events import ArgumentsDelta, Event, PartGrew, TextDelta
from dragoman.model.folding import unfold
from dragoman.model.losses import Ledger
from dragoman.model.parts import Part, Refusal, Text, Thinking, ToolCall
from dragoman.model.request import Request
from dragoman.model.response import Response, Stop, StopReason, Usage
from dragoman.protocols.anthropic_messages.shapes import STOP_REASON_NAMES
from dragoman.protocols.codec import Mint, TargetModel, TranslationContext
from dragoman.protocols.registry import codec_of
from dragoman.rules.capabilities import capabilities_of
from dragoman.rules.ids import legacy_call_id
from dragoman.rules.stop_sequences import StopScanner, watched
from dragoman.rules.tool_table import ToolTable

VENDOR = "echo"

_ID_PREFIXES = {"anthropic-messages": "msg_", "openai-chat": "chatcmpl-", "openai-responses": "resp_"}
_CALL_PREFIXES = {"anthropic-messages": "toolu_", "openai-chat": "call_", "openai-responses": "call_"}


def build_response(request: Request, output: tuple[Part, ...], mint: Mint) -> Response:
    cap = 0 if request.prewarm else min(request.max_tokens or MAX_OUTPUT_TOKENS, MAX_OUTPUT_TOKENS)
    truncated = cut(output, request.stop, cap)
    parts = tuple(_finished(part, request, mint) for part in truncated.parts)
    thoughts = tuple(part for part in parts if isinstance(part, Thinking))
    usage = Usage(
        input=count_request(request), output=count_parts(parts), thinking=count_parts(thoughts) if thoughts else None
    )
    stop = _stop(truncated, request)
    if request.origin == MESSAGES:
        # In this protocol, the text of a refusal belongs to the stop reason.
        parts = tuple(part for part in parts if not isinstance(part, Refusal))
    return Response(
        origin=request.origin,
        id=_ID_PREFIXES[request.origin] + mint.token(24),
        model=request.model,
        created=mint.now(),
        parts=parts,
        stop=stop,
        usage=usage,
    )


def _finished(part: Part, request: Request, mint: Mint) -> Part:
    if isinstance(part, Thinking):
        return sealed(part, request.origin, "rs_" + mint.token(24))
    if isinstance(part, ToolCall):
        if request.legacy_functions:
            return replace(part, call_id=legacy_call_id(part.name, 0))
        return replace(part, call_id=_CALL_PREFIXES[request.origin] + mint.token(24))
    return part


def _stop(truncated: Cut, request: Request) -> Stop:
    """The stop reason, in the protocol's own spelling unless truncation decides it."""
    native = STOP_REASON_NAMES[truncated.reason] if request.origin == MESSAGES else ""
    if request.legacy_functions and truncated.reason is StopReason.TOOL_CALL:
        native = "function_call"
    refusal = "".join([part.text for part in truncated.parts if isinstance(part, Refusal)])
    explanation = refusal if truncated.reason is StopReason.REFUSAL else None
    return Stop(reason=truncated.reason, native=native, sequence=truncated.sequence, explanation=explanation)


def translation_context(request: Request) -> TranslationContext:
    """The context for encoding the response: the request, in its protocol."""
    protocol = request.origin
    target = TargetModel(
        model=request.model, vendor=VENDOR, capabilities=capabilities_of(protocol, request.model, VENDOR)
    )
    return TranslationContext(
        request=request, target=target, table=ToolTable(), render_turn=codec_of(protocol).encode_turn, origin=protocol
    )


def events_of(response: Response) -> Iterator[Event]:
    for event in unfold(response):
        if isinstance(event, PartGrew) and isinstance(event.delta, TextDelta | ArgumentsDelta):
            grown = type(event.delta)
            for token in tokens(event.delta.text):
                yield PartGrew(event.index, grown(token))
        else:
            yield event


class Cut(Struct, frozen=True, kw_only=True):
    parts: tuple[Part, ...]
    reason: StopReason
    sequence: str | None = None


def cut(parts: tuple[Part, ...], stops: tuple[str, ...], cap: int) -> Cut:
    """Truncate a response at a stop sequence in its text, and at `cap` tokens in all. A call that does not fit is
    dropped."""
    retained: list[Part] = []
    remaining = cap
    for part in parts:
        if isinstance(part, ToolCall):
            remaining -= 1 + count(part.arguments)
            if remaining < 0:
                return Cut(parts=tuple(retained), reason=StopReason.LENGTH)
            retained.append(part)
            continue
        if not isinstance(part, Text | Thinking | Refusal):
            retained.append(part)
            continue
        text, sequence = _until_stop(part.text, stops) if isinstance(part, Text) else (part.text, None)
        pieces = list(islice(tokens(text), remaining + 1))
        if pieces[:remaining]:
            retained.append(replace(part, text="".join(pieces[:remaining])))
        if len(pieces) > remaining:
            return Cut(parts=tuple(retained), reason=StopReason.LENGTH)
        if sequence is not None:
            return Cut(parts=tuple(retained), reason=StopReason.SEQUENCE, sequence=sequence)
        remaining -= len(pieces)
    return Cut(parts=tuple(retained), reason=_reason(parts))


def _reason(parts: tuple[Part, ...]) -> StopReason:
    if any(isinstance(part, Refusal) for part in parts):
        return StopReason.REFUSAL
    return StopReason.TOOL_CALL if any(isinstance(part, ToolCall) for part in parts) else StopReason.END


def _until_stop(text: str, stops: tuple[str, ...]) -> tuple[str, str | None]:
    if not stops:
        return text, None
    scanner = StopScanner(watched(stops, Ledger()))
    before = scanner.feed(text)
    return (before, scanner.matched) if scanner.matched is not None else (text, None)
