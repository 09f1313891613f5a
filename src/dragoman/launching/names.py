"""Names: what a running gateway knows of the names that may be asked for."""

from __future__ import annotations

import http.client
from collections.abc import Sequence
from urllib.parse import urlencode, urlsplit

import msgspec

from dragoman.errors import DragomanError
from dragoman.routing.model_description import DescribedName

# A gateway waits this long for its providers, and a little more.
_TIMEOUT = 6.0
_MAX_BODY_BYTES = 64 * 1024 * 1024
# More names than this are asked for as all of them.
MAX_NAMES = 50


class _NamesPage(msgspec.Struct):
    names: list[DescribedName]


def fetch_names(url: str, key: str, *, match: str = "", names: Sequence[str] = ()) -> list[DescribedName]:
    """Ask a gateway for what it knows: of these names, or of all that match."""
    place = urlsplit(url)
    kind = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
    query = urlencode([("name", name) for name in names]) or (urlencode({"match": match}) if match else "")
    connection = kind(place.hostname or "", place.port, timeout=_TIMEOUT)
    try:
        connection.request("GET", f"{place.path}/model-names?{query}", headers={"authorization": f"Bearer {key}"})
        response = connection.getresponse()
        body = response.read(_MAX_BODY_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise DragomanError(f"the gateway at {url} did not answer: {error or type(error).__name__}") from None
    finally:
        connection.close()
    if response.status != 200:
        raise DragomanError(f"the gateway at {url} does not tell what it knows of models (status {response.status})")
    try:
        return msgspec.json.decode(body, type=_NamesPage).names
    except msgspec.MsgspecError:
        raise DragomanError(f"the gateway at {url} tells of models in another form than this version knows") from None
