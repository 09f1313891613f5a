"""Values: one reader for each type of value, with the type's name in TOML (https://toml.io/en/v1.0.0) and an example. A
reader raises `ConfigError` without a key; the caller adds it. No error repeats a value that may be secret."""

from __future__ import annotations

import datetime
import ipaddress
import math
import re
from collections.abc import Callable
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct

from dragoman.errors import ConfigError
from dragoman.identities.members import is_name as is_name
from dragoman.model.losses import Strict
from dragoman.prices.money import NANO

T_co = TypeVar("T_co", covariant=True)


class ValueType(Struct, Generic[T_co], frozen=True, kw_only=True):
    """One type of value: its name on docs/configuration.md, an example as TOML writes it, and its reader."""

    type_name: str
    example: str
    read: Callable[[object], T_co]


def invalid(problem: str, remedy: str = "") -> ConfigError:
    """A value that cannot be used; without a remedy the example of its type is one."""
    return ConfigError(key="", problem=problem, remedy=remedy)


def type_name(value: object) -> str:
    """The type of a value, as TOML calls it."""
    for kind, name in _TYPES:
        if isinstance(value, kind):
            return name
    return type(value).__name__


# In this order: a boolean is an integer to Python, too.
_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "a boolean"),
    (str, "a string"),
    (int, "an integer"),
    (float, "a float"),
    (list, "an array"),
    (dict, "a table"),
    (datetime.datetime, "a date-time"),
    (datetime.date, "a date"),
    (datetime.time, "a time"),
)


def mismatch(value: object, expected: str) -> ConfigError:
    """The error for a value of another type."""
    return invalid(f"expected {expected}, got {type_name(value)}")


def unexpected(value: object, expected: str) -> ConfigError:
    """The error for a value of the right type that cannot be used; it is repeated, so it must not be secret."""
    return invalid(f"expected {expected}, got {quoted(value) if isinstance(value, str) else value}")


def read_string(value: object) -> str:
    """A string that is not empty."""
    if not isinstance(value, str):
        raise mismatch(value, "a string")
    if not value.strip():
        raise invalid("expected a string that is not empty, got an empty one")
    return value


def is_model(name: str) -> bool:
    """Whether a string may be a model's name."""
    return bool(name) and name.isprintable() and " " not in name


def read_strings(value: object) -> tuple[str, ...]:
    """One string, or an array of at least one."""
    if isinstance(value, str):
        return (read_string(value),)
    if not isinstance(value, list):
        raise mismatch(value, "a string or an array of strings")
    if not value:
        raise invalid("expected at least one string, got an empty array")
    return tuple(read_string(item) for item in value)


def each_of(read: Callable[[object], str]) -> Callable[[object], tuple[str, ...]]:
    """Reads one value, or an array of them."""
    return lambda value: tuple(read(item) for item in (value if isinstance(value, list) else [value]))


def some_of(read: Callable[[object], str]) -> Callable[[object], tuple[str, ...]]:
    """Reads one value, or an array of at least one."""

    def read_some(value: object) -> tuple[str, ...]:
        if value == []:
            raise invalid("expected at least one string, got an empty array")
        return each_of(read)(value)

    return read_some


def read_time_zone(value: object) -> str:
    """The name of a time zone that this machine knows."""
    from zoneinfo import ZoneInfo

    name = read_string(value)
    try:
        ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        raise invalid(f"expected the name of a time zone, got {quoted(name)}") from None
    return name


def read_boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise mismatch(value, "a boolean")
    return value


def read_strict(value: object) -> Strict:
    if isinstance(value, bool) or value == "all":
        return value
    if isinstance(value, str):
        raise invalid(f'expected true, false or "all", got {quoted(value)}')
    raise mismatch(value, 'true, false or "all"')


def integer(lowest: int, highest: int) -> Callable[[object], int]:
    """A reader of integers between two bounds, which may be them."""

    def read(value: object) -> int:
        expected = f"an integer from {lowest} to {highest}"
        if isinstance(value, str):
            raise invalid(f"expected {expected}, got the string {quoted(value)}")
        if isinstance(value, bool) or not isinstance(value, int):
            raise mismatch(value, expected)
        if not lowest <= value <= highest:
            raise unexpected(value, expected)
        return value

    return read


