"""Encode context: state that the parts of one request share while it is encoded for a Messages provider."""

from __future__ import annotations

from msgspec import Struct, field

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger, Place
from dragoman.model.parts import CacheBreakpoint, Extras
from dragoman.protocols.anthropic_messages.shapes import CACHE_BREAKPOINTS_LIMIT, NAME
from dragoman.protocols.codec import TargetModel
from dragoman.rules.capabilities import ID_RULES
from dragoman.rules.extras import drop_extras
from dragoman.rules.ids import call_id
from dragoman.rules.schemas import SchemaBudget
from dragoman.rules.tool_table import ToolTable

_ID_RULES = {form: rule for (protocol, form), rule in ID_RULES.items() if protocol == NAME}
# Lifetimes of a breakpoint, by the values of all protocols. Other values mean longer and become an hour (§15).
_TTLS: dict[str | None, str | None] = {None: None, "5m": "5m", "1h": "1h"}


class RequestEncodeContext(Struct, eq=False):
    """The state of one request's encoding: ledger, tool names, required betas, and cache breakpoints."""

    target: TargetModel
    ledger: Ledger
    table: ToolTable = field(default_factory=ToolTable)
    _schemas: SchemaBudget | None = None
    betas: set[str] = set()
    servers: set[str] = set()
    # Encoded calls to tool servers, whose results must follow.
    calls: set[str] = set()
    # Servers whose tool lists must follow, by the ID of the listing.
    listings: dict[str, str] = {}
    breakpoints: bool = False
    searchable: bool = False
    strict_tools: int = 0
    _marked_blocks: list[tuple[JsonObject, Place]] = []

    @property
    def schemas(self) -> SchemaBudget:
        """The remaining budget for strict schemas."""
        if self._schemas is None:
            self._schemas = SchemaBudget()
        return self._schemas

    @property
    def has_plain_tools(self) -> bool:
        """Whether the tools require nothing of the rest of the request."""
        return not (self.breakpoints or self.betas or self.servers or self.searchable or self.strict_tools)

    @property
    def is_stateless(self) -> bool:
        """Whether later messages do not depend on the encoded ones."""
        return not (self.breakpoints or self.betas or self.servers or self.calls or self.listings)

    def call_id(self, value: str) -> str:
        rule = _ID_RULES[self.target.capabilities.call_ids]
        return value if rule.pattern.fullmatch(value) else call_id(value, rule)

    def add_breakpoint(self, block: JsonObject, cache: CacheBreakpoint | None, at: Place) -> None:
        """Set a cache breakpoint on a block. Call it in the order tools, system, messages."""
        if cache is None:
            return
        control: JsonObject = {"type": "ephemeral"}
        ttl = _TTLS.get(cache.ttl, "1h")
        if ttl is not None:
            control["ttl"] = ttl
        if ttl != cache.ttl:
            self.ledger.approximated(Feature.CACHE_BREAKPOINT, (*at, "cache"), f"kept for {ttl} instead of {cache.ttl}")
        self.breakpoints = True
        block["cache_control"] = control
        self._marked_blocks.append((block, at))

    def limit_breakpoints(self) -> int:
        """Drop all but the last breakpoints that the provider accepts. Return their number (pitfall 173)."""
        count = len(self._marked_blocks)
        surplus = count - CACHE_BREAKPOINTS_LIMIT
        if surplus <= 0:
            return count
        for block, at in self._marked_blocks[:surplus]:
            del block["cache_control"]
            self.ledger.dropped(
                Feature.CACHE_BREAKPOINT,
                (*at, "cache"),
                f"only the last {CACHE_BREAKPOINTS_LIMIT} breakpoints are taken",
            )
        return CACHE_BREAKPOINTS_LIMIT

    def drop(self, extras: Extras | None, at: Place) -> None:
        """Report members that only another protocol has. A native object is reported by the code that converts it."""
        if extras is not None and extras.origin != NAME and "type" not in extras.fields:
            drop_extras(extras, at, self.ledger)

    def is_native(self, extras: Extras | None) -> bool:
        return extras is not None and extras.origin != NAME and "type" in extras.fields
