"""Media as text: data URLs (RFC 2397), base64 and media types. Payloads may have many megabytes. They are decoded only
for a caller that needs their text, and copied at most once if they need no repair. The receiver validates them."""

import binascii
from urllib.parse import unquote, unquote_to_bytes

_SCHEME = "data:"
# The type of a data URL that names none (RFC 2397, section 2).
_DEFAULT_MEDIA_TYPE = "text/plain"

# Unregistered names in use, and the registered names that providers accept (pitfall 166).
_REGISTERED_NAMES = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-png": "image/png",
    "application/x-pdf": "application/pdf",
}

# Magic bytes in base64, cut to the characters that they determine alone.
_IMAGE_OPENINGS = (
    ("/9j/", "image/jpeg"),
    ("iVBORw0KGg", "image/png"),
    ("R0lGODdh", "image/gif"),
    ("R0lGODlh", "image/gif"),
)
_RIFF_OPENING = "UklGR"
_WEBP_HEADER_LENGTH = 16


class BadDataUrl(ValueError):
    """A text that begins like a data URL, but is not one."""


def parse_data_url(url: str) -> tuple[str, str] | None:
    """Return the media type, in lower case and without parameters, and the base64 payload; None for other URLs."""
    if url[:5].lower() != _SCHEME:
        return None
    comma = url.find(",", 5)
    if comma < 0:
        raise BadDataUrl("a data URL needs a comma before its data")
    declared, *parameters = url[5:comma].split(";")
    if "%" in declared:
        declared = unquote(declared)
    media_type = declared.strip().lower() or _DEFAULT_MEDIA_TYPE
    kind, _, subtype = media_type.partition("/")
    if not kind or not subtype:
        raise BadDataUrl(f"a data URL needs a media type such as image/png, found {media_type[:60]!r}")
    payload = url[comma + 1 :]
    if any(parameter.strip().lower() == "base64" for parameter in parameters):
        return media_type, _clean_base64(payload)
    try:
        raw = unquote_to_bytes(payload)
    except UnicodeEncodeError as error:
        raise BadDataUrl("the data of a data URL holds half of a surrogate pair") from error
    return media_type, binascii.b2a_base64(raw, newline=False).decode("ascii")


def data_url(media_type: str, data: str) -> str:
    return f"data:{media_type};base64,{data}"


def normal_media_type(declared: str) -> str:
    """Return the registered spelling of a media type, in lower case and without parameters."""
    media_type = declared.partition(";")[0].strip().lower()
    return _REGISTERED_NAMES.get(media_type, media_type)


def sniff_image(data: str) -> str | None:
    """Return the media type that the magic bytes of a base64 payload prove: JPEG, PNG, GIF or WebP."""
    for opening, media_type in _IMAGE_OPENINGS:
        if data.startswith(opening):
            return media_type
    if data.startswith(_RIFF_OPENING):
        try:
            header = binascii.a2b_base64(data[:_WEBP_HEADER_LENGTH])
        except ValueError:
            return None
        # Sound and video also begin with RIFF. The format name follows the length of the file.
        if header[:4] == b"RIFF" and header[8:] == b"WEBP":
            return "image/webp"
    return None


def decode_text(data: str) -> str | None:
    try:
        return binascii.a2b_base64(_without_whitespace(data), strict_mode=True).decode("utf-8")
    except ValueError:
        return None


def _clean_base64(payload: str) -> str:
    """Undo percent-encoding and line wrapping, which data URLs may have and base64 fields may not."""
    if "%" in payload:
        payload = unquote(payload, errors="replace")
    if not payload.isascii():
        raise BadDataUrl("the data of a base64 data URL holds characters that are not base64")
    return _without_whitespace(payload)


def _without_whitespace(data: str) -> str:
    # Four searches without a match cost far less than one pass that copies.
    if "\n" in data or " " in data or "\r" in data or "\t" in data:
        return "".join(data.split())
    return data
