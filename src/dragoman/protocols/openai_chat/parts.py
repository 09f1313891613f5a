"""Content parts of Chat, decoded and encoded: text, images, files, sound and refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dragoman.errors import RefusedError, WireError
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue, present
from dragoman.model.losses import Ledger, Place
from dragoman.model.parts import (
    Audio,
    CacheBreakpoint,
    Citation,
    Document,
    Extras,
    FileRef,
    Foreign,
    Image,
    Inline,
    Part,
    Passages,
    PlainText,
    Refusal,
    Text,
    Thinking,
    Url,
)
from dragoman.protocols.codec import TargetModel
from dragoman.protocols.openai_chat.reasoning import content_parts
from dragoman.protocols.openai_chat.shapes import ANTHROPIC, FILE_ISSUER, NAME, PDF
from dragoman.rules.extras import drop_extras, foreign_text, refused
from dragoman.wire.fields import Fields, render_path
from dragoman.wire.json import kind_of
from dragoman.wire.media import BadDataUrl, data_url, parse_data_url

_AUDIO_FORMATS = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav"}


def unmodelled(owner: Fields) -> Extras | None:
    rest = owner.rest(NAME)
    if rest is None or None not in rest.fields.values():
        return rest
    fields: JsonObject = {key: value for key, value in rest.fields.items() if value is not None}
    return Extras(origin=NAME, fields=fields) if fields else None


def decode_content(owner: Fields, key: str = "content") -> tuple[Part, ...]:
    """A message's content. A string is one text; absent and null are empty."""
    value = owner.raw(key)
    if value is None:
        return ()
    if isinstance(value, str):
        return (Text(text=value),)
    if not isinstance(value, list):
        raise owner.fail(key, "string or array", value)
    path = (owner.path, key)
    parts: list[Part] = []
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise WireError(render_path((path, index)), "object", kind_of(item))
        parts.append(decode_part(Fields(item, (path, index))))
    return tuple(parts)


def decode_part(part: Fields) -> Part:
    """One content part. Unknown types are stored unchanged."""
    kind = part.kind() or next((kind for kind in _DECODERS if kind in part.value), "unknown")
    decode = _DECODERS.get(kind)
    if decode is None:
        return Foreign(origin=NAME, kind=kind, body=part.value)
    return decode(part)


def decode_cache(owner: Fields) -> CacheBreakpoint | None:
    """A breakpoint of this protocol, or the Messages form that several servers accept."""
    for key, origin, tag in (("prompt_cache_breakpoint", NAME, "mode"), ("cache_control", ANTHROPIC, "type")):
        value = owner.value.get(key)
        if value is None:
            owner.skip(key)
        elif not isinstance(value, dict):
            raise owner.fail(key, "object", value)
        else:
            fields = Fields(value, (owner.path, key))
            kind, ttl = fields.optional_text(tag), fields.optional_text("ttl")
            if kind == _BREAKPOINT_TAGS[tag] and value.keys() <= {tag, "ttl"}:
                owner.skip(key)
                return CacheBreakpoint(origin=origin, ttl=ttl)
    return None


_BREAKPOINT_TAGS = {"mode": "explicit", "type": "ephemeral"}


def encode_cache(cache: CacheBreakpoint | None, part: JsonObject) -> None:
    if cache is None:
        return
    key, tag = ("prompt_cache_breakpoint", "mode") if cache.origin == NAME else ("cache_control", "type")
    part[key] = present({tag: _BREAKPOINT_TAGS[tag], "ttl": cache.ttl})


def _decode_text(part: Fields) -> Text:
    return Text(text=part.text("text"), cache=decode_cache(part), extras=unmodelled(part))


def _decode_refusal(part: Fields) -> Refusal:
    # A refusal inside the content is marked for the way back. Null loses nothing in other protocols.
    return Refusal(text=part.text("refusal"), extras=unmodelled(part) or _IN_CONTENT)


_IN_CONTENT = Extras(origin=NAME, fields={"refusal": None})


