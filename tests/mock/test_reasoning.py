"""Proofs belong to what was said, are told apart from each other, and are made only where a model would think."""

from __future__ import annotations

import pytest

from dragoman.mint import system_mint
from dragoman.mock.answers.response import build_response
from dragoman.mock.answers.signatures import CHAT, MESSAGES, RESPONSES
from dragoman.mock.reasoning import finished, is_signed, sign, thinks
from dragoman.model.parts import Part, Thinking, ToolCall
from dragoman.model.response import Response
from tests.mock.asking import request

NONCE = "abcdefghijklmn"


def answered(protocol: str, *parts: Part, **more: object) -> Response:
    asked = request(protocol, "Go.", **more)
    mint = system_mint()
    return finished(build_response(asked, parts, mint), asked, mint)


def test_a_signature_belongs_to_its_text_alone() -> None:
    signature = sign("Hm.", NONCE)
    assert is_signed("Hm.", signature)
    assert not is_signed("Hm!", signature)
    assert not is_signed("Hm.", signature[:-1] + "x")
    assert not is_signed("Hm.", "")
    assert is_signed("whatever stands there", sign("", NONCE)), "what was not shown is not looked at"


def test_equal_thoughts_have_different_proofs() -> None:
    proofs = {_body(answered(MESSAGES, Thinking(text="Hm."), model="claude-sonnet-4-5"))["signature"] for _ in "ab"}
    assert len(proofs) == 2
    proofs = {_body(answered(RESPONSES, Thinking(text="Hm.")))["encrypted_content"] for _ in "ab"}
    assert len(proofs) == 2


def _body(response: Response) -> dict[str, object]:
    (part,) = response.parts
    assert isinstance(part, Thinking) and part.seal is not None
    return {**part.seal.body}


@pytest.mark.parametrize(
    ("model", "thinking", "shown"),
    [
        ("claude-sonnet-4-5", {"type": "enabled", "budget_tokens": 1024}, True),
        ("claude-opus-5", {"type": "adaptive"}, False),
        ("claude-opus-5", {"type": "adaptive", "display": "summarized"}, True),
        ("claude-sonnet-4-6", {"type": "adaptive", "display": "omitted"}, False),
        ("other", {"type": "enabled", "budget_tokens": 1024}, True),
    ],
)
def test_thoughts_are_shown_where_the_model_shows_them(model: str, thinking: object, shown: bool) -> None:
    body = _body(answered(MESSAGES, Thinking(text="Hm."), model=model, thinking=thinking))
    assert body["thinking"] == ("Hm." if shown else "")
    assert is_signed(str(body["thinking"]), str(body["signature"]))


def test_a_summary_is_told_only_where_it_is_asked_for() -> None:
    assert _body(answered(RESPONSES, Thinking(text="Hm.")))["summary"] == []
    told = _body(answered(RESPONSES, Thinking(text="Hm."), reasoning={"summary": "auto"}))
    assert told["summary"] == [{"type": "summary_text", "text": "Hm."}]


def test_a_model_thinks_unless_it_may_not() -> None:
    assert thinks(request(MESSAGES, "", model="claude-opus-5"))
    assert not thinks(request(MESSAGES, "", model="claude-sonnet-4-5"))
    assert not thinks(request(MESSAGES, "", thinking={"type": "disabled"}))
    assert thinks(request(MESSAGES, "", thinking={"type": "adaptive"}))
    assert thinks(request(CHAT, ""))
    assert not thinks(request(CHAT, "", reasoning_effort="none"))
    assert not thinks(request(RESPONSES, "", reasoning={"effort": "none"}))


def test_calls_of_one_turn_share_the_beginning_of_their_ids() -> None:
    first, second = answered(CHAT, *(ToolCall(call_id="", name="f", arguments="{}") for _ in "ab")).parts
    assert isinstance(first, ToolCall) and isinstance(second, ToolCall)
    assert first.call_id != second.call_id and first.call_id[:21] == second.call_id[:21]
