"""Redaction: a provider's error text without its credentials and its address.

Providers repeat what they were sent: the key that was wrong, the host that was called. Only errors are read for this;
answers pass as they are.
"""

from __future__ import annotations

import re
from base64 import b64encode
from urllib.parse import quote, urlsplit

from dragoman.http.flight import Call
from dragoman.providers.provider import Provider

_BLANK = b"[redacted]"
# Shorter ones are no secrets ("none"), and would blank out ordinary words.
_SHORTEST = 8
# A key that is shown cut short is still most of a key.
_SHOWN_PREFIX = 12
_SECRET_HEADERS = (b"authorization", b"x-amz-security-token", b"api-key", b"x-api-key")
_LEARNED_LIMIT = 64


class Redactor:
    """Blanks out what must not leave of one provider."""

    def __init__(self, provider: Provider) -> None:
        self._secrets: dict[str, None] = {}
        self._hosts: dict[str, None] = {}
        for key in provider.keys:
            # Clouds put several secrets into one: `ACCESS:SECRET:TOKEN`.
            for part in (key, *key.split(":")):
                self._secrets[part] = None
        for value in provider.headers.values():
            self._secrets[value] = None
        for endpoint in provider.endpoints:
            self._hosts[urlsplit(endpoint.base_url).hostname or ""] = None
        self._find = self._compiled()

    def learn(self, call: Call) -> None:
        """Know the credentials and the address that a transport found by itself."""
        host = urlsplit(call.url).hostname or ""
        secrets = [
            value.decode("latin-1").removeprefix("Bearer ") for name, value in call.headers if name in _SECRET_HEADERS
        ]
        # A signature is of one call only; what it is made with does not leave this machine.
        fresh = [secret for secret in secrets if secret not in self._secrets and not secret.startswith("AWS4-")]
        if host in self._hosts and not fresh:
            return
        self._hosts[host] = None
        self._secrets.update(dict.fromkeys(fresh))
        while len(self._secrets) > _LEARNED_LIMIT:
            del self._secrets[next(iter(self._secrets))]
        self._find = self._compiled()

    def clean(self, body: bytes) -> bytes:
        """The same bytes, with blanks where secrets stood; JSON stays JSON."""
        return body if self._find is None else self._find.sub(_BLANK, body)

    def clean_text(self, text: str) -> str:
        """The same for text."""
        return text if self._find is None else self.clean(text.encode("utf-8", "replace")).decode("utf-8", "replace")

    def _compiled(self) -> re.Pattern[bytes] | None:
        patterns: list[bytes] = []
        for secret in self._secrets:
            if len(secret) < _SHORTEST:
                continue
            for spelling in {secret, quote(secret, safe=""), b64encode(secret.encode()).decode().rstrip("=")}:
                patterns.append(re.escape(spelling.encode()))
            if len(secret) > _SHOWN_PREFIX:
                patterns.append(re.escape(secret[:_SHOWN_PREFIX].encode()) + rb"[^\s\"'\\,;]*")
        for host in self._hosts:
            if host and "{" not in host:
                patterns.append(rb"(?:https?://)?" + re.escape(host.encode()) + rb"(?::\d+)?[^\s\"'\\,;)<>]*")
        # The longest first, so that a key inside a longer spelling does not leave the rest of it.
        patterns.sort(key=len, reverse=True)
        return re.compile(b"|".join(patterns), re.IGNORECASE) if patterns else None
