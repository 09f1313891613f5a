"""Affinity key of a conversation (decision 25): the stored conversation, the previous response, the provider's cache
key, a session header, else how it began. Keys are digests with the gateway key, so that no client meets another's
conversation."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from dragoman.sessions.fact_extraction import session_header

# Characters that are looked at of each text.
MAX_TEXT_LENGTH = 4096
# To copy a hasher is cheaper than to make one.
_copy = blake2b(digest_size=16).copy


def conversation_key(
    owner: str,
    conversation: str = "",
    previous: str = "",
    cache_key: str = "",
    headers: Iterable[tuple[bytes, bytes]] = (),
    instructions: str = "",
    first_message: str = "",
) -> str:
    """The affinity key of a conversation; "" if nothing identifies it. `first_message` and `instructions` come without
    breakpoints that move from turn to turn. Instructions alone identify nothing: all users of a program share them."""
    if conversation:
        return _digest("conversation", owner, conversation)
    if previous:
        return response_key(owner, previous)
    if cache_key:
        return _digest("cache", owner, cache_key)
    session = session_header(headers) if headers else ""
    if session:
        return _digest("session", owner, session)
    return _digest("opening", owner, instructions, first_message) if first_message else ""


def response_key(owner: str, response_id: str) -> str:
    """The affinity key of a conversation by the ID of its latest response."""
    return _digest("response", owner, response_id)


def _digest(kind: str, owner: str, text: str, then: str = "") -> str:
    owner, text = owner[:MAX_TEXT_LENGTH], text[:MAX_TEXT_LENGTH]
    # Lengths keep texts apart from those beside them.
    content = f"{kind} {len(owner)} {len(text)} {owner}{text}{then[:MAX_TEXT_LENGTH]}"
    hasher = _copy()
    hasher.update(content.encode("utf-8", "surrogatepass"))
    return hasher.hexdigest()
