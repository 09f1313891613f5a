"""Names: `GET /names` lists every name with all that is known of it, for each client that may use the gateway.

It is a page of the gateway's own, for `dragoman launch`, `env` and `models`: no record and no line of the log is made.

`?match=` chooses among them, by a pattern or a part of the name. `?name=`, once or more, asks for these alone, and only
their providers are asked for their lists.
"""

from __future__ import annotations

from urllib.parse import parse_qs

import msgspec

from dragoman.errors import ClientError
from dragoman.gateway.exchange.error_responses import JSON
from dragoman.gateway.model_directory import ask_for, look_up, search
from dragoman.gateway.model_list_fetch import ask_providers, models_of
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.thread_offload import beside_loop
from dragoman.http.server import ServerRequest

# So many names may be asked for at once.
_MOST_NAMES = 200
# To look one up takes as long as to read so many bytes.
_BYTES = 5000


async def tell_names(service: Runtime, request: ServerRequest, protocol: str, key: str) -> None:
    """Answer `GET /names`; `key` is the name of the gateway key that asks."""
    try:
        asked = parse_qs(request.query, max_num_fields=_MOST_NAMES)
    except ValueError:
        raise ClientError(400, f"no more than {_MOST_NAMES} names can be asked for at once") from None
    names, match = asked.get("name", []), "".join(asked.get("match", [])[:1])
    providers = service.settings.callable.values()
    if names:
        await ask_for(service, protocol, names)
        size = len(names)
    else:
        await ask_providers(service, providers)
        size = sum(len(models_of(service, provider)) for provider in providers)

    def told() -> bytes:
        found = look_up(service, protocol, names) if names else search(service, protocol, match)
        return msgspec.json.encode({"names": found})

    body = await beside_loop(told, size * _BYTES, key)
    request.respond(200, [JSON, *service.guard.greeting(request)], body)
