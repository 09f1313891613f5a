"""Paths: what each path of the mock stands for, with or without `/v1` before it."""

from __future__ import annotations

import re
from enum import Enum

from msgspec import Struct

from dragoman.mock.answers.signatures import CHAT, MESSAGES, RESPONSES


class Kind(Enum):
    """What is asked for."""

    CONVERSATION = "an answer"
    COUNT = "a count of tokens"
    COMPACT = "a conversation made shorter"
    STORED = "a stored response"
    STORED_INPUT = "what a stored response answered"
    CONVERSATIONS = "a new conversation"
    HELD = "a conversation"
    HELD_ITEMS = "the items of a conversation"
    HELD_ITEM = "one of them"
    CANCEL = "the end of a response in the background"
    EMBEDDINGS = "vectors"
    MODELS = "the list of models"
    MODEL = "one model"
    HOME = "whether anybody is there"
    NOWHERE = "nothing"


class MockPath(Struct, frozen=True, kw_only=True):
    """One path: `name` is the id in it. A path that every protocol has is told apart by the headers."""

    kind: Kind
    protocol: str = ""
    methods: tuple[str, ...] = ()
    name: str = ""


_POST, _GET = ("POST",), ("GET", "HEAD")
_ALL = ("GET", "HEAD", "POST", "DELETE")
_FIXED = {
    "": MockPath(kind=Kind.HOME, methods=_GET),
    "/messages": MockPath(kind=Kind.CONVERSATION, protocol=MESSAGES, methods=_POST),
    "/messages/count_tokens": MockPath(kind=Kind.COUNT, protocol=MESSAGES, methods=_POST),
    "/chat/completions": MockPath(kind=Kind.CONVERSATION, protocol=CHAT, methods=_POST),
    "/responses": MockPath(kind=Kind.CONVERSATION, protocol=RESPONSES, methods=_POST),
    "/responses/input_tokens": MockPath(kind=Kind.COUNT, protocol=RESPONSES, methods=_POST),
    "/responses/compact": MockPath(kind=Kind.COMPACT, protocol=RESPONSES, methods=_POST),
    "/conversations": MockPath(kind=Kind.CONVERSATIONS, protocol=RESPONSES, methods=_POST),
    "/embeddings": MockPath(kind=Kind.EMBEDDINGS, protocol=CHAT, methods=_POST),
    "/models": MockPath(kind=Kind.MODELS, methods=_GET),
}
_NAMED = (
    (re.compile(r"/models/(.+)"), MockPath(kind=Kind.MODEL, methods=_GET)),
    (
        re.compile(r"/responses/([^/]+)"),
        MockPath(kind=Kind.STORED, protocol=RESPONSES, methods=("GET", "HEAD", "DELETE")),
    ),
    (re.compile(r"/responses/([^/]+)/input_items"), MockPath(kind=Kind.STORED_INPUT, protocol=RESPONSES, methods=_GET)),
    (re.compile(r"/conversations/([^/]+)"), MockPath(kind=Kind.HELD, protocol=RESPONSES, methods=_ALL)),
    (re.compile(r"/conversations/([^/]+)/items"), MockPath(kind=Kind.HELD_ITEMS, protocol=RESPONSES, methods=_ALL[:3])),
    (
        re.compile(r"/conversations/([^/]+/items/[^/]+)"),
        MockPath(kind=Kind.HELD_ITEM, protocol=RESPONSES, methods=_ALL),
    ),
    (re.compile(r"/responses/([^/]+)/cancel"), MockPath(kind=Kind.CANCEL, protocol=RESPONSES, methods=_POST)),
)


def place_of(path: str) -> MockPath:
    """What a path stands for."""
    rest = path.rstrip("/")
    rest = rest.removeprefix("/v1") if rest == "/v1" or rest.startswith("/v1/") else rest
    found = _FIXED.get(rest)
    if found is not None:
        return found
    for pattern, place in _NAMED:
        match = pattern.fullmatch(rest)
        if match is not None:
            return MockPath(kind=place.kind, protocol=place.protocol, methods=place.methods, name=match[1])
    return MockPath(kind=Kind.NOWHERE)
