"""Content parts: read with their unknown members, written back as they were, and annotations of answers."""

from __future__ import annotations

import pytest

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.parts import (
    Audio,
    CacheBreakpoint,
    Citation,
    Document,
    Extras,
    Foreign,
    Image,
    Inline,
    Part,
    Text,
    Url,
)
from dragoman.protocols.openai_chat.parts import (
    PartEncoder,
    decode_annotation,
    decode_part,
    encode_annotation,
    encode_native_part,
    file_name,
    is_plain,
    joined,
    merge_extras,
    unmodelled,
)
from dragoman.wire.fields import Fields
from tests.protocols.openai_chat.room import A, C, losses, target

PARTS: list[tuple[JsonObject, type[Part]]] = [
    ({"type": "text", "text": "a", "mood": 1}, Text),
    ({"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"}}, Text),
    ({"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}, Text),
    ({"type": "text", "text": "a", "cache_control": {"type": "lasting"}}, Text),
    ({"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low", "mood": 1}}, Image),
    ({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, Image),
    ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}, Audio),
    ({"type": "file", "file": {"file_id": "file-1"}, "mood": 1}, Document),
    ({"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}}, Document),
    ({"type": "hologram", "light": 1}, Foreign),
]


@pytest.mark.parametrize(("wire", "kind"), PARTS)
def test_a_part_comes_home_as_it_was(wire: JsonObject, kind: type[Part]) -> None:
    part = decode_part(Fields(wire))
    assert type(part) is kind
    assert encode_native_part(part) == wire


@pytest.mark.parametrize("name", [{}, {"document_name": "a.pdf"}], ids=["unnamed", "named"])
def test_a_document_at_an_address_is_written_as_it_was(name: JsonObject) -> None:
    wire: JsonObject = {"type": "document_url", "document_url": "https://a.example/a.pdf", **name}
    part = Document(source=Url(url="https://a.example/a.pdf"), title="a.pdf" if name else None)
    assert encode_native_part(part) == wire


def test_a_part_without_a_type_is_told_by_its_members() -> None:
    assert decode_part(Fields({"text": "a"})) == Text(text="a")


def test_a_broken_data_url_is_an_error_with_its_place() -> None:
    with pytest.raises(WireError) as caught:
        decode_part(Fields({"type": "image_url", "image_url": {"url": "data:nothing"}}))
    assert caught.value.path == "/image_url/url"


def test_null_is_neither_unknown_nor_written_back() -> None:
    assert unmodelled(Fields({"a": None})) is None
    assert merge_extras({"a": 1}, Extras(origin=C, fields={"a": None, "b": 2})) == {"a": 1, "b": 2}


def test_the_members_of_others_are_not_written() -> None:
    assert merge_extras({}, Extras(origin=A, fields={"b": 2})) == {}


@pytest.mark.parametrize(
    ("part", "plain"),
    [
        (Text(text="a"), True),
        (Text(text="a", cache=CacheBreakpoint(origin=A)), False),
        (Text(text="a", extras=Extras(origin=A, fields={"x": 1})), False),
        (Text(text="a", logprobs=[]), False),
        (Text(text="a", citations=(Citation(origin=A, native={}),)), False),
    ],
)
def test_plain_text_is_nothing_but_its_text(part: Text, plain: bool) -> None:
    assert is_plain(part) is plain


def test_a_pdf_is_called_one() -> None:
    assert [file_name(None, "application/pdf"), file_name("a.PDF", "application/pdf"), file_name("a", "text/x")] == [
        "document.pdf",
        "a.PDF",
        "a",
    ]


def test_a_mark_is_written_in_this_protocols_words() -> None:
    ledger = Ledger()
    encoder = PartEncoder(target(breakpoints=True), ledger)
    written = encoder.text(Text(text="a", cache=CacheBreakpoint(origin=A, ttl="1h")), ("messages", 0, "parts", 0))
    assert written == {"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"}}
    assert losses(ledger) == {("approximated", "cache_breakpoint", "messages[0].parts[0].cache")}


def test_media_are_written_in_this_protocols_form() -> None:
    encoder = PartEncoder(target(), Ledger())
    sound = Audio(source=Inline(media_type="audio/mpeg", data="AAAA"))
    assert encoder.parts(sound, ()) == [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}]
    image = Image(source=Url(url="https://x/y.png"))
    assert encoder.parts(image, ()) == [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]


def test_annotations_name_web_pages_and_count_from_the_start() -> None:
    page: JsonObject = {"url": "https://x", "title": "X", "start_index": 1, "end_index": 3}
    wire: JsonObject = {"type": "url_citation", "url_citation": page}
    citation = decode_annotation(Fields(wire))
    assert (citation.url, citation.title, citation.span, citation.native) == ("https://x", "X", (1, 3), wire)
    moved = encode_annotation(citation, 10, 5)
    assert moved == {"type": "url_citation", "url_citation": {**page, "start_index": 11, "end_index": 13}}
    other = decode_annotation(Fields({"type": "file_citation", "file_id": "f"}))
    assert encode_annotation(other, 0, 5) is None


def test_lists_are_joined_and_nothing_is_none() -> None:
    assert joined([[1], None, [2]]) == [1, 2]
    assert joined([None, []]) is None
