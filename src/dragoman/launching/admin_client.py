"""Admin client: calls the admin API of a gateway for commands with `--gateway`. Results are the structs that the
gateway encodes. An error has the gateway's message and remedy. A key is sent in a header, never in a URL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from dragoman.errors import DragomanError
from dragoman.launching.clients import KEY_REMEDY
from dragoman.launching.gateway import fetch

R = TypeVar("R", bound=Struct)

_PREFIX = "/admin/v1"
# Timeout: a query may take two seconds, and wait for others.
_SECONDS = 30.0
_MAX_BYTES = 256 * 1024 * 1024
_NO_KEY = 401
_TEMPORARY = frozenset({429, 503, 504})


class AdminApiError(DragomanError):
    def __init__(self, status: int, message: str, remedy: str) -> None:
        self.status = status
        super().__init__(f"{message} ({remedy})" if remedy else message)

    @property
    def is_temporary(self) -> bool:
        return self.status in _TEMPORARY


class GatewayUnreachable(DragomanError):
    """The gateway did not respond. It may do so later."""


class Notes(Struct, frozen=True, kw_only=True):
    """Additional response headers. Of records: the number of exchanges without a session, and why the latest entries
    are missing. Of a new or changed key: entries of its lists that match no name."""

    unassigned: int = 0
    incomplete: str = ""
    warnings: tuple[str, ...] = ()


class AdminRefusal(Struct, frozen=True, kw_only=True):
    message: str
    remedy: str = ""


class _ErrorPage(Struct):
    error: AdminRefusal


class AdminClient:
    """The admin API at an address, called with a gateway key; "" is none."""

    def __init__(self, address: str, key: str) -> None:
        self.address = address
        self._headers = {"authorization": f"Bearer {key}"} if key else {}
        self.notes = Notes()

    def get(self, path: str, result: type[R], query: Mapping[str, str | int] | None = None) -> R:
        return self._request("GET", f"{path}?{urlencode(query)}" if query else path, result, None, self._headers)

    def send(
        self, method: str, path: str, result: type[R], body: bytes | None = None, *, generation: int | None = None
    ) -> R:
        """Send a change. `generation` is the last change of a key that the caller has read."""
        headers = dict(self._headers)
        if body is not None:
            headers["content-type"] = "application/json"
        if generation is not None:
            headers["if-match"] = f'"{generation}"'
        return self._request(method, path, result, body, headers)

    def _request(self, method: str, path: str, result: type[R], body: bytes | None, headers: Mapping[str, str]) -> R:
        import http.client

        try:
            status, content, sent = fetch(self.address, method, f"{_PREFIX}{path}", _SECONDS, _MAX_BYTES, body, headers)
        except (OSError, http.client.HTTPException) as error:
            raise GatewayUnreachable(
                f"the gateway at {self.address} did not answer: {error or type(error).__name__}"
            ) from None
        if status >= 300:
            raise self._refused(status, content)
        self.notes = _notes_in(sent)
        try:
            return msgspec.json.decode(content, type=result)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            raise DragomanError(
                f"the gateway at {self.address} sends another form than this version knows: use the same release"
            ) from None

    def _refused(self, status: int, content: bytes) -> DragomanError:
        try:
            refusal = msgspec.json.decode(content, type=_ErrorPage).error
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return DragomanError(f"there is no admin API at {self.address}: status {status}")
        if status == _NO_KEY and not self._headers:
            return AdminApiError(status, "the gateway requires a key", KEY_REMEDY)
        return AdminApiError(status, refusal.message, refusal.remedy)


def _notes_in(headers: Mapping[str, str]) -> Notes:
    named = {name.lower(): value for name, value in headers.items()}
    unassigned = named.get("x-dragoman-unassigned", "")
    return Notes(
        unassigned=int(unassigned) if unassigned.isascii() and unassigned.isdigit() else 0,
        incomplete=named.get("x-dragoman-incomplete", ""),
        warnings=_read_warnings(named.get("x-dragoman-warnings", "[]")),
    )


def _read_warnings(text: str) -> tuple[str, ...]:
    """The sentences in a header. A header in another form is returned as it is."""
    try:
        # Headers are read as Latin-1, but the gateway sends UTF-8.
        return msgspec.json.decode(text.encode("latin-1"), type=tuple[str, ...])
    except (msgspec.MsgspecError, UnicodeError):
        return (text,)
