"""Affinity key of a conversation (decision 25): the stored conversation, the previous response, the provider's cache
key, a session header, otherwise the start of the conversation. Keys are digests with the gateway key, so that clients
never share a conversation."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

from dragoman.sessions.fact_extraction import session_header

MAX_TEXT_LENGTH = 4096
DIGEST_SIZE = 16
# Cached digests of owners, and of instructions: both are the same in many requests.
_CACHED = 256


def conversation_key(
    owner: str,
    conversation: str = "",
    previous: str = "",
    cache_key: str = "",
    headers: Iterable[tuple[bytes, bytes]] = (),
    instructions: str = "",
    first_message: str = "",
) -> str:
    """The affinity key of a conversation, or "" if nothing identifies it. `first_message` and `instructions` must not
    contain cache breakpoints, which move from turn to turn. Instructions alone identify nothing: all users of a program
    share them."""
    if conversation:
        return _digest("conversation", owner, conversation[:MAX_TEXT_LENGTH])
    if previous:
        return response_key(owner, previous)
    if cache_key:
        return _digest("cache", owner, cache_key[:MAX_TEXT_LENGTH])
    session = session_header(headers) if headers else ""
    if session:
        return _digest("session", owner, session[:MAX_TEXT_LENGTH])
    if not first_message:
        return ""
    if instructions:
        return _digest("instructed", owner, _mark(instructions[:MAX_TEXT_LENGTH]) + first_message[:MAX_TEXT_LENGTH])
    return _digest("opening", owner, first_message[:MAX_TEXT_LENGTH])


def response_key(owner: str, response_id: str) -> str:
    """The affinity key of a conversation by the ID of its latest response."""
    return _digest("response", owner, response_id[:MAX_TEXT_LENGTH])


def _digest(kind: str, owner: str, text: str) -> str:
    hasher = _hasher(kind, owner[:MAX_TEXT_LENGTH]).copy()
    hasher.update(text.encode("utf-8", "surrogatepass"))
    return hasher.hexdigest()


@lru_cache(maxsize=_CACHED)
def _hasher(kind: str, owner: str) -> blake2b:
    """A hasher to be copied, with the kind and the owner. The length separates the owner from the text that follows."""
    return blake2b(f"{kind} {len(owner)} {owner}".encode("utf-8", "surrogatepass"), digest_size=DIGEST_SIZE)


@lru_cache(maxsize=_CACHED)
def _mark(instructions: str) -> str:
    return blake2b(instructions.encode("utf-8", "surrogatepass"), digest_size=DIGEST_SIZE).hexdigest()
