"""Identity: the holder of a gateway key, with its rights; the same from the file and from the database."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct

from dragoman.model.losses import Strict

# Roles. A client calls models; a viewer reads all records and calls nothing; an admin does both and changes keys.
CLIENT, VIEWER, ADMIN = "client", "viewer", "admin"
ROLES = (CLIENT, VIEWER, ADMIN)
# Where an identity comes from.
FILE, DATABASE, COMMAND_LINE = "file", "database", "command line"
# The names of the keys that `launch` and `--first-key` make.
COMMAND_LINE_KEY, FIRST_KEY = "launch", "first"
# The owner of everything made by clients without a key, and by the key of `launch`, which the operator made.
LOCAL_OWNER = b""

# Names and values, sorted by name.
Tags: TypeAlias = tuple[tuple[str, str], ...]
MAX_TAGS = 16
_TAG = re.compile(r"[A-Za-z0-9._-]{1,64}")


def is_tag(text: str) -> bool:
    """Whether a text can be the name or the value of a tag."""
    return _TAG.fullmatch(text) is not None


@lru_cache(maxsize=4096)
def format_tags(tags: Tags) -> str:
    """Tags as one text, as records have them: "team=web,zone=eu". Neither names nor values contain the separators."""
    return ",".join([f"{name}={value}" for name, value in tags])


@lru_cache(maxsize=4096)
def read_tags(text: str) -> Tags:
    """The tags in such a text."""
    pairs = (pair.partition("=") for pair in text.split(",") if pair)
    return tuple((name, value) for name, _, value in pairs)


class Rights(Struct, frozen=True, kw_only=True, cache_hash=True):
    """What a key permits. A list that is None permits everything; `permissions.py` has the rules of the patterns."""

    role: str = CLIENT
    # Patterns of model names, as clients request them.
    models: tuple[str, ...] | None = None
    # Names of providers, whatever model name leads there.
    providers: tuple[str, ...] | None = None
    # Addresses and networks that requests may come from.
    addresses: tuple[str, ...] | None = None
    # Path families, with an action or without: "embeddings", "files:read".
    paths: tuple[str, ...] | None = None
    strict: Strict = False
    # How many exchanges it may have at a time; None is any number.
    concurrency: int | None = None


# What clients have whose gateway requires no keys.
ALL_RIGHTS = Rights(role=ADMIN)
# What a revoked identity has.
NO_RIGHTS = Rights(models=(), providers=(), addresses=(), paths=())


class AcceptedDigest(Struct, frozen=True, kw_only=True, gc=False):
    """The SHA-256 digest of a key text, and when it stops being accepted, in seconds since 1970; None is never."""

    digest: bytes
    until: float | None = None


class Identity(Struct, frozen=True, kw_only=True, gc=False):
    """The holder of a gateway key. A name belongs to one owner for ever. `owner` finds the identity's rows in the
    database: it is the digest that the identity had first, so a rotation moves no row."""

    name: str
    owner: bytes
    # The present one, the one before it during a rotation, and ended ones, so that their texts are not unknown ones.
    digests: tuple[AcceptedDigest, ...]
    rights: Rights = Rights()
    tags: Tags = ()
    # Seconds since 1970; None is never.
    expires: float | None = None
    source: str = FILE


def rights_of(identity: Identity | None) -> Rights:
    """The rights of a request by its gateway key, if it has one."""
    return ALL_RIGHTS if identity is None else identity.rights


def reading_rights_of(identity: Identity | None) -> Rights:
    """The rights by which lists of models are made: a viewer uses no model, and sees all."""
    rights = rights_of(identity)
    return ALL_RIGHTS if rights.role == VIEWER else rights


class StoredIdentity(Struct, frozen=True, kw_only=True, gc=False):
    """An identity of the database with the data of its row. A revoked one has no rights left, and its digests, so that
    its key texts are not unknown ones."""

    identity: Identity
    # The number of the last change of this identity.
    generation: int
    # Seconds since 1970, and the name of the key that created it.
    created: float
    created_by: str
    # Seconds since 1970, or None while it is not revoked.
    revoked: float | None = None
