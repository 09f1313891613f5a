"""Cooldowns of keys: reads retry hints from a provider's headers, and decides how long a key is not used."""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import Struct

from dragoman.model.failure import Failure
from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.routing.failure_classification import is_key_failure
from dragoman.routing.health import MAX_KEY_COOLDOWN

# Seconds: the default for a limit without a duration, and the shortest cooldown. `MAX_KEY_COOLDOWN` limits all of them:
# providers state days, but renew quotas earlier; a key that is still rejected gets another cooldown.
DEFAULT_SECONDS = 60.0
MIN_SECONDS = 1.0

# Codes of limits that apply to a full account.
_ACCOUNT_CODES = ("account", "organization", "usage_limit")
_UNIFIED = b"anthropic-ratelimit-unified-status"


class Hint(Struct, frozen=True, kw_only=True):
    """Hints in response headers: the delay, whether to retry, and whether the limit applies to the account."""

    wait: float | None = None
    should_retry: bool | None = None
    account: bool = False


class Cooldown(Struct, frozen=True, kw_only=True):
    seconds: float
    every_model: bool = False


NO_HINT = Hint()


def hint_of(headers: Iterable[tuple[bytes, bytes]], wall: float) -> Hint:
    """Read the hints in response headers. `wall` is the time of day in seconds, for headers with a date."""
    hint_headers = {name: value for name, value in headers if name in _HINTS}
    if not hint_headers:
        return NO_HINT
    exact = _seconds(hint_headers.get(b"retry-after-ms"), 1000.0)
    after = hint_headers.get(b"retry-after")
    wait = exact if exact is not None else _seconds(after, 1.0)
    if wait is None and after is not None:
        wait = _until(after, wall)
    return Hint(
        wait=wait,
        should_retry=_BOOLEANS.get((hint_headers.get(b"x-should-retry") or b"").strip().lower()),
        account=hint_headers.get(_UNIFIED) == b"rejected",
    )


def cooldown_of(kind: AttemptOutcome, failure: Failure | None, hint: Hint = NO_HINT) -> Cooldown | None:
    """The cooldown of an attempt's key, if any: only for failures of the key itself."""
    if kind is AttemptOutcome.RATE_LIMITED:
        code = "" if failure is None else f"{failure.code or ''} {failure.native}".lower()
        wide = hint.account or any(word in code for word in _ACCOUNT_CODES)
        return Cooldown(seconds=_bounded(hint.wait, DEFAULT_SECONDS), every_model=wide)
    if failure is None:
        return None
    if kind is AttemptOutcome.INSUFFICIENT_QUOTA and is_key_failure(failure):
        return Cooldown(seconds=_bounded(hint.wait, MAX_KEY_COOLDOWN), every_model=True)
    if kind is AttemptOutcome.INVALID_KEY and (failure.status == 401 or is_key_failure(failure)):
        # A 403 may concern this model alone.
        return Cooldown(seconds=MAX_KEY_COOLDOWN, every_model=failure.status != 403)
    return None


def names_the_key(failure: Failure) -> bool:
    """Whether all keys that a request tries may get a cooldown: the failure names the key, and is no limit that the
    request exceeds. Any other failure disables one key per request; otherwise one request could disable all."""
    return failure.status != 429 and is_key_failure(failure)


def _bounded(wait: float | None, usual: float) -> float:
    return usual if wait is None else min(max(wait, MIN_SECONDS), MAX_KEY_COOLDOWN)


def _seconds(value: bytes | None, unit: float) -> float | None:
    """Convert a number of units to seconds; None if it is no number or too large."""
    if value is None or len(value) > 20:
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number / unit if math.isfinite(number) and number >= 0 else None


def _until(value: bytes, wall: float) -> float | None:
    """Seconds until a date (RFC 9110, section 10.2.3)."""
    # Imported here, because nearly all providers state seconds.
    from calendar import timegm
    from email.utils import parsedate

    when = parsedate(value.decode("latin-1")) if len(value) <= 40 else None
    if when is None:
        return None
    try:
        return max(timegm(when) - wall, 0.0)
    except (ValueError, OverflowError):
        return None


_HINTS = frozenset({b"retry-after", b"retry-after-ms", b"x-should-retry", _UNIFIED})
_BOOLEANS = {b"true": True, b"false": False}
