"""Launch summary: the totals of a launch in one line."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dragoman.model.features import weight_of
from dragoman.prices.money import least_dollars, short_dollars

_MAX_LISTED = 8


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    requests: int = 0
    calls: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    # None if the gateway does not report it.
    cost_nano_usd: int | None = None
    unpriced_requests: int = 0
    losses: Mapping[str, int] = {}
    # The session that can be resumed, by the client's own ID; "" without a response.
    session: str = ""
    processes: tuple[str, ...] = ()


def summary(launch: Launch, before: Launch) -> str:
    """Format the totals of a launch. If a counting process ended since `before`, they are a minimum."""
    parts = [_count(launch.calls, "call") + (f" ({launch.failed} failed)" if launch.failed else "")]
    parts.append(f"{short(launch.input_tokens + launch.output_tokens)} tokens")
    parts += _cost(launch)
    parts.append(_losses(launch.losses))
    least = "at least " if set(before.processes) - set(launch.processes) else ""
    return least + ", ".join(parts)


def _cost(launch: Launch) -> list[str]:
    cost, unpriced = launch.cost_nano_usd, launch.unpriced_requests
    if cost is None:
        return []
    if not unpriced:
        return [short_dollars(cost)]
    left_out = f"{_count(unpriced, 'call')} unpriced"
    return [f"at least {least_dollars(cost)} ({left_out})" if cost else left_out]


def short(number: int) -> str:
    """Format a number briefly: 812k, 1.2M."""
    for unit, size in (("M", 1_000_000), ("k", 1000)):
        # A number that rounds to a thousand of the smaller unit belongs to this one.
        if number >= size - size // 2000:
            value = number / size
            return f"{value:.1f}".removesuffix(".0") + unit if value < 9.95 else f"{value:.0f}{unit}"
    return str(number)


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's' if not word.endswith('s') else 'es'}"


def _losses(losses: Mapping[str, int]) -> str:
    changes = {name: count for name, count in losses.items() if weight_of(name) == "changes_response"}
    bookkeeping = sum(losses.values()) - sum(changes.values())
    left_out = f" ({bookkeeping} bookkeeping)" if bookkeeping else ""
    if not changes:
        return f"no losses{left_out}"
    ordered = sorted(changes.items(), key=lambda named: (-named[1], named[0]))
    listed = [name if count == 1 else f"{name} ×{count}" for name, count in ordered[:_MAX_LISTED]]
    more = len(ordered) - _MAX_LISTED
    names = ", ".join(listed) + (f" and {more} more" if more > 0 else "")
    return f"{_count(sum(changes.values()), 'loss')}: {names}{left_out}"
