"""Refusals: the sentence by which the gateway refuses a request, for log and record. It has locations and types. Values
from the client, and notes that may quote one, are removed. Names, ids and paths in backticks stay if they look like
one, but for key texts in them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dragoman.errors import DragomanError, RefusedError, StrictError, Unconfigured, UpstreamError, WireError
from dragoman.gateway.observability.journal_entries import recorded_location
from dragoman.identities.key_text import without_key_texts

# Characters of a sentence, and losses that one names.
MAX_TEXT = 512
_MAX_LOSSES = 8
_MAX_VALUE_LENGTH = 80
_ANOTHER_VALUE = "another value"
_is_name = re.compile(r"[A-Za-z_][\w-]{0,63}|\d{1,9}", re.ASCII).fullmatch
_is_id = re.compile(r"[\w.:/@+-]{1,128}", re.ASCII).fullmatch
_backticked = re.compile(r"`([^`]*)`").sub
# A value in the form of `repr`; an apostrophe after a letter is not a quote.
_values = re.compile(r"""(?<!\w)'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL).sub


def refusal_of(error: DragomanError) -> str:
    """The refusal's sentence and next step, for the operator alone; "" for a provider's error, which attempts state."""
    match error:
        case WireError():
            text = _of_wire(error)
        case RefusedError():
            location, note = recorded_location(error.at), _values("…", error.note)
            text = f"{location}: {note}" if location else note
        case StrictError():
            text = _of_losses((loss.at, loss.fate.value, loss.feature.value) for loss in error.losses[:_MAX_LOSSES])
            count = len(error.losses)
            more = count - _MAX_LOSSES
            text = f"{count} loss{'es' if count != 1 else ''} refused: {text}" + (
                f"; and {more} more" if more > 0 else ""
            )
        case UpstreamError() if not isinstance(error, Unconfigured):
            return ""
        case _:
            text = _backticked(_printable_id, _values("…", str(error)))
    return without_key_texts(text)[:MAX_TEXT]


def _printable_id(match: re.Match[str]) -> str:
    return match[0] if _is_id(match[1]) else "`…`"


def _of_wire(error: WireError) -> str:
    path = error.path
    if path.startswith("/"):
        path = "/" + "/".join(step if _is_name(step) else "?" for step in path[1:].split("/"))
    value = error.actual
    if len(value) > _MAX_VALUE_LENGTH or "'" in value or '"' in value:
        value = _ANOTHER_VALUE
    return WireError(path, error.expected, value).describe("the request")


def _of_losses(losses: Iterable[tuple[str, str, str]]) -> str:
    return "; ".join(f"{recorded_location(at)}: {fate} ({feature})" for at, fate, feature in losses)
