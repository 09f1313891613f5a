"""Models are listed in each protocol's own form, and any other name is answered too."""

from __future__ import annotations

from dragoman.mock.answers.signatures import CHAT, MESSAGES, RESPONSES
from dragoman.mock.listing import listed, names_for, one_listed


def test_what_echo_does_is_listed_under_names_of_the_mock() -> None:
    for protocol in (MESSAGES, CHAT, RESPONSES):
        assert {"mock-text", "mock-tools", "mock-agent"} <= set(names_for(protocol))


def test_each_protocol_has_its_form() -> None:
    anthropic = listed(MESSAGES)
    assert (anthropic["first_id"], anthropic["has_more"]) == ("claude-opus-5", False)
    assert listed(CHAT)["object"] == "list"
    assert one_listed("x", MESSAGES)["type"] == "model"
    assert one_listed("x", RESPONSES)["object"] == "model"
