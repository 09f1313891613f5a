"""Reasoning effort and thinking budgets (E1, E2): one fixed table for both directions. It is predictable and
reversible; a share of `max_tokens` would change the effort with the limit."""

from __future__ import annotations

from bisect import bisect_right

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

_BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 24576, "max": 32000}
# A budget belongs to the effort whose place it has between these bounds.
_BOUNDS = (1536, 4096, 12288, 20480, 28672)

MINIMUM_BUDGET = 1024
# The part of the output limit that is reserved for the response itself.
_MARGIN = 1024

_RANKS = {effort: rank for rank, effort in enumerate(EFFORTS)}
# A server's word for as much reasoning as the model likes.
DEFAULT = "default"
# Every server that knows efforts at all knows these.
_COMMON_LEVELS = ("low", "medium", "high")


def budget_for(effort: str) -> int | None:
    """Give the thinking budget of an effort, or none where thinking is off or the word is unknown."""
    return _BUDGETS.get(effort)


def effort_for(budget: int) -> str:
    """The effort for a thinking budget."""
    return EFFORTS[1 + bisect_right(_BOUNDS, budget)]


def clamp_budget(budget: int, max_tokens: int) -> int | None:
    """Fit a budget under the output cap, or give none where the cap leaves no room for thinking."""
    if max_tokens <= MINIMUM_BUDGET:
        return None
    return max(MINIMUM_BUDGET, min(budget, max_tokens - _MARGIN))


def nearest(effort: str, levels: tuple[str, ...] | None) -> str:
    """The level that a model knows: the same, else the nearest lower, else the lowest. Without a declared set only the
    three levels that every server knows are used. An unknown effort ranks above all of `EFFORTS`, because new ones were
    added at the top. A request for some reasoning gets some: `none` is no lower level; a server's value for unlimited
    replaces all levels that it lacks."""
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
    """Take sampling out of a body for a model that samples as it likes while it reasons (E5)."""
    if effort is None or effort == "none":
        return
    for name, feature in (("temperature", Feature.TEMPERATURE), ("top_p", Feature.TOP_P)):
        if body.pop(name, None) is not None:
            ledger.dropped(feature, ("sampling", name), "not together with a reasoning effort")
