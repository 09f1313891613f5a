"""Views of keys: what `dragoman key` prints as JSON and the admin API returns. No view holds a digest; a key text stands
in the view of a new key alone, which is made once."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import asdict

from dragoman.identities.changes import former_until, state_of
from dragoman.identities.identity import Identity, Rights, StoredIdentity
from dragoman.model.losses import Strict
from dragoman.rules.timestamps import format_instant

# An instant as RFC 3339 writes it.
Instant = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


class TermsView(Struct, frozen=True, kw_only=True):
    """What a key permits and how it is labelled; a list that is null permits everything."""

    role: str
    models: tuple[str, ...] | None
    providers: tuple[str, ...] | None
    addresses: tuple[str, ...] | None
    paths: tuple[str, ...] | None
    strict: Strict
    concurrency: int | None
    tags: dict[str, str]
    expires: Instant | None
    # Until when the former text of a rotated key is accepted.
    former_until: Instant | None
    revoked: Instant | None


class KeyView(TermsView, frozen=True, kw_only=True):
    """A key. `state` is active, rotated, expired or revoked, `source` is file, database or command line. Only keys of
    the database have a creator and a generation, the number of the last change, which is the ETag."""

    name: str
    state: str
    source: str
    created: Instant | None
    created_by: str | None
    generation: int | None


class NewKeyView(KeyView, frozen=True, kw_only=True):
    """A key that was created or rotated, with its text, which is shown this once."""

    key: str


class KeyPageView(Struct, frozen=True, kw_only=True):
    """Keys in the order of their names; `next` is the name to continue after, or null after the last page."""

    keys: list[KeyView]
    next: str | None


class AuditEntryView(Struct, frozen=True, kw_only=True):
    """One change of a key: who changed what, and the key before and after it; null where there was none."""

    id: int
    time: Instant
    actor: str
    action: str
    subject: str
    before: TermsView | None
    after: TermsView | None


class AuditPageView(Struct, frozen=True, kw_only=True):
    """Changes, the latest first; `next` is the number to continue before, or null after the last page."""

    entries: list[AuditEntryView]
    next: int | None


def view_of(identity: Identity, now: float, stored: StoredIdentity | None = None) -> KeyView:
    """A key as it is at a time, in seconds since 1970. `stored` is its row, if the database has it."""
    revoked = None if stored is None else stored.revoked
    terms = terms_view(
        identity.rights, dict(identity.tags), identity.expires, former_until(identity, now), revoked=revoked
    )
    return KeyView(
        **asdict(terms),
        name=identity.name,
        state=state_of(identity, revoked, now).value,
        source=identity.source,
        created=None if stored is None else instant(stored.created),
        created_by=None if stored is None else stored.created_by,
        generation=None if stored is None else stored.generation,
    )


def new_view_of(stored: StoredIdentity, text: str, now: float) -> NewKeyView:
    """A key with the text that was made for it."""
    return NewKeyView(**asdict(view_of(stored.identity, now, stored)), key=text)


def terms_view(
    rights: Rights, tags: dict[str, str], expires: float | None, until: float | None, *, revoked: float | None
) -> TermsView:
    """The terms of a key, with times in seconds since 1970; `until` is the end of its former text."""
    return TermsView(
        role=rights.role,
        models=rights.models,
        providers=rights.providers,
        addresses=rights.addresses,
        paths=rights.paths,
        strict=rights.strict,
        concurrency=rights.concurrency,
        tags=tags,
        expires=instant(expires),
        former_until=instant(until),
        revoked=instant(revoked),
    )


def instant(seconds: float | None) -> str | None:
    """A time as RFC 3339 writes it; None stays None."""
    return None if seconds is None else format_instant(int(seconds))
