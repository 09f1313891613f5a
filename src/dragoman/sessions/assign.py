"""Assigns an exchange to a session and thread, from its facts and from stored ones (decision 33). `thread_key_of`
returns its names, `needed_digests` the digests to look up, and `assign` the result. The number of look-ups does not
grow with the conversation. Time is not used, because simultaneous exchanges may be unrelated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from dragoman.sessions.classes import COMPACTION, MAIN, SIDE, SUBAGENT, TALKING, WORKFLOW, Classification
from dragoman.sessions.facts import ExchangeFacts
from dragoman.sessions.rules import CLAUDE_CODE, OPENCODE

# The state at the end of a history: passed over; failed; answered.
PASSED, FAILED, ANSWERED = 0, 1, 2
CONTINUES, FORK, SPAWNED = "continues", "fork", "subagent"
# Prefixes of digests, so that digests of different kinds never collide.
_HEAD, _CALL, _RESPONSE, _PROMPT, _PROMPTED, _SEGMENT, _ALIAS, _AWAITED = "t", "c", "r", "p", "q", "w", "n", "m"
_ROLE = "a"
_ORIGIN, _TASK = "o", "k"
# Classes whose histories other requests continue.
_GROWING = TALKING | {SIDE}
SYNTHETIC_PREFIX = "~"


class ThreadKey(Struct, frozen=True):
    """The names of an exchange's thread. "" means that the name must be found by other facts."""

    session: str = ""
    thread: str = ""
    parent: str = ""
    # The ID of a session that is a thread of another one. It is looked up first.
    alias: str = ""
    guessed: bool = False


_NO_NAMES = ThreadKey()


class HistoryHead(Struct, frozen=True):
    """The thread that a digest leads to, with its session, class and state."""

    thread: int
    session: int
    kind: str
    state: int
    ends: bool


class ThreadLookup(Struct, frozen=True, kw_only=True):
    """Stored facts: numbers of the session, the thread and the parent (0 if there is none), and history heads by
    digest."""

    session: int = 0
    thread: int = 0
    parent: int = 0
    heads: Mapping[str, Sequence[HistoryHead]] = {}


class Assignment(Struct, gc=False):
    """The assignment of an exchange, filled in by the rules in turn. A session or thread of 0 is created under its
    name."""

    session: int
    session_name: str
    thread: int
    kind: str
    rule: str
    sure: int
    heads: tuple[tuple[str, int], ...]
    thread_name: str = ""
    parent: int = 0
    # The name of a parent that was not seen yet.
    awaits: str = ""
    # The session from which a new session descends, and how.
    origin: int = 0
    link: str = ""
    # Threads whose parent is this one, and the certainty of that.
    children: tuple[int, ...] = ()
    children_sure: int = 0


class _Grown(Struct, frozen=True):
    head: HistoryHead
    rule: str
    sure: int
    forks: bool = False
    passed: tuple[str, ...] = ()


def thread_key_of(facts: ExchangeFacts, kind: str) -> ThreadKey:
    if not facts.session:
        return _NO_NAMES
    if facts.client == OPENCODE:
        return _opencode_thread_key(facts, kind)
    usual = MAIN if facts.client == CLAUDE_CODE else ""
    if kind == COMPACTION:
        name = f"{kind}:{facts.thread}" if facts.thread else kind
        return ThreadKey(facts.session, name, facts.thread or MAIN)
    if kind == SIDE:
        return ThreadKey(facts.session, "", facts.thread or MAIN)
    if facts.thread:
        parent = facts.parent or ("" if kind == MAIN else usual)
        return ThreadKey(facts.session, facts.thread, parent if parent != facts.thread else "")
    if kind == SUBAGENT:
        return ThreadKey(facts.session, "", facts.parent or MAIN, guessed=not facts.parent)
    if kind == MAIN:
        # Other programs that set the session header may run several conversations in one session.
        return ThreadKey(facts.session, "" if not facts.client and facts.source == "x-dragoman-session" else MAIN)
    return ThreadKey(facts.session, kind, MAIN if kind == WORKFLOW else "")


def _opencode_thread_key(facts: ExchangeFacts, kind: str) -> ThreadKey:
    """OpenCode's agents have sessions of their own, which become threads of the session that started them."""
    if facts.parent and facts.parent != facts.session:
        thread = facts.session if kind in TALKING else f"{kind}:{facts.session}"
        return ThreadKey(facts.parent, thread, MAIN, alias=facts.parent)
    return ThreadKey(facts.session, MAIN if kind in TALKING else kind, alias=facts.session)


def alias_of(key: str, name: str) -> str:
    """The look-up key of a session that is a thread of another one."""
    return f"{_ALIAS}{len(key)}:{key}:{name}"


def awaited_of(session: int, name: str) -> str:
    """The look-up key of threads that wait for their parent."""
    return f"{_AWAITED}{session}:{name}"


