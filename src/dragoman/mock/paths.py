"""Paths of the mock, with or without `/v1`."""

from __future__ import annotations

import re
from enum import Enum

from msgspec import Struct

from dragoman.mock.answers.signatures import CHAT, MESSAGES, RESPONSES


class MockEndpointKind(Enum):
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
    INDEX = "whether anybody is there"
    NOWHERE = "nothing"


class MockPath(Struct, frozen=True, kw_only=True):
    """One path. `name` is the ID in it. Headers distinguish the protocols that share a path."""

    kind: MockEndpointKind
    protocol: str = ""
    methods: tuple[str, ...] = ()
    name: str = ""


_POST, _GET = ("POST",), ("GET", "HEAD")
_ALL = ("GET", "HEAD", "POST", "DELETE")
_FIXED = {
    "": MockPath(kind=MockEndpointKind.INDEX, methods=_GET),
    "/messages": MockPath(kind=MockEndpointKind.CONVERSATION, protocol=MESSAGES, methods=_POST),
    "/messages/count_tokens": MockPath(kind=MockEndpointKind.COUNT, protocol=MESSAGES, methods=_POST),
    "/chat/completions": MockPath(kind=MockEndpointKind.CONVERSATION, protocol=CHAT, methods=_POST),
    "/responses": MockPath(kind=MockEndpointKind.CONVERSATION, protocol=RESPONSES, methods=_POST),
    "/responses/input_tokens": MockPath(kind=MockEndpointKind.COUNT, protocol=RESPONSES, methods=_POST),
    "/responses/compact": MockPath(kind=MockEndpointKind.COMPACT, protocol=RESPONSES, methods=_POST),
    "/conversations": MockPath(kind=MockEndpointKind.CONVERSATIONS, protocol=RESPONSES, methods=_POST),
    "/embeddings": MockPath(kind=MockEndpointKind.EMBEDDINGS, protocol=CHAT, methods=_POST),
    "/models": MockPath(kind=MockEndpointKind.MODELS, methods=_GET),
}
_NAMED = tuple(
    (re.compile(pattern), MockPath(kind=kind, protocol=protocol, methods=methods))
    for pattern, kind, protocol, methods in (
        (r"/models/(.+)", MockEndpointKind.MODEL, "", _GET),
        (r"/responses/([^/]+)", MockEndpointKind.STORED, RESPONSES, ("GET", "HEAD", "DELETE")),
        (r"/responses/([^/]+)/input_items", MockEndpointKind.STORED_INPUT, RESPONSES, _GET),
        (r"/conversations/([^/]+)", MockEndpointKind.HELD, RESPONSES, _ALL),
        (r"/conversations/([^/]+)/items", MockEndpointKind.HELD_ITEMS, RESPONSES, _ALL[:3]),
        (r"/conversations/([^/]+/items/[^/]+)", MockEndpointKind.HELD_ITEM, RESPONSES, _ALL),
        (r"/responses/([^/]+)/cancel", MockEndpointKind.CANCEL, RESPONSES, _POST),
    )
)


def resolve_path(path: str) -> MockPath:
    rest = path.rstrip("/")
    rest = rest.removeprefix("/v1") if rest == "/v1" or rest.startswith("/v1/") else rest
    fixed = _FIXED.get(rest)
    if fixed is not None:
        return fixed
    for pattern, template in _NAMED:
        match = pattern.fullmatch(rest)
        if match is not None:
            return MockPath(kind=template.kind, protocol=template.protocol, methods=template.methods, name=match[1])
    return MockPath(kind=MockEndpointKind.NOWHERE)
