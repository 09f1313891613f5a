"""Access guard. Keys are compared as digests; foreign web pages are rejected whether keys are required or not. A
browser sends requests for any page: it names the page in `Origin` or sends `Sec-Fetch-Site: cross-site`; a page that
rebinds its name to this address still sends that name as `Host`."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable, Mapping

from dragoman.config.settings import Settings
from dragoman.errors import ClientError, DragomanError, KeysUnreadable, UnknownKeysLimited
from dragoman.gateway.access.client_address import (
    Headed,
    certain_address,
    client_address,
    is_local_client,
    networks,
    read_address,
)
from dragoman.gateway.access.grant import AccessGrant, AccessGrants
from dragoman.gateway.access.identity_table import IdentityTable, KnownKey, UnknownKey, UnreadableKey
from dragoman.gateway.paths import MESSAGES, ApiPath
from dragoman.gateway.workers.protection import Protection, protection_of
from dragoman.gateway.workers.shared_memory import SharedMemory
from dragoman.http.server import ServerRequest
from dragoman.http.upstream_call import HeaderList
from dragoman.identities.identity import COMMAND_LINE_KEY, DATABASE, Identity
from dragoman.identities.permissions import narrows, permits_address

_BEARER = b"bearer "
_LOCAL_SITES = (b"same-origin", b"none")
_HOSTS_LIMIT = 256
# After how many seconds a client tries again while the keys of the database cannot be read.
_UNREADABLE_SECONDS = 5
_GONE = UnknownKey()

_CORS_METHODS = b"GET, POST, DELETE, OPTIONS"
_CORS_EXPOSED = b"request-id, x-request-id, retry-after, x-dragoman-route, x-dragoman-losses, x-dragoman-advice"


class Guard:
    """The access control of one configuration."""

    def __init__(
        self,
        settings: Settings,
        protection: Protection | None = None,
        page: SharedMemory | None = None,
        identities: IdentityTable | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        server = settings.server
        self._protection = protection or protection_of(settings)
        # Whether keys are required does not depend on their number: all may have been revoked.
        self._requires_keys = self._protection.requires_keys
        # Shared memory in which another process may have recorded that keys are required.
        self._page = page
        self.identities = identities or IdentityTable()
        self.identities.configure(settings.keys)
        self._keys_table = settings.keys_table
        self._proxies = networks(server.trusted_proxies)
        # Seconds since 1970.
        self._now = now
        self._hosts = frozenset({"localhost", server.host.lower(), *(name.lower() for name in server.allowed_hosts)})
        self._origins = frozenset(origin.lower().rstrip("/").encode() for origin in server.allowed_origins)
        # Host values that were found good: nearly every request brings the same one.
        self._good: set[bytes] = set()
        # Decisions, found again by the heads of requests.
        self.grants = AccessGrants()

    @property
    def open(self) -> bool:
        """Whether no key is required."""
        return not (self._requires_keys or (self._page is not None and self._page.requires_keys))

    @property
    def several_owners(self) -> bool:
        """Whether items of one key must be separated from those of another. Once true, it stays true."""
        return (
            self.identities.several_owners
            or self._protection.several_owners
            or (self._page is not None and self._page.several_owners)
        )

    @property
    def several_keys(self) -> bool:
        """Whether there may be several holders of keys, the one of `launch` included."""
        return self.identities.count > 1 or self.several_owners

    def admit(self, request: ServerRequest) -> None:
        """Reject requests of foreign web pages."""
        header = request.table.get
        host = header(b"host") or b""
        if host not in self._good:
            if not self._is_ours(host):
                raise ClientError(403, "this Host is not allowed here; add it to server.allowed_hosts if it should be")
            if len(self._good) < _HOSTS_LIMIT:
                self._good.add(host)
        origin = header(b"origin")
        if origin is not None:
            if not self._is_allowed(origin, host):
                raise ClientError(403, "web pages of this Origin are not allowed to call; see server.allowed_origins")
        elif (site := header(b"sec-fetch-site")) is not None and site.lower() not in _LOCAL_SITES:
            raise ClientError(403, "requests from another site's web page are not allowed")

    def identify(self, request: ServerRequest, protocol: str) -> Identity | None:
        """The gateway key that the request carries; None if no key is required."""
        if not self._requires_keys and self.open:
            if not self.identities.was_read:
                raise _unreadable()
            return None
        given = credential(request.table, protocol)
        if given is None:
            raise ClientError(401, "a gateway key is required: send it as x-api-key or as Authorization: Bearer")
        known = self.identities.look_up(given)
        if known.__class__ is not KnownKey:
            raise self._refusal(known, request)
        assert isinstance(known, KnownKey)
        key = known.identity
        if known.refusal or known.until is not None or key.expires is not None:
            self._check_ends(known)
        if key.rights.addresses is not None:
            address = read_address(certain_address(request, self._proxies))
            if not permits_address(key.rights, address):
                raise ClientError(403, "this gateway key may not be used from this address")
        return key

    def grant(self, request: ServerRequest, api_path: ApiPath, key: Identity | None) -> AccessGrant:
        """The grant for a request that was let in."""
        address = client_address(request, self._proxies)
        changes = self.identities.changes
        if key is None:
            return AccessGrant(api_path, key, address, changes)
        now = self._now()
        ends = [end for end in (key.expires, *(each.until for each in key.digests)) if end is not None and end > now]
        lasts = not ends and key.source != DATABASE
        return AccessGrant(api_path, key, address, changes, lasts, min(ends, default=None))

    def holds(self, grant: AccessGrant) -> bool:
        """Whether a grant that does not last holds, if no key changed."""
        key = grant.key
        if key is None:
            return self.open and self.identities.was_read
        return (grant.ends is None or grant.ends > self._now()) and (
            key.source != DATABASE or self.identities.is_current()
        )

    def check_again(self, key: Identity, headers: Mapping[bytes, bytes], protocol: str) -> None:
        """Refuse a key that was revoked, replaced, narrowed or ended since its request arrived. Called before the first
        call to a provider, and before a change: a body may take minutes to arrive, and a slot minutes to be free."""
        given = credential(headers, protocol)
        known = _GONE if given is None else self.identities.look_up(given)
        if isinstance(known, UnknownKey):
            raise ClientError(401, "this gateway key was removed")
        if isinstance(known, UnreadableKey):
            raise _unreadable()
        self._check_ends(known)
        present = known.identity
        if present is not key and narrows(key.rights, present.rights):
            raise ClientError(403, "the rights of this gateway key were narrowed meanwhile; send the request again")

    def _check_ends(self, known: KnownKey) -> None:
        if known.refusal:
            raise ClientError(401, known.refusal)
        now = self._now()
        if known.identity.expires is not None and known.identity.expires <= now:
            raise ClientError(401, "this gateway key is expired")
        if known.until is not None and known.until <= now:
            raise ClientError(401, "this gateway key was replaced by another, and is accepted no more")

    def _refusal(self, outcome: KnownKey | UnknownKey | UnreadableKey, request: ServerRequest) -> DragomanError:
        """The error for a text that is not known to be a key."""
        if isinstance(outcome, UnreadableKey):
            return _unreadable()
        if isinstance(outcome, UnknownKey) and outcome.is_mistyped:
            return ClientError(401, "this gateway key has a wrong checksum: a character is missing or mistyped")
        wait = self.identities.unknown_keys.count(client_address(request, self._proxies))
        if wait:
            return UnknownKeysLimited("too many unknown gateway keys came from this address", retry_after=wait)
        return ClientError(401, "this gateway key is not known here")

    def is_operator(self, request: Headed, address: str, key: str) -> bool:
        """Whether the client may read the operator's data: from this machine, if no key is required. The key that
        `launch` makes for its client is the operator's own. `key` is the name of the one that was used."""
        own = key == COMMAND_LINE_KEY and not self._keys_table
        return (self.open or own) and is_local_client(request, address)

    def greeting(self, request: Headed) -> HeaderList:
        """The headers that let an allowed page read the answer."""
        origin = request.header(b"origin")
        if origin is None or origin.lower().rstrip(b"/") not in self._origins:
            return []
        return [
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", _CORS_EXPOSED),
            (b"vary", b"Origin"),
        ]

    def preflight(self, request: ServerRequest) -> HeaderList:
        """The response to a browser's preflight request."""
        requested_headers = request.header(b"access-control-request-headers") or b""
        return [
            *self.greeting(request),
            (b"access-control-allow-methods", _CORS_METHODS),
            (b"access-control-allow-headers", requested_headers),
            (b"access-control-max-age", b"600"),
        ]

    def _is_ours(self, host: bytes) -> bool:
        name = hostname(host)
        if name in self._hosts or name.endswith(".localhost") or "*" in self._hosts:
            return True
        try:
            # An address cannot be rebound: only names can.
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _is_allowed(self, origin: bytes, host: bytes) -> bool:
        origin = origin.lower().rstrip(b"/")
        return origin in self._origins or origin in (b"http://" + host.lower(), b"https://" + host.lower())


def _unreadable() -> KeysUnreadable:
    return KeysUnreadable("gateway keys cannot be read now", retry_after=_UNREADABLE_SECONDS)


def hostname(host: bytes) -> str:
    """The name in a Host header, without port and brackets, lower case."""
    text = host.decode("latin-1").strip().lower()
    if text.startswith("["):
        name, _, rest = text[1:].partition("]")
        return name if not rest or (rest[0] == ":" and rest[1:].isdecimal()) else text
    name, _, port = text.rpartition(":")
    return (name if port.isdecimal() and name else text).rstrip(".")


def credential(headers: Mapping[bytes, bytes], protocol: str) -> bytes | None:
    """The key among the headers of a request; on Messages `x-api-key` goes before (mapping.md §2)."""
    plain, bearer = headers.get(b"x-api-key"), headers.get(b"authorization")
    token = bearer[7:].strip() if bearer is not None and bearer[:7].lower() == _BEARER else None
    given = plain or token if protocol == MESSAGES else token or plain
    # An empty one is none.
    return given or None
