"""What an answer says, whatever its protocol: the common ground on which two readings are compared."""

from __future__ import annotations

import json
import re

from msgspec import Struct

from tools.replaying.protocols import Object

_HALF = re.compile("[\ud800-\udfff]")

# The classes of an end. An answer that calls tools ends as "calls" whatever its protocol calls it.
STOP, LENGTH, CALLS, FILTERED, PAUSE, OTHER = "stop", "length", "calls", "filtered", "pause", "other"


class Call(Struct, frozen=True):
    """A call of a tool that the client runs: its arguments as a value, or as text where they are none."""

    id: str
    name: str
    arguments: object


class Counts(Struct, frozen=True):
    """Tokens; the input includes what was read from and written to a cache. None is "not told"."""

    input: int | None = None
    output: int | None = None
    cached: int | None = None


class Said(Struct, kw_only=True):
    """One answer, filled while it is read."""

    # Text by blocks: a protocol that has one string for all may set an empty line between them.
    texts: list[str] = []
    reasoning: str = ""
    calls: list[Call] = []
    end: str | None = None
    counts: Counts | None = None
    error: str | None = None
    # What only its issuer can open, as it must come back: signatures, encrypted reasoning, thought signatures.
    seals: list[str] = []
    # What only this protocol knows: blocks and items that are neither text, reasoning nor a call.
    foreign: list[str] = []
    # A refusal as a part of its own: some protocols then end as filtered, others as usual.
    refused: bool = False
    # Of the text, what stood beside the content and need not come back.
    beside: str = ""
    # A recording that was shortened by hand: its deltas are not the text that it says they made.
    shortened: bool = False
    # Calls of the vendor's own tools that the client runs, by id: others may know them as functions.
    vendor: list[str] = []

    @property
    def text(self) -> str:
        """All text in one."""
        return paired("".join(self.texts))


def paired(text: str) -> str:
    """Text in which the halves of characters that were cut in two are whole again."""
    if text.isascii() or not _HALF.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def argument_value(text: object) -> object:
    """Arguments as the value they stand for; none at all is the empty object, as every SDK's users treat it."""
    if not isinstance(text, str):
        return {} if text is None else text
    text = paired(text)
    if not text.strip():
        return {}
    try:
        value: object = json.loads(text)
    except ValueError:
        return text
    return value


def text_of(value: object) -> str:
    """A string, or nothing."""
    return value if isinstance(value, str) else ""


def objects(value: object) -> list[Object]:
    """The objects of a list, or none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def member(value: object, *names: str) -> object:
    """The member at the end of a path, or None."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def number(value: object) -> int | None:
    """A count, or None."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def error_text(error: object) -> str:
    """What an error says, wherever it says it."""
    if isinstance(error, str):
        return error
    if isinstance(error, dict):
        raw = member(error, "metadata", "raw")
        if isinstance(raw, str) and raw:
            # OpenRouter's own message says nothing; the provider's is in here.
            return error_text(argument_value(raw))
        for name in ("message", "detail", "error", "msg"):
            if error.get(name):
                return error_text(error[name])
    return json.dumps(error)
