"""Seals: reasoning and state that come back to their issuer through a client of any protocol (mapping.md §11)."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.model.parts import Seal
from dragoman.rules.abilities import Abilities
from dragoman.rules.envelope import Envelope, is_envelope, seal, unseal

LETTERS = {"anthropic-messages": "a", "openai-chat": "c", "openai-responses": "r"}
_ORIGINS = {letter: name for name, letter in LETTERS.items()}


def to_envelope(content: Seal) -> str:
    """Pack a seal into the one opaque string that a foreign client carries for us."""
    return seal(
        Envelope(
            origin=LETTERS[content.origin],
            model=content.model or "",
            upstream=content.upstream or "",
            kind=content.kind,
            data=content.body,
        )
    )


def from_envelope(text: str) -> Seal | None:
    """Unpack what `to_envelope` packed; None for anything else, which then belongs to the wire it came on."""
    if not is_envelope(text):
        return None
    found = unseal(text)
    if found is None or found.origin not in _ORIGINS:
        return None
    return Seal(
        origin=_ORIGINS[found.origin],
        kind=found.kind,
        body=found.data,
        model=found.model or None,
        upstream=found.upstream or None,
    )


def opens(content: Seal, protocol: str, model: str, abilities: Abilities, upstream: str | None = None) -> bool:
    """Whether a provider can open a seal: its own protocol, and its own model or one that shares with it (V2).

    Chat reasoning is bound to the upstream that emitted it as well (V7): pass `upstream` there.
    """
    if content.origin != protocol:
        return False
    if upstream is not None and content.upstream is not None and content.upstream != upstream:
        return False
    return content.model is None or content.model == model or content.model in abilities.shares_thinking_with


def issued_by(content: Seal, model: str, upstream: str) -> Seal:
    """The seal with its issuer written on it."""
    return replace(content, model=model, upstream=upstream)
