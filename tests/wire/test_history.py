"""History: digests that stay while a client only adds to what was said."""

from __future__ import annotations

from msgspec import Raw

from dragoman.model.speech import Sought, Speech
from dragoman.wire.history import ANSWERS, History, digest, is_crowded, without_reminders

SOUGHT = Sought(key=b"k" * 32, spawning={"Agent": "prompt"})


def told(*turns: tuple[str, str], head: str = "You are invented.") -> Speech:
    """What a history shows: turns are of the user (u) and of the model (a)."""
    history = History()
    history.instruct(head)
    for who, text in turns:
        if who == "u":
            history.ask([text], text)
        else:
            history.answer([text])
    return history.speech(SOUGHT, tools=0, telling=())


def test_the_end_of_one_request_is_a_beginning_of_the_next() -> None:
    first = told(("u", "a"))
    second = told(("u", "a"), ("a", "b"), ("u", "c"))
    third = told(("u", "a"), ("a", "b"), ("u", "c"), ("a", "d"), ("u", "e"))
    assert second.before == (first.tip,)
    assert third.before == (second.tip, first.tip)
    assert len({first.tip, second.tip, third.tip}) == 3
    assert first.opening == first.tip
    assert second.opening == third.opening == first.opening


def test_only_some_of_the_latest_answers_are_looked_back_from() -> None:
    turns = [("u" if number % 2 == 0 else "a", str(number)) for number in range(41)]
    found = told(*turns)
    assert len(found.before) == ANSWERS
    assert found.before[0] == told(*turns[:39]).tip
    assert found.opening == told(*turns[:1]).opening


def test_numbers_at_the_head_of_instructions_change_nothing_and_other_words_do() -> None:
    at = told(("u", "a"), head="It is 10:21. You help.")
    assert told(("u", "a"), head="It is 11:58. You help.").tip == at.tip
    assert told(("u", "a"), head="It is 10:21. You hinder.").tip != at.tip
    long = "x" * 500
    assert told(("u", "a"), head=f"{long} Monday").tip == told(("u", "a"), head=f"{long} Tuesday").tip
    assert at.instructions == len("It is 10:21. You help.")


def test_instructions_after_the_first_word_are_none() -> None:
    history = History()
    history.instruct("head")
    history.ask(["a"], "a")
    history.instruct("a reminder of the client's")
    assert history.speech(SOUGHT, tools=0, telling=()).tip == told(("u", "a"), head="head").tip


def test_what_was_given_to_agents_in_the_latest_answer_is_told() -> None:
    history = History()
    history.ask(["go"], "go")
    history.answer([history.call("c0", "Agent", '{"prompt":"earlier"}')])
    history.ask([history.result("c0", "task_id: ses_early")])
    history.answer(
        [
            history.call("c1", "Agent", '{"prompt":" look "}'),
            history.call("c2", "Bash", '{"prompt":"not one"}'),
            history.call("c3", "Agent", "{"),
            history.call("c4", "Agent", Raw(b'{"prompt":["x"]}')),
        ]
    )
    history.ask([history.result("c1", "  task_id: ses_1 is done"), history.result("c2", "task_id: ses_2")])
    found = history.speech(SOUGHT, tools=3, telling=("t",))
    assert found.prompts == (digest(SOUGHT.key, "prompt", "look"),)
    assert found.call == digest(SOUGHT.key, "call", "c1")
    assert found.tasks == ("ses_1",)
    assert (found.tools, found.telling, found.messages) == (3, ("t",), 5)


def test_a_session_is_read_at_the_beginning_of_a_result_alone() -> None:
    def tasks(result: str) -> tuple[str, ...]:
        history = History()
        history.ask(["go"], "go")
        history.answer([history.call("c", "Agent", "{}")])
        history.ask([history.result("c", result)])
        return history.speech(SOUGHT, tools=0, telling=()).tasks

    assert tasks('<task id="ses_a1" state="completed">') == ("ses_a1",)
    assert tasks("task_id: ses_a1") == ("ses_a1",)
    assert tasks("It said: task_id: ses_a1") == ()
    assert tasks("task_id: other") == ()
    assert tasks(f"task_id: ses_{'x' * 10_000}") == (f"ses_{'x' * 124}",)


def test_nothing_is_digested_where_nobody_said_anything() -> None:
    assert told() == Speech(instructions=len("You are invented."))
    assert told(("a", "b")).tip == ""
    assert told(("u", "")).tip == ""


def test_reminders_are_taken_out() -> None:
    reminder = "<system-reminder>\nx\n</system-reminder>"
    assert without_reminders("plain") == "plain"
    assert without_reminders(f"{reminder}\nwords {reminder}") == "words"
    assert without_reminders(reminder) == ""
    assert without_reminders("<system-reminder> never closed") == "<system-reminder> never closed"
    assert without_reminders("a</system-reminder>b") == "a</system-reminder>b"


def test_many_reminders_that_are_never_closed_are_kept_as_they_are() -> None:
    text = "<system-reminder>" * 200_000
    assert without_reminders(text) == text


def test_many_objects_without_words_are_a_crowd() -> None:
    message = b'{"role":"user","content":"a"},'
    assert is_crowded(b"{}," * 80_000)
    assert not is_crowded(message * 8000)
    assert not is_crowded(b"{}," * 1000)


def test_digests_differ_by_key_and_kind_and_take_any_text() -> None:
    assert digest(b"a", "x", "t") != digest(b"b", "x", "t") != digest(b"b", "y", "t")
    assert len(digest(b"a", "x", "\ud800")) == 32