def choice(*choices: str) -> Callable[[object], str]:
    """A reader of one string out of a few."""

    def read(value: object) -> str:
        text = read_string(value)
        if text not in choices:
            raise unexpected(text, f"one of {', '.join(choices)}")
        return text

    return read


def quoted(text: str) -> str:
    """A string that is no secret, in quotes, short, and harmless to a terminal."""
    short = text if len(text) <= 60 else f"{text[:59]}…"
    return '"' + "".join(char if char.isprintable() else "�" for char in short) + '"'


_DURATION_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}
_SIZE_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_MEASURE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*")
MAX_DURATION_SECONDS = 7 * 24 * 3600.0
MAX_SIZE_BYTES = 2**40


def duration(lowest: float = 0.001) -> Callable[[object], float]:
    """A reader of durations in seconds, at least `lowest`."""

    def read(value: object) -> float:
        seconds = _measured(value, _DURATION_UNITS, "a duration", "ms, s, min or h")
        if not math.isfinite(seconds) or not lowest <= seconds <= MAX_DURATION_SECONDS:
            raise unexpected(value, f"a duration from {lowest:g} s to {MAX_DURATION_SECONDS / 3600:g} h")
        return seconds

    return read


def read_size(value: object, lowest: int = 1) -> int:
    size = _measured(value, _SIZE_UNITS, "a size", "B, kB, MB, GB, KiB, MiB or GiB")
    if not math.isfinite(size) or size != int(size):
        raise unexpected(value, "a size in whole bytes")
    if not lowest <= size <= MAX_SIZE_BYTES:
        raise unexpected(value, f"a size from {lowest} B to {MAX_SIZE_BYTES // 2**30} GiB")
    return int(size)


_MAX_DOLLARS = 1_000_000


def read_cost(value: object) -> int:
    """US dollars, as nano-dollars."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise mismatch(value, "US dollars as a number")
    if not math.isfinite(value) or not 0 <= value <= _MAX_DOLLARS:
        raise unexpected(value, f"US dollars from 0 to {_MAX_DOLLARS}")
    amount = round(value * NANO)
    if value and not amount:
        raise unexpected(value, "US dollars with at most 9 decimals")
    return amount


def read_share(value: object) -> float:
    """A part of the whole, from none to all."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise mismatch(value, "a number from 0 to 1")
    if not 0 <= value <= 1:
        raise unexpected(value, "a number from 0 to 1")
    return float(value)


def _measured(value: object, units: dict[str, float] | dict[str, int], what: str, unit_names: str) -> float:
    if isinstance(value, str):
        parts = _MEASURE.fullmatch(value)
        unit = None if parts is None else units.get(parts[2].lower())
        if parts is None or unit is None:
            raise unexpected(value, f"{what} with a unit of {unit_names}")
        # Decimal fractions of a unit may miss a whole number by the last bit.
        return round(float(parts[1]) * unit, 6)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise mismatch(value, f"{what} as a number or a string")
    return float(value)


_LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")


def read_host(value: object) -> str:
    """A host name or an IP address, without a port."""
    text = read_string(value)
    if is_address(text):
        return text
    labels = text.removesuffix(".").split(".")
    if len(text) > 253 or not all(map(_LABEL.fullmatch, labels)) or labels[-1].isdigit():
        raise unexpected(text, "a host name or an IP address without a port")
    return text.lower().removesuffix(".")


def read_network(value: object) -> str:
    """An IP address or a network of them."""
    text = read_string(value).strip()
    try:
        return str(ipaddress.ip_network(text))
    except ValueError:
        pass
    try:
        wide = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise unexpected(text, "an IP address or a network as 10.0.0.0/8") from None
    raise invalid(f"expected a network, got {quoted(text)}, an address within one", f'write "{wide}"')