def task_of(key: str, name: str) -> str:
    """The look-up key of a parent that named its agent's session before that session was assigned."""
    return f"{_TASK}{len(key)}:{key}:{name}"


def response_of(digest: str) -> str:
    return _RESPONSE + digest


def head_of(facts: ExchangeFacts) -> str:
    """The look-up key of the end of a history."""
    return _HEAD + facts.tip


def origin_of(facts: ExchangeFacts) -> str:
    """The look-up key of threads that continue this history in another session and were assigned before it."""
    return _ORIGIN + facts.tip


def segment_in(facts: ExchangeFacts, kind: str) -> str:
    return (facts.window or facts.opening) if kind in TALKING else ""


def segment_of(thread: int, facts: ExchangeFacts, kind: str) -> str:
    """The look-up key that shows whether a segment of a thread is new, or ""."""
    segment = segment_in(facts, kind)
    return f"{_SEGMENT}{thread}:{segment}" if segment else ""


def needed_digests(facts: ExchangeFacts, thread_key: ThreadKey, lookup: ThreadLookup) -> tuple[str, ...]:
    digests = list(prompted_digests(facts, thread_key)) if facts.prompts else []
    if lookup.thread:
        return tuple(digests)
    for digest in (facts.tip, *facts.before):
        if digest:
            digests.append(_HEAD + digest)
    if facts.call:
        digests.append(_CALL + facts.call)
    if facts.previous:
        digests.append(_RESPONSE + facts.previous)
    if facts.asks and (thread_key.guessed or not thread_key.session):
        digests.append(_PROMPT + facts.asks)
    return tuple(digests)


def assign(
    facts: ExchangeFacts,
    classification: Classification,
    thread_key: ThreadKey,
    lookup: ThreadLookup,
    *,
    synthetic_id: str,
    answered: bool,
) -> Assignment:
    """Assign an exchange. `synthetic_id` is a unique name."""
    kind = classification.kind
    assignment = Assignment(
        lookup.session,
        thread_key.session or SYNTHETIC_PREFIX + synthetic_id,
        lookup.thread,
        kind,
        classification.rule,
        classification.sure,
        _heads_to_store(facts, ANSWERED if answered else FAILED) if kind in _GROWING else (),
    )
    if facts.prompts and lookup.heads:
        prompted = [tip for digest in prompted_digests(facts, thread_key) for tip in lookup.heads.get(digest, ())]
        children = dict.fromkeys(tip.thread for tip in prompted if tip.state == PASSED)
        assignment.children = tuple(child for child in children if child != lookup.thread)
        assignment.children_sure = 80 if len(children) == 1 else 50
    if lookup.thread:
        return assignment
    grown = _grown(facts, kind, lookup, within=lookup.session if thread_key.session else 0) if lookup.heads else None
    if thread_key.thread:
        assignment.thread_name = thread_key.thread
        _hang(assignment, thread_key, lookup)
        _link(assignment, facts, thread_key, lookup, grown)
        waiting = _waiting(facts, thread_key)
        if waiting:
            assignment.heads += ((waiting, PASSED),)
    elif grown is not None and not grown.forks and (lookup.session or not thread_key.session):
        assignment.session, assignment.thread = grown.head.session, grown.head.thread
        assignment.rule = grown.rule
        assignment.sure = min(grown.sure, classification.sure) if thread_key.session else grown.sure
        assignment.heads += tuple([(_HEAD + digest, PASSED) for digest in grown.passed])
    else:
        _begin(assignment, facts, thread_key, lookup, grown, synthetic_id)
    return assignment


def _link(
    assignment: Assignment, facts: ExchangeFacts, thread_key: ThreadKey, lookup: ThreadLookup, grown: _Grown | None
) -> None:
    """Link a new named session with the session of the same key whose history it repeats, including a response: the
    same prompt alone proves nothing. If the other session is ingested later, it finds this one."""
    if not thread_key.session or lookup.session or not facts.before or assignment.kind not in TALKING:
        return
    if grown is None:
        assignment.heads += tuple([(_ORIGIN + digest, PASSED) for digest in facts.before])
        return
    ended = grown.head.ends and not grown.forks
    assignment.origin, assignment.link = grown.head.session, CONTINUES if ended else FORK


