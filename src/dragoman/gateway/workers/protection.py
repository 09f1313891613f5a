"""Protection: whether a running gateway requires keys. This is decided at the start, and a reload can only make it
stricter. The present number of keys does not count: all may be revoked, or the file truncated."""

from __future__ import annotations

import socket

from msgspec import Struct
from msgspec.structs import replace

from dragoman.config.settings import Settings
from dragoman.config.values import is_loopback
from dragoman.errors import ConfigError
from dragoman.identities.identity import LOCAL_OWNER
from dragoman.launching.local_servers import port_of


class Protection(Struct, frozen=True, kw_only=True):
    requires_keys: bool = False
    # Whether the file has, or had, `[keys]`. A key of the command line exists after every reload.
    keys_in_file: bool = False
    # Whether `--no-auth` ignored an empty table at the start.
    passed_over: bool = False
    # The owners of all keys since the start, and whether another process had several.
    owners: frozenset[bytes] = frozenset()
    several_elsewhere: bool = False
    # Whether local servers without a table are allowed, and the gateway's own port.
    local: bool = False
    port: int = 0

    @property
    def several_owners(self) -> bool:
        """Whether items of one key must be separated from those of another."""
        return self.several_elsewhere or len(self.owners) > 1


def protection_of(settings: Settings, *, open_to_all: bool = False, has_stored_keys: bool = False) -> Protection:
    """The access control of a gateway that starts with these settings. `has_stored_keys` means that the database has
    any key, even a revoked one."""
    # `--no-auth` ignores an empty table at the start, but none that appears later.
    start = Protection(
        requires_keys=has_stored_keys,
        passed_over=open_to_all and settings.keys_table,
        local=is_loopback(settings.server.host),
        port=settings.server.port,
    )
    return tightened(start, settings)


def protection_at_start(
    settings: Settings, host: str, port: int = 0, *, open_to_all: bool, has_stored_keys: bool = False
) -> Protection:
    """Whether keys are required at an address. A reachable address without keys is an error, unless explicitly
    allowed."""
    protection = protection_of(settings, open_to_all=open_to_all, has_stored_keys=has_stored_keys)
    protection = replace(protection, local=protection.local and is_loopback(host), port=port or protection.port)
    if protection.requires_keys or open_to_all or is_loopback(host):
        return protection
    raise ConfigError(
        key="server.host",
        problem=f"{host} is reached from other machines, and no gateway key is configured",
        remedy="make one with `dragoman key new`, listen on 127.0.0.1, or insist with --no-auth",
        file=settings.file,
    )


def bound_host(listener: socket.socket) -> str:
    """The bound address of a socket, whatever name was given."""
    host: str = listener.getsockname()[0]
    return host


def tightened(protection: Protection, settings: Settings) -> Protection:
    """The protection once these settings apply: unchanged, or stricter."""
    required = bool(settings.keys) or (settings.keys_table and not protection.passed_over)
    return replace(
        protection,
        requires_keys=protection.requires_keys or required,
        keys_in_file=protection.keys_in_file or settings.keys_table,
        # The key of the command line does not count: its holder started the gateway.
        local=protection.local and not settings.keys_table,
        owners=protection.owners | ({key.owner for key in settings.keys} - {LOCAL_OWNER}),
    )


def judged(protection: Protection, current: Settings, new: Settings) -> Settings:
    """The settings that a reload applies. A file that must not be applied raises `ConfigError`."""
    if new.empty and not current.empty:
        raise ConfigError(
            key="",
            problem="is empty, where it was not: it may be half-written",
            remedy="write it again; one that is to say nothing has an empty [server] table",
            file=new.file,
        )
    if protection.requires_keys and protection.keys_in_file and not new.keys_table:
        raise ConfigError(
            key="keys",
            problem="is missing now, and keys are required",
            remedy="an empty [keys] table revokes them all; to serve without keys, restart",
            file=new.file,
        )
    lost = next((name for name in current.providers if name in new.absent), None)
    if lost is not None:
        # Present clients would lose their provider.
        raise new.absent[lost].as_error(new.file)
    started = current.server
    server = replace(new.server, host=started.host, port=started.port, workers=started.workers)
    settings = replace(new, server=server, storage=current.storage)
    return with_local(settings, tightened(protection, new))


def with_local(settings: Settings, protection: Protection) -> Settings:
    """Add the local servers that are allowed without a table."""
    allowed = {
        name: provider
        for name, provider in settings.local.items()
        if protection.local and all(port_of(endpoint.base_url) != protection.port for endpoint in provider.endpoints)
    }
    return settings if len(allowed) == len(settings.local) else replace(settings, local=allowed)
