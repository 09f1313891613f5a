"""Sealing: encryption of stored bytes by the key of `storage.contents.key`, with AES-256-GCM (decision 48).

The key is derived by scrypt, once per opened database. What a row is found by is authenticated with it, so that the
contents of two rows cannot be exchanged. Without a key nothing is encrypted.
"""

from __future__ import annotations

import os
from hashlib import blake2b, scrypt
from typing import TYPE_CHECKING

from dragoman.errors import ConfigError
from dragoman.store.errors import StoreError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

SALT_SIZE = 16
_NONCE = 12
# Shorter keys can be guessed from a stolen file.
MIN_KEY_LENGTH = 16
# 16 MB of memory and some 50 ms.
_COST, _BLOCK, _PARALLEL = 2**14, 8, 1
_SETTING = "storage.contents.key"


class Sealer:
    """Seals and opens stored bytes; with the key "" it leaves them as they are."""

    def __init__(self, key: str = "", salt: bytes = b"") -> None:
        self._cipher: AESGCM | None = None
        # What digests are keyed with; of an encrypted database nothing of it is stored.
        self.secret = b""
        if key:
            master = scrypt(key.encode(), salt=salt, n=_COST, r=_BLOCK, p=_PARALLEL, dklen=32, maxmem=64 << 20)
            self._cipher = _cipher(blake2b(b"seal", key=master, digest_size=32).digest())
            self.secret = blake2b(b"digests", key=master, digest_size=32).digest()

    @property
    def encrypts(self) -> bool:
        """Whether there is a key."""
        return self._cipher is not None

    def seal(self, data: bytes, place: bytes) -> bytes:
        """The bytes for a place."""
        if self._cipher is None:
            return data
        nonce = os.urandom(_NONCE)
        return nonce + self._cipher.encrypt(nonce, data, place)

    def open(self, sealed: bytes, place: bytes) -> bytes:
        """The bytes that were sealed for a place."""
        if self._cipher is None:
            return sealed
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], place)
        except (InvalidTag, ValueError):
            raise StoreError("stored contents are damaged, or were encrypted with another key") from None


def check_key(key: str) -> None:
    """Refuse a key that is too short, or that needs a package that is missing."""
    if len(key) < MIN_KEY_LENGTH:
        raise ConfigError(
            key=_SETTING,
            problem=f"the key has fewer than {MIN_KEY_LENGTH} characters",
            remedy="make one: openssl rand -base64 32",
        )
    _cipher(bytes(32))


def _cipher(key: bytes) -> AESGCM:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise ConfigError(
            key=_SETTING,
            problem="encryption needs the package cryptography",
            remedy="install dragoman[contents], or remove the key",
        ) from None
    return AESGCM(key)
