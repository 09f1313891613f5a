"""Money formatting: integer amounts as exact dollars in text."""

from __future__ import annotations

NANO = 10**9
# Pico-dollars of a rate of one dollar per million tokens, and per single piece.
PER_MILLION, PER_PIECE = 10**6, 10**12


def in_units(amount: int, unit: int) -> str:
    """Format an amount in units that are a power of ten, without trailing zeros."""
    # Adding one unit keeps the leading zeros of the fraction.
    if 0 < amount < unit:
        return f"0.{f'{unit + amount}'[1:].rstrip('0')}"
    if amount < 0:
        return f"-{in_units(-amount, unit)}"
    part = amount % unit
    return f"{amount // unit}.{f'{unit + part}'[1:].rstrip('0')}" if part else f"{amount // unit}"


def short_dollars(nano: int) -> str:
    """Format a cost briefly: to the cent from one dollar on, below to a hundredth of a cent."""
    if nano >= NANO - NANO // 200:
        return f"${(nano + NANO // 200) // (NANO // 100) / 100:.2f}"
    if 0 < nano < NANO // 10_000:
        return "<$0.0001"
    text = f"{(nano + NANO // 20_000) // (NANO // 10_000) / 10_000:.4f}"
    return f"${text[:4]}{text[4:].rstrip('0')}"


def least_dollars(nano: int) -> str:
    """Format a minimum cost briefly, the smallest ones with all digits."""
    return dollars(nano) if 0 < nano < NANO // 10_000 else short_dollars(nano)


def dollars(nano: int) -> str:
    """Format a cost exactly, with at least two decimals."""
    whole, _, decimals = in_units(abs(nano), NANO).partition(".")
    return f"{'-' if nano < 0 else ''}${whole}.{decimals.ljust(2, '0')}"
