"""Redaction: a provider's error text without its credentials and its address.

Providers repeat parts of the request: the wrong key, the called host. Only errors are read for this; answers pass as
they are.

blanked out    as it is, percent-encoded, with JSON's escapes, as part of something in base64, in any case
a key          and when it is cut short: its first letters and more, or a few of them beside stars or dots
parts of it    clouds put several secrets into one: `ACCESS:SECRET:TOKEN`
a header       that the operator adds to calls, if its name or its value looks like a credential
a host         with scheme, port and path; one without a dot may be any word, and needs one of them
a place        region, project, resource …, as the options say or a cloud was called with, if it is no mere word
a cloud's ids  ARNs and numbers of accounts of AWS, paths of projects and names of service accounts of Google
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import suppress
from urllib.parse import quote, unquote, urlsplit

from msgspec.structs import replace

from dragoman.errors import ConfigError
from dragoman.http.upstream_call import HeaderList, UpstreamRequest, header
from dragoman.model.failure import Failure
from dragoman.model.parts import Extras
from dragoman.providers.http_transport import filled
from dragoman.providers.provider import Provider
from dragoman.wire.json import decode_object, encode

_BLANK = b"[redacted]"
# Digits may occur in JSON without quotes, so their replacement must be a number, too.
_BLANK_NUMBER = b"0"
_is_name = re.compile(r"[A-Za-z0-9_-]*").fullmatch
_is_number = re.compile(rb"[\d.,eE+-]+").fullmatch
# Shorter ones are no secrets ("none"), and would blank out ordinary words.
_MIN_SECRET_LENGTH = 8
# A key that is shown cut short is still most of a key; beside a mask a few letters are enough to know it.
_SHOWN_PREFIX = 12
_MASKED = 4
# All lengths are bounded: an error may repeat megabytes of input that was made to slow the search down.
_MASK = rb"(?:\*\*|\.{3}|\xe2\x80\xa6|\xe2\x80\xa2\xe2\x80\xa2)"
# Characters that may continue a key; none has a meaning in JSON.
_REST = rb"(?:[\w.*+/=%~-]|\xe2\x80[\xa2\xa6])*"
_SCHEME = rb"https?(?:://|:\\/\\/|%3a%2f%2f)"
_TAIL = rb"(?![\w-])(?:[^\s\"'\\,;)<>]|\\/)*"

_SECRET_HEADERS = (b"authorization", b"x-amz-security-token", b"api-key", b"x-api-key", b"x-goog-api-key")
# Whether the name of a header is that of a credential.
names_secret = re.compile(r"auth|key|token|secret|cookie|credential|password|session", re.IGNORECASE).search
_LEARNED_LIMIT = 64
# Bytes that are searched for one secret, and for any number of secrets.
_SEARCHED, _LEAST_SEARCHED = 256 * 1024, 16 * 1024
# Searching one byte for one secret costs as much as parsing this many bytes of JSON.
_SLOWER = 16

# Options that do not identify an account.
_OPEN_OPTIONS = frozenset({"anthropic_version", "api_version"})
_MIN_PLACE_LENGTH = 5
# Account identifiers in errors of cloud providers.
_IDS = {
    "bedrock": rb"arn:aws[\w-]{0,10}:[^\s\"'\\,;)<>]*|(?<![\w-])\d{12}(?![\w-])",
    "vertex": rb"(?:projects|locations)(?:/|\\/|%2f)[\w.:-]+|@[\w.-]{1,100}\.gserviceaccount\.com",
}
# Where a call states its location: the scope of a signature, and the path of a project.
_scope = re.compile(rb"Credential=([^/\s]+)/\d{8}/([^/\s]+)/").search
_project = re.compile(r"/projects/([^/]+)/locations/([^/]+)/").search


class Redactor:
    """Blanks out what must not leave of one provider."""

    def __init__(self, provider: Provider) -> None:
        self._keys: dict[str, None] = {}
        self._values: dict[str, None] = {}
        # Clouds have new credentials every hour: the oldest of them are forgotten, those of the configuration never.
        self._learned: dict[str, None] = {}
        for key in provider.keys:
            self._keys.update(dict.fromkeys((key, *key.split(":"))))
        for name, value in provider.headers.items():
            secrets = self._keys if names_secret(name) else self._values if _is_odd(value) else {}
            secrets.update(dict.fromkeys((value, *value.split())))
        self._hosts = {_host(endpoint.base_url, provider): None for endpoint in provider.endpoints}
        self._learned_hosts: dict[str, None] = {}
        self._places = {value: None for name, value in provider.options.items() if name not in _OPEN_OPTIONS}
        self._ids = _IDS.get(provider.transport)
        self._compile()

    def learn(self, request: UpstreamRequest) -> None:
        """Know the credentials and the address that a transport found by itself."""
        host = urlsplit(request.url).hostname or ""
        # The scheme precedes the credential. A signature belongs to one call; its secret is not sent.
        credentials = [
            value.decode("latin-1").split()[-1:] for name, value in request.headers if name in _SECRET_HEADERS
        ]
        secrets = [words[0] for words in credentials if words and not words[0].startswith("Signature=")]
        scope, project = _scope(header(request.headers, b"authorization") or b""), _project(urlsplit(request.url).path)
        places = [unquote(api_path) for api_path in project.groups()] if project is not None else []
        if scope is not None:
            secrets.append(scope[1].decode("latin-1"))
            places.append(scope[2].decode("latin-1"))
        fresh = [secret for secret in secrets if secret not in self._keys and secret not in self._learned]
        new = [api_path for api_path in places if api_path not in self._places]
        if not fresh and not new and (host in self._hosts or host in self._learned_hosts):
            return
        self._places.update(dict.fromkeys(new))
        _add_learned(self._learned, fresh)
        _add_learned(self._learned_hosts, [host])
        self._compile()

    @property
    def max_error_bytes(self) -> int:
        """Maximum bytes of an error to search: the work grows with the number of secrets."""
        return max(_LEAST_SEARCHED, _SEARCHED // max(self._secrets, 1))

    def work(self, size: int) -> int:
        """The JSON work that corresponds to searching so many bytes: it grows with the number of secrets."""
        return size * _SLOWER * max(self._secrets, 1)

    @property
    def _secrets(self) -> int:
        return len(self._keys) + len(self._values) + len(self._learned)

    def clean(self, body: bytes) -> bytes:
        """The same bytes, with blanks where secrets stood; JSON stays JSON."""
        return _without(self._in_json, body)

    def clean_text(self, text: str) -> str:
        """The same for text."""
        if self._in_text is None:
            return text
        # Names, as of requests, are searched in every exchange.
        if self._fragments is not None and _is_name(text):
            lower = text.lower()
            for fragment in self._fragments:
                if fragment in lower:
                    break
            else:
                return text
        return _without(self._in_text, text.encode("utf-8", "replace")).decode("utf-8", "replace")

    def clean_failure(self, failure: Failure) -> Failure:
        """The same for all texts of a failure."""
        extras = failure.extras
        if extras is not None and extras.fields:
            extras = Extras(origin=extras.origin, fields=decode_object(self.clean(encode(extras.fields))))
        return replace(
            failure,
            message=self.clean_text(failure.message),
            native=self.clean_text(failure.native),
            code=failure.code and self.clean_text(failure.code),
            param=failure.param and self.clean_text(failure.param),
            extras=extras,
        )

    def clean_headers(self, headers: HeaderList) -> HeaderList:
        """The same for the values of an error's headers."""
        return [(name, _without(self._in_text, value)) for name, value in headers]

    def _compile(self) -> None:
        keys = {secret for secret in (*self._keys, *self._learned) if len(secret) >= _MIN_SECRET_LENGTH}
        values = {secret for secret in self._values if len(secret) >= _MIN_SECRET_LENGTH}
        places = [each for each in self._places if len(each) >= _MIN_PLACE_LENGTH and not each.isalpha()]
        self._in_json = self._compiled(keys, values, places, json=True)
        self._in_text = self._compiled(keys, values, places, json=False)
        # A name has neither masks nor escapes nor addresses: a pattern that matches in it matches one of these, or the
        # number of an account.
        self._fragments: tuple[str, ...] | None = None
        if self._ids is None:
            plain = (*(key[:_SHOWN_PREFIX] for key in keys), *values, *places)
            encoded = (text.decode() for secret in keys | values for text in _base64_texts(secret))
            self._fragments = tuple({text.lower() for text in (*plain, *encoded)})

    def _compiled(self, keys: set[str], values: set[str], places: list[str], *, json: bool) -> re.Pattern[bytes] | None:
        # The longest first, so that a key inside a longer one does not leave the rest of it.
        patterns = [_whole(secret, json) for secret in sorted(keys | values, key=len, reverse=True)]
        patterns += [_in_base64(secret) for secret in keys | values]
        patterns += [_cut_short(secret, json) for secret in keys if not _is_number(secret.encode())]
        patterns += [self._ids] if self._ids is not None else []
        patterns += [_address(host) for host in (*self._hosts, *self._learned_hosts) if host and "{" not in host]
        patterns += [_place_pattern(place) for place in places]
        return re.compile(b"|".join(patterns)) if patterns else None


