"""Instructions: removes telemetry that must not reach other providers (I4), and tags late instructions (I1)."""

from __future__ import annotations

TELEMETRY = "x-anthropic-billing-header:"


def without_telemetry(text: str) -> str:
    """Remove a client's telemetry line. Its value changes on every request and would defeat prompt caches."""
    if TELEMETRY not in text:
        return text
    lines = text.split("\n")
    remaining = [line for line in lines if not line.startswith(TELEMETRY)]
    return text if len(remaining) == len(lines) else "\n".join(remaining).lstrip("\n")


def tagged(text: str) -> str:
    """Tag an instruction inside a conversation, for a protocol with instructions only at the top."""
    return f"{_OPENS}\n{text}\n{_CLOSES}"


_OPENS, _CLOSES = "<system-reminder>", "</system-reminder>"


def is_tagged(text: str) -> bool:
    """Whether a text consists only of tagged instructions, which agents add to user text."""
    *blocks, rest = text.split(_CLOSES)
    return bool(blocks) and not rest.strip() and all(piece.lstrip().startswith(_OPENS) for piece in blocks)
