"""Journal entry: one exchange as a journal line, without any content of user or model. New members go at a struct's
end, with a default: journals outlive a release. No entry can contain itself, so the garbage collector need not track
them."""

from __future__ import annotations

from msgspec import Struct

from dragoman.sessions.facts import NOTHING, ExchangeFacts

# Kinds of requests: conversations, token counts, model lists, others.
CONVERSATION, COUNT, LIST, OTHER = "conversation", "count", "list", "other"
# Outcomes. `refused` by the gateway or a provider before any content was sent, `failed` during or after it.
OPEN, ANSWERED, REFUSED, FAILED, CANCELLED, CRASHED = "open", "answered", "refused", "failed", "cancelled", "crashed"


class TokenCounts(Struct, frozen=True, array_like=True, gc=False):
    """Counts; `input` includes cache reads and writes (`cache_write` of any lifetime), `output` includes reasoning."""

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    # The part of `cache_write` with a lifetime of one hour.
    cache_write_1h: int = 0
    output: int = 0
    thinking: int = 0
    searches: int = 0


class CostBreakdown(Struct, frozen=True, array_like=True, gc=False):
    """Nano-dollars by class, each 0 where nothing is known; `unpriced` names parts without a price."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    thinking: int = 0
    search: int = 0
    request: int = 0
    unpriced: tuple[str, ...] = ()
    # Where the prices are from: the version of the book, its entry, and the tier that was served.
    version: str = ""
    entry: str = ""
    tier: str = ""
    # The cost that the provider reported; None without a report.
    reported: int | None = None

    @property
    def total(self) -> int:
        """All that is known."""
        own = self.input + self.output + self.cache_read + self.cache_write + self.cache_write_1h
        return own + self.thinking + self.search + self.request

    @property
    def known_total(self) -> int | None:
        """The same; None if no part of it has a price."""
        return known_cost(self.total, unpriced=bool(self.unpriced))


# The members of a breakdown that are amounts: they come first.
_AMOUNTS = slice(8)
AMOUNTS = CostBreakdown.__struct_fields__[_AMOUNTS]


def known_cost(cost: int, *, unpriced: bool) -> int | None:
    """Nano-dollars of an exchange or a call; None if nothing of it has a price, so that unknown is never 0."""
    return None if unpriced and not cost else cost


class CallEntry(Struct, frozen=True, array_like=True, gc=False):
    """One call to a provider; times are microseconds since the exchange began, 0 if there was none."""

    provider: str
    model: str
    protocol: str
    kind: str = ""
    status: int = 0
    started: int = 0
    first_content: int = 0
    ended: int = 0
    provider_request_id: str = ""
    key: int = -1
    maybe_billed: bool = False
    tokens: TokenCounts | None = None
    estimated: bool = False
    cost: CostBreakdown | None = None


class LossEntry(Struct, frozen=True, array_like=True, gc=False):
    """One loss of the ledger: feature, fate, location."""

    feature: str
    fate: str
    place: str = ""


class CandidateEntry(Struct, frozen=True, array_like=True, gc=False):
    """One target that a request might have gone to, as its plan saw it; None means unknown or not requested."""

    target: str
    # Why it was skipped or deprioritized; "" if it was fit.
    why: str = ""
    # The estimated cost of the request there, in nano-dollars, and the number of its losses.
    cost: int | None = None
    losses: int | None = None
    # Measured: microseconds to the first token, then tokens per second.
    first_token: int | None = None
    rate: float | None = None


class JournalEntry(Struct, frozen=True, array_like=True, gc=False):
    """One exchange, as far as it is known. Ingestion uses parts of its text in a line as they are: members that are the
    same in most exchanges, its own, and the details, which are all members from `calls` on."""

    # Identity and time: microseconds of the wall clock at its start.
    id: str
    time: int
    outcome: str = OPEN
    kind: str = CONVERSATION
    key: str = ""
    client: str = ""
    program: str = ""
    address: str = ""
    launch: str = ""
    client_protocol: str = ""
    path: str = ""
    stream: bool = False
    # The requested model, its target, the reported model, and the route.
    requested_model: str = ""
    provider: str = ""
    model: str = ""
    provider_protocol: str = ""
    response_model: str = ""
    route: str = ""
    policy: str = ""
    reason: str = ""
    status: int = 0
    failure: str = ""
    stop_reason: str = ""
    # Whether `tokens` are estimated.
    estimated: bool = False
    # The tags of the gateway key, as one text (`identities/identity.py`).
    tags: str = ""
    # All calls together; None if usage was neither reported nor estimated.
    tokens: TokenCounts | None = None
    # Microseconds from its beginning: to the first content that the client got (0 if none), and to its end.
    first_content: int = 0
    duration: int = 0
    provider_request_id: str = ""
    response_id: str = ""
    calls: tuple[CallEntry, ...] = ()
    losses: tuple[LossEntry, ...] = ()
    cost: CostBreakdown | None = None
    facts: ExchangeFacts = NOTHING
    refusal: str = ""
    queue_full: tuple[str, ...] = ()
    # Bytes of the request, for what crashed before anything was counted.
    size: int = 0
    trace: str = ""
    # Candidates of a ranked request: in order, then those left out; and how many more there were, if any.
    candidates: tuple[CandidateEntry, ...] = ()
    candidates_more: int | None = None
