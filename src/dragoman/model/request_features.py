"""Request features: the features of a request that its members show, enough to select a target."""

from __future__ import annotations

from msgspec import Struct


class RequestFeatures(Struct, frozen=True, kw_only=True):
    """The features of a request, without contents."""

    tools: bool = False
    images: bool = False
    documents: bool = False
    thinking: bool = False
    structured: bool = False
    # Bytes of media in it, which are no text.
    media: int = 0
    # The maximum output in tokens, if stated.
    max_output: int | None = None
    # Whether it references items of its provider: a file, a container, a vector store.
    references_stored: bool = False
    # The number of requested choices, each of which is billed.
    choices: int = 1
    # The requested service tier, in the client's spelling; "" is the usual one.
    tier: str = ""


class ConversationStart(Struct, frozen=True, kw_only=True):
    """The start of a conversation, and its ID by the client: the same in each of its requests."""

    # The prompt cache key, if the client sends one.
    cache_key: str = ""
    instructions: str = ""
    # The first user text.
    text: str = ""
