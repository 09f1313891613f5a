"""The nearest name: the probable meaning of an unknown key, option or command."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """The known name that was probably meant."""
    # Only a mistake needs it.
    import difflib

    by_lower = {other.lower(): other for other in choices}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None
