"""Placing: trees of sessions and threads, from requests as real clients make them, and from others."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from dragoman.model.jsonvalue import JsonObject
from dragoman.records.journal_entry import CANCELLED, COUNT, FAILED, LIST, REFUSED
from dragoman.records.thread_assignment import NOWHERE, AssignedThread, reclassify
from dragoman.sessions.fact_extraction import header_facts
from dragoman.sessions.rules import VERSION
from dragoman.wire.history_digest import digest
from tests.records.invented import NOON, entry
from tests.records.speaking import Desk, Node, desk
from tests.sessions.invented import (
    AGENT_PROMPT,
    AGENT_TOOLS,
    SESSION,
    TITLE_PROMPT,
    Asked,
    assistant,
    call,
    called,
    claude,
    codex,
    facts_of,
    headers,
    older_claude,
    older_opencode,
    opencode,
    output,
    plain,
    result,
    user,
)
from tests.store.opened import sqlite

pytestmark = pytest.mark.usefixtures("engine")

OTHER_SESSION = "5a2b0c1e-7d4f-4a3b-9c8d-000000000002"


@pytest.fixture(name="at")
def _at() -> Iterator[Desk]:
    with desk() as made:
        yield made


def agent(messages: list[JsonObject], **more: str) -> Asked:
    """An agent of Claude Code."""
    return claude(messages, system=AGENT_PROMPT, tools=AGENT_TOOLS, **more)


def older_agent(messages: list[JsonObject], **more: str) -> Asked:
    """An agent of Claude Code of March 2026."""
    return older_claude(messages, system=AGENT_PROMPT, tools=AGENT_TOOLS, **more)


# Claude Code


def test_a_session_of_claude_code_with_an_agent_a_title_and_a_compaction(at: Desk) -> None:
    first = at.place(claude([user("fix it")]))
    at.place(claude([user("fix it")], system=TITLE_PROMPT, tools=()))
    at.place(claude([user("fix it"), call("c1", "Agent", prompt="look"), result("c1")]))
    at.place(agent([user("look")], agent_id="a1"))
    at.place(agent([user("look"), call("c2"), result("c2")], agent_id="a1"))
    at.place(agent([user("deeper")], agent_id="a2", parent_agent_id="a1"))
    summary = [user("fix it"), call("c1", "Agent", prompt="look"), result("c1"), user("summarise")]
    at.place(claude(summary, request_class="compaction"))
    last = at.place(claude([user("This session goes on from a summary: ...")]))
    assert first == last
    assert at.count("sessions") == 1
    assert at.tree(first) == {
        "main": Node("main", windows=2),
        "utility": Node("utility", windows=0),
        "a1": Node("subagent", "main"),
        "a2": Node("subagent", "a1"),
        "compaction": Node("compaction", "main", windows=0),
    }


def test_hints_go_before_shapes(at: Desk) -> None:
    first = at.place(claude([user("go")], request_class="main", tools=()))
    at.place(agent([user("a")], agent_id="a1", request_class="subagent", agent_type="general-purpose"))
    at.place(claude([user("b")], request_class="auxiliary"))
    at.place(claude([user("c")], request_class="workflow", agent_id="w1"))
    at.place(claude([user("d")], request_class="teleport"))
    assert {name: node.kind for name, node in at.tree(first).items()} == {
        "main": "main",
        "a1": "subagent",
        "utility": "utility",
        "w1": "workflow",
        "other:teleport": "other:teleport",
    }
    label = at.tables.connection.row("SELECT label FROM threads WHERE name = 'a1'")
    assert label == ("general-purpose",)


def labels(at: Desk) -> dict[str, str]:
    """The label of each thread."""
    return dict(at.tables.connection.rows("SELECT name, label FROM threads"))


def test_an_agent_has_the_type_that_the_call_names_which_began_it(at: Desk) -> None:
    at.place(claude([user("fix it")]))
    at.place(agent([user("look")], agent_id="a1"))
    at.place(agent([user("find")], agent_id="a2"))
    at.place(agent([user("say")], agent_id="a3", agent_type="reviewer"))
    began = [
        call("c1", "Agent", prompt="look", subagent_type="Explore"),
        call("c2", "Agent", prompt="find", subagent_type="two words, which are no name"),
        call("c3", "Agent", prompt="say", subagent_type="Explore"),
    ]
    at.place(claude([user("fix it"), *began, result("c1"), result("c2"), result("c3")]))
    assert labels(at) == {"main": "", "a1": "Explore", "a2": "", "a3": "reviewer"}


def test_pitfall_501_equal_agents_that_run_at_once_are_two_threads(at: Desk) -> None:
    at.place(older_claude([user("ask two agents")]))
    ours, theirs = [user("count the tests")], [user("count the tests")]
    a1 = at.place(older_agent(ours), answer="ca1")
    b1 = at.place(older_agent(theirs), answer="cb1")
    theirs += [call("cb1"), result("cb1")]
    b2 = at.place(older_agent(theirs), answer="cb2")
    ours += [call("ca1"), result("ca1")]
    a2 = at.place(older_agent(ours), answer="ca2")
    ours += [call("ca2"), result("ca2")]
    theirs += [call("cb2"), result("cb2")]
    a3, b3 = at.place(older_agent(ours)), at.place(older_agent(theirs))
    assert a1 == a2 == a3
    assert b1 == b2 == b3
    assert a1.session == b1.session and a1.thread != b1.thread


def test_pitfall_501_they_are_two_where_nobody_heard_their_answers(at: Desk) -> None:
    start = [user("count the tests")]
    first, second = at.place(older_agent(start)), at.place(older_agent(start))
    ours = [*start, call("c1"), result("c1")]
    theirs = [*start, call("c2"), result("c2")]
    a2, b2 = at.place(older_agent(ours)), at.place(older_agent(theirs))
    assert {a2, b2} == {first, second}
    assert at.place(older_agent([*theirs, call("c4"), result("c4")])) == b2
    assert at.place(older_agent([*ours, call("c3"), result("c3")])) == a2


def test_pitfall_502_agents_are_linked_by_the_prompt_that_they_were_given(at: Desk) -> None:
    main = at.place(older_claude([user("go")]))
    found = {prompt: at.place(older_agent([user(prompt)])) for prompt in ("third", "first", "second")}
    nested = at.place(older_agent([user("deeper")]))
    calls: JsonObject = {
        "role": "assistant",
        "content": [
            {"type": "tool_use", "id": f"c{prompt}", "name": "Agent", "input": {"prompt": prompt, "description": "x"}}
            for prompt in ("first", "second", "third")
        ],
    }
    at.place(older_claude([user("go"), calls, result("cfirst")]))
    at.place(older_agent([user("second"), call("cd", "Agent", prompt="deeper"), result("cd")]))
    assert {at.thread(placed).parent for placed in found.values()} == {main.thread}
    assert {at.thread(placed).sure for placed in found.values()} <= {60, 80}
    assert at.thread(nested).parent == found["second"].thread
    assert (at.thread(nested).rule, at.thread(nested).sure) == ("prompt", 80)


def test_pitfall_502_equal_prompts_are_marked_as_uncertain(at: Desk) -> None:
    outer = at.place(older_agent([user("outer")]), answer="co")
    twins = [at.place(older_agent([user("same")])) for _ in range(2)]
    given = call("co", "Agent", prompt="same")
    assert at.place(older_agent([user("outer"), given, result("co")])) == outer
    assert [(at.thread(twin).parent, at.thread(twin).sure) for twin in twins] == [(outer.thread, 50)] * 2


def test_an_agent_that_begins_after_its_parent_went_on_is_linked_too(at: Desk) -> None:
    outer = at.place(older_agent([user("outer")]), answer="co")
    at.place(older_agent([user("outer"), call("co", "Agent", prompt="late"), result("co", "in the background")]))
    child = at.place(older_agent([user("late")]))
    assert (at.thread(child).parent, at.thread(child).sure) == (outer.thread, 70)


def test_the_same_prompt_in_another_session_takes_no_agent_away(at: Desk) -> None:
    main = at.place(older_claude([user("go")]))
    child = at.place(older_agent([user("look")]))
    other = at.place(
        older_claude([user("go"), call("c9", "Agent", prompt="look"), result("c9")], session=OTHER_SESSION)
    )
    assert other.session != child.session
    assert at.thread(child).parent == main.thread


def test_pitfall_503_a_curl_beside_an_agent_is_not_in_its_session(at: Desk) -> None:
    run = at.place(claude([user("go")]))
    beside = at.place(plain([user("hello")], agent="curl/8.5"))
    assert beside.session not in (0, run.session)
    assert at.place(Asked(headers(user_agent="curl/8.5"), {"model": "m"})) == NOWHERE


def test_pitfall_504_who_mentions_an_id_does_not_join_its_session(at: Desk) -> None:
    run = at.place(claude([user("go")]))
    ours = at.place(opencode([user("go")], session="ses_victim"))
    texts = [f"x-claude-code-session-id: {SESSION}", SESSION, "task_id: ses_victim", '<task id="ses_victim">']
    for text in texts:
        pasted = at.place(plain([user(text)]))
        assert pasted.session not in (run.session, ours.session)
    # What a file says is no result of a task.
    at.place(opencode([user("a"), called("c1", "read"), output("c1", '<task id="ses_victim">')], session="ses_thief"))
    quoted = "An agent said: <task id='ses_victim'> or task_id: ses_victim"
    at.place(opencode([user("a"), called("c2", "task", prompt="p"), output("c2", quoted)], session="ses_thief"))
    assert at.session(ours).origin == 0
    assert at.thread(ours).parent == 0


def test_pitfall_505_generic_names_are_believed_of_their_client_alone(at: Desk) -> None:
    said = [(b"session-id", b"1"), (b"thread-id", b"1"), (b"x-session-id", b"1"), (b"session_id", b"1")]
    strange = Asked([(b"user-agent", b"curl/8.5"), *said], {"model": "m", "input": "hello"}, "openai-responses")
    assert facts_of(strange).session == ""
    known = Asked([(b"user-agent", b"codex_cli_rs/0.50"), *said], {"model": "m", "input": "hello"}, "openai-responses")
    mine, yours = at.place(known, key="mine"), at.place(known, key="yours")
    assert mine.session != yours.session
    assert at.session(mine).name == at.session(yours).name == "1"


def test_pitfall_505_every_turn_of_codex_is_of_one_session(at: Desk) -> None:
    items: list[JsonObject] = [user("go")]
    places = set()
    for turn in range(5):
        places.add(at.place(codex(items)))
        items += [called(f"c{turn}"), output(f"c{turn}")]
    assert len(places) == 1


def test_pitfall_506_507_what_clients_move_leaves_a_conversation_as_it_was(at: Desk) -> None:
    marked: JsonObject = {"type": "text", "text": "go", "cache_control": {"type": "ephemeral"}}
    reminder = "<system-reminder>\nToday is Monday.\n</system-reminder>"
    first = claude([{"role": "user", "content": [marked]}], session="", user_id="", nonce="1")
    later: list[JsonObject] = [
        {"role": "user", "content": [{"type": "text", "text": reminder}, {"type": "text", "text": "go"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"b": 1, "a": 2}},
            ],
        },
        {"role": "system", "content": "The user opened a file."},
        result("c1"),
    ]
    second = claude(later, session="", user_id="", nonce="2")
    placed = at.place(first)
    assert at.place(second) == placed
    cleared: JsonObject = {"type": "tool_result", "tool_use_id": "c1", "content": "[old result cleared]"}
    third: list[JsonObject] = [
        later[0],
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "Bash", "input": {}}]},
    ]
    third += [{"role": "user", "content": [cleared]}, assistant("done"), user("more")]
    assert at.place(claude(third, session="", user_id="", nonce="3")) == placed
    assert at.thread(placed).windows == 1


def test_pitfall_508_two_chats_of_one_key_are_two_sessions(at: Desk) -> None:
    one, two = [user("what is a fugue?")], [user("what is a canon?")]
    first, second = at.place(plain(one)), at.place(plain(two))
    assert first.session != second.session
    assert at.place(plain([*one, assistant("a form"), user("why?")])) == first
    assert at.place(plain([*two, assistant("a form"), user("why?")])) == second


def test_pitfall_509_a_resumed_session_is_linked_to_the_one_that_it_continues(at: Desk) -> None:
    history = [user("go"), call("c1"), result("c1")]
    at.place(claude([user("go")]))
    old = at.place(claude(history))
    resumed = at.place(claude([*history, assistant("done"), user("and now?")], session=OTHER_SESSION))
    assert resumed.session != old.session
    assert (at.session(resumed).origin, at.session(resumed).link) == (old.session, "continues")


def test_a_resumed_session_is_linked_though_the_one_that_it_continues_is_placed_later(at: Desk) -> None:
    """With two workers, the journal of the resumed session may be moved first."""
    history = [user("go"), call("c1"), result("c1")]
    resumed = at.place(claude([*history, assistant("done"), user("and now?")], session=OTHER_SESSION))
    old = at.place(claude([user("go")]))
    assert at.session(resumed).origin == old.session
    assert at.place(claude(history)) == old
    assert (at.session(resumed).origin, at.session(resumed).link) == (old.session, "continues")
    assert (at.session(old).origin, at.session(old).link) == (0, "")


def test_a_resumed_session_that_is_placed_first_is_linked_to_one_that_was_begun_before(at: Desk) -> None:
    old = at.place(claude([user("other")]))
    resumed = at.place(claude([user("go"), assistant("done"), user("and now?")], session=OTHER_SESSION))
    assert at.place(claude([user("go")])) == old
    assert (at.session(resumed).origin, at.session(resumed).link) == (old.session, "continues")


def test_a_fork_that_is_placed_before_where_it_leaves_is_linked(at: Desk) -> None:
    forked = at.place(claude([user("go"), assistant("another"), user("elsewhere")], session=OTHER_SESSION))
    at.place(claude([user("go"), assistant("one way"), user("on")]), time=NOON * 2)
    old = at.place(claude([user("go")]), time=NOON)
    assert (at.session(forked).origin, at.session(forked).link) == (old.session, "fork")


def test_sessions_of_other_keys_are_not_linked_though_they_are_placed_later(at: Desk) -> None:
    history = [user("go"), assistant("done"), user("and now?")]
    resumed = at.place(claude(history, session=OTHER_SESSION))
    at.place(claude([user("go")]), key="thief")
    assert at.session(resumed).origin == 0


def test_an_agents_session_that_is_placed_after_its_parent_named_it_is_linked(at: Desk) -> None:
    told = [user("go"), called("c1", "task", prompt="x"), output("c1", "task_id: ses_child")]
    parent = at.place(older_opencode(told, session="ses_main"))
    child = at.place(older_opencode([user("x")], session="ses_child"))
    assert (at.session(child).origin, at.session(child).link) == (parent.session, "subagent")
    assert (at.thread(child).parent, at.thread(child).rule) == (parent.thread, "task id")


def test_pitfall_510_a_fork_is_linked_to_where_it_leaves(at: Desk) -> None:
    begun = [user("go"), call("c1"), result("c1")]
    at.place(claude([user("go")]))
    at.place(claude(begun))
    old = at.place(claude([*begun, assistant("one way"), user("on")]))
    forked = at.place(claude([*begun, assistant("another"), user("elsewhere")], session=OTHER_SESSION))
    assert (at.session(forked).origin, at.session(forked).link) == (old.session, "fork")


def test_pitfall_510_an_edited_question_is_a_branch_of_its_session(at: Desk) -> None:
    first = at.place(plain([user("a"), assistant("b"), user("c")]))
    assert at.place(plain([user("a"), assistant("b"), user("c"), assistant("d"), user("e")])) == first
    branch = at.place(plain([user("a"), assistant("b"), user("c"), assistant("d2"), user("f")]))
    assert branch.session == first.session
    assert at.thread(branch).parent == first.thread
    assert at.thread(branch).rule == "fork"
    assert (
        at.place(plain([user("a"), assistant("b"), user("c"), assistant("d2"), user("f"), assistant("g"), user("h")]))
        == branch
    )


def test_pitfall_513_titles_are_kept_and_probes_make_no_session(at: Desk) -> None:
    counted = claude([user("go")])
    assert at.place(counted, kind=COUNT) == at.place(counted, kind=LIST) == NOWHERE
    assert at.count("sessions") == at.count("threads") == 0
    main = at.place(claude([user("go")]))
    title = at.place(claude([user("go")], system=TITLE_PROMPT, tools=()))
    assert title.session == main.session and at.thread(title).kind == "utility"
    assert at.place(counted, kind=COUNT) == AssignedThread(main.session, 0)


def test_pitfall_513_who_is_refused_at_the_door_makes_no_session(at: Desk) -> None:
    stranger = replace(
        entry(1, key="", outcome=REFUSED, status=401), requested_model="", facts=header_facts(claude([]).headers)
    )
    assert at.put(stranger) == NOWHERE
    main = at.place(claude([user("go")]))
    # One that is let in, and has too much under way.
    busy = replace(stranger, key="laptop", status=429)
    assert at.put(busy) == AssignedThread(main.session, 0)
    assert at.count("sessions") == at.count("threads") == 1


def test_pitfall_514_a_side_question_does_not_lengthen_the_main_thread(at: Desk) -> None:
    history = [user("go"), call("c1"), result("c1")]
    main = at.place(claude(history))
    side = at.place(claude([*history, user("what is this flag?")], request_class="side_reply"))
    again = at.place(claude([*history, user("and that one?")], request_class="side_reply"))
    assert len({main.thread, side.thread, again.thread}) == 3
    assert at.thread(side).kind == at.thread(again).kind == "side"
    assert at.thread(side).parent == at.thread(again).parent == main.thread
    assert at.place(claude([*history, assistant("done"), user("on")])) == main
    assert at.thread(main).windows == 1


def test_pitfall_515_a_compacted_conversation_goes_on_in_another_window(at: Desk) -> None:
    first = at.place(codex([user("go")]))
    summary = at.place(codex([user("go"), assistant("x"), user("summarise")], kind="compaction"))
    second = at.place(codex([user("a summary")], window=1))
    assert first == second
    assert at.thread(first).windows == 2
    assert (at.thread(summary).kind, at.thread(summary).parent) == ("compaction", first.thread)


def test_pitfall_516_both_windows_may_grow(at: Desk) -> None:
    old = [user("go"), call("c1"), result("c1")]
    new = [user("a summary of it all")]
    placed = at.place(claude(old))
    assert at.place(claude(new)) == placed
    assert at.place(claude([*old, assistant("x"), user("y")])) == placed
    assert at.place(claude([*new, assistant("x"), user("y")])) == placed
    assert at.thread(placed).windows == 2


def test_pitfall_517_what_carries_only_what_is_new_follows_the_chain(at: Desk) -> None:
    def asked(text: str, previous: str = "", answer: str = "") -> Asked:
        body: JsonObject = {"model": "m", "input": text}
        return Asked(
            headers(user_agent="openai-python"), {**body, "previous_response_id": previous}, "openai-responses"
        )

    def answered(text: str, previous: str, answer: str) -> AssignedThread:
        made = facts_of(asked(text, previous))
        return at.place(replace(made, answer_id=digest(b"a secret of thirty-two letters..", "response", answer)))

    first = answered("hello", "", "resp_1")
    other = answered("good day", "", "resp_9")
    assert answered("go on", "resp_1", "resp_2") == first
    assert answered("go on", "resp_9", "resp_10") == other
    assert answered("and on", "resp_2", "resp_3") == first
    unseen = answered("go on", "resp_of_another_life", "resp_20")
    assert unseen.session not in (first.session, other.session)


def test_pitfall_518_an_unknown_client_stays_unknown(at: Desk) -> None:
    made = facts_of(Asked(headers(user_agent="something/1"), claude([user("go")]).body))
    assert made.client == ""
    assert facts_of(plain([user("go")])).client == ""


def test_pitfall_519_newer_rules_class_threads_anew_in_steps(at: Desk) -> None:
    places = [at.place(claude([user(f"go {number}")], session=f"s{number}")) for number in range(5)]
    at.tables.connection.change("UPDATE threads SET class = 'side', rule = 'an old one', sure = 1, rules = 0")
    assert [reclassify(at.tables, 2) for _ in range(4)] == [2, 2, 1, 0]
    rows = [at.thread(placed) for placed in places]
    assert {(row.kind, row.rule, row.sure, row.rules) for row in rows} == {("main", "length", 80, VERSION)}


@pytest.mark.sqlite_only
@pytest.mark.parametrize("named", [True, False], ids=["by its headers", "by its history"])
def test_pitfall_520_a_placement_costs_the_same_at_turn_3_and_at_turn_100(at: Desk, named: bool) -> None:
    costs = {}
    history: list[JsonObject] = [user("go")]
    for turn in range(1, 101):
        asked = claude(history) if named else claude(history, session="", user_id="")
        statements: list[str] = []
        if turn in (3, 100):
            sqlite(at.tables.connection).set_trace_callback(statements.append)
        at.place(asked)
        sqlite(at.tables.connection).set_trace_callback(None)
        costs[turn] = len(statements)
        history = [*history, call(f"c{turn}"), result(f"c{turn}")]
    assert costs[3] == costs[100] < 20
    assert at.count("threads") == 1


def test_a_thread_that_older_rules_classed_without_a_window_has_one_when_it_goes_on(at: Desk) -> None:
    start = [user("go")]
    main = at.place(claude(start))
    with at.tables.transaction():
        at.tables.connection.change("UPDATE threads SET class = 'utility', windows = 0, rules = 0")
    assert reclassify(at.tables, 10) == 1
    assert at.place(claude([*start, assistant("x"), user("y")])) == main
    assert (at.thread(main).kind, at.thread(main).windows) == ("main", 1)


def test_pitfall_523_a_parent_that_nobody_has_heard_of_is_awaited(at: Desk) -> None:
    child = at.place(agent([user("x")], agent_id="child", parent_agent_id="parent"))
    assert (at.thread(child).parent, at.thread(child).rule, at.thread(child).sure) == (0, "parent missing", 40)
    parent = at.place(agent([user("y")], agent_id="parent"))
    assert at.thread(child).parent == parent.thread
    main = at.place(claude([user("z")]))
    assert at.thread(parent).parent == main.thread


def test_pitfall_523_a_cycle_is_cut_and_told(at: Desk) -> None:
    a = at.place(agent([user("x")], agent_id="a", parent_agent_id="b"))
    b = at.place(agent([user("y")], agent_id="b", parent_agent_id="a"))
    own = at.place(agent([user("z")], agent_id="c", parent_agent_id="c"))
    assert at.thread(b).parent == a.thread
    assert (at.thread(a).parent, at.thread(a).rule, at.thread(a).sure) == (0, "cycle", 0)
    assert at.thread(own).parent == 0
    deep = [at.place(agent([user(f"{n}")], agent_id=f"d{n}", parent_agent_id=f"d{n + 1}")) for n in range(100)]
    closing = at.place(agent([user("e")], agent_id="d100", parent_agent_id="d0"))
    parents = {placed.thread: at.thread(placed).parent for placed in (*deep, closing)}
    for start in parents:
        seen, number = set(), start
        while number:
            assert number not in seen
            seen.add(number)
            number = parents.get(number, 0)


# Codex and OpenCode


def test_a_session_of_codex_with_an_agent(at: Desk) -> None:
    first = at.place(codex([user("go")]))
    child = at.place(codex([user("look")], thread="t2", parent="s1"))
    nested = at.place(codex([user("deeper")], thread="t3", parent="t2"))
    assert first.session == child.session == nested.session
    assert at.tree(first) == {"s1": Node("main"), "t2": Node("subagent", "s1"), "t3": Node("subagent", "t2")}
    assert at.thread(child).label == "worker"


def test_agents_of_opencode_are_threads_of_the_session_that_they_were_begun_from(at: Desk) -> None:
    first = at.place(opencode([user("go")]))
    at.place(opencode([user("go")], tools=()))
    child = at.place(opencode([user("look")], session="ses_a", parent="ses_main", tools=("bash", "task")))
    nested = at.place(opencode([user("deeper")], session="ses_b", parent="ses_a", tools=("bash", "task")))
    later = at.place(opencode([user("look"), called("c"), output("c")], session="ses_a"))
    assert at.count("sessions") == 1
    assert later == child
    assert at.tree(first) == {
        "main": Node("main"),
        "utility": Node("utility", windows=0),
        "ses_a": Node("subagent", "main"),
        "ses_b": Node("subagent", "ses_a"),
    }
    assert at.thread(nested).parent == child.thread


@pytest.mark.parametrize("form", ['<task id="ses_child" state="completed">', "task_id: ses_child (for resuming)"])
@pytest.mark.parametrize("cached", [True, False], ids=["by its cache key", "by its header"])
def test_an_agent_of_older_opencode_is_linked_by_the_result_that_names_it(at: Desk, form: str, cached: bool) -> None:
    start = [user("go")]
    main = at.place(older_opencode(start, session="ses_main", cached=cached))
    child = at.place(older_opencode([user("look")], session="ses_child", tools=("bash", "read"), cached=cached))
    assert at.thread(child).kind == "subagent"
    done = [*start, called("c1", "task", prompt="look"), output("c1", f"{form}\nall is well")]
    assert at.place(older_opencode(done, session="ses_main", cached=cached)) == main
    assert (at.session(child).origin, at.session(child).link) == (main.session, "subagent")
    assert (at.thread(child).parent, at.thread(child).rule) == (main.thread, "task id")


def test_another_keys_task_is_not_linked(at: Desk) -> None:
    victim = at.place(older_opencode([user("look")], session="ses_child"), key="victim")
    told = [user("go"), called("c1", "task", prompt="x"), output("c1", "task_id: ses_child")]
    at.place(older_opencode(told, session="ses_main"), key="thief")
    assert at.session(victim).origin == 0


def test_tasks_that_name_each_other_make_no_cycle(at: Desk) -> None:
    def told(session: str, other: str) -> AssignedThread:
        result_of = output("c1", f"task_id: {other}")
        return at.place(older_opencode([user(session), called("c1", "task", prompt="x"), result_of], session=session))

    first, second = told("ses_a", "ses_b"), told("ses_b", "ses_a")
    told("ses_a", "ses_b")
    assert at.session(second).origin == first.session
    assert at.session(first).origin == 0
    assert at.thread(first).parent == 0


# Nothing said


def test_a_retry_is_of_the_thread_that_it_repeats(at: Desk) -> None:
    history = [user("go"), assistant("x"), user("on")]
    first = at.place(plain(history, tools=("bash",)), outcome=FAILED)
    assert at.place(plain(history, tools=("bash",)), outcome=CANCELLED) == first
    assert at.place(plain(history, tools=("bash",))) == first
    assert at.place(plain([*history, assistant("y"), user("z")], tools=("bash",))) == first


def test_the_same_question_again_is_of_the_same_session(at: Desk) -> None:
    entries = {at.place(plain([user("classify: a")])) for _ in range(3)}
    assert len(entries) == 1


def test_turns_that_are_drained_in_another_order_are_of_one_thread(at: Desk) -> None:
    def turn(number: int) -> Asked:
        said = [[assistant(f"a{each}"), user(f"u{each}")] for each in range(1, number)]
        return plain([user("u0"), *(message for pair in said for message in pair)])

    order = [3, 2, 4, 1, 6, 5, 7]
    assert len({at.place(turn(number), time=number) for number in order}) == 1


def test_an_agent_of_an_unknown_client_is_linked_by_its_prompt(at: Desk) -> None:
    main = at.place(plain([user("go")], tools=("task",)))
    child = at.place(plain([user("look around")], tools=("bash",)))
    assert child.session != main.session
    spawned: JsonObject = {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "function": {"name": "task", "arguments": json.dumps({"prompt": "look around"})}},
        ],
    }
    done: JsonObject = {"role": "tool", "tool_call_id": "c1", "content": "all is well"}
    assert at.place(plain([user("go"), spawned, done], tools=("task",))) == main
    assert (at.session(child).origin, at.session(child).link) == (main.session, "subagent")
    assert at.thread(child).parent == main.thread


def test_a_name_of_our_own_header_is_a_session_with_threads_by_history(at: Desk) -> None:
    def asked(messages: list[JsonObject]) -> Asked:
        made = plain(messages)
        return Asked([*made.headers, (b"x-dragoman-session", b"nightly")], made.body, made.protocol)

    one, two = at.place(asked([user("a")])), at.place(asked([user("b")]))
    assert one.session == two.session and one.thread != two.thread
    assert at.place(asked([user("a"), assistant("x"), user("c")])) == one
    assert at.session(one).name == "nightly"


def test_long_and_strange_ids_are_cut_and_cleared(at: Desk) -> None:
    placed = at.place(claude([user("go")], session="x" * 10_000, user_id=""))
    assert at.session(placed).name == "x" * 128
    strange = at.place(claude([user("go")], session="a\x1b[31mb\x00\x9b'; DROP TABLE sessions;--", user_id=""))
    assert at.session(strange).name == "a?[31mb??'; DROP TABLE sessions;--"
    assert at.count("sessions") == 2


def test_equal_texts_of_two_keys_have_nothing_in_common(at: Desk) -> None:
    history = [user("go"), assistant("x"), user("on")]
    mine = at.place(plain(history), key="mine")
    yours = at.place(plain([*history, assistant("y"), user("z")]), key="yours")
    assert mine.session != yours.session
    assert at.session(yours).origin == 0


def test_equal_questions_of_two_agents_that_are_drained_together_are_two_threads(at: Desk) -> None:
    """What comes of them is the same however many lines are moved at once."""
    asked = [
        claude([user("go")], tools=(), agent_id="a1"),
        claude([user("go")], tools=(), agent_id="a2"),
        claude([user("go")], tools=(), agent_id="a1"),
        claude([user("go")], tools=(), request_class="compaction"),
        claude([user("go")], tools=(), request_class="auxiliary"),
        claude([user("go")]),
    ]
    made = [replace(entry(number, key="laptop"), facts=facts_of(each)) for number, each in enumerate(asked)]
    together = at.put_all(made)
    assert [at.thread(placed).name for placed in together] == ["a1", "a2", "a1", "compaction", "utility", "main"]
    with desk() as alone:
        single = [alone.put(each) for each in made]
        assert [alone.thread(placed).name for placed in single] == [at.thread(placed).name for placed in together]


def test_what_is_drained_together_is_placed_as_one_by_one() -> None:
    def requests() -> Iterator[Asked]:
        for number in range(4):
            yield claude([user("go"), *(m for n in range(number) for m in (call(f"c{n}"), result(f"c{n}")))])
            yield plain([user("hello")])
            yield older_agent([user("look")])
            yield plain([user("chat"), *(m for n in range(number) for m in (assistant(f"a{n}"), user(f"u{n}")))])

    entries = [
        replace(entry(number, time=NOON + number), facts=facts_of(asked)) for number, asked in enumerate(requests())
    ]
    with desk() as one, desk() as other:
        # What was heard of before is found among what was not.
        together = [*one.put_all(entries[:6]), *one.put_all(entries[6:])]
        assert together == [other.put(each) for each in entries]
        rows = "SELECT * FROM threads", "SELECT * FROM sessions", "SELECT * FROM tips"
        for sql in rows:
            assert sorted(one.tables.connection.rows(sql)) == sorted(other.tables.connection.rows(sql))


# aider puts the files before each question, examples before all of them, and the end of its instructions behind.
EXAMPLES = [
    user("Change get_factorial() to use math.factorial"),
    assistant("get_factorial.py ..."),
    user("I switched to a new code base. Please don't consider the above files or try to edit them any longer."),
    assistant("Ok."),
]
RULES = "# *SEARCH/REPLACE block* Rules:\n\nEvery *SEARCH/REPLACE block* must use this format."


def aider(done: list[JsonObject], question: str, *, files: str, examples: bool = True, behind: bool = True) -> Asked:
    """A question as aider 0.86.2 sends it."""
    inserted = [
        user(f"Here are summaries of some files present in my git repository.\n{files}"),
        assistant("Ok, I won't try and edit those files without asking first."),
    ]
    files_now = [
        user(f"I have *added these files to the chat* so you can go ahead and edit them.\n{files}"),
        assistant("Ok, any changes I propose will be to those files."),
    ]
    asked = f"{question}\n\n{RULES}" if behind else question
    instructions: JsonObject = {"role": "system", "content": f"Act as an expert software developer.\n{RULES}"}
    return plain([instructions, *(EXAMPLES if examples else []), *inserted, *done, *files_now, user(asked)])


@pytest.mark.parametrize("behind", [True, False], ids=["reminded", "not reminded"])
@pytest.mark.parametrize("examples", [True, False], ids=["with examples", "without"])
def test_the_questions_of_aider_are_one_thread(at: Desk, examples: bool, behind: bool) -> None:
    first = at.place(aider([], "What is it?", files="old", examples=examples, behind=behind))
    done = [user("What is it?"), assistant("A note.")]
    second = at.place(aider(done, "And why?", files="new", examples=examples, behind=behind))
    done += [user("And why?"), assistant("For fun."), user("I updated the files."), assistant("Ok.")]
    third = at.place(aider(done, "Thank you.", files="newer", examples=examples, behind=behind))
    other = at.place(aider([], "Another thing.", files="old", examples=examples, behind=behind))
    assert first == second == third
    assert other.session != first.session
    assert at.session(other).origin == 0
