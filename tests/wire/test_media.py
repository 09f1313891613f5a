"""Data URLs, base64 and media types, with the spellings that clients really send."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.wire.media import (
    BadDataUrl,
    data_url,
    decode_text,
    normal_media_type,
    parse_data_url,
    sniff_image,
)


def encoded(octets: bytes) -> str:
    return base64.b64encode(octets).decode()


DATA_URLS: dict[str, tuple[str, tuple[str, str] | None]] = {
    "base64": ("data:image/png;base64,iVBORw0KGgo=", ("image/png", "iVBORw0KGgo=")),
    "scheme, type and base64 in capitals": ("DATA:Image/PNG;BASE64,AAAA", ("image/png", "AAAA")),
    "parameters before base64": ("data:text/plain;charset=utf-8;name=a.txt;base64,aGk=", ("text/plain", "aGk=")),
    "a parameter after base64": ("data:text/plain;base64;charset=utf-8,aGk=", ("text/plain", "aGk=")),
    "spaces around the parts": ("data: image/png ; base64 ,AAAA", ("image/png", "AAAA")),
    "no type": ("data:;base64,aGk=", ("text/plain", "aGk=")),
    "nothing but data": ("data:,hi", ("text/plain", "aGk=")),
    "percent-encoded text": ("data:text/plain,a%20b%2C%C3%A9", ("text/plain", encoded("a b,é".encode()))),
    "a comma in the data": ("data:text/plain,a,b", ("text/plain", encoded(b"a,b"))),
    "characters that should have been encoded": ("data:text/plain,é", ("text/plain", encoded("é".encode()))),
    "percent-encoded svg": ("data:image/svg+xml,%3Csvg/%3E", ("image/svg+xml", encoded(b"<svg/>"))),
    "percent-encoded base64": ("data:image/png;base64,ab%2Bc%2Fd%3D%3D", ("image/png", "ab+c/d==")),
    "a percent-encoded type": ("data:image%2Fpng;base64,AAAA", ("image/png", "AAAA")),
    "wrapped base64": ("data:image/png;base64,AAAA\r\nBBBB\n CC\t==", ("image/png", "AAAABBBBCC==")),
    "empty data": ("data:text/plain;base64,", ("text/plain", "")),
    "base64 as a value is no base64": ("data:text/plain;x=base64,hi", ("text/plain", "aGk=")),
    "an https URL": ("https://example.com/data:image/png;base64,AAAA", None),
    "bare base64": ("iVBORw0KGgo=", None),
    "an empty text": ("", None),
}


@pytest.mark.parametrize(("url", "expected"), DATA_URLS.values(), ids=DATA_URLS.keys())
def test_a_data_url_is_parsed(url: str, expected: tuple[str, str] | None) -> None:
    assert parse_data_url(url) == expected


BAD_DATA_URLS = {
    "no comma": ("data:image/png;base64", "comma"),
    "a type without a subtype": ("data:png;base64,AAAA", "'png'"),
    "base64 in the place of the type": ("data:base64,AAAA", "'base64'"),
    "an empty subtype": ("data:image/;base64,AAAA", "'image/'"),
    "base64 in another alphabet": ("data:image/png;base64,é", "not base64"),
    "percent-encoded bytes in base64": ("data:image/png;base64,%FF", "not base64"),
    "half a surrogate pair": ("data:text/plain,\ud800", "surrogate"),
}


@pytest.mark.parametrize(("url", "message"), BAD_DATA_URLS.values(), ids=BAD_DATA_URLS.keys())
def test_a_malformed_data_url_says_what_is_wrong(url: str, message: str) -> None:
    with pytest.raises(BadDataUrl, match=message):
        parse_data_url(url)


@given(st.binary())
def test_a_written_data_url_parses_back(octets: bytes) -> None:
    assert parse_data_url(data_url("image/png", encoded(octets))) == ("image/png", encoded(octets))


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ("image/jpg", "image/jpeg"),
        ("IMAGE/JPG; q=1", "image/jpeg"),
        ("image/pjpeg", "image/jpeg"),
        ("image/x-png", "image/png"),
        ("application/x-pdf", "application/pdf"),
        (" Text/Plain ;charset=utf-8", "text/plain"),
        ("image/webp", "image/webp"),
        ("", ""),
    ],
)
def test_a_media_type_gets_its_registered_name(declared: str, expected: str) -> None:
    assert normal_media_type(declared) == expected


IMAGES: dict[str, tuple[bytes, str | None]] = {
    "jpeg": (b"\xff\xd8\xff\xe0\x00\x10JFIF", "image/jpeg"),
    "jpeg with exif": (b"\xff\xd8\xff\xe1", "image/jpeg"),
    "png": (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "image/png"),
    "png, the signature alone": (b"\x89PNG\r\n\x1a\n", "image/png"),
    "gif of 1987": (b"GIF87a\x01\x00", "image/gif"),
    "gif of 1989": (b"GIF89a\x01\x00", "image/gif"),
    "webp": (b"RIFF\x24\x00\x00\x00WEBPVP8 ", "image/webp"),
    "webp of another length": (b"RIFF\xff\xff\xff\x7fWEBPVP8L", "image/webp"),
    "sound in a RIFF file": (b"RIFF\x24\x00\x00\x00WAVEfmt ", None),
    "a RIFF file cut short": (b"RIFF\x24\x00", None),
    "svg": (b"<svg xmlns=''/>", None),
    "pdf": (b"%PDF-1.7", None),
    "nothing": (b"", None),
}


@pytest.mark.parametrize(("octets", "expected"), IMAGES.values(), ids=IMAGES.keys())
def test_an_image_is_known_by_its_first_bytes(octets: bytes, expected: str | None) -> None:
    assert sniff_image(encoded(octets)) == expected


@pytest.mark.parametrize("data", ["UklGRé", "UklGR", "UklGR!!!!!!!!!!!", "not base64 at all"])
def test_sniffing_survives_what_is_not_base64(data: str) -> None:
    assert sniff_image(data) is None


@given(st.text())
def test_text_in_base64_is_read(text: str) -> None:
    assert decode_text(encoded(text.encode())) == text


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("aGVs\r\nbG8=\n", "hello"),
        ("", ""),
        (encoded(b"\xff\xfe"), None),
        ("a", None),
        ("aGk", None),
        ("hi there!", None),
        ("é", None),
    ],
)
def test_only_text_in_base64_is_text(data: str, expected: str | None) -> None:
    assert decode_text(data) == expected
