"""History: digests that stay while a client only adds to what was said."""

from __future__ import annotations

from functools import partial

from msgspec import Raw

from dragoman.model.session_hints import HintQuery, SessionHints
from dragoman.wire.conversation_history import session_hints_in
from dragoman.wire.history_digest import (
    ASSISTANT,
    INSTRUCTION,
    USER,
    CallOrResult,
    Turn,
    digest,
    is_crowded,
    joined,
    tool_shape,
    without_reminders,
    without_repeated,
)
from dragoman.wire.short_history import LOOKED_BACK
from tests.step_counting import count_steps

SOUGHT = HintQuery(key=b"k" * 32, distinctive_tools=frozenset({"t"}), spawning={"Agent": "prompt"})


def asked(*pieces: str) -> Turn:
    return USER, joined("u", [*pieces]), "\n".join(pieces), ()


def called(*calls: CallOrResult) -> Turn:
    return ASSISTANT, joined("a", [f"call {call_id}" for call_id, _, _ in calls]), "", calls


def gave(*results: tuple[str, str]) -> Turn:
    told = [(call_id, "", text) for call_id, text in results]
    return USER, joined("u", [f"result {call_id}" for call_id, _ in results]), "", told


def told(*turns: tuple[str, str], head: str = "You are invented.") -> SessionHints:
    """What a history shows: turns are of the user (u) and of the model (a)."""
    said = [asked(text) if who == "u" else (ASSISTANT, joined("a", [text]), "", ()) for who, text in turns]
    return session_hints_in(said, SOUGHT, instructions=head)


def test_agents_are_named_by_the_calls_that_began_them_or_by_their_results() -> None:
    sought = HintQuery(key=b"k" * 32, spawning={"spawn_agent": "message"}, naming={"spawn_agent": "agent_type"})
    ids = [f"01a1ed0c-ed40-7921-8a10-5208317e73e{number}" for number in range(4)]
    turns = [
        asked("go"),
        called(
            ("c0", "spawn_agent", '{"message":"a","agent_type":"explorer"}'), ("c1", "spawn_agent", '{"message":"b"}')
        ),
        gave(
            ("c0", f'{{"agent_id":"{ids[0]}","nickname":"Gauss"}}'),
            ("c1", f'{{"agent_id":"{ids[1]}","nickname":"Noether"}}'),
        ),
        called(("c2", "exec", "{}")),
        gave(("c2", f'{{"agent_id":"{ids[2]}","nickname":"No agent"}}')),
        called(("c3", "spawn_agent", '{"message":"c","agent_type":"a secret of the user"}')),
        gave(("c3", f'{{"agent_id":"{ids[3]}"}}')),
    ]
    # From all of the history: agents that run beside their parent are known later than the call that began them.
    assert session_hints_in(turns, sought).named == ((ids[0], "explorer"), (ids[1], "Noether"))
    assert session_hints_in(turns[:3], sought).agents == ("explorer", "")
    assert session_hints_in(turns, sought).agents == ()


def test_the_end_of_one_request_is_a_beginning_of_the_next() -> None:
    first = told(("u", "a"))
    second = told(("u", "a"), ("a", "b"), ("u", "c"))
    third = told(("u", "a"), ("a", "b"), ("u", "c"), ("a", "d"), ("u", "e"))
    assert second.before == (first.head,)
    assert third.before == (second.head, first.head)
    assert len({first.head, second.head, third.head}) == 3
    assert first.conversation_start == first.head
    assert second.conversation_start == third.conversation_start == first.conversation_start


def test_only_some_of_the_latest_answers_are_looked_back_from() -> None:
    turns = [("u" if number % 2 == 0 else "a", str(number)) for number in range(41)]
    found = told(*turns)
    assert len(found.before) == LOOKED_BACK
    assert found.before[0] == told(*turns[:39]).head
    assert found.conversation_start == told(*turns[:1]).conversation_start


def test_numbers_at_the_head_of_instructions_change_nothing_and_other_words_do() -> None:
    at = told(("u", "a"), head="It is 10:21. You help.")
    assert told(("u", "a"), head="It is 11:58. You help.").head == at.head
    assert told(("u", "a"), head="It is 10:21. You hinder.").head != at.head
    long = "x" * 500
    assert told(("u", "a"), head=f"{long} Monday").head == told(("u", "a"), head=f"{long} Tuesday").head
    assert at.instructions == len("It is 10:21. You help.")


def test_instructions_after_the_first_word_are_none() -> None:
    turns: list[Turn] = [(INSTRUCTION, "", "he", ()), asked("a"), (INSTRUCTION, "", "a reminder of the client's", ())]
    found = session_hints_in(turns, SOUGHT, instructions="You ")
    assert found.head == told(("u", "a"), head="You he").head
    assert (found.instructions, found.messages) == (6, 1)


