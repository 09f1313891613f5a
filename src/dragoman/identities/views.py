"""Views of keys: the JSON documents that commands print with `--json` and the admin API sends. No view has a digest."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import asdict

from dragoman.identities.audit import AuditedIdentity, AuditEntry
from dragoman.identities.changes import former_until, state_of
from dragoman.identities.identity import Identity, Rights, StoredIdentity
from dragoman.model.losses import Strict
from dragoman.rules.timestamps import format_instant


class GrantsView(Struct, frozen=True, kw_only=True):
    """The rights of a key. A list that is null permits everything. Times are UTC."""

    role: str
    models: tuple[str, ...] | None
    providers: tuple[str, ...] | None
    addresses: tuple[str, ...] | None
    paths: tuple[str, ...] | None
    strict: Strict
    concurrency: int | None
    tags: dict[str, str]
    expires: str | None
    # The end of the time in which the former text of a rotated key is accepted.
    former_until: str | None


class _NamedView(GrantsView, frozen=True, kw_only=False):
    name: str


class PermissionsView(_NamedView, frozen=True, kw_only=True):
    """The key of the caller. Without a key the name is empty. A list that is null permits everything."""

    # file, database or command line; empty without a key.
    source: str


class _KeyStateView(_NamedView, frozen=True, kw_only=False):
    # active, rotated, expired or revoked.
    state: str


class KeyView(_KeyStateView, frozen=True, kw_only=True):
    """A key and its rights. A list that is null permits everything. Times are UTC. A key of the configuration has the
    generation 0, and no times."""

    created: str | None
    created_by: str | None
    revoked: str | None
    # file, database or command line.
    source: str
    # The number of the last change, for `If-Match`.
    generation: int


class KeysView(Struct, frozen=True, kw_only=True):
    """Keys sorted by name. `next` is the name to continue after, or null at the end."""

    keys: list[KeyView]
    next: str | None = None


class IssuedKey(Struct, frozen=True, kw_only=True):
    """A new key text, which is shown once, and its key."""

    key: str
    identity: KeyView


class AuditedKeyView(GrantsView, frozen=True, kw_only=True):
    """The rights of a key before or after a change."""

    revoked: str | None


class AuditEntryView(Struct, frozen=True, kw_only=True):
    """One change of a key. `before` is null for a new key."""

    id: int
    time: str
    # The name of the key that made the change, or "dragoman key" for the command on the gateway's machine.
    actor: str
    # create, change, rotate, revoke or import.
    action: str
    # The name of the changed key.
    subject: str
    before: AuditedKeyView | None
    after: AuditedKeyView


class AuditView(Struct, frozen=True, kw_only=True):
    """Changes of keys, the latest first. `next` is the ID to continue before, or null at the end."""

    changes: list[AuditEntryView]
    next: int | None = None


class ImportedKeyView(Struct, frozen=True, kw_only=True):
    """The result for one key of a file: `result` is imported, accepted (nothing was imported) or refused."""

    number: int
    # A line of the file, or a JSON pointer.
    location: str
    name: str
    result: str
    problem: str | None
    remedy: str | None
    # Members that were dropped or renamed.
    notes: tuple[str, ...]


class ImportView(Struct, frozen=True, kw_only=True):
    """The number of imported and refused keys, and the result for each."""

    imported: int
    refused: int
    keys: list[ImportedKeyView]


def keys_view_of(
    configured: Iterable[Identity], stored: Sequence[StoredIdentity], now: float, *, after: str, limit: int
) -> KeysView:
    """One page of keys with names after `after`. `stored` are the next keys of the database, with one beyond the limit
    if there are more. If both have a name, the key of the configuration is in force."""
    views = {each.identity.name: view_of(each, now) for each in stored}
    views |= {each.name: configured_view_of(each, now) for each in configured if each.name > after}
    names = sorted(views)
    page = names[:limit]
    return KeysView(keys=[views[name] for name in page], next=page[-1] if len(names) > limit else None)


def audit_view_of(entries: Sequence[AuditEntry], limit: int) -> AuditView:
    """One page of the audit log. `entries` are the next entries, with one beyond the limit if there are more."""
    page = [
        AuditEntryView(
            id=each.id,
            time=format_instant(math.floor(each.time)),
            actor=each.actor,
            action=each.action,
            subject=each.subject,
            before=None if each.before is None else _audited(each.before),
            after=_audited(each.after),
        )
        for each in entries[:limit]
    ]
    return AuditView(changes=page, next=page[-1].id if len(entries) > limit else None)


def view_of(stored: StoredIdentity, now: float) -> KeyView:
    return _view(
        stored.identity,
        now,
        revoked=stored.revoked,
        created=stored.created,
        created_by=stored.created_by,
        generation=stored.generation,
    )


def configured_view_of(identity: Identity, now: float) -> KeyView:
    return _view(identity, now)


def _view(
    identity: Identity,
    now: float,
    *,
    revoked: float | None = None,
    created: float | None = None,
    created_by: str | None = None,
    generation: int = 0,
) -> KeyView:
    # No text of a revoked key is accepted.
    until = None if revoked is not None else former_until(identity, now)
    return KeyView(
        name=identity.name,
        state=state_of(identity, revoked, now).value,
        **asdict(grants_view_of(identity.rights, dict(identity.tags), identity.expires, until)),
        created=_instant(created),
        created_by=created_by,
        revoked=_instant(revoked),
        source=identity.source,
        generation=generation,
    )


def _audited(audited: AuditedIdentity) -> AuditedKeyView:
    grants = grants_view_of(audited.rights, audited.tags, audited.expires, audited.former_until)
    return AuditedKeyView(**asdict(grants), revoked=_instant(audited.revoked))


def grants_view_of(rights: Rights, tags: Mapping[str, str], expires: float | None, former: float | None) -> GrantsView:
    return GrantsView(**asdict(rights), tags=dict(tags), expires=_instant(expires), former_until=_instant(former))


def _instant(seconds: float | None) -> str | None:
    # Rounded down, so that no key ends before the shown time.
    return None if seconds is None else format_instant(math.floor(seconds))
