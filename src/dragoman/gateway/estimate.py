"""Estimate: how many tokens a request is likely to take, without the provider's tokenizer.

Text counts by its characters: words of Latin script take about four to a token, other scripts about one and a half.
Media count by what providers charge for a picture or a page of usual size, not by their bytes.
"""

from __future__ import annotations

from dragoman.model.jsonvalue import JsonValue

_LATIN_PER_TOKEN = 3.8
_OTHER_PER_TOKEN = 1.4
_PER_MEMBER = 1.5
_PER_MESSAGE = 4
_PICTURE = 1600
_PAGE = 2000
# A page of a typical document, as base64.
_PAGE_OCTETS = 60_000
_PICTURES = frozenset({"image", "image_url", "input_image", "computer_screenshot"})
_DOCUMENTS = frozenset({"document", "file", "input_file"})
_UNREAD = frozenset({"type", "role", "cache_control", "signature", "encrypted_content"})
_SAID = ("system", "messages", "tools", "instructions", "input", "response_format", "text", "output_config")


def estimate(body: dict[str, JsonValue]) -> int:
    """The tokens of a request of any protocol: everything that the model reads."""
    total = 3.0
    for name in _SAID:
        if name in body:
            total += _weight(body[name])
    return max(1, round(total))


def _weight(value: JsonValue) -> float:
    total = 0.0
    stack: list[JsonValue] = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            total += _text(item)
        elif isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, dict):
            # In a schema `type` may be a list of types, or a member that somebody calls so.
            kind = item.get("type")
            if not isinstance(kind, str):
                kind = ""
            if kind in _PICTURES:
                total += _PICTURE
            elif kind in _DOCUMENTS:
                total += _document(item)
            else:
                total += _PER_MESSAGE if "role" in item else 0.0
                for name, member in item.items():
                    if name not in _UNREAD or (name == "type" and not kind):
                        total += _PER_MEMBER
                        stack.append(member)
        elif item is not None:
            total += 1
    return total


def _text(text: str) -> float:
    if text.isascii():
        return len(text) / _LATIN_PER_TOKEN
    latin = sum(character < "\u0250" for character in text)
    return latin / _LATIN_PER_TOKEN + (len(text) - latin) / _OTHER_PER_TOKEN


def _document(item: dict[str, JsonValue]) -> float:
    """A file: text by its length, pages by their usual size."""
    longest = 0
    stack: list[JsonValue] = [item]
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            longest = max(longest, len(value))
        elif isinstance(value, dict):
            source = value.get("source")
            if isinstance(source, dict) and source.get("type") == "text":
                return _weight(source.get("data"))
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)
    return max(1, longest // _PAGE_OCTETS) * _PAGE
