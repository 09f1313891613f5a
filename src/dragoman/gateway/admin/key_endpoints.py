"""Key endpoints: `keys` and `audit` list, create, change, rotate and revoke keys over HTTP, for administrators only.

A change of a key needs `If-Match` with its `ETag`, the number of its last change, so that no change of another
administrator is lost. The rights of the maker are read in the transaction of the change. The text of a key is only in
the response that creates it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from itertools import islice
from typing import Annotated

from msgspec import Meta, Struct

from dragoman.config.configured_keys import configured_names
from dragoman.config.key_patterns import ConfiguredPatterns
from dragoman.database_location import DatabaseLocation, is_persistent
from dragoman.gateway.admin.framework import (
    AdminCall,
    AdminEndpoint,
    AdminError,
    Nothing,
    endpoint,
    endpoint_with_body,
)
from dragoman.identities.changes import DEFAULT_GRACE, MAX_GRACE, Maker
from dragoman.identities.errors import KeyMissing
from dragoman.identities.identity import ADMIN, Identity, StoredIdentity
from dragoman.identities.key_text import digest_of, new_key
from dragoman.identities.members import KeyMembers, is_name
from dragoman.identities.views import (
    AuditView,
    IssuedKey,
    KeysView,
    KeyView,
    audit_view_of,
    configured_view_of,
    keys_view_of,
    view_of,
)
from dragoman.store.identities import Identities
from dragoman.store.identity_changes import IdentityChanges
from dragoman.wire.json import encode

_MICRO = 1_000_000
# Maximum and default page size.
_MAX_PAGE, _PAGE = 1000, 100
PageSize = Annotated[int, Meta(ge=1, le=_MAX_PAGE)]
_LISTED = "GET /admin/v1/keys lists all keys"
# A header with a JSON array of sentences, and its maximum length.
WARNINGS, _MAX_WARNINGS = b"x-dragoman-warnings", 10
_ETAG = re.compile(r'"([0-9]{1,18})"')


class KeysParameters(Struct, frozen=True, kw_only=True):
    """`after` is the name to go on after, as `next` of the page before; `n` is the number of keys."""

    after: str = ""
    n: PageSize = _PAGE


class AuditParameters(Struct, frozen=True, kw_only=True):
    """`before` is the id to go on before, as `next` of the page before; `n` is the number of changes."""

    before: Annotated[int, Meta(ge=1, le=(1 << 63) - 1)] | None = None
    n: PageSize = _PAGE


class NewKey(KeyMembers, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key to make: its name, which no key has or had, and its members. A list that is absent permits everything."""

    name: str


