"""Keys of the gateway itself: making one, knowing one by its digest, and reading `[keys]`."""

from __future__ import annotations

import hashlib
import re
import secrets
import string
from collections.abc import Mapping

from dragoman.config import file_schema
from dragoman.config.environment import secret
from dragoman.config.settings import Key
from dragoman.config.tables import ConfigTable
from dragoman.config.values import invalid, is_name
from dragoman.errors import ConfigError

PREFIX = "dgm_"
# What a key of the command line is called in the log.
COMMAND_LINE_KEY = "launch"
_ALPHABET = string.digits + string.ascii_letters
# 43 characters of 62 hold 256 bits.
_LENGTH = 43
_HASH = re.compile(r"sha256:([0-9A-Fa-f]{64})")
# Shorter keys can be guessed: the server answers thousands of tries in a second.
MIN_KEY_LENGTH = 16


def new_key() -> str:
    """A key that nobody can guess."""
    return PREFIX + "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))


def digest_of(key: str | bytes) -> bytes:
    """The digest that a key is known by."""
    return hashlib.sha256(key.encode() if isinstance(key, str) else key).digest()


def hash_text(key: str | bytes) -> str:
    """The digest as it is written in the file."""
    return f"sha256:{digest_of(key).hex()}"


def read_hash(text: str) -> bytes:
    """The digest that was written; a text that is none may be the key itself, and is not repeated."""
    match = _HASH.fullmatch(text)
    if match is None:
        raise invalid("expected sha256: and 64 hexadecimal digits, got another string", "run dragoman key new")
    return bytes.fromhex(match[1])


def read_keys(table: ConfigTable, environ: Mapping[str, str]) -> tuple[tuple[Key, ...], tuple[str, ...]]:
    """The keys of `[keys]`, and the names of those that are too short to be safe."""
    keys: dict[bytes, Key] = {}
    short: list[str] = []
    for name, member in table.tables().items():
        if not is_name(name):
            table.complain(name, "cannot name a key", "use letters, digits, hyphens, dots and underscores")
        elif name == COMMAND_LINE_KEY:
            # What is counted and told by a key's name would be told to both.
            table.complain(name, "is reserved for the key of the command line", "choose another name")
        member.refuse_others(file_schema.KEY)
        entry = member.fill(file_schema.KeyTable, file_schema.KEY)
        digest, length = _digest(member, entry, environ)
        if digest is None:
            continue
        if length is not None and length < MIN_KEY_LENGTH:
            short.append(name)
        if digest in keys:
            table.complain(name, f"is the same key as keys.{keys[digest].name}", "make another: dragoman key new")
        else:
            keys[digest] = Key(name=name, digest=digest, strict=entry.strict, concurrency=entry.concurrency)
    return tuple(keys.values()), tuple(short)


def _digest(
    member: ConfigTable, entry: file_schema.KeyTable, environ: Mapping[str, str]
) -> tuple[bytes | None, int | None]:
    """The digest of one key, and the key's length where it is known."""
    if member.has("key") == member.has("hash"):
        problem = "has both key and hash" if member.has("key") else "has neither key nor hash"
        member.problems.add(member.path, problem, "keep one of them; dragoman key new prints both")
        return None, None
    if entry.key is not None:
        try:
            key = secret(entry.key, environ)
        except ConfigError as error:
            member.complain("key", error.problem, error.remedy)
            return None, None
        return digest_of(key), len(key)
    if entry.hash is not None:
        try:
            return read_hash(entry.hash), None
        except ConfigError as error:
            member.complain("hash", error.problem, error.remedy)
    return None, None
