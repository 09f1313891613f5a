"""Names: what a running gateway knows of the names that may be asked for."""

from __future__ import annotations

import http.client
from collections.abc import Sequence
from urllib.parse import urlencode, urlsplit

import msgspec

from dragoman.errors import DragomanError
from dragoman.routing.model_description import DescribedName

# A gateway waits this long for its providers, and a little more.
_PATIENCE = 6.0
_LARGEST = 64 * 1024 * 1024
# More names than this are asked for as all of them.
MOST_NAMES = 50


class _Told(msgspec.Struct):
    names: list[DescribedName]


def ask_names(url: str, key: str, *, match: str = "", names: Sequence[str] = ()) -> list[DescribedName]:
    """Ask a gateway for what it knows: of these names, or of all that match."""
    place = urlsplit(url)
    kind = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
    asked = urlencode([("name", name) for name in names]) or (urlencode({"match": match}) if match else "")
    connection = kind(place.hostname or "", place.port, timeout=_PATIENCE)
    try:
        connection.request("GET", f"{place.path}/names?{asked}", headers={"authorization": f"Bearer {key}"})
        reply = connection.getresponse()
        body = reply.read(_LARGEST)
    except (OSError, http.client.HTTPException) as error:
        raise DragomanError(f"the gateway at {url} did not answer: {error or type(error).__name__}") from None
    finally:
        connection.close()
    if reply.status != 200:
        raise DragomanError(f"the gateway at {url} does not tell what it knows of models (status {reply.status})")
    try:
        return msgspec.json.decode(body, type=_Told).names
    except msgspec.MsgspecError:
        raise DragomanError(f"the gateway at {url} tells of models in another form than this version knows") from None
