"""System mint: random tokens and the system clock, for code outside the pure core."""

from __future__ import annotations

import os
import secrets
import string
import time
from io import StringIO

from dragoman.protocols.codec import Mint

_ALPHABET = (string.digits + string.ascii_letters).encode()
# Maps bytes to letters in one step. The first four letters are slightly more frequent, which does not help an attacker.
_LETTERS = bytes(_ALPHABET[octet % len(_ALPHABET)] for octet in range(256))


# Letters that are drawn at once, because one system call costs more than the rest of an ID.
_AT_ONCE = 4096
# Unused letters. A read is atomic, so two threads never get the same letters.
_drawn = StringIO()


def random_token(length: int) -> str:
    token = _drawn.read(length)
    return token if len(token) == length else _draw(length)


def _draw(length: int) -> str:
    """Draw fresh letters, and discard the rest, which is too short."""
    global _drawn
    _drawn = StringIO(_random_letters(_AT_ONCE))
    return _random_letters(length)


def _random_letters(length: int) -> str:
    return secrets.token_bytes(length).translate(_LETTERS).decode()


def _forget() -> None:
    """Discard unused letters after a fork: the other process has them too."""
    global _drawn
    _drawn = StringIO()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def system_mint() -> Mint:
    return Mint(token=random_token, now=lambda: int(time.time()))