def _decode_image(part: Fields) -> Image:
    if isinstance(part.value.get("image_url"), str):
        # Mistral's clients send a bare URL.
        source = _source(part, "image_url", part.name("image_url"))
        return Image(source=source, cache=decode_cache(part), extras=unmodelled(part))
    image = part.fields("image_url")
    source = _source(image, "url", image.text("url"))
    detail = image.optional_text("detail")
    rest = unmodelled(image)
    return Image(source=source, detail=detail, cache=decode_cache(part), extras=_nested(part, "image_url", rest))


def _source(owner: Fields, key: str, url: str) -> Inline | Url:
    try:
        parsed = parse_data_url(url)
    except BadDataUrl as error:
        raise owner.wrong(key, "a data URL", str(error)) from None
    return Url(url=url) if parsed is None else Inline(media_type=parsed[0], data=parsed[1])


def _decode_audio(part: Fields) -> Audio:
    audio = part.fields("input_audio")
    source = Inline(media_type=f"audio/{audio.text('format')}", data=audio.text("data"))
    return Audio(source=source, cache=decode_cache(part), extras=_nested(part, "input_audio", unmodelled(audio)))


def _decode_file(part: Fields) -> Document:
    file = part.fields("file")
    data = file.optional_text("file_data")
    title = file.optional_text("filename")
    source: Inline | Url | FileRef
    if data is not None:
        source = _source(file, "file_data", data)
        if isinstance(source, Url):
            # Bare base64. The file name shows its type.
            guessed = PDF if (title or "").lower().endswith(".pdf") else "application/octet-stream"
            source = Inline(media_type=guessed, data=data)
    else:
        source = FileRef(issuer=FILE_ISSUER, file_id=file.text("file_id"))
    return Document(
        source=source, title=title, cache=decode_cache(part), extras=_nested(part, "file", unmodelled(file))
    )


def _decode_document(part: Fields) -> Document | Foreign:
    """A document by its URL, which Mistral's clients send: https://docs.mistral.ai/capabilities/document_ai."""
    address = part.value.get("document_url")
    if isinstance(address, dict):
        address = address.get("url")
    if not isinstance(address, str):
        return Foreign(origin=NAME, kind="document_url", body=part.value)
    part.skip("document_url")
    title = part.optional_text("document_name")
    return Document(source=_source(part, "document_url", address), title=title, extras=unmodelled(part))


def _nested(part: Fields, key: str, rest: Extras | None) -> Extras | None:
    """The unknown members of a part and of the object inside it."""
    outer = unmodelled(part)
    if rest is None:
        return outer
    inner: JsonObject = {key: rest.fields}
    return Extras(origin=NAME, fields={**outer.fields, **inner} if outer is not None else inner)


_DECODERS: dict[str, Callable[[Fields], Part]] = {
    "text": _decode_text,
    "image_url": _decode_image,
    "input_audio": _decode_audio,
    "file": _decode_file,
    "document_url": _decode_document,
    "refusal": _decode_refusal,
}


def merge_extras(written: JsonObject, extras: Extras | None) -> JsonObject:
    """Restore this protocol's unknown members, in nested objects too. Null marks an internal member."""
    if extras is not None and extras.origin == NAME:
        for key, value in extras.fields.items():
            if value is None:
                continue
            existing = written.get(key)
            written[key] = {**existing, **value} if isinstance(existing, dict) and isinstance(value, dict) else value
    return written


def encode_native_part(part: Part) -> JsonObject:
    written: JsonObject
    match part:
        case Text():
            written = {"type": "text", "text": part.text}
            encode_cache(part.cache, written)
        case Image():
            written = _image(part)
            encode_cache(part.cache, written)
        case Audio():
            written = _audio(part)
            encode_cache(part.cache, written)
        case Document():
            written = _native_file(part)
            encode_cache(part.cache, written)
        case Refusal():
            written = {"type": "refusal", "refusal": part.text}
        case Foreign():
            return part.body
        case Thinking() if in_content := content_parts(part):
            return in_content[0]
        case _:
            raise WireError("", "a content part", type(part).__name__)
    return merge_extras(written, part.extras)


