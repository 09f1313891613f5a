"""Paths lead to what they stand for, with or without the version before them."""

from __future__ import annotations

import pytest

from dragoman.mock.answers.signatures import CHAT, MESSAGES, RESPONSES
from dragoman.mock.paths import MockEndpointKind, resolve_path

PLACES = [
    ("/messages", MockEndpointKind.CONVERSATION, MESSAGES, ""),
    ("/messages/count_tokens", MockEndpointKind.COUNT, MESSAGES, ""),
    ("/chat/completions", MockEndpointKind.CONVERSATION, CHAT, ""),
    ("/responses", MockEndpointKind.CONVERSATION, RESPONSES, ""),
    ("/responses/input_tokens", MockEndpointKind.COUNT, RESPONSES, ""),
    ("/responses/compact", MockEndpointKind.COMPACT, RESPONSES, ""),
    ("/responses/resp_1", MockEndpointKind.STORED, RESPONSES, "resp_1"),
    ("/responses/resp_1/input_items", MockEndpointKind.STORED_INPUT, RESPONSES, "resp_1"),
    ("/responses/resp_1/cancel", MockEndpointKind.CANCEL, RESPONSES, "resp_1"),
    ("/conversations", MockEndpointKind.CONVERSATIONS, RESPONSES, ""),
    ("/conversations/conv_1", MockEndpointKind.HELD, RESPONSES, "conv_1"),
    ("/conversations/conv_1/items", MockEndpointKind.HELD_ITEMS, RESPONSES, "conv_1"),
    ("/conversations/conv_1/items/msg_1", MockEndpointKind.HELD_ITEM, RESPONSES, "conv_1/items/msg_1"),
    ("/embeddings", MockEndpointKind.EMBEDDINGS, CHAT, ""),
    ("/models", MockEndpointKind.MODELS, "", ""),
    ("/models/a/b", MockEndpointKind.MODEL, "", "a/b"),
    ("", MockEndpointKind.INDEX, "", ""),
    ("/v2/messages", MockEndpointKind.NOWHERE, "", ""),
]


@pytest.mark.parametrize(("path", "kind", "protocol", "name"), PLACES, ids=[path or "/" for path, *_ in PLACES])
def test_a_path_stands_for_something(path: str, kind: MockEndpointKind, protocol: str, name: str) -> None:
    for spelled in (path, f"/v1{path}", f"/v1{path}/"):
        place = resolve_path(spelled)
        assert (place.kind, place.protocol, place.name) == (kind, protocol, name)
