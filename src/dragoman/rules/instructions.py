"""Instructions: telemetry that must not reach other providers (I4), and the tag for late instructions (I1)."""

from __future__ import annotations

TELEMETRY = "x-anthropic-billing-header:"


def without_telemetry(text: str) -> str:
    """The text without a client's telemetry line; its value changes on every request and would defeat prefix caches."""
    if TELEMETRY not in text:
        return text
    lines = text.split("\n")
    remaining = [line for line in lines if not line.startswith(TELEMETRY)]
    return text if len(remaining) == len(lines) else "\n".join(remaining).lstrip("\n")


def tagged(text: str) -> str:
    """An instruction inside a conversation, for a protocol that has them only at the top."""
    return f"{_OPENS}\n{text}\n{_CLOSES}"


_OPENS, _CLOSES = "<system-reminder>", "</system-reminder>"


def is_tagged(text: str) -> bool:
    """Whether a text consists only of such instructions, as agents add them to user text."""
    *blocks, rest = text.split(_CLOSES)
    return bool(blocks) and not rest.strip() and all(piece.lstrip().startswith(_OPENS) for piece in blocks)
