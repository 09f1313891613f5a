"""Recorder: writes one line of JSON per request and response."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from dragoman.http.upstream_call import HeaderList
from dragoman.model.jsonvalue import JsonObject
from dragoman.wire.json import encode

# Headers with secret values.
SECRET = frozenset({"authorization", "x-api-key", "api-key", "cookie", "proxy-authorization"})
_CUT = "…"


class Recorder:
    """Appends to a file, each line at once, so that the line exists when the client has its response."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("ab", buffering=0)

    def record(self, line: JsonObject) -> None:
        self._file.write(encode(line) + b"\n")

    def close(self) -> None:
        self._file.close()


def redacted_headers(headers: HeaderList) -> JsonObject:
    """Headers by name. Values of the same name are joined, credentials are redacted."""
    redacted: JsonObject = {}
    for key, value in headers:
        name, text = key.decode("latin-1"), value.decode("latin-1")
        before = redacted.get(name)
        redacted[name] = _CUT if name in SECRET else f"{before}, {text}" if isinstance(before, str) else text
    return redacted
