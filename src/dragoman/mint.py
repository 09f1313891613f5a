"""Mint of the real world: random tokens and the system's clock, for everything outside the pure core."""

from __future__ import annotations

import os
import secrets
import string
import time
from io import StringIO

from dragoman.protocols.codec import Mint

_ALPHABET = (string.digits + string.ascii_letters).encode()
# Bytes to letters in one step. The first letters are more frequent by four bytes, which does not help an attacker.
_LETTERS = bytes(_ALPHABET[octet % len(_ALPHABET)] for octet in range(256))


# A system call costs more than all the rest of an ID: this many letters are drawn at once.
_AT_ONCE = 4096
# Letters that are not used yet. To read some is one step, so that no two threads get the same.
_drawn = StringIO()


def random_token(length: int) -> str:
    """Unguessable letters and digits."""
    token = _drawn.read(length)
    return token if len(token) == length else _draw(length)


def _draw(length: int) -> str:
    """A token of fresh letters; the letters that were left are too few, and thrown away."""
    global _drawn
    _drawn = StringIO(_random_letters(_AT_ONCE))
    return _random_letters(length)


def _random_letters(length: int) -> str:
    return secrets.token_bytes(length).translate(_LETTERS).decode()


def _forget() -> None:
    """Use no letters that were drawn before a fork: the other process has them, too."""
    global _drawn
    _drawn = StringIO()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def system_mint() -> Mint:
    """Unguessable IDs and the current time."""
    return Mint(token=random_token, now=lambda: int(time.time()))
