"""Classes: hints first, then shape."""

from __future__ import annotations

import pytest

from dragoman.sessions.classes import CLASSES, CLIENT_CLASS_NAMES, class_of, is_class, is_of
from dragoman.sessions.facts import ExchangeFacts, Shape

TASK = ("task",)


@pytest.mark.parametrize(
    ("characters", "tools", "kind"),
    [
        (27_185, 13, "main"),
        (10_001, 1, "main"),
        (10_000, 12, "subagent"),
        (3_420, 8, "subagent"),
        (1_001, 1, "subagent"),
        (1_000, 2, "mcp"),
        (101, 1, "mcp"),
        (1_000, 3, "utility"),
        (100, 1, "utility"),
        (0, 1, "utility"),
        # A title.
        (3_186, 0, "utility"),
        (0, 0, "utility"),
    ],
)
def test_claude_code_is_known_by_the_length_of_its_instructions(characters: int, tools: int, kind: str) -> None:
    assert class_of(ExchangeFacts(client="claude-code", shape=Shape(characters, tools))).kind == kind


@pytest.mark.parametrize(("characters", "kind"), [(9_033, "main"), (5_000, "subagent"), (3_420, "subagent")])
def test_the_main_thread_of_todays_claude_code_is_shorter_when_nobody_sits_there(characters: int, kind: str) -> None:
    source = "x-claude-code-session-id"
    assert class_of(ExchangeFacts(client="claude-code", source=source, shape=Shape(characters, 12))).kind == kind


@pytest.mark.parametrize(
    ("telling", "tools", "parent", "source", "kind"),
    [
        (TASK, 6, "", "prompt_cache_key", "main"),
        (("question",), 6, "", "session_id", "main"),
        (("todowrite",), 6, "", "session_id", "main"),
        ((), 4, "", "session_id", "subagent"),
        ((), 0, "", "session_id", "utility"),
        # An agent of today is offered it, too.
        (TASK, 6, "ses_main", "x-session-id", "subagent"),
        ((), 4, "", "x-session-id", "main"),
    ],
)
def test_opencode_is_known_by_its_tools(
    telling: tuple[str, ...], tools: int, parent: str, source: str, kind: str
) -> None:
    shape = Shape(5_000, tools, 1, telling)
    assert class_of(ExchangeFacts(client="opencode", shape=shape, parent=parent, source=source)).kind == kind


@pytest.mark.parametrize("word", list(CLIENT_CLASS_NAMES))
def test_what_a_client_says_goes_first(word: str) -> None:
    facts = ExchangeFacts(client="claude-code", said_class=word, thread="a", shape=Shape(1, 0))
    found = class_of(facts)
    assert (found.kind, found.sure) == (CLIENT_CLASS_NAMES[word], 100)


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("teleport", "other:teleport"),
        ("Deep Dream\x1b[0m", "other:deep-dream-0m"),
        ("x" * 500, "other:" + "x" * 40),
        ("MAIN", "other:main"),
    ],
)
def test_pitfall_514_what_clients_invent_later_is_kept_by_its_name(word: str, kind: str) -> None:
    assert class_of(ExchangeFacts(said_class=word)).kind == kind


def test_an_agent_id_is_an_agent() -> None:
    assert class_of(ExchangeFacts(client="claude-code", thread="a1", shape=Shape(27_000, 0))).kind == "subagent"
    assert class_of(ExchangeFacts(client="codex", thread="t1")).kind == "main"
    assert class_of(ExchangeFacts(client="codex", thread="t2", parent="t1")).kind == "subagent"


def test_who_says_nothing_is_main_and_not_sure() -> None:
    assert (class_of(ExchangeFacts()).kind, class_of(ExchangeFacts()).sure) == ("main", 50)
    assert class_of(ExchangeFacts(client="claude-code")).kind == "main"
    assert class_of(ExchangeFacts(client="opencode")).kind == "main"
    assert class_of(ExchangeFacts(client="gemini-cli", shape=Shape(3, 0))).kind == "main"


def test_names_of_classes() -> None:
    assert all(map(is_class, CLASSES))
    assert is_class("other:teleport")
    assert not any(map(is_class, ["", "Main", "main:x", "other:", "agent"]))
    assert is_of("other:teleport", "other") and is_of("other:teleport", "other:teleport")
    assert not is_of("main", "other") and not is_of("other:x", "other:y")
