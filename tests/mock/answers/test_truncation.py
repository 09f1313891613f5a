"""Truncation: stop strings and the output cap."""

from __future__ import annotations

from dragoman.mock.answers.response import cut
from dragoman.model.parts import HostedCall, HostedKind, Refusal, Text, Thinking, ToolCall
from dragoman.model.response import StopReason

CALL = ToolCall(call_id="c", name="f", arguments='{"a": 1}')


def test_an_answer_that_fits_is_whole() -> None:
    parts = (Thinking(text="let me see"), Text(text="one two three"))
    found = cut(parts, (), 6)
    assert found.parts == parts
    assert found.reason is StopReason.END


def test_the_cap_counts_thinking_and_text() -> None:
    found = cut((Thinking(text="let me see"), Text(text="one two three")), (), 5)
    assert found.parts == (Thinking(text="let me see"), Text(text="one two"))
    assert found.reason is StopReason.LENGTH


def test_text_before_which_the_tokens_are_used_up_is_not_there() -> None:
    found = cut((Thinking(text="let me see"), Text(text="one")), (), 3)
    assert found.parts == (Thinking(text="let me see"),)
    assert found.reason is StopReason.LENGTH


def test_no_tokens_give_no_parts() -> None:
    assert cut((Text(text="one"),), (), 0).parts == ()


def test_a_call_that_does_not_fit_is_not_made() -> None:
    assert cut((CALL,), (), 3).reason is StopReason.TOOL_CALL
    found = cut((Text(text="one"), CALL), (), 3)
    assert found.parts == (Text(text="one"),)
    assert found.reason is StopReason.LENGTH


def test_text_ends_before_the_first_stop_string() -> None:
    found = cut((Text(text="one two END three"), Text(text="more")), ("three", "END"), 100)
    assert found.parts == (Text(text="one two "),)
    assert (found.reason, found.sequence) == (StopReason.SEQUENCE, "END")


def test_a_stop_string_counts_in_text_alone() -> None:
    parts = (Thinking(text="END"), Text(text="EN"))
    assert cut(parts, ("END",), 100).parts == parts


def test_the_cap_counts_before_a_stop_string_that_comes_later() -> None:
    found = cut((Text(text="one two three END"),), ("END",), 2)
    assert (found.reason, found.sequence) == (StopReason.LENGTH, None)


def test_words_of_refusal_end_in_a_refusal() -> None:
    assert cut((Refusal(text="no"),), (), 10).reason is StopReason.REFUSAL


def test_what_has_no_text_is_kept() -> None:
    hosted = HostedCall(call_id="h", kind=HostedKind.CODE, name="code", arguments="{}")
    assert cut((hosted,), (), 0).parts == (hosted,)
