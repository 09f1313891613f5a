"""The scripted providers are legal: what they say, the SDKs take without any translation."""

from __future__ import annotations

import pytest

from tests.sdk.names import CHAT, MESSAGES, RESPONSES
from tests.sdk.oracles import check_answer, check_stream
from tests.sdk.providers import Call, Turn, answer, stream

CALLS = (Call("call_1", "get_weather", '{"city":"Paris"}'), Call("call_2", "get_time"))
STOPS = {MESSAGES: "tool_use", CHAT: "tool_calls", RESPONSES: "completed"}


@pytest.mark.parametrize("protocol", STOPS)
@pytest.mark.parametrize(
    ("reasoning", "text", "calls"),
    [("", "Hi.", ()), ("Think.", "Hi.", ()), ("Think hard.", "Let me look.", CALLS), ("", "", CALLS)],
)
def test_what_a_scripted_provider_says_is_legal(
    protocol: str, reasoning: str, text: str, calls: tuple[Call, ...]
) -> None:
    turn = Turn(stop=STOPS[protocol], reasoning=reasoning, text=text, calls=calls)
    check_answer(protocol, answer(protocol, turn))
    told = check_stream(protocol, stream(protocol, turn))
    assert told.error is None and text in str(told.body)
