"""Mint of the real world: random tokens and the system's clock, for everything outside the pure core."""

from __future__ import annotations

import secrets
import string
import time

from dragoman.protocols.codec import Mint

_ALPHABET = (string.digits + string.ascii_letters).encode()
# Octets to letters in one step. Four octets more fall on the first letters than on the last, which no guesser can use.
_LETTERS = bytes(_ALPHABET[octet % len(_ALPHABET)] for octet in range(256))


def random_token(length: int) -> str:
    """Letters and digits that nobody can guess."""
    return secrets.token_bytes(length).translate(_LETTERS).decode()


def system_mint() -> Mint:
    """Ids that nobody can guess and the time it is."""
    return Mint(token=random_token, now=lambda: int(time.time()))
