"""Spans of an exchange and its calls, as values without content. Unknown values are left out, never 0 (pitfall 455)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from dragoman.identities.identity import read_tags
from dragoman.model.features import weight_of
from dragoman.records.journal_entry import (
    CANCELLED,
    CRASHED,
    FAILED,
    OPEN,
    REFUSED,
    CallEntry,
    CandidateEntry,
    CostBreakdown,
    JournalEntry,
    TokenCounts,
)
from dragoman.records.record_fields import CALL_FIELDS, FIELDS, RecordField
from dragoman.telemetry import genai_attributes as names
from dragoman.telemetry.trace_context import span_id_of, trace_id_of

Value: TypeAlias = str | int | float | bool | tuple[str, ...]
Attributes: TypeAlias = dict[str, Value]

# Outcomes without an error: a response, and a client that disconnected.
_FINE = ("", "answered", "client_disconnected")
_NANO = 1_000_000_000
# Maximum number of model names in span names. Clients choose them, and backends group by span name.
_MAX_MODEL_NAMES = 200
_MAX_TEXT_LENGTH = 200
# Responses to unknown model names, which get no span name of their own.
_UNKNOWN = frozenset({400, 401, 404})


class ProviderPlace(Struct, frozen=True, kw_only=True):
    """A provider's public name and address; `inside` if it runs within this process."""

    provider: str
    address: str = ""
    port: int = 0
    inside: bool = False


class TraceSpan(Struct, frozen=True, kw_only=True):
    """One span, in nanoseconds. `parent` is the ID of the parent span, or ""."""

    name: str
    trace: str
    id: str
    parent: str
    # Whether the parent is remote, and whether this span is a call to a provider.
    remote: bool
    calls: bool
    started: int
    ended: int
    failed: bool
    attributes: Attributes


def operation_of(entry: JournalEntry) -> str:
    """The operation in the conventions, or ""."""
    if entry.outcome == OPEN:
        return ""
    return names.OPERATIONS.get(entry.kind) or names.OPERATION_PATHS.get(entry.path.removeprefix("/v1"), "")


class SpanNames:
    """Limits the number of span names, whatever model names clients send (pitfall 454)."""

    def __init__(self) -> None:
        self._models: set[str] = set()

    def of(self, operation: str, entry: JournalEntry) -> str:
        """The operation with its model, or the operation alone."""
        model = _cut(entry.model)
        if model not in self._models:
            if not model or entry.status in _UNKNOWN or len(self._models) >= _MAX_MODEL_NAMES:
                return operation
            self._models.add(model)
        return f"{operation} {model}"


def spans_of(entry: JournalEntry, places: Mapping[str, ProviderPlace], span_names: SpanNames) -> list[TraceSpan]:
    """The spans of an exchange, its own first; none if the conventions have no operation for it."""
    operation = operation_of(entry)
    if not operation:
        return []
    trace, own = trace_id_of(entry.id, entry.trace), span_id_of(entry.id)
    start = entry.time * 1000
    calls = [
        TraceSpan(
            name=f"call {call.provider}",
            trace=trace,
            id=span_id_of(entry.id, number),
            parent=own,
            remote=False,
            calls=not ((place := places.get(call.provider)) and place.inside),
            started=start + call.started * 1000,
            # A call without an end ended with its exchange.
            ended=start + max(call.ended or entry.duration, call.started) * 1000,
            failed=call.kind not in _FINE or call.status >= 400,
            attributes=dict(_of_call(call, number, places)),
        )
        for number, call in enumerate(entry.calls)
    ]
    whole = TraceSpan(
        name=span_names.of(operation, entry),
        trace=trace,
        id=own,
        parent=entry.trace[36:52],
        remote=bool(entry.trace),
        calls=any(call.calls for call in calls),
        started=start,
        ended=start + max(entry.duration, 0) * 1000,
        failed=entry.outcome in (REFUSED, FAILED, CRASHED),
        attributes={names.OPERATION: operation, **dict(_of_exchange(entry, places))},
    )
    return [whole, *calls]


