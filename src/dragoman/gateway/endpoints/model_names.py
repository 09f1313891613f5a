"""`GET /model-names`: every name with its metadata, for `dragoman launch`, `env` and `models`; neither recorded nor
logged. `?match=` filters by a pattern or a part of the name; `?name=`, repeatable, asks for these and their providers
alone."""

from __future__ import annotations

from urllib.parse import parse_qs

import msgspec

from dragoman.errors import ClientError
from dragoman.gateway.forwarding.error_responses import JSON
from dragoman.gateway.model_directory import look_up, refresh_lists_for, search
from dragoman.gateway.model_list_fetch import models_of, refresh_lists
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.thread_offload import offload
from dragoman.http.server import ServerRequest

# So many names may be asked for at once.
_MAX_NAMES = 200
# To look one up takes as long as to read so many bytes.
_BYTES = 5000


async def send_names(runtime: Runtime, request: ServerRequest, protocol: str, key: str) -> None:
    """Answer `GET /model-names`; `key` is the name of the gateway key that asks."""
    try:
        query = parse_qs(request.query, max_num_fields=_MAX_NAMES)
    except ValueError:
        raise ClientError(400, f"no more than {_MAX_NAMES} names can be asked for at once") from None
    names, match = query.get("name", []), "".join(query.get("match", [])[:1])
    providers = runtime.settings.callable.values()
    if names:
        await refresh_lists_for(runtime, protocol, names)
        size = len(names)
    else:
        await refresh_lists(runtime, providers)
        size = sum(len(models_of(runtime, provider)) for provider in providers)

    def build_body() -> bytes:
        described = look_up(runtime, protocol, names) if names else search(runtime, protocol, match)
        return msgspec.json.encode({"names": described})

    body = await offload(build_body, size * _BYTES, key)
    request.respond(200, [JSON, *runtime.guard.greeting(request)], body)
