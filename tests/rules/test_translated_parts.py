"""Translated parts: boundaries of a history, the state at each, and what makes them unfit."""

from __future__ import annotations

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList
from dragoman.model.losses import Ledger
from dragoman.model.parts import Part, Seal, Text, Thinking, ToolCall
from dragoman.model.request import Message, Role
from dragoman.rules.translated_parts import HistoryEncoding, TranslatedHistory, opens_turn
from dragoman.wire.json import decode

MESSAGES = tuple(
    Message(role=role, parts=(Text(text=text),))
    for role, text in ((Role.USER, "a"), (Role.ASSISTANT, "b"), (Role.USER, "c"), (Role.ASSISTANT, "d"))
)


def encoded(ledger: Ledger, *, bare: bool = False) -> tuple[HistoryEncoding, JsonList]:
    """Four messages, each as an element, with a loss of the second and one of the fourth."""
    history = HistoryEncoding()
    history.total = len(MESSAGES)
    written: JsonList = ["opening"]
    history.begin_stage(ledger)
    history.begin_writing(written)
    for number, message in enumerate(MESSAGES):
        place = ("messages", number, "parts", 0)
        if message.role is Role.ASSISTANT:
            history.begin_turn(message.parts, [place], written)
            ledger.dropped(Feature.THINKING, ("messages",) if bare else place, "lost")
        written.append({"n": number})
        if message.role is Role.ASSISTANT:
            history.end_turn(written)
    history.end_turns(written)
    history.finish(ledger, written)
    return history, written


def translated() -> TranslatedHistory:
    return encoded(Ledger())[0].translated((), MESSAGES, b"[]", "target")


def test_the_state_at_a_boundary_is_that_of_the_messages_before_it() -> None:
    history = translated()
    assert [boundary.count for boundary in history.boundaries] == [1, 3]
    boundary = history.boundary_before(3)
    assert boundary is not None
    start = history.start_at(boundary)
    assert (start.text, start.last) == (b'{"n":0},{"n":1}', b'{"n":2}')
    assert start.messages == MESSAGES[:3]
    assert [[loss[2][1] for loss in stage] for stage in start.losses] == [[1]]


def test_the_last_boundary_before_a_change_is_found() -> None:
    history = translated()
    assert history.boundary_before(0) is None
    for count, expected in ((1, 1), (2, 1), (3, 3), (9, 3)):
        boundary = history.boundary_before(count)
        assert boundary is not None and boundary.count == expected


def test_a_continued_history_is_the_whole_one() -> None:
    history = translated()
    boundary = history.boundaries[0]
    more = HistoryEncoding(history.start_at(boundary))
    more.total = len(MESSAGES)
    ledger, written = Ledger(), JsonList(["opening"])
    more.begin_stage(ledger)
    more.begin_writing(written)
    assert written == ["opening", {"n": 0}]
    more.begin_turn(MESSAGES[1].parts, [("messages", 1)], written)
    written += [{"n": 1}, {"n": 2}]
    more.begin_turn(MESSAGES[3].parts, [("messages", 3)], written)
    written.append({"n": 3})
    more.finish(ledger, written)
    again = more.translated((boundary,), MESSAGES, b"[]", "target")
    assert (again.text, again.boundaries) == (history.text, history.boundaries)
    assert decode(b"[%b]" % again.text) == [{"n": number} for number in range(4)]


def test_a_turn_that_wrote_nothing_leaves_no_boundary() -> None:
    history, written = HistoryEncoding(), JsonList([{}])
    history.begin_turn(MESSAGES[1].parts, [("messages", 1)], written)
    assert history.boundaries == [(1, 1)]
    history.end_turn(written)
    assert history.boundaries == []


def test_a_loss_of_no_message_makes_a_history_unfit() -> None:
    assert encoded(Ledger())[0].is_prefix
    assert not encoded(Ledger(), bare=True)[0].is_prefix


def test_the_size_grows_with_text_and_with_wide_characters() -> None:
    def size(part: Part) -> int:
        history = HistoryEncoding()
        return history.translated((), (Message(role=Role.USER, parts=(part,)),), b"", "target").size

    assert size(Text(text="ä" * 1000)) - size(Text(text="a" * 1000)) == 3000
    seal = Seal(origin="x", kind="thinking", body={"signature": "s" * 5000})
    assert size(Thinking(text="", seal=seal)) > 5000


def test_an_assistant_message_that_may_be_left_out_opens_no_turn() -> None:
    def assistant(*parts: Part) -> Message:
        return Message(role=Role.ASSISTANT, parts=parts)

    assert opens_turn(assistant(Text(text="Ja.")))
    assert opens_turn(assistant(Text(text=" "), ToolCall(call_id="1", name="n", arguments="{}")))
    assert opens_turn(assistant(Thinking(text="Hm.")))
    assert not opens_turn(assistant(Text(text=" \n")))
    assert not opens_turn(assistant())
    assert not opens_turn(Message(role=Role.USER, parts=(Text(text="Ja."),)))
