"""Grant: the decision of access control to let a request in. Requests with the same head in all that decides get the
same one, until the gateway keys or the configuration change (decision 46)."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from dragoman.gateway.access.client_address import PROXIED
from dragoman.gateway.paths import ApiPath
from dragoman.http.server import ServerRequest
from dragoman.identities.identity import Identity

# All that decides about a request: the number of changes of keys, then method, path, query and peer, then its
# credentials and its host, and the headers that few requests have.
Head: TypeAlias = tuple[int, str, str, str, str, bytes, bytes, bytes, tuple[tuple[bytes, bytes], ...]]
_MAX_GRANTS, _MAX_HEAD_SIZE = 4096, 1024
_FEW = PROXIED | {b"origin", b"sec-fetch-site", b"sec-websocket-key"}


class AccessGrant(Struct, frozen=True):
    """The endpoint, gateway key and client address of a request that was let in."""

    api_path: ApiPath
    key: Identity | None
    address: str
    # How often keys had changed: it holds until they change again. If it does not last, `Guard.holds` is asked, too.
    changes: int
    lasts: bool = False
    # When the key or its text ends, in seconds since 1970, if it does.
    ends: float | None = None


class AccessGrants(dict[Head, AccessGrant]):
    """The grants of one configuration."""

    def remember(self, head: Head, grant: AccessGrant) -> None:
        """Grant the same to the next request with this head."""
        if sum(map(len, head[1:8])) + sum(len(value) for _, value in head[8]) <= _MAX_HEAD_SIZE:
            if len(self) >= _MAX_GRANTS:
                self.clear()
            self[head] = grant


def head_of(request: ServerRequest, changes: int) -> Head:
    """What decides about a request, when keys have changed so many times."""
    table = request.table
    get = table.get
    return (
        changes,
        request.method,
        request.path,
        request.query,
        request.peer,
        get(b"host", b""),
        get(b"authorization", b""),
        get(b"x-api-key", b""),
        () if _FEW.isdisjoint(table) else tuple([header for header in request.headers if header[0] in _FEW]),
    )
