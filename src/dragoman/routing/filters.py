"""Filters: who cannot be asked this request, whatever a policy would say, and who had better be asked last.

What is merely unknown leaves nobody out, but for a price where there is a limit. Sizes are bytes: a target is left out
if the request is too long for it even at eight bytes a token, and stands behind if it is at four.
"""

from __future__ import annotations

from dragoman.model.losses import strictest
from dragoman.model.request_features import RequestFeatures
from dragoman.routing.candidate import Behind, Filter
from dragoman.routing.health_state import HealthLevel, HealthState
from dragoman.routing.needs import Requirements
from dragoman.routing.route_summary import RouteSummary
from dragoman.routing.target import Target

# In the order in which they are told.
SIGNS = {
    "tools": Filter.TOOLS,
    "images": Filter.IMAGES,
    "documents": Filter.DOCUMENTS,
    "thinking": Filter.THINKING,
    "structured": Filter.STRUCTURED,
}
# How far behind: the greater number comes later.
DEPTH = {
    Behind.TIGHT: 1,
    Behind.RAMPING: 2,
    Behind.BUSY: 2,
    Behind.SUSPECT: 2,
    Behind.KEYLESS: 3,
    Behind.COOLDOWN: 4,
}


def picky(needs: Requirements, outline: RouteSummary) -> bool:
    """Whether the request itself may leave somebody out, its size and price aside."""
    return bool(
        outline.denies
        or needs.keeper
        or needs.same_model
        or needs.refused
        or ((needs.strict or outline.strict) and needs.losses)
    )


def unfit(target: Target, needs: Requirements, first: Target) -> Filter | None:
    """Why the request itself leaves a target out; `first` is the first of the line."""
    if needs.keeper and target.provider.name != needs.keeper:
        return Filter.KEPT_ELSEWHERE
    if needs.same_model and target.model != first.model:
        return Filter.OTHER_MODEL
    if target.denies and (found := denied(target, needs.signs)) is not None:
        return found
    if target.id in needs.refused:
        return Filter.REFUSED
    if needs.strict or target.strict:
        losses = needs.losses.get(target.id)
        if losses is not None and losses.refused_by(strictest(needs.strict, target.strict)):
            return Filter.STRICT
    return None


def denied(target: Target, signs: RequestFeatures) -> Filter | None:
    """The first thing in a request that the target is known not to take."""
    has = {
        "tools": signs.tools,
        "images": signs.images,
        "documents": signs.documents,
        "thinking": signs.thinking,
        "structured": signs.structured,
    }
    return next((found for sign, found in SIGNS.items() if has[sign] and sign in target.denies), None)


def too_dear(cost: int | None, limit: int) -> Filter | None:
    """Why a limit of cost leaves a target out."""
    return Filter.UNKNOWN_COST if cost is None else Filter.COST if cost > limit else None


def rests(standing: HealthState, now: float) -> bool:
    """Whether it is asked by no request now; the one that plans with it after its end is the probe."""
    if standing.level is not HealthLevel.RESTING and standing.level is not HealthLevel.PROBED:
        return False
    return standing.until > now and not standing.prompt


def unwell(standing: HealthState, now: float, chance: float) -> Behind | None:
    """Why a target that does not rest stands behind those that are well."""
    match standing.level:
        case HealthLevel.SUSPECT:
            return Behind.SUSPECT if standing.until > now and chance >= standing.answers else None
        case HealthLevel.RESTING | HealthLevel.PROBED:
            return Behind.COOLDOWN if standing.is_last_resort(now) else None
        case HealthLevel.KEYLESS:
            return Behind.KEYLESS if standing.until > now else None
        case HealthLevel.RAMPING:
            return Behind.RAMPING if chance >= standing.share(now) else None
        case _:
            return None