def _without(secrets: re.Pattern[bytes] | None, body: bytes) -> bytes:
    """The bytes with secrets blanked; both are lower-case, which is faster than a case-insensitive search."""
    if secrets is None:
        return body
    pieces: list[bytes] = []
    at = 0
    for match in secrets.finditer(body.lower()):
        pieces += (body[at : match.start()], _BLANK_NUMBER if _is_number(match[0]) else _BLANK)
        at = match.end()
    return b"".join((*pieces, body[at:])) if pieces else body


def _add_learned(into: dict[str, None], names: Iterable[str]) -> None:
    into.update(dict.fromkeys(names))
    while len(into) > _LEARNED_LIMIT:
        del into[next(iter(into))]


def _is_odd(value: str) -> bool:
    """Whether a header's value is no ordinary word: those have no digits, and dates no letters."""
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


def _whole(secret: str, json: bool) -> bytes:
    spelled = _spelled(secret, json)
    return rb"(?<!\d)" + spelled + rb"(?!\d)" if _is_number(secret.encode()) else spelled


def _spelled(secret: str, json: bool) -> bytes:
    """A pattern for every way to write a secret."""
    return b"".join(_character(c, json) for c in secret)


def _character(c: str, json: bool) -> bytes:
    if c.isascii() and c.isalnum():
        return c.lower().encode()
    encoded = c.encode("utf-8", "replace")
    ways = [quote(encoded, safe="").lower().encode() if c not in "-_.~" else b"%%%02x" % encoded[0]]
    ways.append(rb"\\" + re.escape(encoded))
    ways += [rb"\\u%04x" % ord(c)] if len(c.encode("utf-16-be", "replace")) == 2 else []
    # In JSON a bare quote ends a string, and a bare backslash belongs to what follows it.
    if not json or c not in '"\\':
        ways.append(re.escape(encoded))
    return b"(?:" + b"|".join(ways) + b")"