def _begin(
    assignment: Assignment,
    facts: ExchangeFacts,
    thread_key: ThreadKey,
    lookup: ThreadLookup,
    grown: _Grown | None,
    synthetic_id: str,
) -> None:
    """Create a thread that is identified by its history and continues no other."""
    classed_sure = assignment.sure
    if facts.before:
        # A late exchange belongs to this thread.
        assignment.heads += tuple([(_HEAD + digest, PASSED) for digest in facts.before])
    if thread_key.session:
        assignment.thread_name = SYNTHETIC_PREFIX + synthetic_id
        _hang(assignment, thread_key, lookup)
        _link(assignment, facts, thread_key, lookup, grown)
    elif grown is not None and grown.forks:
        assignment.thread_name = SYNTHETIC_PREFIX + synthetic_id
        assignment.session, assignment.parent = grown.head.session, grown.head.thread
        assignment.rule, assignment.sure = grown.rule, grown.sure
        return
    else:
        assignment.thread_name = MAIN
        if facts.before:
            assignment.sure = 60
    waiting = _waiting(facts, thread_key)
    if not waiting:
        return
    parents = lookup.heads.get(_PROMPT + facts.asks, ()) if lookup.heads else ()
    if thread_key.session:
        parents = [tip for tip in parents if tip.session == lookup.session]
    if not parents:
        assignment.heads += ((waiting, PASSED),)
        return
    parent, sure = parents[0], 80 if len({tip.thread for tip in parents}) == 1 else 50
    assignment.parent, assignment.awaits, assignment.rule = parent.thread, "", "prompt"
    if thread_key.session:
        assignment.sure = min(sure, classed_sure)
    else:
        assignment.origin, assignment.link, assignment.kind, assignment.sure = parent.session, SPAWNED, SUBAGENT, sure


def _waiting(facts: ExchangeFacts, thread_key: ThreadKey) -> str:
    """The digest by which a later history claims this agent by its prompt; "" if it is no agent."""
    if not facts.asks or (thread_key.session and not thread_key.guessed) or not _has_tools(facts):
        return ""
    return _digests_of_prompt(facts.asks, thread_key.session)[-1]


def prompted_digests(facts: ExchangeFacts, thread_key: ThreadKey) -> tuple[str, ...]:
    """The look-up keys of the agents that got the prompts of an exchange."""
    if not facts.prompts:
        return ()
    return tuple([digest for prompt in facts.prompts for digest in _digests_of_prompt(prompt, thread_key.session)])


def role_of(session: int, prompt: str) -> str:
    """The look-up key of an agent whose type only the call that started it names."""
    return f"{_ROLE}{session}:{prompt}"


def labelled(facts: ExchangeFacts, thread_key: ThreadKey, session: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The types of agents that an exchange names, each with the digests of these agents."""
    for prompt, agent in zip(facts.prompts, facts.agents, strict=False):
        if agent:
            yield agent, (role_of(session, prompt), *_digests_of_prompt(prompt, thread_key.session))


def _digests_of_prompt(prompt: str, session: str) -> tuple[str, ...]:
    """The digests of agents that wait for the sender of their prompt: without a session, and of its own session."""
    digest = _PROMPTED + prompt
    return (digest, f"{digest}:{session}") if session else (digest,)


def _has_tools(facts: ExchangeFacts) -> bool:
    """Whether the thread has tools, so that it may be an agent of another thread."""
    return facts.shape is not None and facts.shape.tools > 0


def _hang(assignment: Assignment, thread_key: ThreadKey, lookup: ThreadLookup) -> None:
    """Attach a new thread to its parent. If the parent is unknown, attach it to its session, with a mark."""
    if not thread_key.parent:
        return
    if lookup.parent:
        assignment.parent = lookup.parent
        if thread_key.guessed:
            assignment.sure = min(assignment.sure, 60)
    else:
        assignment.awaits, assignment.rule, assignment.sure = (
            thread_key.parent,
            "parent missing",
            min(assignment.sure, 40),
        )


def _grown(facts: ExchangeFacts, kind: str, lookup: ThreadLookup, *, within: int) -> _Grown | None:
    def able(digest: str) -> list[HistoryHead]:
        tips = lookup.heads.get(digest, ())
        return [tip for tip in tips if tip.kind == kind and (not within or tip.session == within)]

    for tip in able(_HEAD + facts.tip) if facts.tip else ():
        if tip.state != ANSWERED or facts.before or not _has_tools(facts):
            return _Grown(tip, "same history", 90)
    for digest, rule in ((_CALL + facts.call, "call"), (_RESPONSE + facts.previous, "previous response")):
        if len(digest) > 1 and (same := able(digest)):
            last = next((tip for tip in same if tip.ends), None)
            return _Grown(same[0], FORK, 90, forks=True) if last is None else _Grown(last, rule, 95)
    for depth, digest in enumerate(facts.before):
        tips = able(_HEAD + digest)
        ends = [tip for tip in tips if tip.ends]
        if ends:
            return _Grown(ends[0], "growth", 90 if len(ends) == 1 else 60, passed=facts.before[:depth])
        if tips:
            return _Grown(tips[0], FORK, 80, forks=True)
    return None


def _heads_to_store(facts: ExchangeFacts, state: int) -> tuple[tuple[str, int], ...]:
    heads: tuple[tuple[str, int], ...] = ((_HEAD + facts.tip, state),) if facts.tip else ()
    if facts.answer_call:
        heads += ((_CALL + facts.answer_call, state),)
    if facts.answer_id:
        heads += ((_RESPONSE + facts.answer_id, state),)
    if facts.prompts:
        heads += tuple([(_PROMPT + prompt, state) for prompt in facts.prompts])
    return heads
