"""Gateway access for commands and launched clients: finds the running gateway, queries it, or starts one that lives as
long as the client."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, NamedTuple
from urllib.parse import urlencode, urlsplit

import msgspec

from dragoman.config.settings import Server
from dragoman.config.values import address_to_call
from dragoman.errors import DragomanError, WireError
from dragoman.launching.clients import KEY_REMEDY
from dragoman.launching.port_owners import foreign_users, owners_of
from dragoman.launching.summary import Launch
from dragoman.model.jsonvalue import JsonObject
from dragoman.routing.model_description import DescribedName
from dragoman.wire.json import decode, encode

# Timeouts of a gateway for its identification, its start, and its end.
_RESPONSE_SECONDS = 3.0
_START_SECONDS = 60.0
_STOP_SECONDS = 45.0
_MAX_GREETING_BYTES = 65536
# The gateway may query other processes first.
_STATUS_SECONDS = 10.0
_MAX_PAGE_BYTES = 8 * 1024 * 1024
# A gateway waits this long for its providers, and a little more.
_NAMES_SECONDS = 6.0
_MAX_NAMES_BYTES = 64 * 1024 * 1024
_NO_KEY = 401
# More names are queried as a full list.
MAX_NAMES = 50
# The responses are only computed with and displayed, so numbers need not keep their spelling.
_PAGE = msgspec.json.Decoder()
# A private gateway uses a free port of this machine, so that no other program depends on it.
_OWN = ("--host", "127.0.0.1", "--port", "0", "--lifeline")
_NO_LOG = ("--log", "off")
# The start of a gateway's first line. The address follows, up to a comma.
_GREETING = "dragoman listens on "


# The loopback addresses of a gateway, the usual one first.
_LOOPBACK = ("127.0.0.1", "::1")


class PageError(DragomanError):
    def __init__(self, url: str, fails: str, status: int, reason: str) -> None:
        self.status = status
        self.reason = reason
        super().__init__(f"the gateway at {url} {fails}: {reason}")


class ForeignProcessError(DragomanError):
    """The listener at the gateway's address belongs to another user of this machine."""


class _ErrorDetail(msgspec.Struct):
    message: str


class _ErrorPage(msgspec.Struct):
    error: _ErrorDetail


class _NamesPage(msgspec.Struct):
    names: list[DescribedName]


def addresses_of(server: Server) -> list[str]:
    """Addresses at which the configured gateway may listen on this machine, the likeliest first."""
    hosts = reversed(_LOOPBACK) if server.host == "::1" else _LOOPBACK
    return [address_to_call(host, server.port) for host in hosts]


def find_running(server: Server) -> str | None:
    """The address of the running gateway. A port of another user is an error."""
    if not server.port:
        return None
    # Checked before the request, so that a foreign process gets none, and after it, since another process may have
    # started.
    owners = owners_of(server.port)
    if owners:
        _check_owners(server, owners)
    address = next(filter(is_running, addresses_of(server)), None)
    owners = owners_of(server.port)
    if address is not None and owners is not None:
        _check_owners(server, owners)
    return address


def _check_owners(server: Server, owners: frozenset[int]) -> None:
    """Reject a port unless its listeners belong to this user or root."""
    others = ", ".join(f"uid {owner}" for owner in foreign_users(owners)) or ("" if owners else "unknown")
    if others:
        place = addresses_of(server)[0]
        raise ForeignProcessError(f"what listens at {place} belongs to another user of this machine ({others})")


def is_running(url: str) -> bool:
    return greeting_of(url) is not None


def greeting_of(url: str, seconds: float = _RESPONSE_SECONDS) -> JsonObject | None:
    import http.client

    try:
        greeting = decode(fetch(url, "GET", "/", seconds, _MAX_GREETING_BYTES).body)
    except (OSError, http.client.HTTPException, WireError):
        return None
    return greeting if isinstance(greeting, dict) and greeting.get("name") == "dragoman" else None


def status_of(url: str, key: str) -> JsonObject:
    return _page(url, key, "GET", "/status", None, {}, "does not report its status")


def reset_target(url: str, key: str, target: str) -> JsonObject:
    """Reset a target. Returns its previous state."""
    return _page(url, key, "POST", "/status", encode({"reset": target}), {}, "does not reset the target")


def route_of(url: str, key: str, query: Mapping[str, str], body: bytes, client: str) -> JsonObject:
    """The plan of a gateway for a request, with reasons. `query` has the parameters besides its body."""
    headers = {"content-type": "application/json", "user-agent": client}
    fails = "does not explain the route"
    return _page(url, key, "POST", f"/route?{urlencode(query)}", body, headers, fails)


def launch_of(url: str, key: str, name: str) -> Launch:
    page = _page(url, key, "GET", f"/launches/{name}", None, {}, "does not report the launch")
    try:
        return msgspec.convert(page, Launch)
    except msgspec.ValidationError:
        raise DragomanError(
            f"the gateway at {url} reports launches in a format that this version does not support"
        ) from None


