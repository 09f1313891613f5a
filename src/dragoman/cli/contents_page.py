"""Contents page: the stored bodies of one exchange. On a terminal they have no control sequences."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

from dragoman.cli.terminal import printable
from dragoman.config.settings import Settings
from dragoman.contents.exchange_contents import BodySide, ExchangeContents, StoredBody
from dragoman.errors import DragomanError
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.store.contents_database import contents_path

_MICRO = 1_000_000
_NAMES = {
    BodySide.CLIENT_REQUEST: "client request",
    BodySide.PROVIDER_REQUEST: "provider request",
    BodySide.PROVIDER_RESPONSE: "provider response",
    BodySide.CLIENT_RESPONSE: "client response",
}


def read_contents_of(settings: Settings, exchange: str) -> ExchangeContents:
    """The contents of an exchange; an error with the reason if there are none."""
    path = contents_path(settings.storage.location)
    if path is not None and not path.exists():
        raise DragomanError(f"no contents stored: {_advice(settings)}")
    from dragoman.contents.archive import open_archive
    from dragoman.contents.redaction import ContentsRedactor

    with closing(open_archive(settings.storage.location, ContentsRedactor(), key=settings.contents.key)) as archive:
        contents = archive.read(exchange)
        if contents is not None:
            return contents
        span = archive.tables.span()
    times = "" if span is None else f", which has those from {_day(span[0])} to {_day(span[1])}"
    raise DragomanError(f"no contents of {exchange} in the contents database{times}: {_advice(settings)}")


def contents_document(contents: ExchangeContents) -> JsonObject:
    """The contents as a document: bodies in UTF-8 are texts, others in base64."""
    bodies: list[JsonValue] = [_document(body) for body in _in_order(contents)]
    document: JsonObject = {"id": contents.id, "key": contents.key, "bodies": bodies}
    return {**document, "reason": contents.reason} if contents.reason else document


def contents_page(contents: ExchangeContents) -> Iterator[str]:
    """The contents as text."""
    if contents.reason:
        yield f"contents of {contents.id} are missing: {contents.reason}"
    for body in _in_order(contents):
        number = f" {body.attempt}" if body.attempt else ""
        size = f"missing: {body.reason}" if body.reason else f"{len(body.data)} bytes"
        yield f"--- {_NAMES[body.side]}{number} ({size})"
        yield from map(printable, body.data.decode("utf-8", "backslashreplace").split("\n"))


def _in_order(contents: ExchangeContents) -> list[StoredBody]:
    """The request of the client, each attempt, and the response to the client."""
    return sorted(contents.bodies, key=_place)


def _place(body: StoredBody) -> tuple[bool, int, int]:
    return body.side is BodySide.CLIENT_RESPONSE, body.attempt, body.side


def _document(body: StoredBody) -> JsonObject:
    document: JsonObject = {"body": _NAMES[body.side].replace(" ", "_")}
    if body.attempt:
        document["attempt"] = body.attempt
    if body.reason:
        return {**document, "reason": body.reason}
    try:
        return {**document, "text": body.data.decode()}
    except UnicodeDecodeError:
        return {**document, "base64": b64encode(body.data).decode()}


def _advice(settings: Settings) -> str:
    if settings.records_contents:
        return "they may be older than storage.contents.days, or the client sent x-dragoman-record: off"
    return 'write record = "on" in [storage.contents], and start the gateway again'


def _day(time: int) -> str:
    return datetime.fromtimestamp(time / _MICRO, UTC).strftime("%Y-%m-%d %H:%M UTC")