def _in_base64(secret: str) -> bytes:
    """A pattern for a secret as part of something in base64."""
    ways = {re.escape(text.lower()) for text in _base64_texts(secret)}
    return b"(?:" + b"|".join(sorted(ways)) + rb")[\w+/-]?={0,2}"


def _base64_texts(secret: str) -> Iterator[bytes]:
    """The fixed part of a secret inside base64, for each alignment."""
    encoded = secret.encode("utf-8", "replace")
    for lead, start in ((0, 0), (1, 2), (2, 3)):
        text = b64encode(b"\0" * lead + encoded)[start : 8 * (lead + len(encoded)) // 6]
        yield text
        yield text.translate(_URL_SAFE)


_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def _cut_short(secret: str, json: bool) -> bytes:
    """A key's first letters and more, or a few letters of it beside a mask."""
    first, last = _spelled(secret[:_MASKED], json), _spelled(secret[-_MASKED:], json)
    ways = [first + rb"[\w-]{0,64}+" + _MASK + _REST, _MASK + last]
    if len(secret) > _SHOWN_PREFIX:
        ways.insert(0, _spelled(secret[:_SHOWN_PREFIX], json) + _REST)
    return b"|".join(ways)


def _host(base_url: str, provider: Provider) -> str:
    """The host of an address whose placeholders are filled in, as far as they can be."""
    with suppress(ConfigError):
        base_url = filled(base_url, provider)
    return urlsplit(base_url).hostname or ""


def _place_pattern(name: str) -> bytes:
    return rb"(?<![^\W_])" + re.escape(name.encode("utf-8", "replace").lower()) + rb"(?![^\W_])"


def _address(host: str) -> bytes:
    name = re.escape(host.encode("utf-8", "replace").lower())
    if ":" in host:
        return rb"(?:%b)?(?:\[%b\]|(?<![\w:])%b)" % (_SCHEME, name, name) + _TAIL
    if "." in host:
        return rb"(?:%b|(?<![\w-]))%b" % (_SCHEME, name) + _TAIL
    return rb"(?:%b%b|(?<![\w.-])%b(?=:\d))" % (_SCHEME, name, name) + _TAIL