def _of_exchange(entry: JournalEntry, places: Mapping[str, ProviderPlace]) -> Iterator[tuple[str, Value]]:
    if entry.provider:
        place = places.get(entry.provider) or ProviderPlace(provider=entry.provider)
        yield names.PROVIDER, place.provider
        yield from _of_place(place)
    facts = entry.facts
    yield from _texts(
        (names.REQUEST_MODEL, entry.model or entry.requested_model),
        (names.CONVERSATION_ID, facts.session),
        (names.AGENT_NAME, facts.agent),
        (names.THREAD, facts.thread),
        (names.PARENT_THREAD, facts.parent),
        (names.THREAD_CLASS, facts.said_class),
    )
    yield from _of_fields(entry, FIELDS)
    for name, value in read_tags(entry.tags):
        yield f"{names.TAG}{name}", value
    if entry.outcome in (REFUSED, FAILED, CRASHED):
        yield names.ERROR_TYPE, _error(entry)
    if entry.stream and entry.first_content:
        yield names.FIRST_CHUNK, entry.first_content / 1_000_000
    if entry.stop_reason:
        yield names.FINISH_REASONS, (_cut(entry.stop_reason),)
    elif entry.calls and entry.outcome in (FAILED, CANCELLED, CRASHED):
        yield names.FINISH_REASONS, (names.NO_REASON,)
    if entry.candidates:
        yield names.CANDIDATES, tuple(map(_of_candidate, entry.candidates))
        if entry.candidates_more:
            yield names.CANDIDATES_MORE, entry.candidates_more
    yield names.CALLS, len(entry.calls)
    for name, weight in ((names.LOSSES, "changes_response"), (names.BOOKKEEPING, "bookkeeping")):
        lost = [f"{loss.fate}:{loss.feature}" for loss in entry.losses if weight_of(loss.feature) == weight]
        if lost:
            yield name, tuple(dict.fromkeys(lost))
    if entry.tokens is not None:
        yield from _of_tokens(entry.tokens)
        if entry.estimated:
            yield names.ESTIMATED, True
    if entry.cost is not None:
        yield from _of_cost(entry.cost)


def _of_candidate(candidate: CandidateEntry) -> str:
    """A candidate target, with the reason if it was deprioritized or skipped."""
    target = _cut(candidate.target)
    return f"{target} ({candidate.why})" if candidate.why else target


def _error(entry: JournalEntry) -> str:
    if entry.outcome == CRASHED:
        return CRASHED
    return entry.failure or (str(entry.status) if entry.status >= 400 else names.OTHER_ERROR)


def _of_tokens(tokens: TokenCounts) -> Iterator[tuple[str, Value]]:
    yield names.INPUT_TOKENS, tokens.input
    yield names.OUTPUT_TOKENS, tokens.output
    # Parts of the totals. A provider without caching does not report them.
    if tokens.cache_read:
        yield names.CACHE_READ, tokens.cache_read
    if tokens.cache_write:
        yield names.CACHE_WRITE, tokens.cache_write
        yield names.CACHE_WRITE_FORMER, tokens.cache_write
    if tokens.thinking:
        yield names.REASONING_TOKENS, tokens.thinking
    if tokens.searches:
        yield names.SEARCHES, tokens.searches


def _of_cost(cost: CostBreakdown) -> Iterator[tuple[str, Value]]:
    if cost.known_total is not None:
        yield names.COST, cost.known_total / _NANO
    if cost.unpriced:
        yield names.UNPRICED, cost.unpriced
    if cost.reported is not None:
        yield names.REPORTED_COST, cost.reported / _NANO


def _of_call(call: CallEntry, number: int, places: Mapping[str, ProviderPlace]) -> Iterator[tuple[str, Value]]:
    yield names.CALL_NUMBER, number + 1
    yield from _of_fields(call, CALL_FIELDS)
    place = places.get(call.provider)
    if place is not None:
        yield from _of_place(place)
    if call.kind not in _FINE:
        yield names.ERROR_TYPE, call.kind
    elif call.status >= 400:
        yield names.ERROR_TYPE, str(call.status)
    if call.key >= 0:
        yield names.CALL_KEY, call.key
    if call.tokens is not None:
        yield names.CALL_INPUT, call.tokens.input
        yield names.CALL_OUTPUT, call.tokens.output
    if call.cost is not None and call.cost.known_total is not None:
        yield names.CALL_COST, call.cost.known_total / _NANO


def _of_place(place: ProviderPlace) -> Iterator[tuple[str, Value]]:
    if place.address:
        yield names.SERVER_ADDRESS, place.address
        yield names.SERVER_PORT, place.port


def _of_fields(record: JournalEntry | CallEntry, fields: Sequence[RecordField]) -> Iterator[tuple[str, Value]]:
    for field in fields:
        if field.attribute and (value := getattr(record, field.name)):
            yield field.attribute, _cut(value) if isinstance(value, str) else value


def _texts(*named: tuple[str, str]) -> Iterator[tuple[str, Value]]:
    for name, text in named:
        if text:
            yield name, _cut(text)


def _cut(text: str) -> str:
    return text[:_MAX_TEXT_LENGTH]
