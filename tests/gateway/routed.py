"""Whom a model's name leads to, for tests of what becomes of a target."""

from __future__ import annotations

from dragoman.gateway.model_resolver import ModelResolver
from dragoman.identities.identity import ALL_RIGHTS
from dragoman.routing.target import Target


def target_of(routes: ModelResolver, name: str, protocol: str) -> Target:
    """The one target of a name, or the first of several."""
    return routes.fixed(name, protocol, ALL_RIGHTS, None, lambda target: 0.0)
