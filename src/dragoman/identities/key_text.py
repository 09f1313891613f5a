"""Key text: the secret that a client sends. It is `dgm_`, 43 random characters (256 bits), and 6 characters of their
CRC-32, which shows typing errors without a look-up. Only the SHA-256 digest is stored. It needs no salt, because 256
random bits cannot be guessed."""

from __future__ import annotations

import re
import secrets
import string
from hashlib import sha256
from zlib import crc32

from dragoman.errors import ConfigError

PREFIX = "dgm_"
_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM, _CHECKSUM = 43, 6
KEY_LENGTH = len(PREFIX) + _RANDOM + _CHECKSUM
_FORM = re.compile(rb"dgm_[0-9A-Za-z]{49}")
_IN_TEXT = re.compile(_FORM.pattern.decode())
_HASH = re.compile(r"sha256:([0-9A-Fa-f]{64})")
# Shorter keys can be guessed: the server answers thousands of attempts per second.
MIN_KEY_LENGTH = 16


def new_key() -> str:
    text = PREFIX + "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM))
    return text + _checksum(text.encode())


def is_mistyped(text: bytes) -> bool:
    """Whether a text has the form of a key but a wrong checksum. Keys of other forms have no checksum."""
    if len(text) != KEY_LENGTH or _FORM.fullmatch(text) is None:
        return False
    return text[-_CHECKSUM:] != _checksum(text[:-_CHECKSUM]).encode()


def has_key_text(data: bytes) -> bool:
    """Whether any part of the data has the form of a key text, so that it must not be repeated."""
    return _FORM.search(data) is not None


def without_key_texts(text: str) -> str:
    return _IN_TEXT.sub(f"{PREFIX}…", text)


def digest_of(key: str | bytes) -> bytes:
    return sha256(key.encode() if isinstance(key, str) else key).digest()


def hash_text(key: str | bytes) -> str:
    """The digest of a key text in the form of the configuration file."""
    return format_hash(digest_of(key))


def format_hash(digest: bytes) -> str:
    return f"sha256:{digest.hex()}"


def read_hash(text: str) -> bytes:
    """Parse a digest from the configuration file. Any other text may be a key by mistake, so no error repeats it."""
    match = _HASH.fullmatch(text)
    if match is None:
        raise ConfigError(
            key="",
            problem="expected sha256: and 64 hexadecimal digits, got another string",
            remedy="run dragoman key new --print",
        )
    return bytes.fromhex(match[1])


def _checksum(text: bytes) -> str:
    number, letters = crc32(text[len(PREFIX) :]), ""
    for _ in range(_CHECKSUM):
        number, letter = divmod(number, len(_ALPHABET))
        letters = _ALPHABET[letter] + letters
    return letters