def is_address(host: str) -> bool:
    """Whether it is an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    name = host.lower().removesuffix(".")
    if is_address(name):
        return ipaddress.ip_address(name).is_loopback
    return name == "localhost" or name.endswith(".localhost")


def host_to_call(host: str) -> str:
    """The host under which a local server is called; a wildcard address becomes loopback."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def address_to_call(host: str, port: int) -> str:
    """The URL of a server on this machine that listens on a host."""
    host = host_to_call(host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


_ORIGIN = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")


def read_origin(value: object) -> str:
    """An `Origin` header: scheme, host and port, nothing else. Browser extensions have schemes too."""
    text = read_string(value)
    if not _ORIGIN.fullmatch(text):
        raise invalid(
            f"expected an origin, got {quoted(text)}",
            'write scheme, host and port alone, for example "https://app.example.org"',
        )
    return text.lower()


# Paths that people copy from a curl line; base URLs end before them.
_ENDPOINTS = ("/chat/completions", "/v1/responses", "/v1/messages")


def read_url(value: object) -> str:
    """An address to call, without credentials, query or trailing slash. Errors do not repeat it."""
    text = read_string(value)
    try:
        parts = urlsplit(text)
        port, host = parts.port, parts.hostname
    except ValueError:
        raise invalid("expected an address, got one with a broken host or port") from None
    if parts.scheme not in ("http", "https"):
        raise invalid("expected an address with http:// or https://, got another")
    if not host or port == 0 or not re.fullmatch(r"[!-~]+", text):
        raise invalid("expected an address with a host and without blanks, got another")
    if "@" in parts.netloc:
        raise invalid("expected an address without credentials, got some", "put the key into api_key")
    if "?" in text or "#" in text:
        raise invalid("expected an address without ? and #, got one", "leave out everything from there on")
    for path in _ENDPOINTS:
        if parts.path.rstrip("/").endswith(path):
            raise invalid(f"ends in {path}, which is added to it", f"leave out {path}")
    try:
        read_host(host)
    except ConfigError:
        raise invalid("expected an address with a host name or an IP address, got another") from None
    return text.rstrip("/")


_PASSTHROUGH_PATH = re.compile(r"(\*|[A-Za-z]+)\s+((?:/(?:\*|[A-Za-z0-9._~@=-]+))+)/?")
_PASSTHROUGH_METHODS = ("*", "GET", "POST", "DELETE")


def read_passthrough_path(value: object) -> str:
    """A method and a path of a provider's API, as `DELETE /files/*`; only `*` is a pattern."""
    text = read_string(value).strip()
    parts = _PASSTHROUGH_PATH.fullmatch(text)
    if parts is None or any(not part.strip(".") for part in parts[2].split("/")[1:]):
        raise invalid(f"expected a method and a path, got {quoted(text)}")
    method, path = parts[1].upper(), parts[2]
    if method not in _PASSTHROUGH_METHODS:
        raise invalid(f"expected GET (which is HEAD, too), POST, DELETE or * before the path, got {quoted(parts[1])}")
    # The prefix is removed from paths, however often an SDK repeats it.
    while path.startswith("/v1/"):
        path = path.removeprefix("/v1")
    return f"{method} {path}"


# RFC 9110 §5.6.2: a valid header name.
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Headers that frame a message or belong to one connection cannot be configured.
_FRAMING = frozenset(
    {
        *(
            "host",
            "content-length",
            "content-encoding",
            "transfer-encoding",
            "connection",
            "keep-alive",
            "upgrade",
            "te",
        ),
        *("trailer", "expect", "proxy-connection", "proxy-authorization", "accept-encoding"),
    }
)


def read_headers(value: object) -> dict[str, str]:
    """Header names, in lower case, with their values; the values may be secret."""
    if not isinstance(value, dict):
        raise mismatch(value, "a table of header names and strings")
    headers = {}
    for name, text in value.items():
        if not _TOKEN.fullmatch(name):
            raise invalid(f"expected a header name, got {quoted(name)}", "use letters, digits and hyphens")
        if name.lower() in _FRAMING:
            raise invalid(f"{name.lower()} belongs to the connection", "leave it out")
        if not isinstance(text, str):
            raise mismatch(text, f"a string for {name}")
        headers[name.lower()] = text
    return headers
