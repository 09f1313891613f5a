"""Mint of the real world: random tokens and the system's clock, for everything outside the pure core."""

from __future__ import annotations

import os
import secrets
import string
import time
from io import BytesIO

from dragoman.protocols.codec import Mint

_ALPHABET = (string.digits + string.ascii_letters).encode()
# Octets to letters in one step. Four octets more fall on the first letters than on the last, which no guesser can use.
_LETTERS = bytes(_ALPHABET[octet % len(_ALPHABET)] for octet in range(256))


# Every question to the system costs more than all the rest of an id: so many octets are asked for at once.
_AT_ONCE = 4096
# Those that were not used yet. To read some is one step, so that no two threads get the same.
_drawn = BytesIO()


def random_token(length: int) -> str:
    """Letters and digits that nobody can guess."""
    return _random_bytes(length).translate(_LETTERS).decode()


def _random_bytes(length: int) -> bytes:
    """Random octets that nobody else gets."""
    global _drawn
    data = _drawn.read(length)
    if len(data) < length:
        # What was left is too little, and thrown away.
        _drawn = BytesIO(secrets.token_bytes(_AT_ONCE))
        data = secrets.token_bytes(length)
    return data


def _forget() -> None:
    """Use nothing of what was drawn before a fork: the other process has it, too."""
    global _drawn
    _drawn = BytesIO()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def system_mint() -> Mint:
    """Ids that nobody can guess and the time it is."""
    return Mint(token=random_token, now=lambda: int(time.time()))
