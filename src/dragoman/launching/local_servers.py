"""Local model servers on the usual ports. Servers of other users are ignored, because prompts are sent there (decision
29)."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from dragoman.config.settings import Settings
from dragoman.errors import DragomanError
from dragoman.launching.port_owners import TABLES, foreign_users, owners_of
from dragoman.rules.model_lists import decode_models, is_list
from dragoman.wire.json import decode

TIMEOUT = 0.3
_MAX_LIST_BYTES = 4 * 1024 * 1024
# Lower user IDs are accounts of services, such as Ollama's on Linux.
_FIRST_PERSON = 1000


def foreign_user_at(port: int, tables: Sequence[Path] = TABLES) -> int | None:
    """Another user who listens at a port; None if no process listens, or the system does not report it."""
    persons = [owner for owner in foreign_users(owners_of(port, tables) or frozenset()) if owner >= _FIRST_PERSON]
    return persons[0] if persons else None


def port_of(base_url: str) -> int:
    place = urlsplit(base_url)
    return place.port or (443 if place.scheme == "https" else 80)


def models_at(base_url: str, timeout: float = TIMEOUT) -> tuple[str, ...] | None:
    """The models that a server at an address lists; None if it does not respond in time."""
    place = urlsplit(base_url)
    try:
        connected = socket.create_connection((place.hostname or "", port_of(base_url)), timeout)
    except OSError:
        return None
    # Imported here, because most machines have no such server.
    import http.client

    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=timeout)
    connection.sock = connected
    try:
        connection.request("GET", f"{place.path}/models")
        response = connection.getresponse()
        listing = decode(response.read(_MAX_LIST_BYTES))
        if response.status != 200 or not is_list(listing):
            return None
        return tuple(model.id for model in decode_models(listing, "openai"))
    except (OSError, http.client.HTTPException, DragomanError):
        # The response is not that of a model server.
        return None
    finally:
        connection.close()


def local_models_of(settings: Settings) -> dict[str, tuple[str, ...]]:
    """The models of the configured local servers that respond, by the server's name."""
    return find_local_models({name: provider.endpoints[0].base_url for name, provider in settings.local.items()})


def find_local_models(addresses: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The addresses at which a server of this user responds, by name, with its models."""

    def list_models(base_url: str) -> tuple[str, ...] | None:
        return None if foreign_user_at(port_of(base_url)) is not None else models_at(base_url)

    if not addresses:
        return {}
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(len(addresses)) as threads:
        models = threads.map(list_models, addresses.values())
    return {name: listed for name, listed in zip(addresses, models, strict=True) if listed is not None}
