"""Missing reasoning: adapts a request that its provider rejected because turns lack reasoning (V5, V11). Servers that
reason by default require `reasoning_content` with every call, and many clients drop it. Most accept an empty string
(https://github.com/openclaw/openclaw/pull/74846, https://github.com/NousResearch/hermes-agent/pull/14941). Otherwise
thinking is disabled, which ends the requirement (https://api-docs.deepseek.com/guides/thinking_mode)."""

from __future__ import annotations

from dragoman.model.features import Feature
from dragoman.model.losses import Ledger
from dragoman.rules.capabilities import Capabilities
from dragoman.rules.repairs import rewritten
from dragoman.wire.json import decode
from dragoman.wire.json_spans import last_value, named, object_members, replaced, with_member

_OFF = b'{"type":"disabled"}'


def repair_reasoning(
    body: bytes, _capabilities: Capabilities, ledger: Ledger, *, demanded: bool = False, intact: bool = False
) -> bytes:
    """Add empty reasoning where it is missing, else disable thinking; the same bytes unless `demanded`."""
    if not demanded:
        return body

    def rewrite(message: bytes, number: int) -> list[bytes] | None:
        settings = decode(message)
        if (
            not isinstance(settings, dict)
            or settings.get("role") != "assistant"
            or isinstance(settings.get(_MEMBER), str)
        ):
            return None
        ledger.invented(
            Feature.THINKING, ("messages", number), "the provider demands reasoning, which is not to be had"
        )
        members = named(object_members(message), _MEMBER)
        if members:
            return [replaced(message, [(member.value, b'""') for member in members])]
        return [with_member(message, _MEMBER, b'""')]

    filled = rewritten(body, "messages", _is_assistant, rewrite)
    if filled is not None:
        return filled
    thinking = named(object_members(body), "thinking")
    settings = last_value(body, thinking)
    if isinstance(settings, dict) and settings.get("type") == "disabled":
        return body
    ledger.approximated(Feature.THINKING, ("reasoning",), "off, because the reasoning of earlier turns is not there")
    if thinking:
        return replaced(body, [(member.value, _OFF) for member in thinking])
    return with_member(body, "thinking", _OFF)


_MEMBER = "reasoning_content"


def _is_assistant(body: bytes, start: int, end: int) -> bool:
    return body.find(b"assistant", start, end) >= 0
