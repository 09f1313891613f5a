"""Moderation: a policy that blocks must not be left out; who cannot ask for it refuses the request (mapping.md §3)."""

from __future__ import annotations

from dragoman.errors import RefusedError
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.request import Request


def blocks(moderation: JsonObject) -> bool:
    """Whether a moderation setting has the provider block what it finds."""
    policy = moderation.get("policy")
    sides = policy.values() if isinstance(policy, dict) else ()
    return any(isinstance(side, dict) and side.get("mode") == "block" for side in sides)


def refuse_blocking(request: Request) -> None:
    """Refuse a request whose moderation blocks; for encoders whose provider has no moderation."""
    if request.moderation is not None and blocks(request.moderation):
        raise RefusedError(Feature.MODERATION.value, "moderation", "blocking by moderation cannot be asked for")
