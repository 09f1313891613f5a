"""Identity: the holder of a gateway key, with its rights, in the same form for keys of the file and of the database."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct

from dragoman.model.losses import Strict

# Roles. A client calls models. A viewer reads all records and calls no model. An admin does both and changes keys.
CLIENT, VIEWER, ADMIN = "client", "viewer", "admin"
ROLES = (CLIENT, VIEWER, ADMIN)
FILE, DATABASE, COMMAND_LINE = "file", "database", "command line"
# The names of the keys that `launch` and `--first-key` create.
COMMAND_LINE_KEY, FIRST_KEY = "launch", "first"
# The owner of all data of clients without a key, and of the key of `launch`, which the operator created.
LOCAL_OWNER = b""

Tags: TypeAlias = tuple[tuple[str, str], ...]
MAX_TAGS = 16
_TAG = re.compile(r"[A-Za-z0-9._-]{1,64}")


def is_tag(text: str) -> bool:
    return _TAG.fullmatch(text) is not None


@lru_cache(maxsize=4096)
def format_tags(tags: Tags) -> str:
    """Format tags as in records: "team=web,zone=eu". Neither names nor values contain the separators."""
    return ",".join([f"{name}={value}" for name, value in tags])


@lru_cache(maxsize=4096)
def read_tags(text: str) -> Tags:
    pairs = (pair.partition("=") for pair in text.split(",") if pair)
    return tuple((name, value) for name, _, value in pairs)


class Rights(Struct, frozen=True, kw_only=True, cache_hash=True):
    """The rights of a key. A list that is None permits everything; `permissions.py` has the rules of patterns."""

    role: str = CLIENT
    # Patterns of model names, as clients request them.
    models: tuple[str, ...] | None = None
    # Names of providers, whatever model name leads to them.
    providers: tuple[str, ...] | None = None
    # Addresses and networks that requests may come from.
    addresses: tuple[str, ...] | None = None
    # Path families, with or without an action: "embeddings", "files:read".
    paths: tuple[str, ...] | None = None
    strict: Strict = False
    # Maximum concurrent exchanges; None is unlimited.
    concurrency: int | None = None


ALL_RIGHTS = Rights(role=ADMIN)
NO_RIGHTS = Rights(models=(), providers=(), addresses=(), paths=())


class AcceptedDigest(Struct, frozen=True, kw_only=True, gc=False):
    """The SHA-256 digest of a key text, and the end of its acceptance in Unix seconds; None is never."""

    digest: bytes
    until: float | None = None


class Identity(Struct, frozen=True, kw_only=True, gc=False):
    """The holder of a gateway key. A name belongs to one owner for ever. `owner` identifies the rows in the database.
    It is the first digest of the identity, so that a rotation moves no row."""

    name: str
    owner: bytes
    # The present digest, the former one during a rotation, and ended ones, so that their texts are not counted as
    # unknown.
    digests: tuple[AcceptedDigest, ...]
    rights: Rights = Rights()
    tags: Tags = ()
    # Unix seconds; None is never.
    expires: float | None = None
    source: str = FILE


def rights_of(identity: Identity | None) -> Rights:
    return ALL_RIGHTS if identity is None else identity.rights


def reading_rights_of(identity: Identity | None) -> Rights:
    """The rights for model lists: a viewer calls no model, but sees all."""
    rights = rights_of(identity)
    return ALL_RIGHTS if rights.role == VIEWER else rights


class StoredIdentity(Struct, frozen=True, kw_only=True, gc=False):
    """An identity of the database with the data of its row. A revoked identity has no rights. It keeps its digests, so
    that its key texts are not counted as unknown."""

    identity: Identity
    # The number of the last change of this identity.
    generation: int
    # Unix seconds, and the name of the key that created it.
    created: float
    created_by: str
    # Unix seconds, or None while it is not revoked.
    revoked: float | None = None
