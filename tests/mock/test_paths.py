"""Paths lead to what they stand for, with or without the version before them."""

from __future__ import annotations

import pytest

from dragoman.mock.answers.signatures import CHAT, MESSAGES, RESPONSES
from dragoman.mock.paths import Kind, place_of

PLACES = [
    ("/messages", Kind.CONVERSATION, MESSAGES, ""),
    ("/messages/count_tokens", Kind.COUNT, MESSAGES, ""),
    ("/chat/completions", Kind.CONVERSATION, CHAT, ""),
    ("/responses", Kind.CONVERSATION, RESPONSES, ""),
    ("/responses/input_tokens", Kind.COUNT, RESPONSES, ""),
    ("/responses/compact", Kind.COMPACT, RESPONSES, ""),
    ("/responses/resp_1", Kind.STORED, RESPONSES, "resp_1"),
    ("/responses/resp_1/input_items", Kind.STORED_INPUT, RESPONSES, "resp_1"),
    ("/responses/resp_1/cancel", Kind.CANCEL, RESPONSES, "resp_1"),
    ("/conversations", Kind.CONVERSATIONS, RESPONSES, ""),
    ("/conversations/conv_1", Kind.HELD, RESPONSES, "conv_1"),
    ("/conversations/conv_1/items", Kind.HELD_ITEMS, RESPONSES, "conv_1"),
    ("/conversations/conv_1/items/msg_1", Kind.HELD_ITEM, RESPONSES, "conv_1/items/msg_1"),
    ("/embeddings", Kind.EMBEDDINGS, CHAT, ""),
    ("/models", Kind.MODELS, "", ""),
    ("/models/a/b", Kind.MODEL, "", "a/b"),
    ("", Kind.HOME, "", ""),
    ("/v2/messages", Kind.NOWHERE, "", ""),
]


@pytest.mark.parametrize(("path", "kind", "protocol", "name"), PLACES, ids=[path or "/" for path, *_ in PLACES])
def test_a_path_stands_for_something(path: str, kind: Kind, protocol: str, name: str) -> None:
    for spelled in (path, f"/v1{path}", f"/v1{path}/"):
        place = place_of(spelled)
        assert (place.kind, place.protocol, place.name) == (kind, protocol, name)