def encode_native_content(parts: list[Part]) -> JsonValue:
    """A message's content in its original form. One plain text becomes a string."""
    if not parts:
        return ""
    first = parts[0]
    if len(parts) == 1 and isinstance(first, Text) and first.cache is None and first.extras is None:
        return first.text
    return [encode_native_part(part) for part in parts]


def _image(part: Image) -> JsonObject:
    source = part.source
    url = data_url(source.media_type, source.data) if isinstance(source, Inline) else ""
    if isinstance(source, Url):
        url = source.url
    return {"type": "image_url", "image_url": present({"url": url, "detail": part.detail})}


def _audio(part: Audio) -> JsonObject:
    kind = part.source.media_type.removeprefix("audio/")
    return {"type": "input_audio", "input_audio": {"data": part.source.data, "format": _AUDIO_FORMATS.get(kind, kind)}}


def _native_file(part: Document) -> JsonObject:
    if isinstance(part.source, Url):
        address: JsonObject = {"type": "document_url", "document_url": part.source.url}
        return address if part.title is None else {**address, "document_name": part.title}
    file: JsonObject = {}
    if isinstance(part.source, FileRef):
        file["file_id"] = part.source.file_id
    elif isinstance(part.source, Inline):
        file["file_data"] = data_url(part.source.media_type, part.source.data)
    if part.title is not None:
        file["filename"] = part.title
    return {"type": "file", "file": file}


def is_plain(part: Text) -> bool:
    return part.extras is None and part.cache is None and not part.citations and part.logprobs is None


class PartEncoder:
    """Encodes another protocol's content for a Chat provider, and reports losses (mapping.md §6)."""

    def __init__(self, target: TargetModel, ledger: Ledger) -> None:
        self._target = target
        self._ledger = ledger
        self.breakpoints = target.capabilities.breakpoints

    def parts(self, part: Part, at: Place) -> list[JsonObject]:
        match part:
            case Text():
                return [self.text(part, at)] if part.text else []
            case Image():
                return [self._image(part, at)]
            case Document():
                return self._document(part, at)
            case Audio():
                drop_extras(part.extras, at, self._ledger)
                return [self._with_breakpoint(_audio(part), part.cache, at)]
            case Foreign():
                text = foreign_text(part, at, self._ledger, by_user=True)
                return [{"type": "text", "text": text}] if text else []
            case _:
                raise refused(
                    Feature.UNSUPPORTED_CONTENT,
                    at,
                    f"a user's message to this provider cannot hold a {type(part).__name__}",
                )

    def text(self, part: Text, at: Place, text: str | None = None) -> JsonObject:
        """A text part, or the rest of its text. Additions that cannot be sent are reported."""
        written: JsonObject = {"type": "text", "text": part.text if text is None else text}
        if is_plain(part):
            return written
        drop_extras(part.extras, at, self._ledger)
        if part.citations:
            self._ledger.dropped(Feature.CITATIONS, (*at, "citations"), "history carries no citations here")
        if part.logprobs:
            self._ledger.dropped(Feature.LOGPROBS, (*at, "logprobs"), "history carries no log probabilities")
        return self._with_breakpoint(written, part.cache, at)

    def _with_breakpoint(self, written: JsonObject, cache: CacheBreakpoint | None, at: Place) -> JsonObject:
        return self.add_breakpoint(written, cache, (*at, "cache"))

    def add_breakpoint(self, written: JsonObject, cache: CacheBreakpoint | None, at: Place) -> JsonObject:
        """Set a breakpoint if the model accepts one (mapping.md §15)."""
        if cache is None:
            return written
        if not self.breakpoints:
            self._ledger.dropped(Feature.CACHE_BREAKPOINT, at, "this provider takes no cache breakpoints")
            return written
        ttl = _TTLS.get(cache.ttl or "5m", cache.ttl)
        if cache.origin == ANTHROPIC or ttl != cache.ttl:
            self._ledger.approximated(Feature.CACHE_BREAKPOINT, at, "written as a cache breakpoint")
        written["prompt_cache_breakpoint"] = present({"mode": "explicit", "ttl": ttl})
        return written

    def _image(self, part: Image, at: Place) -> JsonObject:
        if not self._target.capabilities.images:
            raise refused(Feature.IMAGE, at, "this model takes no images")
        if isinstance(part.source, FileRef):
            raise self._file_refused(part.source, at)
        drop_extras(part.extras, at, self._ledger)
        return self._with_breakpoint(_image(part), part.cache, at)

    def _file_refused(self, source: FileRef, at: Place) -> RefusedError:
        return refused(Feature.FILE_ID, at, f"the file {source.file_id!r} is kept by {source.issuer}")

    def _document(self, part: Document, at: Place) -> list[JsonObject]:
        drop_extras(part.extras, at, self._ledger)
        if part.citable is not None:
            self._ledger.dropped(Feature.DOCUMENT_OPTIONS, (*at, "citable"), "citations cannot be asked for here")
        match part.source:
            case Inline() as inline:
                if part.context is not None:
                    self._ledger.dropped(Feature.DOCUMENT_OPTIONS, (*at, "context"), "a file has no context here")
                file: JsonObject = {
                    "file_data": data_url(inline.media_type, inline.data),
                    "filename": file_name(part.title, inline.media_type),
                }
                written = [self._with_breakpoint({"type": "file", "file": file}, part.cache, at)]
            case PlainText() as plain:
                written = [self._as_text(part, [plain.text], at)]
            case Passages() as passages:
                written = self._passages(part, passages, at)
            case Url() as link:
                raise refused(Feature.DOCUMENT, at, f"documents by URL cannot be sent: {link.url[:200]}")
            case FileRef() as reference:
                if reference.issuer != FILE_ISSUER or self._target.vendor != FILE_ISSUER:
                    raise self._file_refused(reference, at)
                written = [self._with_breakpoint(_native_file(part), part.cache, at)]
        return written

    def _as_text(self, part: Document, body: Iterable[str], at: Place) -> JsonObject:
        self._ledger.approximated(Feature.TEXT_DOCUMENT, at, "a text document is written as text")
        lines = [line for line in (part.title, part.context, *body) if line]
        return self._with_breakpoint({"type": "text", "text": "\n".join(lines)}, part.cache, at)

    def _passages(self, part: Document, passages: Passages, at: Place) -> list[JsonObject]:
        texts: list[str] = []
        media: list[JsonObject] = []
        for index, passage in enumerate(passages.parts):
            place: Place = (*at, "source", "parts", index)
            if isinstance(passage, Text):
                texts.append(passage.text)
                drop_extras(passage.extras, place, self._ledger)
            else:
                media += self.parts(passage, place)
        return [self._as_text(part, texts, at), *media]


