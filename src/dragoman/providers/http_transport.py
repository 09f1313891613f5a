"""HTTP transport: the protocol's path below the base URL, the key in a header, server-sent events back. It also has the
functions that other transports share. Later headers replace earlier ones: ours, the protocol's, the provider's, the
credentials."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import TypeAlias
from urllib.parse import quote

from msgspec.structs import replace

from dragoman import __version__
from dragoman.errors import ClientError, ConfigError
from dragoman.http.upstream_call import HeaderList, UpstreamRequest, name_of
from dragoman.protocols.registry import PROTOCOL_NAMES, codec_of
from dragoman.providers.provider import Provider
from dragoman.providers.transport_interface import Order, Transport

MESSAGES = "anthropic-messages"

_SCHEMES: Mapping[str, tuple[bytes, bytes]] = {
    "bearer": (b"authorization", b"Bearer "),
    "x-api-key": (b"x-api-key", b""),
    "api-key": (b"api-key", b""),
}
_CUSTOMS: Mapping[str, str] = {name: "x-api-key" if name == MESSAGES else "bearer" for name in PROTOCOL_NAMES}

_SLASH = re.compile(r"/|\\|%2f|%5c")
_FIRST_VERSION = b"2023-06-01"
_AGENT = (b"user-agent", b"dragoman/" + __version__.encode())
_JSON = (b"content-type", b"application/json")
# A compressed stream would arrive in bursts.
_STREAMED: HeaderList = [_AGENT, (b"accept", b"text/event-stream"), (b"accept-encoding", b"identity")]
_FULL: HeaderList = [_AGENT, (b"accept", b"application/json"), (b"accept-encoding", b"gzip, deflate, br, zstd")]


@cache
def path_of(protocol: str) -> str:
    """The path of a protocol's requests below the base URL. Base URLs of OpenAI's SDK already end with /v1."""
    path = codec_of(protocol).path
    return path if protocol == MESSAGES else path.removeprefix("/v1")


def request_of(order: Order) -> UpstreamRequest:
    """Build the request of a call. It is cached, except for headers that differ from call to call."""
    own = order.headers
    if order.path or order.provider.headers:
        url, headers = _written(order)
        return UpstreamRequest(order.method, _with_query(url, order), headers, order.body)
    recurring = tuple(own) if not own or _RECURRING.issuperset(map(name_of, own)) else None
    cached = _CACHE.get((id(order.endpoint), order.key, order.stream, not order.body, recurring, order.query))
    if cached is None or cached[0] is not order.provider:
        cached = _cache(order, recurring)
    _, url, headers, names = cached
    if recurring is None:
        headers = headers + own if names.isdisjoint(dict(own)) else _written(order)[1]
    return UpstreamRequest(order.method, url, headers, order.body, recurring is not None and order.method == "POST")


def _with_query(url: str, order: Order) -> str:
    return f"{url}?{order.query}" if order.query else url


async def call(order: Order) -> UpstreamRequest:
    return request_of(order)


def _written(order: Order) -> tuple[str, HeaderList]:
    provider = order.provider
    path = checked(order.path) if order.path else path_of(order.endpoint.protocol)
    credentials = credential(provider, provider.auth or _CUSTOMS[order.endpoint.protocol], order.key)
    url = joined(filled(order.endpoint.base_url, provider), path)
    return url, headers_of(order, credentials)


def _cache(order: Order, recurring: _Recurring) -> _Cached:
    """Cache the address and the headers of a call, with those of its protocol that recur."""
    url, headers = _written(replace(order, headers=[]))
    if recurring:
        disjoint = dict(headers).keys().isdisjoint(dict(recurring))
        headers = [*headers, *recurring] if disjoint else _written(order)[1]
    if len(_CACHE) >= _CACHE_LIMIT:
        _CACHE.clear()
    cached = order.provider, _with_query(url, order), headers, frozenset(dict(headers))
    _CACHE[id(order.endpoint), order.key, order.stream, not order.body, recurring, order.query] = cached
    return cached


# A provider, and the address, headers and header names of calls to it.
_Cached: TypeAlias = tuple[Provider, str, HeaderList, frozenset[bytes]]
# Headers of the protocol if all of them recur, else None.
_Recurring: TypeAlias = tuple[tuple[bytes, bytes], ...] | None
# Keyed by the identity of the endpoint (which the provider keeps alive), the key, streaming, an empty body, the headers
# of the protocol that recur, and the query.
_CACHE: dict[tuple[int, str | None, bool, bool, _Recurring, str], _Cached] = {}
_CACHE_LIMIT = 256
# Headers of a protocol that are the same in all calls of a client.
_RECURRING = frozenset({b"anthropic-version", b"anthropic-beta", b"openai-beta"})


def filled(base_url: str, provider: Provider, defaults: Mapping[str, str] = MappingProxyType({})) -> str:
    """Replace the `{placeholders}` of a base URL by the provider's options, or by defaults."""
    if "{" in base_url:
        try:
            base_url = base_url.format_map({**defaults, **provider.options})
        except KeyError as missing:
            raise missing_option(provider, str(missing.args[0]), "its address needs it") from None
        except (ValueError, AttributeError, IndexError):
            raise ConfigError(
                key=f"providers.{provider.name}.base_url",
                problem="braces that are no placeholder",
                remedy="write {name} for the option called name",
            ) from None
    return base_url.rstrip("/")


def joined(base: str, path: str, query: str = "") -> str:
    """Join a base URL and a path. A /v1 in both occurs once."""
    if path.startswith("/v1/") and base.endswith("/v1"):
        base = base[:-3]
    return f"{base}{path}?{query}" if query else base + path


