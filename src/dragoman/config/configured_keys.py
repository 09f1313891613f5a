"""Configured keys: the names and digests that the configuration already uses, which no key of the database may have."""

from __future__ import annotations

from dragoman.config.settings import Settings
from dragoman.identities.changes import ConfiguredNames


def configured_names(settings: Settings) -> ConfiguredNames:
    """Names and keys that a new key of the database must not have."""
    return ConfiguredNames(
        owners={key.name: key.owner for key in settings.keys},
        digests={accepted.digest: key.name for key in settings.keys for accepted in key.digests},
        rule_names=frozenset(
            rule.when.key for route in (*settings.routes, *settings.defaults) for rule in route.rules if rule.when.key
        ),
    )
