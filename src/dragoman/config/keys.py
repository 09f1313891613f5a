"""Gateway keys of the file: reading `[keys]`."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from msgspec import Struct

from dragoman.config import file_schema
from dragoman.config.environment import secret
from dragoman.config.tables import ConfigTable
from dragoman.config.values import is_name
from dragoman.errors import ConfigError
from dragoman.identities.identity import COMMAND_LINE_KEY, AcceptedDigest, Identity, Rights
from dragoman.identities.key_text import MIN_KEY_LENGTH, digest_of, is_mistyped, read_hash


class FileKeys(Struct, frozen=True, kw_only=True):
    """The keys of a file, and what should be known about them, in sentences."""

    identities: tuple[Identity, ...]
    # Names of keys that are too short to be safe.
    short: tuple[str, ...]


def read_keys(table: ConfigTable, environ: Mapping[str, str], time_zone: str) -> FileKeys:
    """The keys of `[keys]`; a date as the end of one is a date in the zone of this name."""
    identities: list[Identity] = []
    short: list[str] = []
    names: dict[bytes, str] = {}
    for name, member in table.tables().items():
        if not is_name(name):
            table.complain(name, "cannot name a key", "use letters, digits, hyphens, dots and underscores")
        elif name == COMMAND_LINE_KEY:
            # Records and counters go by the name of a key.
            table.complain(name, "is reserved for the key of the command line", "choose another name")
        member.refuse_others(file_schema.KEY)
        entry = member.fill(file_schema.KeyTable, file_schema.KEY)
        digests = _digests(member, entry, environ, name, short)
        owner = _owner(member, entry, digests)
        if not digests or owner is None:
            continue
        same = next((names[digest] for digest in (*digests, owner) if digest in names), None)
        if same is not None:
            table.complain(name, f"is the same key as keys.{same}", "make another: dragoman key new")
            continue
        names |= dict.fromkeys((*digests, owner), name)
        identities.append(
            Identity(
                name=name,
                owner=owner,
                digests=tuple(AcceptedDigest(digest=digest) for digest in digests),
                rights=_rights(entry),
                tags=tuple(sorted((entry.tags or {}).items())),
                expires=None if entry.expires is None else _end_of(entry.expires, time_zone),
            )
        )
    return FileKeys(identities=tuple(identities), short=tuple(short))


def _rights(entry: file_schema.KeyTable) -> Rights:
    return Rights(
        role=entry.role,
        models=entry.models,
        providers=entry.providers,
        addresses=entry.addresses,
        paths=entry.paths,
        strict=entry.strict,
        concurrency=entry.concurrency,
    )


def _end_of(moment: datetime.date, time_zone: str) -> float:
    """When a key ends: at a date-time, or with the last second of a date."""
    # Most files have no such key: time zones take long to import.
    from dragoman.records.time_range import zone_of

    zone = zone_of(time_zone)
    if isinstance(moment, datetime.datetime):
        return moment.timestamp() if moment.tzinfo is not None else zone.moment(moment)
    return zone.begin(moment + datetime.timedelta(days=1))


def _owner(member: ConfigTable, entry: file_schema.KeyTable, digests: tuple[bytes, ...]) -> bytes | None:
    """The digest that the rows of a key are found by; None if there is a problem with it, which is noted."""
    if entry.owner is not None:
        return _read_hash(member, "owner", entry.owner)
    if len(digests) > 1:
        remedy = "add owner with the digest that the key had first: what it stored is found by that"
        member.problems.add(member.path, "has two digests and no owner", remedy)
        return None
    return digests[0] if digests else None


def _digests(
    member: ConfigTable, entry: file_schema.KeyTable, environ: Mapping[str, str], name: str, short: list[str]
) -> tuple[bytes, ...]:
    """The digests of one key; none if there is a problem with it, which is noted."""
    if member.has("key") == member.has("hash"):
        problem = "has both key and hash" if member.has("key") else "has neither key nor hash"
        member.problems.add(member.path, problem, "keep one of them; dragoman key new --print prints both")
        return ()
    if entry.key is not None:
        try:
            key = secret(entry.key, environ)
        except ConfigError as error:
            member.complain("key", error.problem, error.remedy)
            return ()
        if is_mistyped(key.encode()):
            member.complain("key", "has a wrong checksum: a character is missing or mistyped", "copy the key again")
            return ()
        if len(key) < MIN_KEY_LENGTH:
            short.append(name)
        return (digest_of(key),)
    digests = [_read_hash(member, "hash", text) for text in entry.hash or ()]
    return tuple(digest for digest in digests if digest is not None)


def _read_hash(member: ConfigTable, name: str, text: str) -> bytes | None:
    try:
        return read_hash(text)
    except ConfigError as error:
        member.complain(name, error.problem, error.remedy)
        return None