class KeyRotation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`grace` is how long the former text stays accepted, in seconds; 0 ends it at once."""

    grace: Annotated[float, Meta(ge=0, le=MAX_GRACE)] = DEFAULT_GRACE


async def list_keys(call: AdminCall, parameters: KeysParameters) -> KeysView:
    """Keys of the configuration and of the database, in the order of their names."""
    after, limit = parameters.after, parameters.n
    stored = await call.services.keys.read(_database_of(call), lambda identities: identities.page(after, limit + 1))
    return keys_view_of(call.runtime.settings.keys, stored, _now(call), after=after, limit=limit)


async def show_key(call: AdminCall, _: Nothing) -> KeyView:
    name = _name(call)
    configured = _configured(call, name)
    if configured is not None:
        return configured_view_of(configured, _now(call))

    def get(identities: Identities) -> StoredIdentity:
        stored = identities.get(name)
        if stored is None:
            raise KeyMissing("", f"there is no key {name}", _LISTED)
        return stored

    return _tagged(call, await call.services.keys.read(_database_of(call), get))


async def create_key(call: AdminCall, body: NewKey) -> IssuedKey:
    """Create a key. Only this response contains its text."""
    settings, text, maker = call.runtime.settings, new_key(), _maker(call)
    digest = digest_of(text)

    def create(changes: IdentityChanges) -> StoredIdentity:
        return changes.create(body.name, body, digest, maker=maker, configured=configured_names(settings))

    view = await _changed(call, create)
    await _warn(call, view)
    return IssuedKey(key=text, identity=view)


async def change_key(call: AdminCall, body: KeyMembers) -> KeyView:
    """Set members of a key: `null` removes one, and an absent one stays."""
    name, expected, maker = _stored_name(call), expected_generation(call), _maker(call)
    view = await _changed(call, lambda changes: changes.change(name, body, maker=maker, expected=expected))
    await _warn(call, view)
    return view


async def rotate_key(call: AdminCall, body: KeyRotation) -> IssuedKey:
    """Give a key a new text, which only this response contains."""
    name, expected, maker = _stored_name(call), expected_generation(call), _maker(call)
    text = new_key()
    digest = digest_of(text)
    view = await _changed(
        call, lambda changes: changes.rotate(name, digest, body.grace, maker=maker, expected=expected)
    )
    return IssuedKey(key=text, identity=view)


async def revoke_key(call: AdminCall, _: Nothing) -> KeyView:
    """Revoke a key for ever."""
    name, expected, maker = _stored_name(call), expected_generation(call), _maker(call)
    return await _changed(call, lambda changes: changes.revoke(name, maker=maker, expected=expected))


async def show_audit(call: AdminCall, parameters: AuditParameters) -> AuditView:
    before, limit = parameters.before, parameters.n
    entries = await call.services.keys.read(_database_of(call), lambda identities: identities.audit(before, limit + 1))
    return audit_view_of(entries, limit)


KEY_ENDPOINTS: tuple[AdminEndpoint, ...] = (
    endpoint("GET", "/keys", ADMIN, "keys, in the order of their names", list_keys, KeysParameters, KeysView),
    endpoint_with_body("POST", "/keys", ADMIN, "creates a key", create_key, NewKey, IssuedKey, status=201),
    endpoint("GET", "/keys/{name}", ADMIN, "one key, with its `ETag`", show_key, Nothing, KeyView),
    endpoint_with_body(
        "PATCH",
        "/keys/{name}",
        ADMIN,
        "changes a key: `null` removes a member, and an absent one stays",
        change_key,
        KeyMembers,
        KeyView,
        needs_match=True,
    ),
    endpoint(
        "DELETE", "/keys/{name}", ADMIN, "revokes a key, for ever", revoke_key, Nothing, KeyView, needs_match=True
    ),
    endpoint_with_body(
        "POST",
        "/keys/{name}/rotate",
        ADMIN,
        "gives a key a new text; the former one stays accepted for a time",
        rotate_key,
        KeyRotation,
        IssuedKey,
        needs_match=True,
    ),
    endpoint("GET", "/audit", ADMIN, "changes of keys, the latest first", show_audit, AuditParameters, AuditView),
)


def expected_generation(call: AdminCall) -> int:
    """The number in `If-Match`: the last change of the key that the client has seen."""
    given = [value.strip().decode("latin-1") for name, value in call.request.headers if name == b"if-match"]
    remedy = f'GET {call.request.path.removesuffix("/rotate")} and send its ETag, as If-Match: "7"'
    if not given:
        raise AdminError(428, "a change needs the header If-Match", remedy)
    match = _ETAG.fullmatch(given[0]) if len(given) == 1 else None
    if match is None:
        raise AdminError(400, "the header If-Match is not the ETag of a key", remedy)
    return int(match[1])


async def _changed(call: AdminCall, work: Callable[[IdentityChanges], StoredIdentity]) -> KeyView:
    """Change a key of the database."""
    database = _database_of(call)
    if not is_persistent(database):
        problem = "storage.path names no file, which keys are stored in"
        raise AdminError(409, problem, "name a file in storage.path, or add the key to the configuration")
    if call.runtime.guard.identities.problem:
        # The database may have been replaced by one whose keys are not in force.
        raise AdminError(503, "gateway keys of the database cannot be read now", "see /readyz for the reason")
    return _tagged(call, await call.services.keys.change(database, lambda: _now(call), work))


async def _warn(call: AdminCall, view: KeyView) -> None:
    """Add a header with entries of a key's lists that match no name of the configuration. Suggestions are left out: the
    maker of the key may not be allowed to see these names. Comparing takes time, so a thread does it."""
    patterns = ConfiguredPatterns(call.runtime.settings)
    found = patterns.warnings(view.name, view.models, view.providers, has_hints=False)
    warnings = await asyncio.to_thread(lambda: [*islice(found, _MAX_WARNINGS)])
    if warnings:
        call.headers.append((WARNINGS, encode([*warnings])))


def _tagged(call: AdminCall, stored: StoredIdentity) -> KeyView:
    """A key of the database. Adds its `ETag` to the response."""
    call.headers.append((b"etag", f'"{stored.generation}"'.encode()))
    return view_of(stored, _now(call))


def _name(call: AdminCall) -> str:
    name = call.path["name"]
    if not is_name(name):
        raise AdminError(404, "the path has no name of a key", _LISTED)
    return name


def _stored_name(call: AdminCall) -> str:
    """The name of the key to change. Keys of the configuration are rejected."""
    name = _name(call)
    if _configured(call, name) is not None:
        raise AdminError(409, f"the key {name} is in the configuration", "change it there")
    return name


def _configured(call: AdminCall, name: str) -> Identity | None:
    return next((key for key in call.runtime.settings.keys if key.name == name), None)


def _maker(call: AdminCall) -> Maker:
    """The author of a change: the calling key, whose rights the change may not exceed."""
    # Without a key the role is at most viewer.
    assert call.identity is not None
    return Maker(name=call.identity.name, key=call.identity)


def _database_of(call: AdminCall) -> DatabaseLocation:
    return call.runtime.settings.storage.location


def _now(call: AdminCall) -> float:
    return call.services.now() / _MICRO
