"""Context overflow (O1): recognised in whatever words a server has for it, told to Messages clients in fixed ones.

Agents compact their conversation when they read the wording of the Messages service, so an overflow that reaches them
in other words ends the session instead.
"""

from __future__ import annotations

import re

CODE = "context_length_exceeded"

_STATUSES = frozenset({400, 413})
_WORDS = (
    "prompt is too long",
    "input is too long",
    "maximum context length",
    "context ?window",
    "context length",
    "context limit",
    "available context size",
    "maximum model length",
    "maximum prompt length",
    "maximum number of tokens allowed",
    "model token limit",
    "input token length too long",
    "prompt exceeds max length",
    "tokens in request more than max tokens allowed",
    "range of input length should be",
    "model only supports up to",
    r"`inputs` tokens \+ `max_new_tokens`",
)
_has_wording = re.compile("|".join(_WORDS), re.IGNORECASE).search

_OPENING = "prompt is too long"
_is_told_already = re.compile(rf"{_OPENING}: \d+ tokens > \d+ maximum", re.IGNORECASE).match
_find_limit_word = re.compile(r"maximum|limit|window|context", re.IGNORECASE).search
# Digits inside a name or a version (gpt-4.1, 32k) are no token counts.
_INTEGER = re.compile(r"(?<![\w.,-])(?:\d{1,3}(?:,\d{3}){1,4}|\d{1,15})(?![\w]|[.,]\d)", re.ASCII)


def is_context_overflow(status: int, code: str | None, message: str) -> bool:
    """Tell whether an error says that the conversation no longer fits the model."""
    return code == CODE or (status in _STATUSES and _has_wording(message) is not None)


def anthropic_overflow_message(message: str) -> str:
    """Say an overflow in the words of the Messages service, with the upstream's own in parentheses."""
    if _is_told_already(message):
        return message
    counts = _counts(message)
    opening = f"{_OPENING}: {counts[0]} tokens > {counts[1]} maximum" if counts else _OPENING
    return f"{opening} ({message})" if message else opening


def _counts(message: str) -> tuple[int, int] | None:
    """Find the size of the prompt and the limit, where the text makes sense of both."""
    word = _find_limit_word(message)
    limit = _INTEGER.search(message, word.end()) if word else None
    if limit is None:
        return None
    maximum = _integer(limit[0])
    tokens = max(_integer(found[0]) for found in _INTEGER.finditer(message))
    return (tokens, maximum) if tokens > maximum else None


def _integer(text: str) -> int:
    return int(text.replace(",", ""))
