"""Repairs of the relay, each held against the glance that decides whether any is made."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.model.losses import Ledger
from dragoman.protocols.registry import codec_of
from dragoman.rules.capabilities import Capabilities
from dragoman.wire.duplicate_keys import OBJECT

Repair = Callable[[bytes, Ledger], bytes]


def needs_repair(protocol: str, body: bytes, call_ids: str = "standard") -> bool:
    """Whether a glance at a request sees that a provider may refuse something of it."""
    glance = codec_of(protocol).glance(OBJECT.decode(body), False, False)
    return glance.needs_repair(Capabilities(call_ids=call_ids), "another vendor")


def foreseen(protocol: str, repair: Repair) -> Repair:
    """A repair that fails if it changes a request of which a glance sees no need."""

    def repaired(body: bytes, ledger: Ledger) -> bytes:
        sent = repair(body, ledger)
        assert sent == body or needs_repair(protocol, body)
        return sent

    return repaired
