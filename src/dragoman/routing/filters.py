"""Filters: exclude targets that cannot take a request under any policy, and deprioritize others. Unknown data excludes
no target, except for an unknown cost under a cost limit. A request that is too long at eight bytes per token excludes a
target; at four it deprioritizes the target."""

from __future__ import annotations

from dragoman.model.losses import strictest
from dragoman.model.request_features import RequestFeatures
from dragoman.routing.candidate import Deprioritized, Filter
from dragoman.routing.health_state import HealthLevel, HealthState
from dragoman.routing.needs import Requirements
from dragoman.routing.route_summary import RouteSummary
from dragoman.routing.target import Target

FEATURE_FILTERS = {
    "tools": Filter.TOOLS,
    "images": Filter.IMAGES,
    "documents": Filter.DOCUMENTS,
    "thinking": Filter.THINKING,
    "structured": Filter.STRUCTURED,
}
DEPTH = {
    Deprioritized.TIGHT: 1,
    Deprioritized.SLOW_START: 2,
    Deprioritized.BUSY: 2,
    Deprioritized.SUSPECT: 2,
    Deprioritized.NO_KEY: 3,
    Deprioritized.COOLDOWN: 4,
}


def may_exclude(requirements: Requirements, summary: RouteSummary) -> bool:
    """Whether the request itself can exclude targets, apart from its size and cost."""
    return bool(
        summary.denies
        or requirements.storing_provider
        or requirements.same_model
        or requirements.refused
        or ((requirements.strict or summary.strict) and requirements.losses)
    )


def request_filter(target: Target, requirements: Requirements, first: Target) -> Filter | None:
    """The reason for which the request itself excludes a target. `first` is the first target of the route."""
    if requirements.storing_provider and target.provider.name != requirements.storing_provider:
        return Filter.STORED_ELSEWHERE
    if requirements.same_model and target.model != first.model:
        return Filter.OTHER_MODEL
    if target.denies and (exclusion := feature_filter(target, requirements.request_features)) is not None:
        return exclusion
    if target.id in requirements.refused:
        return Filter.REFUSED
    if requirements.strict or target.strict:
        losses = requirements.losses.get(target.id)
        if losses is not None and losses.refused_by(strictest(requirements.strict, target.strict)):
            return Filter.STRICT
    return None


def feature_filter(target: Target, request_features: RequestFeatures) -> Filter | None:
    has = {
        "tools": request_features.tools,
        "images": request_features.images,
        "documents": request_features.documents,
        "thinking": request_features.thinking,
        "structured": request_features.structured,
    }
    return next(
        (exclusion for feature, exclusion in FEATURE_FILTERS.items() if has[feature] and feature in target.denies), None
    )


def cost_filter(cost: int | None, limit: int) -> Filter | None:
    return Filter.UNKNOWN_COST if cost is None else Filter.COST if cost > limit else None


def is_in_cooldown(health: HealthState, now: float) -> bool:
    """Whether no request may call the target now. The first plan after the end of the cooldown gets the probe."""
    if health.level is not HealthLevel.COOLDOWN and health.level is not HealthLevel.PROBING:
        return False
    return health.until > now and not health.prompt


def deprioritized_by_health(health: HealthState, now: float, draw: float) -> Deprioritized | None:
    """The reason why a target that is not in cooldown ranks below healthy ones."""
    match health.level:
        case HealthLevel.SUSPECT:
            return Deprioritized.SUSPECT if health.until > now and draw >= health.success_rate else None
        case HealthLevel.COOLDOWN | HealthLevel.PROBING:
            return Deprioritized.COOLDOWN if health.is_last_resort(now) else None
        case HealthLevel.NO_KEY:
            return Deprioritized.NO_KEY if health.until > now else None
        case HealthLevel.SLOW_START:
            return Deprioritized.SLOW_START if draw >= health.share(now) else None
        case _:
            return None
