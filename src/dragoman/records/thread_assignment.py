"""Thread assignment: session and thread of an exchange, found or begun while it is ingested (decision 33).
`sessions.assign` decides; this module reads and writes. A `ThreadAssigner` serves one transaction at a time: `finish`
writes the changes and drops all caches; large ones are written in between."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.records.journal_entry import ANSWERED, CONVERSATION, JournalEntry
from dragoman.sessions import assign
from dragoman.sessions.assign import (
    CONTINUES,
    FORK,
    PASSED,
    SPAWNED,
    Assignment,
    HistoryHead,
    ThreadKey,
    ThreadLookup,
    awaited_of,
    needed_digests,
    segment_in,
    segment_of,
    thread_key_of,
)
from dragoman.sessions.classes import MAIN, SUBAGENT, TALKING, class_of
from dragoman.sessions.facts import ExchangeFacts, of_thread
from dragoman.sessions.rules import VERSION
from dragoman.store.record_tables import RecordTables
from dragoman.store.session_tables import HeadRow, SessionRow, SessionTables, StoredThread

# Digests that wait to be written.
_MAX_HEADS = 8192
# Maximum depth of the search for a cycle; honest clients stay below it.
_DEEPEST = 64
_FACTS = msgspec.json.Decoder(ExchangeFacts)
_encode = msgspec.json.Encoder().encode
# Which of the latest numbers is whose.
_SESSION, _THREAD = 0, 1
_UNNAMED, _UNKNOWN = ThreadKey(), ThreadLookup()
_NOT_EXPECTED: tuple[ExchangeFacts | None, tuple[str, ...]] = (None, ())


class AssignedThread(Struct, frozen=True, gc=False):
    """Where an exchange belongs, by the numbers of the tables; 0 is nowhere."""

    session: int = 0
    thread: int = 0


NOWHERE = AssignedThread()


class ThreadAssigner:
    """Finds where exchanges belong, in the order in which they were settled."""

    def __init__(self, tables: SessionTables) -> None:
        self._tables = tables
        self._sessions: dict[tuple[str, str], SessionRow] = {}
        self._session_of: dict[int, SessionRow] = {}
        self._threads: dict[tuple[int, str], StoredThread] = {}
        self._thread_of: dict[int, StoredThread] = {}
        # Begun in this transaction, with the latest numbers that were given.
        self._new_sessions: list[SessionRow] = []
        self._new_threads: list[StoredThread] = []
        self._numbers: list[int] = []
        self._changed_sessions: dict[int, SessionRow] = {}
        self._changed_threads: dict[int, StoredThread] = {}
        # Digests with their rows that are not written yet; of those of one thread the last one counts.
        self._heads: dict[str, list[HeadRow]] = {}
        # The window that each thread is in.
        self._segments: dict[int, str] = {}
        # Digests of which nothing is written in the file.
        self._absent_digests: set[str] = set()
        # By which digests exchanges are found that are expected and name no session, with their facts.
        self._expected: dict[str, tuple[ExchangeFacts, tuple[str, ...]]] = {}
        # Ends of histories that were placed: the thread, and whether it was its latest exchange then.
        self._ended: dict[str, tuple[StoredThread, bool]] = {}
        # Questions that were met already.
        self._repeats: dict[tuple[object, ...], AssignedThread] = {}

    def expect(self, entries: Iterable[JournalEntry]) -> None:
        """Look up at once which history heads are absent, for exchanges that are about to be assigned: those without a
        session are found by heads alone, and most are new."""
        # Repeated values are queried once; an entry that is left out here is queried alone.
        unnamed = {facts.tip: facts for entry in entries if not (facts := entry.facts).session}
        self._expected = {head: (facts, needed_digests(facts, _UNNAMED, _UNKNOWN)) for head, facts in unnamed.items()}
        digests = set(chain.from_iterable([digests for _, digests in self._expected.values()])) - self._absent_digests
        if digests:
            self._absent_digests.update(digests.difference(self._tables.stored_digests(digests)))

    def assign_thread(self, entry: JournalEntry) -> AssignedThread:
        facts = entry.facts
        if len(self._heads) > _MAX_HEADS:
            self.finish()
        if entry.kind != CONVERSATION or (facts.shape is None and not entry.requested_model):
            # A token count makes neither session nor turn, and neither does a request that access control rejected.
            session = self._session(entry.key, facts.session) if facts.session else None
            return AssignedThread(0 if session is None else session.id, 0)
        if not (facts.session or facts.tip or facts.previous):
            return NOWHERE
        shape = facts.shape
        if shape is None or shape.tools or facts.before or facts.call or facts.prompts or not facts.tip:
            return self._assign_thread(entry, facts)
        question = _question(entry.key, facts)
        again = self._repeats.get(question)
        if again is not None and entry.outcome == ANSWERED and not facts.answer_call and not facts.answer_id:
            # The same question once more, as scripts put it, of which all is known.
            self._add_heads(((assign.head_of(facts), assign.ANSWERED),), again.thread, entry.time)
            self._touch(self._thread_of[again.thread], entry)
            return again
        assigned = self._repeats[question] = self._assign_thread(entry, facts)
        return assigned

    def _assign_thread(self, entry: JournalEntry, facts: ExchangeFacts) -> AssignedThread:
        classification = class_of(facts)
        if facts.session:
            thread_key = thread_key_of(facts, classification.kind)
            lookup = self._look_up(entry, facts, thread_key)
        else:
            thread_key, lookup = _UNNAMED, self._look_up_unnamed(facts)
        assignment = assign.assign(
            facts, classification, thread_key, lookup, synthetic_id=entry.id, answered=entry.outcome == ANSWERED
        )
        session = self._session_for(entry, assignment)
        thread = self._thread_for(entry, assignment, session)
        self._add_heads(assignment.heads, thread.id, entry.time)
        if assignment.thread:
            self._count_segment(thread, facts, entry)
        if thread_key.alias and thread_key.alias == facts.parent and thread_key.thread == facts.session:
            self._add_heads(((assign.alias_of(entry.key, facts.session), PASSED),), thread.id, entry.time)
        if assignment.children:
            self._take_children(assignment, assign.prompted_digests(facts, thread_key), thread, entry.time)
        for agent, digests in assign.labelled(facts, thread_key, session.id):
            self._label(agent, (number for _, number, _, _ in self._head_rows(digests)))
        for name, agent in facts.named:
            named = self._thread(session.id, name)
            self._label(agent, () if named is None else (named.id,))
        if facts.tip and thread.kind in TALKING:
            self._ended[assign.origin_of(facts)] = (thread, entry.time >= thread.last)
        for name in facts.tasks:
            self._link_task(entry.key, name, thread, entry.time)
        if assignment.session:
            self._touch(thread, entry)
        return AssignedThread(session.id, thread.id)

    def _take_children(self, assignment: Assignment, digests: Iterable[str], thread: StoredThread, time: int) -> None:
        """Attach to a thread the threads that it has started."""
        for child in assignment.children:
            self._adopt(child, thread, "prompt", assignment.children_sure)
        for digest in digests:
            # No later thread with the same prompt for its own agents becomes their parent.
            for _, child, _, _ in self._head_rows([digest]):
                self._add_heads(((digest, assign.ANSWERED),), child, time)

    def finish(self) -> None:
        """Write what changed, at the end of a transaction."""
        self._link_followers()
        tables, new_sessions, new_threads = self._tables, self._new_sessions, self._new_threads
        tables.add_sessions(new_sessions)
        tables.add_threads(new_threads)
        if self._changed_sessions:
            new = {row.id for row in new_sessions}
            tables.save_sessions(row for row in self._changed_sessions.values() if row.id not in new)
        if self._changed_threads:
            new = {thread.id for thread in new_threads}
            tables.save_threads(row for row in self._changed_threads.values() if row.id not in new)
        heads = self._heads
        rows: list[HeadRow] = []
        for digest in sorted(heads):
            digest_rows = heads[digest]
            rows += digest_rows if len(digest_rows) == 1 else sorted({row[1]: row for row in digest_rows}.values())
        tables.save_heads(rows)
        for cache in (
            *(self._sessions, self._session_of, self._threads, self._thread_of),
            *(self._changed_sessions, self._changed_threads, self._heads, self._segments, self._repeats),
            *(self._absent_digests, self._numbers, new_sessions, new_threads),
        ):
            cache.clear()

    # The known history.

    def _look_up_unnamed(self, facts: ExchangeFacts) -> ThreadLookup:
        whose, digests = self._expected.get(facts.tip, _NOT_EXPECTED)
        if whose is not facts:
            digests = needed_digests(facts, _UNNAMED, _UNKNOWN)
        if self._absent_digests.issuperset(digests) and self._heads.keys().isdisjoint(digests):
            return _UNKNOWN
        return ThreadLookup(heads=self._heads_by_digest(digests))

    def _look_up(self, entry: JournalEntry, facts: ExchangeFacts, thread_key: ThreadKey) -> ThreadLookup:
        alias = self._alias(entry.key, thread_key) if thread_key.alias else None
        if alias is not None:
            # A session that is a thread of another one.
            own = alias.name == facts.session
            thread = alias if own and thread_key.thread == MAIN else self._thread(alias.session, thread_key.thread)
            lookup = ThreadLookup(session=alias.session, thread=0 if thread is None else thread.id, parent=alias.id)
            return replace(lookup, heads=self._heads_by_digest(needed_digests(facts, thread_key, lookup)))
        session = self._session(entry.key, thread_key.session)
        lookup = _UNKNOWN
        if session is not None:
            named = self._thread(session.id, thread_key.thread) if thread_key.thread else None
            parent = self._thread(session.id, thread_key.parent) if thread_key.parent and named is None else None
            lookup = ThreadLookup(
                session=session.id, thread=0 if named is None else named.id, parent=0 if parent is None else parent.id
            )
        digests = needed_digests(facts, thread_key, lookup)
        return replace(lookup, heads=self._heads_by_digest(digests)) if digests else lookup

    def _alias(self, key: str, thread_key: ThreadKey) -> StoredThread | None:
        rows = self._head_rows([assign.alias_of(key, thread_key.alias)])
        return self._thread_by(rows[0][1]) if rows else None

    def _heads_by_digest(self, digests: tuple[str, ...]) -> dict[str, list[HistoryHead]]:
        heads: dict[str, list[HistoryHead]] = {}
        for digest, number, state, time in self._head_rows(digests):
            thread = self._thread_by(number)
            if thread is not None:
                head = HistoryHead(number, thread.session, thread.kind, state, state != PASSED and time >= thread.last)
                heads.setdefault(digest, []).append(head)
        return heads

    def _head_rows(self, digests: Sequence[str]) -> list[HeadRow]:
        """Known digests: stored ones, and those of this transaction."""
        rows: dict[tuple[str, int], HeadRow] = {}
        if not self._absent_digests.issuperset(digests):
            for row in self._tables.heads(digests):
                rows[row[0], row[1]] = row
        for digest in digests:
            for row in self._heads.get(digest, ()):
                rows[digest, row[1]] = row
        return sorted(rows.values())

    def _session(self, key: str, name: str) -> SessionRow | None:
        row = self._sessions.get((key, name))
        if row is None:
            row = self._tables.session(key, name)
            if row is not None:
                self._remember_session(row)
        return row

    def _session_by(self, number: int) -> SessionRow | None:
        row = self._session_of.get(number)
        if row is None:
            row = self._tables.session_of(number)
            if row is not None:
                self._remember_session(row)
        return row

    def _thread(self, session: int, name: str) -> StoredThread | None:
        thread = self._threads.get((session, name))
        if thread is None:
            read = self._tables.thread(session, name)
            thread = None if read is None else self._remember(read)
        return thread

    def _thread_by(self, number: int) -> StoredThread | None:
        thread = self._thread_of.get(number)
        if thread is None:
            read = self._tables.thread_of(number)
            thread = None if read is None else self._remember(read)
        return thread

    def _remember_session(self, row: SessionRow) -> None:
        self._sessions[row.key, row.name] = self._session_of[row.id] = row

    def _remember(self, row: StoredThread) -> StoredThread:
        """The one value for a thread that is changed here, however it was found."""
        row = self._thread_of.setdefault(row.id, row)
        self._threads.setdefault((row.session, row.name), row)
        return row

    # Record new knowledge.

    def _session_for(self, entry: JournalEntry, assignment: Assignment) -> SessionRow:
        if assignment.session:
            session = self._session_by(assignment.session)
            if session is not None:
                return session
        listed = self._tables.listed(entry.key, assignment.session_name) if entry.facts.session else None
        if listed is not None:
            listed.origin, listed.link = assignment.origin, assignment.link
            self._changed_sessions[listed.id] = listed
            self._remember_session(listed)
            return listed
        numbers = self._numbers or self._latest()
        numbers[_SESSION] = number = numbers[_SESSION] + 1
        row = SessionRow(
            number,
            entry.key,
            assignment.session_name,
            entry.client or entry.facts.client,
            assignment.origin,
            assignment.link,
            entry.time,
            entry.time,
        )
        self._new_sessions.append(row)
        self._remember_session(row)
        return row

    def _latest(self) -> list[int]:
        """The latest numbers of a session and of a thread; this transaction has the write lock."""
        self._numbers += self._tables.numbers()
        return self._numbers

    def _thread_for(self, entry: JournalEntry, assignment: Assignment, session: SessionRow) -> StoredThread:
        if assignment.thread:
            thread = self._thread_by(assignment.thread)
            if thread is not None:
                return thread
        facts, kind = entry.facts, assignment.kind
        numbers = self._numbers or self._latest()
        numbers[_THREAD] = number = numbers[_THREAD] + 1
        segment = self._segments[number] = segment_in(facts, kind)
        row = StoredThread(
            number,
            session.id,
            assignment.thread_name,
            kind,
            facts.agent,
            entry.model,
            assignment.parent,
            assignment.rule,
            assignment.sure,
            VERSION,
            1 if segment else 0,
            entry.time,
            entry.time,
            _encode(of_thread(facts)),
        )
        self._new_threads.append(row)
        self._thread_of[number] = row
        if kind == SUBAGENT and facts.asks and not facts.agent:
            self._add_heads(((assign.role_of(session.id, facts.asks), PASSED),), number, entry.time)
        self._threads.setdefault((row.session, row.name), row)
        if assignment.awaits:
            self._add_heads(((awaited_of(session.id, assignment.awaits), PASSED),), row.id, entry.time)
        if not assignment.session:
            # A session that has just begun has no waiting threads, except those that the client names.
            if row.name == MAIN and facts.session:
                for _, parent, _, _ in self._head_rows([assign.task_of(entry.key, session.name)]):
                    named_by = self._thread_by(parent)
                    if named_by is not None and named_by.session != session.id:
                        self._adopt(row.id, named_by, "task id", 95)
            return row
        for _, child, state, _ in self._head_rows([awaited_of(session.id, row.name)]):
            if state == PASSED:
                self._adopt(child, row, "parent id", 100)
                self._add_heads(((awaited_of(session.id, row.name), assign.ANSWERED),), child, entry.time)
        return row

    def _touch(self, thread: StoredThread, entry: JournalEntry) -> None:
        """Record activity of a thread."""
        thread.model = entry.model or thread.model
        thread.label = entry.facts.agent or thread.label
        self._changed_threads[thread.id] = thread
        session, time = self._session_by(thread.session), entry.time
        if session is not None:
            self._changed_sessions[session.id] = session
        for row in (thread, session):
            if row is not None and time > row.last:
                row.last = time
            if row is not None and time < row.started:
                row.started = time

    def _add_heads(self, digests: Iterable[tuple[str, int]], thread: int, time: int) -> None:
        """Keep digests, each with its state, of a thread."""
        heads = self._heads
        for digest, state in digests:
            rows = heads.get(digest)
            if rows is None:
                heads[digest] = [(digest, thread, state, time)]
            elif rows[-1][1] == thread:
                rows[-1] = (digest, thread, state, time)
            else:
                rows.append((digest, thread, state, time))

    def _count_segment(self, thread: StoredThread, facts: ExchangeFacts, entry: JournalEntry) -> None:
        segment = segment_in(facts, thread.kind)
        if not segment or self._segments.get(thread.id) == segment:
            return
        self._segments[thread.id] = segment
        if not thread.windows:
            thread.windows = 1
        elif segment != segment_in(_FACTS.decode(thread.facts), thread.kind):
            digest = segment_of(thread.id, facts, thread.kind)
            if not self._head_rows([digest]):
                thread.windows += 1
                self._add_heads(((digest, PASSED),), thread.id, entry.time)

    def _adopt(self, number: int, parent: StoredThread, rule: str, sure: int) -> None:
        """Hang a thread under its parent; a cycle is not closed."""
        child = self._thread_by(number)
        if child is None or child.id == parent.id or child.parent == parent.id:
            return
        if self._is_below(parent, child):
            child.rule, child.sure = "cycle", 0
        else:
            child.parent, child.rule, child.sure = parent.id, rule, sure
            if child.session != parent.session:
                self._spawned(child.session, parent.session)
        self._changed_threads[child.id] = child

    def _label(self, agent: str, numbers: Iterable[int]) -> None:
        """Label threads with the type of their agent, unless they have a label."""
        for number in numbers:
            thread = self._thread_by(number)
            if thread is not None and not thread.label:
                thread.label = agent
                self._changed_threads[thread.id] = thread

    def _is_below(self, thread: StoredThread, other: StoredThread) -> bool:
        at: StoredThread | None = thread
        for _ in range(_DEEPEST):
            if at is None or not at.parent:
                return False
            if at.parent == other.id:
                return True
            at = self._thread_by(at.parent)
        return True

    def _spawned(self, child: int, parent: int) -> None:
        """Record that a session belongs to an agent of another one; a recorded origin stays."""
        session = self._session_by(child)
        if session is not None and not session.origin and not self._comes_from(parent, child):
            session.origin, session.link = parent, SPAWNED
            self._changed_sessions[session.id] = session

    def _comes_from(self, session: int, other: int) -> bool:
        """Whether a session is another one or descends from it."""
        at = self._session_by(session)
        for _ in range(_DEEPEST):
            if at is None:
                return False
            if at.id == other:
                return True
            at = self._session_by(at.origin) if at.origin else None
        return True

    def _link_followers(self) -> None:
        """Link sessions that continue from here but were assigned earlier: another worker's journal may come first."""
        ended = self._ended
        waiting = self._tables.stored_digests(ended) if ended else set()
        for digest in sorted(waiting.union(ended.keys() & self._heads.keys())):
            thread, is_last = ended[digest]
            for _, number, state, time in self._head_rows([digest]):
                follower = self._thread_by(number)
                session = None if follower is None or state != PASSED else self._session_by(follower.session)
                if session is None or follower is None or self._comes_from(thread.session, session.id):
                    continue
                if not session.origin and follower.kind == thread.kind:
                    session.origin, session.link = thread.session, CONTINUES if is_last else FORK
                    self._changed_sessions[session.id] = session
                self._add_heads(((digest, assign.ANSWERED),), number, time)
        self._ended.clear()

    def _link_task(self, key: str, name: str, parent: StoredThread, time: int) -> None:
        """Link the session that a result of a tool names: it is that of an agent."""
        session = self._session(key, name)
        if session is None:
            # It is in the journal of another worker, or unknown.
            self._add_heads(((assign.task_of(key, name), PASSED),), parent.id, time)
            return
        thread = None if session.id == parent.session else self._thread(session.id, MAIN)
        if thread is not None:
            self._adopt(thread.id, parent, "task id", 95)


def _question(key: str, facts: ExchangeFacts) -> tuple[object, ...]:
    """The identity of a prompt, including its sender, because several agents may get the same prompt at once."""
    labels = (facts.thread, facts.parent, facts.said_class, facts.window)
    return key, facts.session, facts.tip, facts.client, facts.shape, *labels


def reclassify(tables: RecordTables, most: int) -> int:
    """Class some threads anew that were classed by older rules; how many. None is left once it gives 0."""
    with tables.transaction():
        rows = tables.sessions.outdated(VERSION, most)
        for row in rows:
            classification = class_of(_FACTS.decode(row.facts))
            if classification.kind != row.kind:
                row.kind, row.rule, row.sure = classification.kind, classification.rule, classification.sure
            row.rules = VERSION
        tables.sessions.save_threads(rows)
    return len(rows)