def _page(
    url: str, key: str, method: str, path: str, body: bytes | None, headers: Mapping[str, str], fails: str
) -> JsonObject:
    """Request a page of a gateway. `fails` completes the error message."""
    import http.client

    given = {**headers, "authorization": f"Bearer {key}"} if key else headers
    try:
        status, content, _ = fetch(url, method, path, _STATUS_SECONDS, _MAX_PAGE_BYTES, body, given)
        if status != 200:
            raise _refused(url, key, fails, status, content)
        page = _PAGE.decode(content)
    except (OSError, http.client.HTTPException, msgspec.DecodeError, UnicodeError, RecursionError):
        raise DragomanError(f"the gateway at {url} {fails}") from None
    if not isinstance(page, dict):
        raise DragomanError(f"the gateway at {url} {fails}")
    return page


def _refused(url: str, key: str, fails: str, status: int, content: bytes) -> PageError:
    """The error for an error response of a gateway, with its message. A missing key has its own text."""
    if status == _NO_KEY and not key:
        return PageError(url, fails, status, f"a gateway key is required: {KEY_REMEDY}")
    try:
        message = msgspec.json.decode(content, type=_ErrorPage).error.message
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        message = f"status {status}"
    return PageError(url, fails, status, message)


def fetch_names(url: str, key: str, *, match: str = "", names: Sequence[str] = ()) -> list[DescribedName]:
    """Query a gateway's metadata: of these names, or of all matching ones."""
    import http.client

    query = urlencode([("name", name) for name in names]) or (urlencode({"match": match}) if match else "")
    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        status, body, _ = fetch(url, "GET", f"/model-names?{query}", _NAMES_SECONDS, _MAX_NAMES_BYTES, headers=headers)
    except (OSError, http.client.HTTPException) as error:
        raise DragomanError(f"the gateway at {url} did not answer: {error or type(error).__name__}") from None
    if status != 200:
        raise _refused(url, key, "does not report its models", status, body)
    try:
        return msgspec.json.decode(body, type=_NamesPage).names
    except msgspec.MsgspecError:
        raise DragomanError(
            f"the gateway at {url} reports models in a format that this version does not support"
        ) from None


class Fetched(NamedTuple):
    """A response: its status, its body, and its headers as received."""

    status: int
    body: bytes
    headers: Mapping[str, str]


def fetch(
    url: str,
    method: str,
    path: str,
    seconds: float,
    max_bytes: int,
    body: bytes | None = None,
    headers: Mapping[str, str] = {},
) -> Fetched:
    # Imported here and above, because a gateway imports this module without calling another gateway.
    import http.client

    place = urlsplit(url)
    kind = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
    connection = kind(place.hostname or "", place.port, timeout=seconds)
    try:
        connection.request(method, f"{place.path}{path}", body=body, headers=headers)
        response = connection.getresponse()
        return Fetched(response.status, response.read(max_bytes), dict(response.getheaders()))
    finally:
        connection.close()


@contextmanager
def gateway_started(arguments: Sequence[str], environ: Mapping[str, str], log: str | None = None) -> Iterator[str]:
    """Start a gateway, yield its address, and stop it at the end. `log` is its log file."""
    logged = _NO_LOG if log is None else ("--log-file", log)
    process = subprocess.Popen(
        # Without -P, modules would be imported from the current directory, which may be a checkout.
        [sys.executable, "-P", "-m", "dragoman", "serve", *arguments, *_OWN, *logged],
        env=environ,
        # The lifeline: nothing is written to it, and it closes with this process, however that ends.
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A session of its own, because Ctrl-C in the terminal is meant for the client.
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        words, complaints = _Output(process.stdout), _Output(process.stderr)
        first = words.first_line(_START_SECONDS)
        if not first.startswith(_GREETING):
            process.terminate()
            complaint = " ".join(complaints.all().split()) or "it said nothing"
            raise DragomanError(f"the gateway did not start: {complaint}")
        yield first.removeprefix(_GREETING).partition(",")[0].strip()
    finally:
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    # SIGTERM would delay the shutdown for a load balancer, which a private gateway does not have.
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    assert process.stdin is not None
    process.stdin.close()


class _Output:
    """Reads the output of a process to its end, so that it never blocks. The start is stored."""

    def __init__(self, stream: IO[str]) -> None:
        self._lines: list[str] = []
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def _read(self, stream: IO[str]) -> None:
        with stream, suppress(ValueError):
            for line in stream:
                if len(self._lines) < 100:
                    self._lines.append(line)
                self._begun.set()
        self._begun.set()

    def first_line(self, timeout: float) -> str:
        """The first line, or "" after the timeout."""
        self._begun.wait(timeout)
        return self._lines[0] if self._lines else ""

    def all(self) -> str:
        """The stored output, once the process has ended, or after a timeout."""
        self._thread.join(_RESPONSE_SECONDS)
        return "".join(self._lines)