def checked(path: str) -> str:
    """Return a path, or fail if it would leave its base URL."""
    if (
        path.startswith("/")
        and path.isascii()
        and path.isprintable()
        and not any(mark in path for mark in " ?#\\")
        and not any(_is_dots(segment) for segment in _walked(path))
    ):
        return path
    raise ClientError(404, "There is no such path.")


def check_path(order: Order, paths: frozenset[str]) -> None:
    """Reject other paths: an unknown service in a cloud must not get the credentials."""
    if order.path and order.path not in paths:
        raise ClientError(404, "There is no such path.")


def segment(text: str, kind: str = "model") -> str:
    """Encode a name as one path segment. Colons stay, because model IDs of clouds contain them."""
    if not text or not text.isprintable() or any(_is_dots(part) for part in _walked(text)):
        raise ClientError(404, f"There is no {kind} of this name.")
    return quote(text, safe=":@", errors="replace")


def _walked(path: str) -> list[str]:
    """The segments of a path, for servers that decode once or twice before they resolve it."""
    return _SLASH.split(path.lower().replace("%25", "%"))


def _is_dots(segment: str) -> bool:
    # Some servers decode before they resolve the path, and some ignore text after a semicolon.
    plain = re.split(";|%3b", segment, maxsplit=1)[0].replace("%2e", ".")
    return plain in (".", "..")


def headers_of(order: Order, credentials: HeaderList) -> HeaderList:
    """All headers of a call except Host and Content-Length."""
    headers = (_STREAMED if order.stream else _FULL).copy()
    if order.body:
        headers.append(_JSON)
    if order.headers:
        headers = replaced(headers, order.headers)
    if order.provider.headers:
        own = [(name.lower().encode(), value.encode("latin-1")) for name, value in order.provider.headers.items()]
        headers = replaced(headers, own)
    return replaced(headers, credentials)


def replaced(headers: HeaderList, others: HeaderList) -> HeaderList:
    names = {name for name, _ in others}
    return [pair for pair in headers if pair[0] not in names] + others


def credential(provider: Provider, scheme: str, key: str | None) -> HeaderList:
    if scheme == "none" or not key:
        return []
    name, before = _SCHEMES[scheme]
    return [(name, before + encode_key(provider, key))]


def encode_key(provider: Provider, key: str) -> bytes:
    if not key.isascii() or not key.isprintable() or key != key.strip():
        raise ConfigError(
            key=f"providers.{provider.name}.api_key",
            problem="the key has white space or characters that no header can carry",
            remedy="copy it again, without line ends",
        )
    return key.encode()


def version_in_body(order: Order, classic: str) -> str:
    """The version that clouds take in the body. The first version has the cloud's own name; a newer one is sent
    unchanged, like the official SDK does."""
    option = order.provider.options.get("anthropic_version")
    version = next((value for name, value in order.headers if name == b"anthropic-version"), _FIRST_VERSION)
    return option or (classic if version == _FIRST_VERSION else version.decode("latin-1"))


def check(provider: Provider) -> None:
    """Reject a provider that plain HTTP cannot call."""
    check_common(provider)
    check_auth(provider, {"", "none", *_SCHEMES})
    for endpoint in provider.endpoints:
        filled(endpoint.base_url, provider)


def check_common(provider: Provider) -> None:
    """Reject keys and headers that HTTP cannot carry."""
    for key in provider.keys:
        encode_key(provider, key)
    for name, value in provider.headers.items():
        token = name.replace("-", "").replace("_", "")
        if not token.isascii() or not token.isalnum() or not _is_header_value(value):
            raise ConfigError(
                key=f"providers.{provider.name}.headers",
                problem=f"{name!r} is no header that HTTP can carry",
                remedy="use letters, digits and dashes for names, and one line of Latin text for values",
            )


def check_auth(provider: Provider, supported: set[str]) -> None:
    """Reject an authentication scheme that a transport does not support."""
    if provider.auth not in supported:
        raise ConfigError(
            key=f"providers.{provider.name}.auth",
            problem=f"{provider.auth!r} is unknown to transport {provider.transport!r}",
            remedy=f"use one of {', '.join(sorted(name for name in supported if name))}",
        )


def check_messages_only(provider: Provider) -> None:
    """Reject endpoints other than Messages, for transports that support only Claude."""
    for endpoint in provider.endpoints:
        if endpoint.protocol != MESSAGES:
            raise ConfigError(
                key=f"providers.{provider.name}.protocol",
                problem=f"transport {provider.transport!r} carries {MESSAGES} alone, got {endpoint.protocol}",
                remedy='make its OpenAI-compatible address a provider of its own, with transport = "http"',
            )


def option(provider: Provider, name: str, *variables: str) -> str:
    """An option, else the first of these environment variables with a value, else ""."""
    return provider.options.get(name, "") or next((value for name in variables if (value := os.environ.get(name))), "")


def required_option(provider: Provider, name: str, variables: Sequence[str], reason: str) -> str:
    value = option(provider, name, *variables)
    if not value:
        raise missing_option(provider, name, reason)
    return value


def missing_extra(provider: Provider, problem: str, extra: str) -> ConfigError:
    remedy = f"install dragoman from its clone with that extra: '.[{extra}]' in place of ."
    return ConfigError(key=f"providers.{provider.name}.transport", problem=problem, remedy=remedy)


def missing_option(provider: Provider, name: str, reason: str) -> ConfigError:
    return ConfigError(
        key=f"providers.{provider.name}.{name}", problem=f"missing; {reason}", remedy=f'set {name} = "…"'
    )


def _is_header_value(value: str) -> bool:
    try:
        value.encode("latin-1")
    except UnicodeError:
        return False
    return value.isprintable()


TRANSPORT = Transport(check=check, call=call)
