"""Proofs: issued here, known again here, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.mock.answers.signatures import encrypted, opened, sealed, signature
from dragoman.model.parts import Thinking
from tests.mock.calling import PROTOCOLS, Json, answered, asked, blocks_of, message_of, next_turn, question, text_of
from tests.sdk.names import CHAT, MESSAGES, RESPONSES


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_what_was_encrypted_can_be_opened(text: str) -> None:
    assert opened(encrypted(text)) == text


@pytest.mark.parametrize(
    "token", ["", "gAAAAAB", "gAAAAABx", "gAAAAAB!!!", "gAAAAABabc", encrypted("a")[:-4], "x" + encrypted("a")]
)
def test_what_was_not_issued_here_cannot_be_opened(token: str) -> None:
    assert opened(token) is None


def test_signatures_of_two_thoughts_differ() -> None:
    assert signature("a") != signature("b")


def test_each_protocol_carries_the_proof_in_its_own_member() -> None:
    thought = Thinking(text="hm")
    bodies = {name: seal.body for name in PROTOCOLS if (seal := sealed(thought, name, "rs_1").seal) is not None}
    assert bodies[MESSAGES]["signature"] == signature("hm")
    assert bodies[RESPONSES]["encrypted_content"] == encrypted("hm")
    assert bodies[CHAT] == {"field": "reasoning_content", "text": "hm"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_thought_that_comes_back_is_recognised(protocol: str) -> None:
    body = question(protocol, "thinking")
    second = answered(protocol, next_turn(protocol, body, answered(protocol, body), text="And again"))
    assert text_of(protocol, second) == "You said: And again\n\nOf my earlier thoughts 1 came back to me."


@pytest.mark.parametrize("member", ["thinking", "signature"])
def test_a_thought_that_was_changed_is_refused_on_messages(member: str) -> None:
    status, error = tampered(MESSAGES, member)
    assert status == 400
    assert message_of(MESSAGES, error) == "messages.1.content.0: Invalid `signature` in `thinking` block"


def test_encrypted_reasoning_that_was_changed_is_refused_on_responses() -> None:
    status, error = tampered(RESPONSES, "encrypted_content")
    assert status == 400
    assert "could not be verified" in message_of(RESPONSES, error)


def tampered(protocol: str, member: str) -> tuple[int, Json]:
    """The answer to a second turn whose first block says something else in one member."""
    body = question(protocol, "thinking")
    first = answered(protocol, body)
    block = blocks_of(protocol, first)[0]
    block[member] = "x" + str(block[member])
    return asked(protocol, next_turn(protocol, body, first, text="Go on"))


@pytest.mark.parametrize(
    "block",
    [
        {"type": "thinking", "thinking": "hm"},
        {"type": "thinking", "thinking": "hm", "signature": ""},
        {"type": "redacted_thinking", "data": "EmwKAhgB"},
    ],
    ids=["without a signature", "with an empty one", "redacted by somebody else"],
)
def test_thinking_without_a_proof_of_ours_is_refused_on_messages(block: Json) -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": [block]}]
    body = question(MESSAGES, "text", messages=[*messages, {"role": "user", "content": "b"}])
    status, error = asked(MESSAGES, body)
    assert status == 400
    assert "Invalid" in message_of(MESSAGES, error)


def test_reasoning_without_encrypted_content_is_taken_on_responses() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": []}
    body = question(RESPONSES, "text", input=[item, {"role": "user", "content": "b"}])
    assert "You said: b" in text_of(RESPONSES, answered(RESPONSES, body))
