"""Key names: a provider's key in messages is the name of its variable, or its place in the file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dragoman.config.environment import is_literal, resolved
from dragoman.config.toml_lines import dotted
from dragoman.errors import ConfigError


def key_names(
    keys: tuple[str, ...],
    *,
    provider: str,
    texts: tuple[str, ...] | None,
    variables: Iterable[str],
    environ: Mapping[str, str],
) -> tuple[str, ...]:
    """The names of these keys: `texts` are the keys in the file, else one of the `variables` has it."""
    names: dict[str, str] = {}
    if texts is None:
        for variable in variables:
            names.setdefault(environ.get(variable, "").strip(), variable)
    location = f"providers.{dotted((provider,))}.api_key"
    for number, text in enumerate(texts or (), 1):
        named = location if texts is not None and len(texts) == 1 else f"key {number} of {location}"
        try:
            names.setdefault(resolved(text, environ), named if is_literal(text) else text.strip("${}"))
        except ConfigError:
            # Not a key. The reader of `[keys]` reports it.
            continue
    return tuple(names.get(key, location) for key in keys)
