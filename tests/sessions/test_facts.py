"""Facts: lines of journals that were written by an earlier release can still be read."""

from __future__ import annotations

import msgspec
from msgspec.structs import asdict, replace

from dragoman.sessions.facts import NOTHING, ExchangeFacts, Shape, of_thread


def test_facts_with_fewer_members_are_read() -> None:
    assert msgspec.json.decode(b'["ses_1", "x-session-id"]', type=ExchangeFacts) == ExchangeFacts(
        "ses_1", "x-session-id"
    )
    assert msgspec.json.decode(b"[]", type=ExchangeFacts) == NOTHING


def test_a_thread_keeps_what_its_class_is_derived_from_and_no_ends_of_histories() -> None:
    every = ExchangeFacts(
        "session", "source", "thread", "parent", "class", "agent", "window", "prompt", Shape(1), client="client"
    )
    every = replace(
        every, opening="o", tip="t", before=("b",), call="c", previous="p", answer_call="ac", answer_id="ai"
    )
    every = replace(every, asks="a", prompts=("p",), tasks=("t",))
    assert NOTHING not in (every, of_thread(every))
    lost = {name for name, value in asdict(of_thread(every)).items() if value != getattr(every, name)}
    assert lost == {"tip", "before", "call", "previous", "asks", "prompts", "tasks", "answer_call"}
