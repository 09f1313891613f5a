"""Mint of the real world: random tokens and the system's clock, for everything outside the pure core."""

from __future__ import annotations

import secrets
import string
import time

from dragoman.protocols.codec import Mint

_ALPHABET = string.digits + string.ascii_letters


def system_mint() -> Mint:
    """Ids that nobody can guess and the time it is."""
    return Mint(
        token=lambda length: "".join(secrets.choice(_ALPHABET) for _ in range(length)), now=lambda: int(time.time())
    )