def test_what_was_given_to_agents_in_the_latest_answer_is_told() -> None:
    turns = [
        asked("go"),
        called(("c0", "Agent", '{"prompt":"earlier"}')),
        gave(("c0", "task_id: ses_early")),
        called(
            ("c1", "Agent", '{"prompt":" look "}'),
            ("c2", "Bash", '{"prompt":"not one"}'),
            ("c3", "Agent", "{"),
            ("c4", "Agent", Raw(b'{"prompt":["x"]}')),
        ),
        gave(("c1", "  task_id: ses_1 is done"), ("c2", "task_id: ses_2")),
    ]
    found = session_hints_in(turns, SOUGHT, tools=(3, ("t",)))
    assert found.prompts == (digest(SOUGHT.key, "prompt", "look"),)
    assert found.call == digest(SOUGHT.key, "call", "c1")
    assert found.tasks == ("ses_1",)
    assert (found.tools, found.distinctive_tools, found.messages) == (3, ("t",), 5)


def test_a_session_is_read_at_the_beginning_of_a_result_alone() -> None:
    def tasks(result: str) -> tuple[str, ...]:
        turns = [asked("go"), called(("c", "Agent", "{}")), gave(("c", result))]
        return session_hints_in(turns, SOUGHT).tasks

    assert tasks('<task id="ses_a1" state="completed">') == ("ses_a1",)
    assert tasks("task_id: ses_a1") == ("ses_a1",)
    assert tasks("It said: task_id: ses_a1") == ()
    assert tasks("task_id: other") == ()
    assert tasks(f"task_id: ses_{'x' * 10_000}") == (f"ses_{'x' * 124}",)


def test_nothing_is_digested_where_nobody_said_anything() -> None:
    assert told() == SessionHints(instructions=len("You are invented."))
    assert told(("a", "b")).head == ""
    assert told(("u", "")).head == ""


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
    assert is_crowded(b"{}," * 2001) and not is_crowded(b"{}," * 1999)


def test_an_answer_without_a_word_is_an_answer() -> None:
    nothing: Turn = (ASSISTANT, "", "", ())
    found = session_hints_in([asked("a"), nothing, asked("b"), nothing], SOUGHT)
    assert found.before == (found.head, told(("u", "a"), head="").head)
    assert found.head == told(("u", "a"), ("u", "b"), head="").head
    assert session_hints_in([asked("a"), nothing], SOUGHT).before == ()


def test_digests_differ_by_key_and_kind_and_take_any_text() -> None:
    assert digest(b"a", "call", "t") != digest(b"b", "call", "t") != digest(b"b", "prompt", "t")
    assert len(digest(b"a", "call", "\ud800")) == 32


def test_instructions_that_are_repeated_behind_a_question_are_no_part_of_it() -> None:
    rules = "# Rules for answers:\n\nEvery answer is short, and in English."
    instructions = f"You are a model.\n{rules}"
    assert without_repeated(f"Why?\n\n{rules}", instructions) == "Why?"
    assert without_repeated(f"Why?\n\nBecause?\n\n{rules}", instructions) == "Why?\n\nBecause?"
    # Nothing else is asked, it is too short, or it is no paragraph of its own.
    for text in (rules, f"\n\n{rules}", "Why?\n\nin English.", f"Why? {rules[-34:]}", "Why?", ""):
        assert without_repeated(text, instructions) == text
    assert without_repeated(f"Why?\n\n{rules}", "") == f"Why?\n\n{rules}"


def test_to_look_for_repeated_instructions_takes_steps_that_do_not_grow_with_their_paragraphs() -> None:
    def looked(size: int) -> int:
        text = "\n\n" * size
        return count_steps(lambda: without_repeated(text, "x" + text))

    assert looked(4000) <= looked(2000) + 32


def test_the_shape_of_tools_is_read_once() -> None:
    read: list[Raw] = []

    def names_in(tools: Raw) -> list[str]:
        read.append(tools)
        return ["t", bytes(tools).decode().strip('[" ]')]

    lists = [b'["%b"]' % (b"a" * size) for size in (1000, 2000, 3000)]
    large = b'["%b"]' % (b"d" * 200_000)
    for written in (*lists, *lists, large, large):
        assert tool_shape(Raw(written), SOUGHT, names_in) == (2, ("t",))
    # The largest is read each time.
    assert len(read) == len(lists) + 2


def _given_names(names: list[str], _tools: Raw) -> list[str]:
    return names


def test_tools_that_differ_in_a_few_bytes_have_shapes_of_their_own() -> None:
    for at in (0, 500, 1000, 1500):
        names = ["t" if number == at else "x" for number in range(2000)]
        for offered in (names, ["x"] * 2000):
            written = Raw(f"[{','.join(offered)}]".encode())
            assert tool_shape(written, SOUGHT, partial(_given_names, offered)) == (
                2000,
                ("t",) if "t" in offered else (),
            )
