"""Relations: exchanges that influence each other's assignment share a number, others mostly do not."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.sessions.facts import NOTHING
from dragoman.sessions.relations import relations_of, session_relation, sought_relations
from tests.sessions.invented import (
    AGENT_PROMPT,
    AGENT_TOOLS,
    assistant,
    call,
    claude,
    facts_of,
    older_claude,
    plain,
    result,
    user,
)


def test_nothing_is_known_of_who_says_nothing() -> None:
    assert relations_of(NOTHING) == sought_relations(NOTHING) == ()


def test_turns_of_one_history_have_one_number() -> None:
    first = facts_of(plain([user("one")]))
    later = facts_of(plain([user("one"), assistant("yes"), user("two"), assistant("no"), user("three")]))
    assert relations_of(first) == relations_of(later)
    assert len(relations_of(first)) == 1
    assert relations_of(facts_of(plain([user("two")]))) != relations_of(first)


def test_a_session_is_found_by_its_name() -> None:
    facts = facts_of(claude([user("one")], session="s"))
    assert session_relation("s") in relations_of(facts)
    assert session_relation("t") not in relations_of(facts)


def test_an_agent_is_found_by_the_prompt_that_it_was_given() -> None:
    agent = facts_of(older_claude([user("look")], session="", system=AGENT_PROMPT, tools=AGENT_TOOLS))
    parent = facts_of(older_claude([user("fix"), call("c1", "Agent", prompt="look"), result("c1")], session=""))
    assert set(relations_of(agent)) & set(relations_of(parent))


def test_answers_are_sought_by_what_continues_them() -> None:
    given = replace(NOTHING, answer_call="c", answer_id="r")
    for facts in (replace(NOTHING, call="c"), replace(NOTHING, previous="r")):
        assert relations_of(facts) == ()
        assert set(sought_relations(facts)) & set(relations_of(given))
    # Two that only repeat the same call do not depend on each other.
    one, other = replace(NOTHING, call="c", opening="a"), replace(NOTHING, call="c", opening="b")
    assert not set(sought_relations(one)) & set(relations_of(other))
