"""Content parts of Responses, decoded and encoded. User messages have `input_*` parts, the assistant's have
`output_text` and `refusal` (pitfall 19)."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.errors import WireError
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
    Url,
)
from dragoman.protocols.codec import TargetModel
from dragoman.protocols.openai_responses.shapes import FILE_ISSUER, NAME, VENDOR
from dragoman.rules.extras import drop_extras, foreign_text, refused
from dragoman.wire.fields import Fields
from dragoman.wire.media import BadDataUrl, data_url, normal_media_type, parse_data_url, sniff_image

_PDF = "application/pdf"
_AUDIO_FORMATS = {
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
}


def decode_content(fields: Fields, key: str) -> tuple[Part, ...]:
    """The parts of a message or of an output. A string is one text."""
    value = fields.value.get(key)
    if type(value) is str:
        fields.skip(key)
        return (Text(text=value),)
    parts: list[Part] = []
    for part in fields.each(key):
        # Responses may lack a type, requests must not.
        part.kind()
        parts.append(decode_part(part))
    return tuple(parts)


def plain_content(value: JsonValue) -> tuple[Part, ...] | None:
    """The result of `decode_content` for a string or one plain text, the usual shapes; None for others."""
    if type(value) is str:
        return (Text(text=value),)
    if type(value) is not list or len(value) != 1:
        return None
    part = value[0]
    if type(part) is not dict or type(text := part.get("text")) is not str:
        return None
    kind, size = part.get("type"), len(part)
    if kind == "output_text":
        # Apart from its text there are only empty lists.
        bare = part.get("annotations") == [] and (size == 3 or (size == 4 and part.get("logprobs") == []))
        return (Text(text=text),) if bare else None
    return (Text(text=text),) if size == 2 and kind == "input_text" else None


def decode_part(part: Fields) -> Part:
    kind = part.optional_text("type") or "input_text"
    decoder = _DECODERS.get(kind)
    if decoder is None:
        return Foreign(origin=NAME, kind=kind, body=part.value)
    return decoder(part)


def _decode_text(part: Fields) -> Text:
    return Text(text=part.text("text"), cache=_decode_breakpoint(part), extras=part.rest(NAME))


def _decode_output_text(part: Fields) -> Text:
    return Text(
        text=part.text("text"),
        citations=tuple([decode_annotation(annotation) for annotation in part.each("annotations")]),
        logprobs=part.optional_list("logprobs") or None,
        cache=_decode_breakpoint(part),
        extras=part.rest(NAME),
    )


def _decode_refusal(part: Fields) -> Refusal:
    return Refusal(text=part.text("refusal"), extras=part.rest(NAME))


def _decode_image(part: Fields) -> Part:
    url = part.optional_text("image_url")
    file_id = part.optional_text("file_id")
    source: Inline | Url | FileRef
    if file_id is not None and url is None:
        source = FileRef(issuer=FILE_ISSUER, file_id=file_id)
    elif url:
        source = _media(part, "image_url", url)
    else:
        raise part.wrong("image_url", "an address", "nothing")
    detail = part.optional_text("detail")
    cache = _decode_breakpoint(part)
    extras = part.rest(NAME)
    if isinstance(source, Inline) and source.media_type == _PDF:
        # Some clients send PDFs as images (pitfall 169).
        return Document(source=source, cache=cache, extras=Extras(origin=NAME, fields=part.value))
    return Image(source=source, detail=detail, cache=cache, extras=extras)


def _decode_file(part: Fields) -> Document:
    data = part.optional_text("file_data")
    url = part.optional_text("file_url")
    file_id = part.optional_text("file_id")
    source: Inline | Url | FileRef
    if data is not None:
        media = _media(part, "file_data", data)
        # Some clients send the bare base64 of a PDF.
        source = media if isinstance(media, Inline) else Inline(media_type=_PDF, data=data)
        if not isinstance(media, Inline):
            return Document(
                source=source, title=part.optional_text("filename"), extras=Extras(origin=NAME, fields=part.value)
            )
    elif url is not None:
        source = Url(url=url)
    elif file_id is not None:
        source = FileRef(issuer=FILE_ISSUER, file_id=file_id)
    else:
        raise part.wrong(None, "file_data, file_url or file_id", "none of them")
    return Document(
        source=source, title=part.optional_text("filename"), cache=_decode_breakpoint(part), extras=part.rest(NAME)
    )


def _decode_audio(part: Fields) -> Audio:
    audio = part.fields("input_audio")
    kind = audio.text("format")
    media_type = "audio/mpeg" if kind == "mp3" else f"audio/{kind}"
    return Audio(
        source=Inline(media_type=media_type, data=audio.text("data")),
        cache=_decode_breakpoint(part),
        extras=part.rest(NAME),
    )


def _media(part: Fields, key: str, url: str) -> Inline | Url:
    try:
        parsed = parse_data_url(url)
    except BadDataUrl as error:
        raise part.wrong(key, "a URL or a data URL", str(error)) from None
    return Url(url=url) if parsed is None else Inline(media_type=parsed[0], data=parsed[1])


def _decode_breakpoint(part: Fields) -> CacheBreakpoint | None:
    """A cache breakpoint. One with unknown members stays in the extras."""
    key = "prompt_cache_breakpoint"
    value = part.value.get(key)
    if value is None:
        return None
    if type(value) is not dict:
        raise part.fail(key, "object", value)
    fields = Fields(value, (part.path, key))
    fields.optional_text("mode")
    ttl = fields.optional_text("ttl")
    if not value.keys() <= {"mode", "ttl"}:
        return None
    part.skip(key)
    return CacheBreakpoint(origin=NAME, ttl=ttl)


_DECODERS: dict[str, Callable[[Fields], Part]] = {
    "input_text": _decode_text,
    "text": _decode_text,
    "output_text": _decode_output_text,
    "refusal": _decode_refusal,
    "input_image": _decode_image,
    "input_file": _decode_file,
    "input_audio": _decode_audio,
}


def decode_annotation(annotation: Fields) -> Citation:
    """An annotation of output text. `native` is the full object."""
    kind = annotation.optional_text("type")
    span: tuple[int, int] | None = None
    start, end = annotation.optional_integer("start_index"), annotation.optional_integer("end_index")
    if start is not None and end is not None:
        span = (start, end)
    return Citation(
        origin=NAME,
        native=annotation.value,
        url=annotation.optional_text("url") if kind == "url_citation" else None,
        title=annotation.optional_text("title") or annotation.optional_text("filename"),
        span=span,
        file_id=annotation.optional_text("file_id"),
    )


def encode_annotation(citation: Citation, offset: int, length: int) -> JsonObject | None:
    """A citation of the text at `offset` in its part; None if Responses cannot express it (§19)."""
    start, end = citation.span or (0, length)
    if citation.origin == NAME:
        if offset and citation.span is not None:
            return {**citation.native, "start_index": start + offset, "end_index": end + offset}
        return citation.native
    if citation.url is not None:
        return {
            "type": "url_citation",
            "url": citation.url,
            "title": citation.title or citation.url,
            "start_index": start + offset,
            "end_index": end + offset,
        }
    if citation.file_id is not None:
        return {
            "type": "file_citation",
            "file_id": citation.file_id,
            "filename": citation.title or "",
            "index": end + offset,
        }
    return None


def encode_annotations(texts: list[Text], places: list[Place], ledger: Ledger) -> JsonList:
    """The citations of adjacent texts as annotations of their one part, and their losses."""
    annotations: JsonList = []
    offset = 0
    for text, at in zip(texts, places, strict=True):
        for index, citation in enumerate(text.citations):
            one = encode_annotation(citation, offset, len(text.text))
            report_citation(citation, one, (*at, "citations", index), ledger)
            if one is not None:
                annotations.append(one)
        offset += len(text.text)
    return annotations


def report_citation(citation: Citation, written: JsonObject | None, at: Place, ledger: Ledger) -> None:
    """Report a citation that cannot be expressed, or its additional members."""
    if written is None:
        ledger.dropped(Feature.CITATIONS, at, "this source has no form here")
    elif citation.origin not in (NAME, "openai-chat"):
        ledger.dropped(Feature.CITATIONS, at, "the cited words and the place in the source are not told")


def encode_native(part: Text | Refusal | Foreign) -> JsonObject:
    if isinstance(part, Foreign):
        return part.body
    extras = part.extras.fields if part.extras is not None else {}
    if "type" in extras:
        return extras
    written: JsonObject
    if isinstance(part, Refusal):
        written = {"type": "refusal", "refusal": part.text}
    else:
        written = {
            "type": "output_text",
            "text": part.text,
            "annotations": [citation.native for citation in part.citations],
        }
        if part.logprobs is not None:
            written["logprobs"] = part.logprobs
        if part.cache is not None:
            written["prompt_cache_breakpoint"] = present({"mode": "explicit", "ttl": part.cache.ttl})
    return {**written, **extras} if extras else written


def _image_source(source: Inline | Url | FileRef) -> JsonObject:
    match source:
        case Inline():
            return {"image_url": data_url(source.media_type, source.data)}
        case Url():
            return {"image_url": source.url}
        case FileRef():
            return {"file_id": source.file_id}


def _file_source(source: object) -> JsonObject:
    match source:
        case Inline():
            return {"file_data": data_url(source.media_type, source.data)}
        case Url():
            return {"file_url": source.url}
        case FileRef():
            return {"file_id": source.file_id}
    raise WireError("", "a file", type(source).__name__)


def _audio(part: Audio) -> JsonObject:
    media_type = part.source.media_type
    return {"data": part.source.data, "format": _AUDIO_FORMATS.get(media_type, media_type.removeprefix("audio/"))}


class InputWriter:
    """Encodes the parts of user content and of tool outputs for one provider, and collects losses."""

    def __init__(self, target: TargetModel, ledger: Ledger) -> None:
        self._target = target
        self._ledger = ledger

    def content(self, parts: list[Part], places: list[Place]) -> JsonList:
        written: JsonList = []
        for index, part in enumerate(parts):
            at = places[index]
            if isinstance(part, Document) and isinstance(part.source, Passages) and not _is_text(part.source):
                written += self._mixed_document(part, part.source, at)
                continue
            one = self.part(part, at)
            if one is not None:
                written.append(one)
        return written

    def _mixed_document(self, part: Document, passages: Passages, at: Place) -> JsonList:
        """A document of text and images as separate parts in order, because no file type has such content."""
        if part.extras is not None and "type" not in part.extras.fields:
            drop_extras(part.extras, at, self._ledger)
        if part.citable:
            self._ledger.dropped(Feature.DOCUMENT_OPTIONS, (*at, "citable"), "citations cannot be asked for")
        self._ledger.approximated(Feature.DOCUMENT, at, "sent as its texts and pictures, in order")
        written: list[JsonObject] = []
        lines = [line for line in (part.title, part.context) if line]
        for index, inner in enumerate(passages.parts):
            place: Place = (*at, "source", "parts", index)
            if isinstance(inner, Text):
                lines.append(inner.text)
                drop_extras(inner.extras, place, self._ledger)
                continue
            if lines:
                written.append({"type": "input_text", "text": "\n".join(lines)})
                lines = []
            if (one := self.part(inner, place)) is not None:
                written.append(one)
        if lines:
            written.append({"type": "input_text", "text": "\n".join(lines)})
        return [*written[:-1], self.add_breakpoint(written[-1], part.cache, at)] if written else []

    def part(self, part: Part, at: Place) -> JsonObject | None:
        writer = _INPUT.get(type(part))
        if writer is None:
            raise refused(Feature.UNSUPPORTED_CONTENT, at, f"{type(part).__name__} cannot stand in user content")
        return writer(self, part, at)

    def _foreign(self, part: Foreign, at: Place) -> JsonObject | None:
        text = foreign_text(part, at, self._ledger, by_user=True)
        return None if text is None else {"type": "input_text", "text": text}

    def _refusal(self, part: Refusal, at: Place) -> JsonObject:
        self._ledger.approximated(Feature.REFUSAL, at, "a refusal on the user's side is written as text")
        return {"type": "input_text", "text": part.text}

    def add_breakpoint(self, written: JsonObject, cache: CacheBreakpoint | None, at: Place) -> JsonObject:
        """Set a cache breakpoint on a part, if the model accepts it (§15)."""
        if cache is None:
            return written
        if not self._target.capabilities.breakpoints:
            self.lose_breakpoint(cache, at)
            return written
        ttl = cache.ttl
        if cache.origin == "anthropic-messages":
            ttl = "12h" if cache.ttl == "1h" else None
            self._ledger.approximated(
                Feature.CACHE_BREAKPOINT, (*at, "cache"), "lifetimes differ between the protocols"
            )
        return {**written, "prompt_cache_breakpoint": present({"mode": "explicit", "ttl": ttl})}

    def lose_breakpoint(self, cache: CacheBreakpoint | None, at: Place) -> None:
        """Report a cache breakpoint that cannot be set."""
        if cache is not None:
            self._ledger.dropped(Feature.CACHE_BREAKPOINT, (*at, "cache"), "no cache breakpoint can stand here")

    def _text(self, part: Text, at: Place) -> JsonObject:
        if part.extras is not None:
            drop_extras(part.extras, at, self._ledger)
        if part.citations:
            self._ledger.dropped(Feature.CITATIONS, (*at, "citations"), "input text has no citations")
        written: JsonObject = {"type": "input_text", "text": part.text}
        return written if part.cache is None else self.add_breakpoint(written, part.cache, at)

    def _image(self, part: Image, at: Place) -> JsonObject:
        source = part.source
        if isinstance(source, Inline) and normal_media_type(source.media_type) == _PDF:
            # Some clients send PDFs as images (pitfall 169).
            return self._document(Document(source=source, cache=part.cache, extras=part.extras), at)
        drop_extras(part.extras, at, self._ledger)
        if isinstance(source, Inline):
            media_type = sniff_image(source.data) or normal_media_type(source.media_type)
            source = Inline(media_type=media_type, data=source.data)
        elif isinstance(source, FileRef):
            self._check_issuer(source, at)
        written: JsonObject = {"type": "input_image", **_image_source(source), "detail": part.detail or "auto"}
        return self.add_breakpoint(written, part.cache, at)

    def _document(self, part: Document, at: Place) -> JsonObject:
        if part.extras is not None and "type" not in part.extras.fields:
            drop_extras(part.extras, at, self._ledger)
        source = part.source
        if not isinstance(source, Inline | Url | FileRef):
            return self._text_document(part, at)
        if part.citable:
            self._ledger.dropped(Feature.DOCUMENT_OPTIONS, (*at, "citable"), "citations cannot be asked for")
        if part.context is not None:
            self._ledger.dropped(Feature.DOCUMENT_OPTIONS, (*at, "context"), "files have no context here")
        if isinstance(source, FileRef):
            self._check_issuer(source, at)
        written: JsonObject = {"type": "input_file", **_file_source(source)}
        if isinstance(source, Inline):
            written["filename"] = _filename(part.title, source.media_type)
        elif part.title is not None:
            written["filename"] = part.title
        return self.add_breakpoint(written, part.cache, at)

    def _text_document(self, part: Document, at: Place) -> JsonObject:
        """A text document: title, context and body on separate lines (T12)."""
        self._ledger.approximated(Feature.TEXT_DOCUMENT, at, "a text document is sent as text")
        lines = [line for line in (part.title, part.context) if line]
        if isinstance(part.source, PlainText):
            lines.append(part.source.text)
        elif not isinstance(part.source, Inline | Url | FileRef):
            lines += [inner.text for inner in part.source.parts if isinstance(inner, Text)]
        return self.add_breakpoint({"type": "input_text", "text": "\n".join(lines)}, part.cache, at)

    def _audio(self, part: Audio, at: Place) -> JsonObject:
        if not self._target.capabilities.audio:
            raise refused(Feature.AUDIO, at, "this provider takes no audio")
        drop_extras(part.extras, at, self._ledger)
        return self.add_breakpoint({"type": "input_audio", "input_audio": _audio(part)}, part.cache, at)

    def _check_issuer(self, source: FileRef, at: Place) -> None:
        if self._target.vendor == VENDOR and source.issuer in (FILE_ISSUER, "openai-chat"):
            return
        if source.issuer != self._target.vendor:
            raise refused(Feature.FILE_ID, at, f"the file is kept by {source.issuer}, which only that provider reads")


_INPUT: dict[type, Callable[..., JsonObject | None]] = {
    Text: InputWriter._text,
    Image: InputWriter._image,
    Document: InputWriter._document,
    Audio: InputWriter._audio,
    Foreign: InputWriter._foreign,
    Refusal: InputWriter._refusal,
}


def _is_text(passages: Passages) -> bool:
    return all(isinstance(part, Text) for part in passages.parts)


def _filename(title: str | None, media_type: str) -> str:
    name = title or "document"
    if media_type == _PDF and not name.lower().endswith(".pdf"):
        name += ".pdf"
    return name


def plain_text(parts: tuple[Part, ...]) -> str | None:
    """The text of parts that are only plain text, joined by newlines; None if there are others."""
    texts: list[str] = []
    for part in parts:
        if type(part) is not Text or part.cache is not None or part.extras is not None:
            return None
        texts.append(part.text)
    return "\n".join(texts)
