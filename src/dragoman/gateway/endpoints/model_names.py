"""`GET /model-names`: every name with its metadata, for `dragoman launch`, `env` and `models`; neither recorded nor
logged. `?match=` filters by a pattern or a part of the name. `?name=`, repeatable, restricts the response to these
names and their providers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from urllib.parse import parse_qs

import msgspec

from dragoman.errors import ClientError
from dragoman.gateway.forwarding.error_responses import JSON
from dragoman.gateway.model_directory import look_up, refresh_lists_for, search
from dragoman.gateway.model_list_fetch import models_of, refresh_lists
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.stored_state import name_of
from dragoman.gateway.thread_offload import offload
from dragoman.http.server import ServerRequest
from dragoman.identities.identity import Identity, reading_rights_of
from dragoman.identities.permissions import permits_provider
from dragoman.routing.model_description import DescribedName

# Maximum names per request.
_MAX_NAMES = 200
# Looking up one name takes as long as reading this many bytes.
_BYTES = 5000


async def send_names(runtime: Runtime, request: ServerRequest, protocol: str, key: Identity | None) -> None:
    """Respond to `GET /model-names`. `key` is the gateway key of the request."""
    try:
        query = parse_qs(request.query, max_num_fields=_MAX_NAMES)
    except ValueError:
        raise ClientError(400, f"no more than {_MAX_NAMES} names can be asked for at once") from None
    names, match = query.get("name", []), "".join(query.get("match", [])[:1])
    described = await described_names(runtime, protocol, key, match=match, names=names)
    body = await offload(lambda: msgspec.json.encode({"names": described}), len(described) * _BYTES, name_of(key))
    request.respond(200, [JSON, *runtime.guard.greeting(request)], body)


async def described_names(
    runtime: Runtime, protocol: str, key: Identity | None, *, match: str = "", names: Sequence[str] = ()
) -> list[DescribedName]:
    """Metadata of some names, or of all matching names that a key may see."""
    rights, asker = reading_rights_of(key), name_of(key)
    if names:
        await refresh_lists_for(runtime, protocol, rights, names)
        return await offload(partial(look_up, runtime, protocol, rights, names), len(names) * _BYTES, asker)
    providers = [each for each in runtime.settings.callable.values() if permits_provider(rights, each.name)]
    await refresh_lists(runtime, providers)
    size = sum(len(models_of(runtime, provider)) for provider in providers)
    return await offload(partial(search, runtime, protocol, rights, match), size * _BYTES, asker)
