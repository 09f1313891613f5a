"""Exchange view: `dragoman logs --json` and `/admin/v1/exchanges` as one document, and back to an exchange. Members are
added, and never renamed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict, astuple

from dragoman.identities.identity import format_tags, read_tags
from dragoman.model.features import weight_of
from dragoman.records.exchanges import RecordedExchange, instant, uncached_input_of
from dragoman.records.journal_entry import (
    AMOUNTS,
    CallEntry,
    CandidateEntry,
    CostBreakdown,
    JournalEntry,
    LossEntry,
    TokenCounts,
    known_cost,
)
from dragoman.records.record_fields import CALL_FIELDS, FIELDS, TOKEN_NAMES
from dragoman.store.session_tables import SessionRow, ThreadRow

_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class SessionNameView(Struct, frozen=True, kw_only=True):
    """A session by its names."""

    id: str
    key: str
    client: str


class ThreadNameView(Struct, frozen=True):
    """A thread, its name, and the rule that assigned it, with the certainty in percent."""

    number: int
    name: str
    thread_class: str
    label: str
    rule: str
    sure: int
    rules_version: int


class CostView(Struct, frozen=True, kw_only=True):
    """Nano-dollars by class, null if nothing has a price; `unpriced` names what has none."""

    input: int | None
    cache_read: int | None
    cache_write: int | None
    cache_write_1h: int | None
    output: int | None
    thinking: int | None
    search: int | None
    request: int | None
    unpriced: list[str]


class BilledView(Struct, frozen=True, kw_only=True):
    """Tokens and cost of an exchange or of one attempt. `input_tokens` are the uncached ones, those read from caches
    and those written to them; null is not known."""

    input_tokens: int | None
    uncached_input_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    cache_write_1h_tokens: int | None
    output_tokens: int | None
    thinking_tokens: int | None
    searches: int | None
    estimated: bool
    cost: CostView | None
    price_version: str
    price_entry: str
    tier: str
    reported_cost_nano_usd: int | None
    cost_nano_usd: int | None


class LossView(Struct, frozen=True, kw_only=True):
    """One loss of the translation."""

    feature: str
    fate: str
    weight: str
    place: str


class AttemptView(BilledView, frozen=True, kw_only=False):
    """One call to a provider; times are microseconds since the exchange began. `key` is the position of the provider's
    key, which clients do not get."""

    provider: str
    model: str
    provider_protocol: str
    outcome: str
    status: int
    started_microseconds: int
    first_token_microseconds: int | None
    ended_microseconds: int
    provider_request_id: str
    maybe_billed: bool
    key: int | UnsetType = UNSET


class CandidateView(Struct, frozen=True):
    """One target that the request might have gone to, as its plan saw it."""

    target: str
    why: str
    cost_nano_usd: int | None
    losses: int | None
    first_token_microseconds: int | None
    tokens_per_second: float | None


class ExchangeView(BilledView, frozen=True, kw_only=False):
    """All that is known of an exchange. Clients get no candidates."""

    id: str
    time: str
    ended: str
    outcome: str
    kind: str
    key: str
    tags: dict[str, str]
    client: str
    user_agent: str
    address: str
    launch: str
    session: SessionNameView | None
    thread: ThreadNameView | None
    client_protocol: str
    path: str
    stream: bool
    requested_model: str
    provider: str
    model: str
    provider_protocol: str
    response_model: str
    route: str
    policy: str
    reason: str
    queue_full: list[str]
    status: int
    failure: str
    refusal: str
    stop_reason: str
    first_token_microseconds: int | None
    duration_microseconds: int
    tokens_per_second: float | None
    unpriced: bool
    losses: list[LossView]
    attempts: list[AttemptView]
    provider_request_id: str
    response_id: str
    request_bytes: int
    trace: str
    candidates: list[CandidateView] | UnsetType = UNSET
    candidates_more: int | UnsetType | None = UNSET


class ExchangesView(Struct, frozen=True, kw_only=True):
    """Exchanges in the order in which they began. `before` and `after` are the parameters for the previous page, null
    if there is none, and for later records."""

    exchanges: list[ExchangeView]
    before: str | None
    after: int


# Members of an exchange that are those of its entry.
_MEMBERS = tuple(
    (field.export_name, field.name) for field in FIELDS if field.export_name in ExchangeView.__struct_fields__
)
# Members of an attempt, of which its tokens are several.
_CALL_MEMBERS = tuple(field for field in CALL_FIELDS if field.export_name in AttemptView.__struct_fields__)


def exchange_view(exchange: RecordedExchange, *, for_client: bool = False) -> ExchangeView:
    """An exchange as programs get it; a client gets no member that is for operators."""
    entry = exchange.entry
    members = {member: getattr(entry, name) for member, name in _MEMBERS}
    members |= asdict(
        _billed(
            entry.tokens,
            entry.cost,
            estimated=entry.estimated,
            total=known_cost(exchange.cost, unpriced=exchange.unpriced),
        )
    )
    members |= {
        "time": instant(entry.time),
        "ended": instant(exchange.ended),
        "tags": dict(read_tags(entry.tags)),
        "session": session_name_view(exchange.session),
        "thread": thread_name_view(exchange.thread),
        "queue_full": list(entry.queue_full),
        "first_token_microseconds": entry.first_content or None,
        "tokens_per_second": exchange.speed,
        "unpriced": exchange.unpriced,
        "losses": [
            LossView(feature=loss.feature, fate=loss.fate, weight=weight_of(loss.feature), place=loss.place)
            for loss in entry.losses
        ],
        "attempts": [_attempt_view(call, for_client=for_client) for call in entry.calls],
        "candidates": UNSET if for_client else [CandidateView(*astuple(each)) for each in entry.candidates],
        "candidates_more": UNSET if for_client else entry.candidates_more,
    }
    return ExchangeView(**members)


def session_name_view(session: SessionRow | None) -> SessionNameView | None:
    """A session by its names; None if there is none."""
    return None if session is None else SessionNameView(id=session.name, key=session.key, client=session.client)


def session_row(view: SessionNameView | None) -> SessionRow | None:
    """The session that a view names, as far as that is known."""
    if view is None:
        return None
    return SessionRow(id=0, key=view.key, name=view.id, client=view.client, origin=0, link="", started=0, last=0)


def thread_name_view(thread: ThreadRow | None) -> ThreadNameView | None:
    """The name of a thread; None if there is none."""
    return None if thread is None else name_view_of(thread)


def name_view_of(thread: ThreadRow) -> ThreadNameView:
    """The name of a thread."""
    return ThreadNameView(
        number=thread.id,
        name=thread.name,
        thread_class=thread.kind,
        label=thread.label,
        rule=thread.rule,
        sure=thread.sure,
        rules_version=thread.rules,
    )


def thread_row(view: ThreadNameView | None) -> ThreadRow | None:
    """The thread that a view names, as far as that is known."""
    return None if view is None else row_of(view)


def row_of(view: ThreadNameView) -> ThreadRow:
    """A thread by its names alone."""
    return ThreadRow(
        id=view.number,
        session=0,
        name=view.name,
        kind=view.thread_class,
        label=view.label,
        model="",
        parent=0,
        rule=view.rule,
        sure=view.sure,
        rules=view.rules_version,
        windows=0,
        started=0,
        last=0,
    )


def micro_of(text: str) -> int:
    """The microseconds of an instant."""
    return (datetime.fromisoformat(text) - _BEGIN) // _MICROSECOND


def exchange_of(view: ExchangeView) -> RecordedExchange:
    """The exchange of a view, without the number of its row and hidden members."""
    candidates = () if view.candidates is UNSET else view.candidates
    members = {name: getattr(view, member) for member, name in _MEMBERS} | {
        "time": micro_of(view.time),
        "tags": format_tags(tuple(view.tags.items())),
        "first_content": view.first_token_microseconds or 0,
        "tokens": _tokens_of(view),
        "cost": _breakdown_of(view),
        "calls": tuple(map(_call_of, view.attempts)),
        "queue_full": tuple(view.queue_full),
        "losses": tuple(LossEntry(loss.feature, loss.fate, loss.place) for loss in view.losses),
        "candidates": tuple(CandidateEntry(*astuple(each)) for each in candidates),
        "candidates_more": None if view.candidates_more is UNSET else view.candidates_more,
    }
    return RecordedExchange(
        entry=JournalEntry(**members),
        cost=view.cost_nano_usd or 0,
        unpriced=view.unpriced,
        session=session_row(view.session),
        thread=thread_row(view.thread),
    )


def _attempt_view(call: CallEntry, *, for_client: bool) -> AttemptView:
    members = {field.export_name: getattr(call, field.name) for field in _CALL_MEMBERS}
    members |= {
        "key": UNSET if for_client else call.key,
        "first_token_microseconds": call.first_content or None,
    }
    total = None if call.cost is None else call.cost.known_total
    return AttemptView(**members | asdict(_billed(call.tokens, call.cost, estimated=call.estimated, total=total)))


def _call_of(view: AttemptView) -> CallEntry:
    members = {field.name: getattr(view, field.export_name) for field in _CALL_MEMBERS}
    members |= {
        "key": -1 if view.key is UNSET else view.key,
        "first_content": view.first_token_microseconds or 0,
        "tokens": _tokens_of(view),
        "cost": _breakdown_of(view),
    }
    return CallEntry(**members)


def _billed(
    tokens: TokenCounts | None, cost: CostBreakdown | None, *, estimated: bool, total: int | None
) -> BilledView:
    return BilledView(
        **{view_name: None if tokens is None else getattr(tokens, name) for view_name, name in TOKEN_NAMES.items()},
        uncached_input_tokens=None if tokens is None else uncached_input_of(tokens),
        estimated=estimated,
        cost=None if cost is None else _cost_view(cost),
        price_version="" if cost is None else cost.version,
        price_entry="" if cost is None else cost.entry,
        tier="" if cost is None else cost.tier,
        reported_cost_nano_usd=None if cost is None else cost.reported,
        cost_nano_usd=total,
    )


def _tokens_of(view: BilledView) -> TokenCounts | None:
    if view.input_tokens is None and view.output_tokens is None:
        return None
    return TokenCounts(**{name: getattr(view, view_name) or 0 for view_name, name in TOKEN_NAMES.items()})


def _cost_view(cost: CostBreakdown) -> CostView:
    amounts = {name: None if cost.known_total is None else getattr(cost, name) for name in AMOUNTS}
    return CostView(**amounts, unpriced=list(cost.unpriced))


def _breakdown_of(view: BilledView) -> CostBreakdown | None:
    if view.cost is None:
        return None
    amounts = {name: getattr(view.cost, name) or 0 for name in AMOUNTS}
    return CostBreakdown(
        **amounts,
        unpriced=tuple(view.cost.unpriced),
        version=view.price_version,
        entry=view.price_entry,
        tier=view.tier,
        reported=view.reported_cost_nano_usd,
    )
