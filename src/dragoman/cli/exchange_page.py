"""Exchange page: formats everything recorded of one exchange. Text from outside cannot move the cursor or imitate
another field: values with spaces are quoted, and cannot end the quotation."""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.cli import formatting
from dragoman.cli.ledger import left_out
from dragoman.cli.record_file import RecordFile
from dragoman.cli.terminal import GREEN, RED, YELLOW, Column, OutputScreen, table, wrapped
from dragoman.gateway.observability.log_columns import quoted
from dragoman.model.features import weight_of
from dragoman.records.exchanges import RecordedExchange, uncached_input_of
from dragoman.records.journal_entry import CallEntry, CandidateEntry, CostBreakdown, JournalEntry, TokenCounts
from dragoman.records.record_fields import labelled
from dragoman.records.thread_tree import CERTAIN

_ATTEMPTS = (
    Column(heading="#", right=True),
    Column(heading="TARGET", least=12),
    Column(heading="OUTCOME", least=11, styles={"answered": GREEN}),
    *(Column(heading=heading, right=True) for heading in ("STATUS", "AFTER", "TTFT", "DURATION", "TOKENS")),
    Column(heading="COST", right=True),
    Column(heading="MORE", below=True),
)
_LOSSES = (
    Column(heading="LOST", styles={"dropped": RED, "approximated": YELLOW, "invented": YELLOW}),
    Column(heading="FEATURE"),
    Column(heading="AT", least=16),
)
_CANDIDATES = (
    Column(heading="#", right=True),
    Column(heading="CANDIDATE", least=24),
    *(Column(heading=heading, right=True) for heading in ("PRICE", "TTFT", "TOKENS/S", "LOSSES")),
    Column(heading="NOTE", below=True),
)
_CLASSES = ("input", "cache_read", "cache_write", "cache_write_1h", "output", "thinking", "search", "request")
_NONE = "-"
_MEANING = "docs/losses.md"
_LEFT_OUT = "left out"


def as_page(
    exchange: RecordedExchange, record_file: RecordFile, screen: OutputScreen, *, all_losses: bool = False
) -> Iterator[str]:
    """The page: the request, its candidates if they were ranked, each attempt, each loss."""
    exact = not screen.terminal
    facts = [(name, words) for name, words in _facts(exchange, record_file, exact) if words]
    yield from table(screen, (Column(heading="EXCHANGE"), Column(heading=exchange.entry.id, least=24)), facts)
    yield from _ranking(exchange, screen, exact)
    calls = exchange.entry.calls
    if calls:
        yield ""
        rows = [_attempt(number, call, exact) for number, call in enumerate(calls, 1)]
        yield from table(screen, _ATTEMPTS, rows)
    losses = exchange.entry.losses
    if losses:
        listed = losses if all_losses else [loss for loss in losses if weight_of(loss.feature) == "changes_response"]
        yield ""
        if listed:
            yield from table(screen, _LOSSES, [(loss.fate, loss.feature, loss.place) for loss in listed])
        yield from left_out(len(losses) - len(listed), len(listed))
        if screen.terminal:
            yield from wrapped(screen, f"What each loss means: {_MEANING}")


def _ranking(exchange: RecordedExchange, screen: OutputScreen, exact: bool) -> Iterator[str]:
    """The candidates in the order of their rank, then the skipped ones."""
    candidates, more = exchange.entry.candidates, exchange.entry.candidates_more
    if not candidates:
        return
    yield ""
    rows = [_candidate(place, candidate, exact) for place, candidate in enumerate(candidates, 1)]
    yield from table(screen, _CANDIDATES, rows)
    if more:
        yield f"and {more} more"


def _candidate(place: int, candidate: CandidateEntry, exact: bool) -> tuple[str, ...]:
    return (
        _NONE if candidate.why.startswith(_LEFT_OUT) else str(place),
        quoted(candidate.target),
        _NONE if candidate.cost is None else formatting.format_cost(candidate.cost, 0, exact=exact),
        _NONE if candidate.first_token is None else formatting.span(candidate.first_token),
        _NONE if candidate.rate is None else f"{candidate.rate:.3g}",
        _NONE if candidate.losses is None else str(candidate.losses),
        candidate.why,
    )


