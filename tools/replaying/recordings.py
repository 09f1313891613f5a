"""Recorded exchanges out of the files of a folder, in the shapes in which public repositories keep them.

    *.yaml *.yml (*.gz)     cassettes of vcr in Python, Ruby and Go: `interactions` with a request and a response
    *.json                  a body, a list of bodies, HTTP archives, nock's and other recorders' pairs
    *.httprr                what Go's httprr writes: requests and responses as they went over the wire
    *.jsonl *.txt *.sse …   a stream of events, as it came or one JSON value for each line

Whatever the file, its value is walked through: what holds both a request and a response is an exchange, what looks like
an answer or a request of a language model is one. Everything else is passed over.
"""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import brotli  # type: ignore[import-untyped]  # the package carries no types
import zstandard
from msgspec import Struct

from tools.replaying import yaml
from tools.replaying.protocols import (
    CHAT,
    MESSAGES,
    RESPONSES,
    Object,
    answer_protocol,
    as_json,
    events_of,
    request_protocol,
    stream_protocol,
    written,
)

_LONGEST = 8 * 1024 * 1024
_SUFFIXES = frozenset((".yaml", ".yml", ".json", ".jsonl", ".ndjson", ".txt", ".sse", ".snap", ".har", ".httprr"))


class Exchange(Struct, frozen=True, kw_only=True):
    """One recorded exchange: the protocol, the question if it was kept, and the answer as it came."""

    file: str
    protocol: str
    place: int = 0
    host: str = ""
    request: Object | None = None
    status: int = 200
    # The answer: a whole body, or the bytes of a stream; neither where only the question was kept.
    whole: bytes | None = None
    stream: bytes | None = None

    @property
    def name(self) -> str:
        """Where it was found."""
        return f"{self.file}#{self.place}"

    @property
    def answered(self) -> bool:
        """Whether there is an answer at all."""
        return self.whole is not None or self.stream is not None


class Unread(Struct, frozen=True):
    """A file that could not be read, and why."""

    file: str
    why: str


def found_in(folder: Path) -> Iterator[Exchange | Unread]:
    """Every exchange below a folder, in the order of the files' names; the same answer is told once."""
    seen: set[bytes] = set()
    for path in sorted(folder.rglob("*")):
        suffixes = path.suffixes[-2:] if path.suffix == ".gz" else path.suffixes[-1:]
        if not path.is_file() or not suffixes or suffixes[0] not in _SUFFIXES:
            continue
        name = str(path.relative_to(folder))
        try:
            raw = path.read_bytes()
            raw = gzip.decompress(raw) if path.suffix == ".gz" else raw
            exchanges = list(read(name, raw, suffixes[0]))
        except (ValueError, OSError, RecursionError, KeyError, zlib.error) as error:
            yield Unread(name, f"{type(error).__name__}: {str(error)[:200]}")
            continue
        for place, exchange in enumerate(exchanges):
            told = exchange.whole or exchange.stream or json.dumps(exchange.request).encode()
            if told not in seen:
                seen.add(told)
                yield _placed(exchange, place)


def _placed(exchange: Exchange, place: int) -> Exchange:
    return Exchange(
        file=exchange.file,
        protocol=exchange.protocol,
        place=place,
        host=exchange.host,
        request=exchange.request,
        status=exchange.status,
        whole=exchange.whole,
        stream=exchange.stream,
    )


def read(name: str, raw: bytes, suffix: str) -> Iterator[Exchange]:
    """The exchanges of one file."""
    if suffix == ".httprr":
        for pair in _wire_pairs(raw):
            yield from _walked(name, pair)
        return
    text = raw.decode("utf-8", "surrogateescape" if suffix == ".txt" else "replace")
    if suffix in (".yaml", ".yml"):
        yield from _walked(name, yaml.load(text))
        return
    if suffix in (".json", ".har"):
        yield from _walked(name, json.loads(text))
        return
    events = events_of(text)
    protocol = stream_protocol(events)
    if protocol is not None:
        if any(line.startswith("data:") for line in text.split("\n")):
            yield Exchange(file=name, protocol=protocol, stream=raw)
            return
        # Lines of JSON are the data of the events, and the end of the stream was not kept.
        for one in _split(events):
            yield Exchange(file=name, protocol=protocol, stream=written(protocol, one, closed=True))
        return
    for event in events:
        yield from _walked(name, event)


_LAST = ("message_stop", "response.completed", "response.incomplete", "response.failed")


def _split(events: list[Object]) -> Iterator[list[Object]]:
    """The streams that were kept in one list, one after the other."""
    start = 0
    for place, event in enumerate(events):
        if (
            place
            and events[place - 1].get("type") in _LAST
            and event.get("type") in ("message_start", "response.created")
        ):
            yield events[start:place]
            start = place
    yield events[start:]


def _walked(name: str, value: object) -> Iterator[Exchange]:
    """Every exchange inside a value, the outermost first."""
    if isinstance(value, list):
        protocol = stream_protocol(value)
        if protocol is not None and len(value) > 1:
            events = [item for item in value if isinstance(item, dict)]
            yield Exchange(file=name, protocol=protocol, stream=written(protocol, events, closed=True))
            return
        for item in value:
            yield from _walked(name, item)
        return
    if not isinstance(value, dict):
        return
    if isinstance(value.get("response"), dict) and ("request" in value or "body" in value["response"]):
        exchange = _exchange(name, value)
        if exchange is not None:
            yield exchange
        return
    if isinstance(value.get("requests"), list) and isinstance(value.get("responses"), list):
        for asked, told in zip(value["requests"], value["responses"], strict=False):
            yield from _walked(name, {"request": asked, "response": told})
        return
    protocol = answer_protocol(value)
    if protocol is not None:
        yield Exchange(file=name, protocol=protocol, whole=as_json(value))
        return
    protocol = request_protocol(value)
    if protocol is not None:
        yield Exchange(file=name, protocol=protocol, request=value)
        return
    for member in value.values():
        if isinstance(member, dict | list):
            yield from _walked(name, member)


