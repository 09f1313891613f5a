"""Patterns of `[models]`, and nesting: routes that name other routes, without circles and within limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from dragoman.config.tables import ConfigTable


class Patterns:
    """Names with one `*` each; those without one match nothing here."""

    def __init__(self, patterns: Iterable[str]) -> None:
        entries = [(*pattern.partition("*"), pattern) for pattern in patterns]
        # The most particular first.
        entries = sorted((entry for entry in entries if entry[1]), key=lambda entry: (-len(entry[0]), -len(entry[2])))
        self._parts = tuple((before, after, pattern) for before, _, after, pattern in entries)

    def match(self, name: str) -> str | None:
        """The pattern with the longest literal prefix that a name matches."""
        for before, after, pattern in self._parts:
            if len(name) >= len(before) + len(after) and name.startswith(before) and name.endswith(after):
                return pattern
        return None


# Maximum depth of nested routes, and maximum targets of a route: all of them are checked for each request.
MAX_DEPTH = 8
MAX_TARGETS = 128


class NamedTargets(Struct, frozen=True, kw_only=True):
    """The names in one route, with its rules: the number of targets, and other routes."""

    targets: int
    routes: tuple[str, ...]


class _Extent(Struct, frozen=True):
    """The extent of a route: its depth, and its number of targets."""

    depth: int = 0
    targets: int = 0


def check_nesting(models: ConfigTable, named: Mapping[str, NamedTargets]) -> None:
    """Note every circle of lines, and lines that are too deep or too wide."""
    extents: dict[str, _Extent] = {}

    def measure(name: str, path: tuple[str, ...]) -> _Extent:
        if name in extents:
            return extents[name]
        if name in path:
            circle = (*path[path.index(name) :], name)
            models.complain(name, f"leads back to itself: {' → '.join(circle)}", "take one of them out of the circle")
            # Reported once, whichever of them is checked next.
            extents.update(dict.fromkeys(circle, _Extent()))
            return _Extent()
        if len(path) > MAX_DEPTH or name not in named:
            # The caller reports the former; the latter has an error of its own.
            return _Extent()
        within = [measure(other, (*path, name)) for other in named[name].routes]
        extent = _Extent(
            1 + max((each.depth for each in within), default=0),
            named[name].targets + sum(each.targets for each in within),
        )
        extents.setdefault(name, extent)
        if extent.depth == MAX_DEPTH + 1:
            models.complain(name, f"has more than {MAX_DEPTH} routes within each other", "name their targets instead")
        if extent.targets > MAX_TARGETS >= max((each.targets for each in within), default=0):
            models.complain(name, f"has {extent.targets} targets in total, of {MAX_TARGETS} at most", "leave some out")
        return extents[name]

    for name in named:
        measure(name, ())
