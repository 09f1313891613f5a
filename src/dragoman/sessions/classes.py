"""Thread classes: the kind of a thread, as its client states it, otherwise by its shape (decision 33)."""

from __future__ import annotations

import re

from msgspec import Struct

from dragoman.sessions.facts import ExchangeFacts, Shape
from dragoman.sessions.rules import CLAUDE_CODE, DISTINCTIVE_TOOLS, OPENCODE

MAIN, SUBAGENT, COMPACTION, UTILITY, MCP, SIDE, WORKFLOW, OTHER = (
    "main",
    "subagent",
    "compaction",
    "utility",
    "mcp",
    "side",
    "workflow",
    "other",
)
CLASSES = (MAIN, SUBAGENT, COMPACTION, UTILITY, MCP, SIDE, WORKFLOW, OTHER)
# Classes with several threads per session. Of each other class, a session has one thread.
TALKING = frozenset({MAIN, SUBAGENT})

# Values that Claude Code and Codex send (recorded, or read in their programs): kinds of requests, sources of threads,
# kinds of subagents.
CLIENT_CLASS_NAMES = {
    "main": MAIN,
    "subagent": SUBAGENT,
    "compaction": COMPACTION,
    "auxiliary": UTILITY,
    "workflow": WORKFLOW,
    "side_reply": SIDE,
    "turn": MAIN,
    "user": MAIN,
    "collab_spawn": SUBAGENT,
    "thread_spawn": SUBAGENT,
    "review": SUBAGENT,
    "compact": COMPACTION,
    "memory_consolidation": UTILITY,
    "guardian_review": UTILITY,
    "utility": UTILITY,
    "mcp": MCP,
    "side": SIDE,
}
# Lengths of Claude Code's instructions in characters, and the number of tools of an MCP client.
_MAIN_OVER, _SUBAGENT_OVER, _MCP_OVER, _MCP_TOOLS = 10_000, 1_000, 100, 2
# For clients that name their session in a header: the main thread has 9,033 characters without a terminal, agents have
# 2,720 to 3,420 and an ID.
_MAIN_OVER_TODAY = 5_000
_MAX_CLASS_LENGTH = 40
_replace_invalid = re.compile(r"[^a-z0-9_.-]+").sub


class Classification(Struct, frozen=True):
    """A class, the rule that decided it, and its certainty from 0 to 100."""

    kind: str
    rule: str
    sure: int


_UNKNOWN = Classification(MAIN, "nothing said", 50)
_AGENT = Classification(SUBAGENT, "agent id", 100)
_CHILD = Classification(SUBAGENT, "parent id", 100)
_NO_TOOLS = Classification(UTILITY, "no tools", 80)
_MAIN_BY_LENGTH, _SUBAGENT_BY_LENGTH = Classification(MAIN, "length", 80), Classification(SUBAGENT, "length", 70)
_MCP_BY_LENGTH, _UTILITY_BY_LENGTH = Classification(MCP, "length", 60), Classification(UTILITY, "length", 60)
_NO_PARENT = Classification(MAIN, "no parent id", 90)
_MAIN_BY_TOOLS, _SUBAGENT_BY_TOOLS = Classification(MAIN, "tools", 80), Classification(SUBAGENT, "tools", 70)
_STATED = {word: Classification(kind, "said", 100) for word, kind in CLIENT_CLASS_NAMES.items()}


def class_of(facts: ExchangeFacts) -> Classification:
    if facts.said_class:
        return _stated_class(facts.said_class)
    if facts.client == CLAUDE_CODE:
        return _AGENT if facts.thread else _UNKNOWN if facts.shape is None else _claude(facts.shape, facts.source)
    if facts.parent:
        return _CHILD
    if facts.client == OPENCODE and facts.shape is not None:
        return _opencode(facts.shape, facts.source)
    return _UNKNOWN


def _stated_class(word: str) -> Classification:
    classification = _STATED.get(word)
    return classification or Classification(
        f"{OTHER}:{_replace_invalid('-', word.lower())[:_MAX_CLASS_LENGTH]}", "said", 100
    )


def _claude(shape: Shape, source: str) -> Classification:
    """By the length of the instructions. A title request has many characters and no tools."""
    if not shape.tools:
        return _NO_TOOLS
    length = shape.instructions
    if length > (_MAIN_OVER_TODAY if source == "x-claude-code-session-id" else _MAIN_OVER):
        return _MAIN_BY_LENGTH
    if length > _SUBAGENT_OVER:
        return _SUBAGENT_BY_LENGTH
    if length > _MCP_OVER and shape.tools <= _MCP_TOOLS:
        return _MCP_BY_LENGTH
    return _UTILITY_BY_LENGTH


def _opencode(shape: Shape, source: str) -> Classification:
    """By its tools. An agent states its parent session, so a request with only its own session is no agent."""
    if not shape.tools:
        return _NO_TOOLS
    if source in ("x-session-id", "x-session-affinity"):
        return _NO_PARENT
    if not DISTINCTIVE_TOOLS.isdisjoint(shape.telling):
        return _MAIN_BY_TOOLS
    return _SUBAGENT_BY_TOOLS


def is_class(name: str) -> bool:
    """Whether a name is a class. `other:` may be followed by the client's own name."""
    kind, colon, word = name.partition(":")
    return kind in CLASSES and (not colon or (kind == OTHER and bool(word)))


def is_of(kind: str, requested: str) -> bool:
    """Whether a class matches the requested one. `other` matches all unknown names."""
    return kind == requested or (requested == OTHER and kind.startswith(f"{OTHER}:"))
