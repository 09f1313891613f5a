"""Content parts: read, written home, and written for a provider by the mapping's section 6."""

from __future__ import annotations

import pytest

from dragoman.errors import RefusedError, WireError
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
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
from dragoman.protocols.openai_responses import NAME
from dragoman.protocols.openai_responses.parts import InputWriter, decode_part, encode_annotation, encode_native
from dragoman.wire.fields import Fields
from tests.protocols.openai_responses.asking import MESSAGES, lines, target

PNG = "iVBORw0KGgoAAAAN"
ROUND: list[tuple[JsonObject, Part]] = [
    ({"type": "input_text", "text": "x"}, Text(text="x")),
    (
        {"type": "input_text", "text": "x", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"}},
        Text(text="x", cache=CacheBreakpoint(origin=NAME, ttl="30m")),
    ),
    (
        {"type": "input_image", "image_url": "data:image/png;base64,AAEC", "detail": "low"},
        Image(source=Inline(media_type="image/png", data="AAEC"), detail="low"),
    ),
    ({"type": "input_image", "image_url": "https://a.example/i"}, Image(source=Url(url="https://a.example/i"))),
    ({"type": "input_image", "file_id": "f"}, Image(source=FileRef(issuer="openai", file_id="f"))),
    ({"type": "input_file", "file_url": "https://a.example/p"}, Document(source=Url(url="https://a.example/p"))),
    (
        {"type": "input_file", "file_data": "data:application/pdf;base64,AAEC", "filename": "a.pdf"},
        Document(source=Inline(media_type="application/pdf", data="AAEC"), title="a.pdf"),
    ),
    (
        {"type": "input_audio", "input_audio": {"data": "AAEC", "format": "mp3"}},
        Audio(source=Inline(media_type="audio/mpeg", data="AAEC")),
    ),
    ({"type": "refusal", "refusal": "no"}, Refusal(text="no")),
    ({"type": "brand_new", "x": 1}, Foreign(origin=NAME, kind="brand_new", body={"type": "brand_new", "x": 1})),
]


@pytest.mark.parametrize(("body", "part"), ROUND)
def test_parts_are_read(body: JsonObject, part: Part) -> None:
    assert decode_part(Fields(body)) == part


def test_bare_base64_is_a_pdf_with_its_name() -> None:
    body: JsonObject = {"type": "input_file", "file_data": "AAEC", "filename": "a.pdf"}
    source = Inline(media_type="application/pdf", data="AAEC")
    assert decode_part(Fields(body)) == Document(source=source, title="a.pdf", extras=Extras(origin=NAME, fields=body))


def test_parts_of_an_answer_are_written_as_they_were() -> None:
    mark = CacheBreakpoint(origin=NAME, ttl="30m")
    written: JsonObject = {"type": "output_text", "text": "x", "annotations": []}
    assert encode_native(Text(text="x")) == written
    marked: JsonObject = {**written, "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"}}
    assert encode_native(Text(text="x", cache=mark)) == marked
    assert encode_native(Refusal(text="no")) == {"type": "refusal", "refusal": "no"}
    body: JsonObject = {"type": "brand_new", "x": 1}
    assert encode_native(Foreign(origin=NAME, kind="brand_new", body=body)) == body


@pytest.mark.parametrize("body", [{"type": "input_file"}, {"type": "input_image", "image_url": "data:image/png"}])
def test_a_file_without_content_is_refused(body: JsonObject) -> None:
    with pytest.raises(WireError):
        decode_part(Fields(body))


def test_pitfall_169_a_pdf_that_comes_as_a_picture_is_a_document() -> None:
    body: JsonObject = {"type": "input_image", "image_url": "data:application/pdf;base64,AAEC"}
    part = decode_part(Fields(body))
    assert isinstance(part, Document)
    assert part.source == Inline(media_type="application/pdf", data="AAEC")
    assert part.extras == Extras(origin=NAME, fields=body)


def abroad(part: Part, **changes: bool) -> tuple[JsonObject | None, list[str]]:
    ledger = Ledger()
    body = InputWriter(target(**changes), ledger).part(part, ("messages", 0, "parts", 0))
    return body, lines(ledger)


@pytest.mark.parametrize(
    ("part", "body"),
    [
        (Text(text="x"), {"type": "input_text", "text": "x"}),
        (
            Image(source=Url(url="https://a.example/i")),
            {"type": "input_image", "image_url": "https://a.example/i", "detail": "auto"},
        ),
        (
            Document(source=Inline(media_type="application/pdf", data="AAEC"), title="report"),
            {"type": "input_file", "file_data": "data:application/pdf;base64,AAEC", "filename": "report.pdf"},
        ),
        (Document(source=Url(url="https://a.example/p")), {"type": "input_file", "file_url": "https://a.example/p"}),
        (
            Image(source=FileRef(issuer="openai", file_id="f")),
            {"type": "input_image", "file_id": "f", "detail": "auto"},
        ),
    ],
)
def test_content_is_written_exactly(part: Part, body: JsonObject) -> None:
    assert abroad(part) == (body, [])


def test_pitfall_166_a_wrong_label_of_a_picture_is_corrected() -> None:
    body, _ = abroad(Image(source=Inline(media_type="image/jpg", data=PNG)))
    assert body is not None
    assert body["image_url"] == f"data:image/png;base64,{PNG}"


@pytest.mark.parametrize(
    "source", [PlainText(text="body"), Passages(parts=(Text(text="body"),))], ids=["text", "passages"]
)
def test_text_documents_are_text(source: PlainText | Passages) -> None:
    body, losses = abroad(Document(source=source, title="title", context="context"))
    assert body == {"type": "input_text", "text": "title\ncontext\nbody"}
    assert losses == ["approximated text_document messages[0].parts[0]"]


def test_options_of_documents_are_reported() -> None:
    _, losses = abroad(Document(source=Url(url="u"), citable=True, context="c"))
    assert losses == [
        "dropped document_options messages[0].parts[0].citable",
        "dropped document_options messages[0].parts[0].context",
    ]


@pytest.mark.parametrize(
    "part",
    [
        Audio(source=Inline(media_type="audio/wav", data="AAEC")),
        Image(source=FileRef(issuer="anthropic", file_id="f")),
        Foreign(origin=MESSAGES, kind="container_upload", body={}),
    ],
    ids=["pitfall 171: audio", "pitfall 170: another provider's file", "unknown content"],
)
def test_pitfall_170_171_what_cannot_be_said_is_refused(part: Part) -> None:
    with pytest.raises(RefusedError):
        abroad(part)


def test_audio_is_sent_where_it_is_taken() -> None:
    body, _ = abroad(Audio(source=Inline(media_type="audio/wav", data="AAEC")), audio=True)
    assert body == {"type": "input_audio", "input_audio": {"data": "AAEC", "format": "wav"}}


def test_pitfall_172_citations_count_code_points_of_the_whole_part() -> None:
    web = Citation(origin=MESSAGES, native={}, url="https://a.example", title="A")
    assert encode_annotation(web, 3, 4) == {
        "type": "url_citation",
        "url": "https://a.example",
        "title": "A",
        "start_index": 3,
        "end_index": 7,
    }
    file = Citation(origin=MESSAGES, native={}, file_id="f", title="F")
    assert encode_annotation(file, 0, 4) == {"type": "file_citation", "file_id": "f", "filename": "F", "index": 4}
    assert encode_annotation(Citation(origin=MESSAGES, native={}), 0, 4) is None
