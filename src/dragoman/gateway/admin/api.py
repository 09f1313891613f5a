"""Admin API server: dispatches `/admin/v1/…` by the table of `endpoints.py`. Requests are neither recorded nor logged,
unless access control rejects them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from urllib.parse import unquote_to_bytes

from dragoman.errors import Busy, ClientError
from dragoman.gateway.access.client_address import client_address, is_local_client
from dragoman.gateway.admin.endpoints import find_endpoint
from dragoman.gateway.admin.framework import AdminCall, AdminError, AdminServices, require_role, send_error
from dragoman.gateway.admin.key_database import KeyDatabase
from dragoman.gateway.admin.live_events import LiveEvents
from dragoman.gateway.admin.query_runner import QueryRunner
from dragoman.gateway.admin.record_endpoints import now_in_micro
from dragoman.gateway.observability.metrics import Snapshot
from dragoman.gateway.paths import api_path_of
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.stored_state import name_of
from dragoman.http.server import ServerRequest
from dragoman.identities.identity import VIEWER, Identity
from dragoman.identities.key_text import has_key_text


class AdminApi:
    """The admin API of one worker. It survives changes of the configuration."""

    def __init__(
        self,
        snapshots: Callable[[], Awaitable[list[Snapshot]]],
        current: Callable[[], Runtime],
        queries: QueryRunner | None = None,
        now: Callable[[], int] = now_in_micro,
        keys: KeyDatabase | None = None,
    ) -> None:
        self._current = current
        self.services = AdminServices(
            queries=queries or QueryRunner(),
            keys=keys or KeyDatabase(),
            events=LiveEvents(),
            now=now,
            snapshots=snapshots,
        )

    async def serve(self, runtime: Runtime, request: ServerRequest, identity: Identity | None) -> None:
        """Serve one request of a client that access control has admitted."""
        try:
            if has_key_text(unquote_to_bytes(f"{request.path}?{request.query}")):
                remedy = "send it as Authorization: Bearer; an address is written to logs on its way"
                raise AdminError(400, "the address has the text of a gateway key", remedy)
            endpoint, values = find_endpoint(request.method, request.path)
            role = role_of(runtime, request, identity)
            require_role(role, endpoint.role, identity)
            call = AdminCall(
                runtime=runtime,
                services=self.services,
                request=request,
                identity=identity,
                role=role,
                path=values,
                headers=[],
                is_current=partial(self._is_admitted, request, endpoint.role),
            )
            await endpoint.serve(call)
        except (AdminError, ClientError) as error:
            send_error(request, error, [])
        except Busy as error:
            send_error(request, ClientError(503, str(error)), [(b"retry-after", str(error.retry_after).encode())])

    def close(self) -> None:
        self.services.events.close()

    def _is_admitted(self, request: ServerRequest, needed: str) -> bool:
        """Whether a request would be admitted now. During shutdown none is."""
        runtime = self._current()
        if runtime.draining:
            return False
        try:
            identity = runtime.guard.identify(request, api_path_of(request.path).protocol)
            require_role(role_of(runtime, request, identity), needed, identity)
        except (AdminError, ClientError, Busy):
            return False
        return True


def role_of(runtime: Runtime, request: ServerRequest, identity: Identity | None) -> str:
    """The role of a request: that of its key. The operator, who needs no key on this machine, may read everything."""
    if identity is not None:
        address = client_address(request, runtime.proxies)
        return VIEWER if runtime.guard.is_operator(request, address, name_of(identity)) else identity.rights.role
    if not is_local_client(request, client_address(request, ())):
        remedy = "make a key on the gateway's machine with dragoman key new"
        raise AdminError(403, "without keys, only clients of the gateway's own machine read records", remedy)
    return VIEWER
