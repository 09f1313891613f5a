"""Signs: what a request has in it, as far as its members show; enough to choose who can answer it."""

from __future__ import annotations

from msgspec import Struct


class RequestFeatures(Struct, frozen=True, kw_only=True):
    """What a request has in it; nothing of what it says."""

    tools: bool = False
    images: bool = False
    documents: bool = False
    thinking: bool = False
    structured: bool = False
    # Bytes of media in it, which are no text.
    media: int = 0
    # The most that may be answered, in tokens, if it says so.
    max_output: int | None = None
    # Whether it refers to what its provider keeps: a file, a container, a store of vectors.
    references_stored: bool = False
    # How many answers are asked for, of which each is paid.
    choices: int = 1
    # The service tier that is asked for, in the client's word; "" is the usual one.
    tier: str = ""


class ConversationStart(Struct, frozen=True, kw_only=True):
    """How a conversation began, and what its client calls it: the same in each of its requests."""

    # The key of the provider's cache, if the client says one.
    cache_key: str = ""
    instructions: str = ""
    # What the user said first.
    text: str = ""
