"""Reasoning effort and thinking budgets (E1, E2): one fixed, reversible table for both directions. A share of
`max_tokens` would change the effort with the limit."""

from __future__ import annotations

from bisect import bisect_right

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

_BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 24576, "max": 32000}
# Upper bounds of budgets for each effort, in tokens.
_BOUNDS = (1536, 4096, 12288, 20480, 28672)

MINIMUM_BUDGET = 1024
# Tokens of the output limit that are reserved for the response itself.
_MARGIN = 1024

_RANKS = {effort: rank for rank, effort in enumerate(EFFORTS)}
# A server's value for unlimited reasoning.
DEFAULT = "default"
# The levels that every server with efforts supports.
_COMMON_LEVELS = ("low", "medium", "high")


def budget_for(effort: str) -> int | None:
    """The thinking budget of an effort, or None if thinking is off or the effort is unknown."""
    return _BUDGETS.get(effort)


def effort_for(budget: int) -> str:
    return EFFORTS[1 + bisect_right(_BOUNDS, budget)]


def clamp_budget(budget: int, max_tokens: int) -> int | None:
    """Fit a budget under the output limit; None if the limit leaves no tokens for thinking."""
    if max_tokens <= MINIMUM_BUDGET:
        return None
    return max(MINIMUM_BUDGET, min(budget, max_tokens - _MARGIN))


def nearest(effort: str, levels: tuple[str, ...] | None) -> str:
    """The level that a model supports: the same, else the nearest lower, else the lowest. Without a declared set, only
    the three common levels are used. An unknown effort ranks above all of `EFFORTS`, because vendors add levels at the
    top. `none` never replaces another level. A server's value for unlimited reasoning replaces all levels that it
    lacks."""
    if levels and effort not in levels and effort != "none":
        if DEFAULT in levels:
            return DEFAULT
        levels = tuple(level for level in levels if level != "none") or levels
    ranked = sorted((level for level in levels or _COMMON_LEVELS if level in _RANKS), key=_RANKS.__getitem__)
    if not ranked or (levels and effort in levels):
        return effort
    rank = _RANKS.get(effort, len(EFFORTS))
    lower = [level for level in ranked if _RANKS[level] <= rank]
    return lower[-1] if lower else ranked[0]


def drop_sampling(body: JsonObject, effort: str | None, ledger: Ledger) -> None:
    """Remove sampling parameters for a model that ignores them while it reasons (E5)."""
    if effort is None or effort == "none":
        return
    for name, feature in (("temperature", Feature.TEMPERATURE), ("top_p", Feature.TOP_P)):
        if body.pop(name, None) is not None:
            ledger.dropped(feature, ("sampling", name), "not together with a reasoning effort")
