"""Request features: the properties of a request that target selection needs, without its content."""

from __future__ import annotations

from msgspec import Struct


class RequestFeatures(Struct, frozen=True, kw_only=True):
    tools: bool = False
    images: bool = False
    documents: bool = False
    thinking: bool = False
    structured: bool = False
    # Bytes of media, which count apart from text.
    media: int = 0
    # The maximum output in tokens, if stated.
    max_output: int | None = None
    # Whether it references items stored by its provider: a file, a container, a vector store.
    references_stored: bool = False
    # The number of requested choices. The provider bills each.
    choices: int = 1
    # The requested service tier in the client's spelling; "" is the default tier.
    tier: str = ""


class ConversationStart(Struct, frozen=True, kw_only=True):
    """The start of a conversation, which is the same in each of its requests, and the client's ID for it."""

    cache_key: str = ""
    instructions: str = ""
    text: str = ""
