"""Formatting of tokens, cost and times: rounded on a terminal, exact for programs."""

from __future__ import annotations

from dragoman.prices.money import NANO, dollars

AT_LEAST = "≥ "
UNPRICED = "unpriced"
# A smaller amount is shown as "less than".
_LITTLE = NANO // 10_000


def tokens(count: int, *, exact: bool = False) -> str:
    """A number of tokens, in at most five characters."""
    if exact or count < 10_000:
        return str(count)
    if count < 99_950:
        return f"{count / 1000:.1f}k"
    return f"{count / 1000:.0f}k" if count < 999_500 else f"{count / 1e6:.1f}M"


def format_cost(nano: int, unpriced: int, *, exact: bool = False) -> str:
    """A cost as far as known: a minimum if a part has no price, and no number without any price."""
    if unpriced and not nano:
        return UNPRICED
    # "At least less than" is meaningless: such small amounts are shown with all digits.
    if exact or (unpriced and nano < _LITTLE):
        return f"{AT_LEAST if unpriced else ''}{dollars(nano)}"
    return f"{AT_LEAST if unpriced else ''}{_rounded(nano)}"


def _rounded(nano: int) -> str:
    """Dollars to the cent, and finer below. An amount above zero is never shown as zero."""
    if not nano:
        return "$0.00"
    if nano < _LITTLE:
        return "<$0.0001"
    decimals = 2 if nano >= NANO else 3 if nano >= NANO // 100 else 4
    return f"${nano / NANO:.{decimals}f}"


def span(micro: int) -> str:
    """A duration: in milliseconds below a second, with two units from a minute on."""
    if micro < 999_500:
        return f"{max(micro, 0) / 1000:.0f}ms"
    if micro < 59_950_000:
        return f"{micro / 1_000_000:.1f}s"
    seconds = micro // 1_000_000
    for unit, size, below, smaller in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if seconds >= size:
            return f"{seconds // size}{unit} {seconds % size // smaller}{below}"
    return f"{seconds}s"


def counted(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