def _exchange(name: str, pair: Object) -> Exchange | None:
    """A request and its response, if this is such a pair and it is about a language model."""
    asked, told = pair.get("request"), pair.get("response")
    if not isinstance(told, dict):
        return None
    asked = asked if isinstance(asked, dict) else {}
    uri = next((text for key in ("uri", "url", "path") if isinstance(text := asked.get(key), str)), "")
    request = _parsed(_body(asked))
    request = request if isinstance(request, dict) and request_protocol(request) is not None else None
    status = _status(told)
    raw = _body(told)
    answer = _parsed(raw)
    protocol = answer_protocol(answer) if isinstance(answer, dict) else None
    events = [] if answer is not None or not isinstance(raw, bytes) else events_of(raw.decode("utf-8", "replace"))
    protocol = protocol or stream_protocol(events)
    by_request = (request_protocol(request) if request is not None else None) and _path_protocol(uri, request or {})
    host = urlsplit(uri).hostname or "" if "//" in uri else ""
    if events and protocol is not None and isinstance(raw, bytes):
        return Exchange(file=name, protocol=protocol, host=host, request=request, status=status, stream=raw)
    if protocol is None and by_request is not None and isinstance(answer, dict) and "error" in answer:
        # An error looks alike in two protocols; the address tells which.
        protocol = by_request
    if isinstance(answer, dict) and protocol is not None:
        whole = raw if isinstance(raw, bytes) else as_json(answer)
        return Exchange(file=name, protocol=protocol, host=host, request=request, status=status, whole=whole)
    if by_request is not None and request is not None:
        return Exchange(file=name, protocol=by_request, host=host, request=request)
    return None


def _wire_pairs(raw: bytes) -> Iterator[Object]:
    """The pairs of an httprr file: a line with two lengths, then both messages."""
    at = raw.find(b"\n") + 1
    while (end := raw.find(b"\n", at)) > 0:
        asked, told = (int(length) for length in raw[at:end].split())
        request, response = raw[end + 1 : end + 1 + asked], raw[end + 1 + asked : end + 1 + asked + told]
        at = end + 1 + asked + told
        head, _, body = request.partition(b"\r\n\r\n")
        answer_head, _, answer = response.partition(b"\r\n\r\n")
        if b"transfer-encoding: chunked" in answer_head.lower():
            answer = _dechunked(answer)
        line = head.split(b"\r\n")[0].decode("latin-1").split(" ")
        status = int(answer_head.split(b" ")[1])
        yield {"request": {"uri": line[1], "body": body}, "response": {"status": status, "body": answer}}


def _dechunked(body: bytes) -> bytes:
    pieces: list[bytes] = []
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size.split(b";")[0] or b"0", 16)
        pieces.append(body[:length])
        body = body[length + 2 :] if length else b""
    return b"".join(pieces)


def _path_protocol(uri: str, request: Object) -> str | None:
    path = urlsplit(uri).path.rstrip("/")
    for end, protocol in (("/messages", MESSAGES), ("/chat/completions", CHAT), ("/responses", RESPONSES)):
        if path.endswith(end):
            return protocol
    return MESSAGES if "anthropic_version" in request else None


def _status(told: Object) -> int:
    status = told.get("status_code", told.get("code", told.get("status", 200)))
    if isinstance(status, dict):
        status = status.get("code", 200)
    return status if isinstance(status, int) else 200


def _body(half: Object) -> object:
    """The body of one half: bytes, a value that the recorder had parsed, or None."""
    if "parsed_body" in half:
        return half["parsed_body"]
    if isinstance(half.get("chunks"), list):
        return "".join(map(str, _listed(half["chunks"]))).encode("utf-8", "surrogatepass")
    body = half.get("body", half.get("content", half.get("postData", half.get("text"))))
    coding = ""
    if isinstance(body, dict):
        for key in ("string", "text"):
            if isinstance(body.get(key), str | bytes):
                coding, body = str(body.get("encoding", "")), body[key]
                break
    if isinstance(body, str):
        # Polly keeps a body that came compressed as a list of its pieces.
        pieces = [body] if coding != "base64" or body[:2] != '["' else [str(piece) for piece in json.loads(body)]
        body = b"".join(
            base64.b64decode(piece) if coding == "base64" else piece.encode("utf-8", "surrogatepass")
            for piece in pieces
        )
    return _inflated(body) if isinstance(body, bytes) else body


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _inflated(raw: bytes) -> bytes:
    """Bytes without their coding, which is told by how they begin: recorders keep headers and bodies out of step."""
    if raw[:2] == b"\x1f\x8b":
        return gzip.decompress(raw)
    if raw[:4] == b"\x28\xb5\x2f\xfd":
        return zstandard.ZstdDecompressor().decompressobj().decompress(raw)
    if raw[:1] not in (b"{", b"[", b"e", b"d", b":", b"") and not raw[:20].isascii():
        try:
            return bytes(brotli.decompress(raw))
        except brotli.error:
            return raw
    return raw


def _parsed(body: object) -> object:
    if isinstance(body, bytes):
        if body.lstrip()[:1] not in (b"{", b"["):
            return None
        try:
            value: object = json.loads(body)
        except ValueError:
            return None
        return value[0] if isinstance(value, list) and len(value) == 1 else value
    return body
