"""`status`, `models` and `me`: health of providers, names of models, and the permissions of the key that asks."""

from __future__ import annotations

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from dragoman.gateway.access.endpoint_rights import check_path
from dragoman.gateway.admin.framework import AdminCall, Nothing
from dragoman.gateway.endpoints.model_names import described_names
from dragoman.gateway.endpoints.status import status_of
from dragoman.gateway.paths import rule_of
from dragoman.identities.changes import former_until
from dragoman.identities.identity import Rights, rights_of
from dragoman.identities.views import PermissionsView, grants_view_of
from dragoman.protocols.registry import PROTOCOL_NAMES
from dragoman.routing.model_description import DescribedName


class KeyCooldownView(Struct, frozen=True, kw_only=True):
    """A provider key in cooldown, by its position from 0; `model` is null for all models."""

    key: int
    model: str | None
    seconds: float
    since: float
    why: str
    hint: float | None


class CheckView(Struct, frozen=True, kw_only=True):
    """Active health checks of a provider: seconds between them, and the last result."""

    every: float
    found: str | None
    ago: float | None


class ProviderStatusView(Struct, frozen=True, kw_only=True):
    """One provider: its calls in flight, their limit (null is none), and its keys."""

    name: str
    protocols: list[str]
    keys: int
    keys_in_cooldown: list[KeyCooldownView]
    calls: int
    concurrency: int | None
    queued: int
    check: CheckView | None


class TargetStatusView(Struct, frozen=True, kw_only=True):
    """The health of one target; times are seconds."""

    target: str
    health: str
    seconds: float
    since: float
    last: str
    failed: float | None
    consecutive_failures: int
    cooldowns: int


class DatabaseStatusView(Struct, frozen=True, kw_only=True):
    """The database server that several machines share: hosts, ports and database, and why it is away, or ""."""

    name: str
    problem: str


class StatusView(Struct, frozen=True, kw_only=True):
    """What `dragoman status --json` prints. `unnamed` counts targets by health whose names only their callers know.
    `database` is null for a file."""

    version: str
    workers: int
    in_flight: int
    providers: list[ProviderStatusView]
    targets: list[TargetStatusView]
    unnamed: dict[str, int]
    database: DatabaseStatusView | None


class ModelParameters(Struct, frozen=True, kw_only=True):
    """`match` is a part of the name, or a shell pattern."""

    match: str = ""


class ModelsView(Struct, frozen=True, kw_only=True):
    """Names of models with what is known of each, as `dragoman models --json` prints them."""

    names: list[DescribedName]


async def status(call: AdminCall, _: Nothing) -> StatusView:
    """The health of providers and targets."""
    return msgspec.convert(status_of(call.runtime, await call.services.snapshots()), StatusView)


async def models(call: AdminCall, parameters: ModelParameters) -> ModelsView:
    """The names that the key may use."""
    rights = rights_of(call.identity)
    if rights.paths is not None:
        check_path(rights, rule_of("GET", "/models"))
    found = await described_names(call.runtime, PROTOCOL_NAMES[0], call.identity, match=parameters.match)
    return ModelsView(names=found)


async def me(call: AdminCall, _: Nothing) -> PermissionsView:
    """The permissions of the key that asks."""
    identity = call.identity
    if identity is None:
        return PermissionsView(
            name=call.name, source="", **asdict(grants_view_of(Rights(role=call.role), {}, None, None))
        )
    rights, until = replace(identity.rights, role=call.role), former_until(identity, call.services.now() / 1_000_000)
    grants = grants_view_of(rights, dict(identity.tags), identity.expires, until)
    return PermissionsView(name=call.name, source=identity.source, **asdict(grants))