# The Messages lifetimes in this protocol's values; 5 minutes is the default.
_TTLS: dict[str, str | None] = {"5m": None, "1h": "30m", "12h": "30m"}


def file_name(title: str | None, media_type: str) -> str:
    """The name of a file to send. A PDF gets its extension."""
    name = title or "document"
    return f"{name}.pdf" if media_type == PDF and not name.lower().endswith(".pdf") else name


def decode_annotation(annotation: Fields) -> Citation:
    """A citation of a response. Other annotations are stored for the way back."""
    if annotation.optional_text("type") != "url_citation":
        return Citation(origin=NAME, native=annotation.value)
    page = annotation.fields("url_citation")
    start, end = page.optional_integer("start_index"), page.optional_integer("end_index")
    return Citation(
        origin=NAME,
        native=annotation.value,
        url=page.optional_text("url"),
        title=page.optional_text("title"),
        span=(start, end) if start is not None and end is not None else None,
    )


def encode_annotation(citation: Citation, start: int, length: int) -> JsonObject | None:
    """A citation of a text that begins at `start` of the response; None if it names no web page (mapping.md §19)."""
    if citation.url is None:
        return None
    span = citation.span or (0, length)
    return {
        "type": "url_citation",
        "url_citation": {
            "url": citation.url,
            "title": citation.title or citation.url,
            "start_index": start + span[0],
            "end_index": start + span[1],
        },
    }


def joined(lists: Iterable[JsonList | None]) -> JsonList | None:
    merged: JsonList = []
    for one in lists:
        merged.extend(one or ())
    return merged or None