def _facts(exchange: RecordedExchange, record_file: RecordFile, exact: bool) -> Iterator[tuple[str, str]]:
    entry = exchange.entry
    ended = [
        entry.outcome,
        f"status {entry.status}" if entry.status else "",
        entry.failure,
        f"stop reason {entry.stop_reason}" if entry.stop_reason else "",
    ]
    yield "outcome", ", ".join(word for word in ended if word)
    yield "refusal", quoted(entry.refusal) if entry.refusal else ""
    yield (
        "time",
        f"{record_file.day(entry.time)} {record_file.clock(entry.time)} to {record_file.clock(exchange.ended)}",
    )
    yield "duration", ", ".join(_times(exchange))
    form = "streamed" if entry.stream else "whole"
    way = ", ".join(word for word in (entry.kind, entry.path, entry.client_protocol, form) if word)
    yield "requested", f"{quoted(entry.requested_model)} ({way})" if entry.requested_model else way
    if entry.provider:
        reported = entry.response_model
        response_model = f", response model {quoted(reported)}" if reported not in ("", entry.model) else ""
        protocol = entry.provider_protocol or entry.client_protocol
        yield "served", f"{quoted(f'{entry.provider}/{entry.model}')} ({protocol}){response_model}"
    yield "route", ", ".join(quoted(word) for word in (entry.route, entry.policy, entry.reason) if word)
    yield "queue full", ", ".join(map(quoted, entry.queue_full))
    yield "who", _labelled(entry, "who")
    yield "session", _session(exchange)
    yield "thread", _thread(exchange)
    yield "tokens", _tokens(entry.tokens, entry.estimated, exact) or "not known"
    yield "cost", _cost(exchange.cost, exchange.unpriced, entry.cost, exact)
    yield "ids", _labelled(entry, "ids")


def _labelled(entry: JournalEntry, line: str) -> str:
    return ", ".join(f"{label} {quoted(value)}" for label, value in labelled(entry, line) if value)


def _times(exchange: RecordedExchange) -> Iterator[str]:
    entry, speed = exchange.entry, exchange.speed
    yield formatting.span(entry.duration)
    if entry.first_content:
        yield f"first content after {formatting.span(entry.first_content)}"
    if speed is not None:
        yield f"then {speed:.1f} tokens per second"


def _session(exchange: RecordedExchange) -> str:
    session = exchange.session
    if session is None:
        return "none"
    return f"{quoted(session.name)} of key {quoted(session.key)}" if session.key else quoted(session.name)


def _thread(exchange: RecordedExchange) -> str:
    thread = exchange.thread
    if thread is None:
        return ""
    label = f" {quoted(thread.label)}" if thread.label else ""
    sure = "" if thread.sure >= CERTAIN else f", uncertain ({thread.sure}%)"
    return f"{thread.id}, {quoted(thread.kind)}{label}, by rule {quoted(thread.rule)}{sure}"


def _tokens(tokens: TokenCounts | None, estimated: bool, exact: bool) -> str:
    """The four disjoint token classes, and their sums."""
    if tokens is None:
        return ""
    parts = (uncached_input_of(tokens), tokens.cache_read, tokens.cache_write)
    counts = (*parts, tokens.input, tokens.output, tokens.thinking)
    shown = [formatting.tokens(count, exact=exact) for count in counts]
    words = f"{shown[0]} uncached + {shown[1]} read from caches + {shown[2]} written to caches"
    words += f" = {shown[3]} in; {shown[4]} out" + (f", of which {shown[5]} reasoning" if tokens.thinking else "")
    words += f"; {formatting.counted(tokens.searches, 'search', 'searches')}" if tokens.searches else ""
    return words + ("; estimated" if estimated else "")


def _cost(cost: int, unpriced: bool, money: CostBreakdown | None, exact: bool) -> str:
    """The total, its parts, and the source of its prices."""
    words = formatting.format_cost(cost, unpriced, exact=exact)
    if money is None:
        return words
    classes = [(name.replace("_", " "), nano) for name in _CLASSES if (nano := getattr(money, name))]
    if classes:
        words += f" ({', '.join(f'{name} {formatting.format_cost(nano, 0, exact=exact)}' for name, nano in classes)})"
    if money.unpriced:
        words += f"; no price for {', '.join(map(quoted, money.unpriced))}"
    prices = (("prices of", money.version), ("entry", money.entry), ("tier", money.tier))
    words += "".join(f"; {name} {quoted(value)}" for name, value in prices if value)
    if money.reported is not None:
        words += f"; the provider reported {formatting.format_cost(money.reported, 0, exact=exact)}"
    return words


def _attempt(number: int, call: CallEntry, exact: bool) -> tuple[str, ...]:
    tokens, cost = call.tokens, call.cost
    counts = _NONE
    if tokens is not None:
        counts = f"{formatting.tokens(tokens.input, exact=exact)}+{formatting.tokens(tokens.output, exact=exact)}"
    more = (
        f"id {quoted(call.provider_request_id)}" if call.provider_request_id else "",
        f"key {call.key + 1}" if call.key >= 0 else "",
        "may have been billed" if call.maybe_billed else "",
        "estimated" if call.estimated else "",
        call.protocol,
    )
    return (
        str(number),
        quoted(f"{call.provider}/{call.model}"),
        call.kind or _NONE,
        str(call.status) if call.status else _NONE,
        formatting.span(call.started),
        formatting.span(call.first_content - call.started) if call.first_content else _NONE,
        formatting.span(call.ended - call.started) if call.ended else _NONE,
        counts,
        _NONE if cost is None else formatting.format_cost(cost.total, len(cost.unpriced), exact=exact),
        ", ".join(word for word in more if word),
    )
