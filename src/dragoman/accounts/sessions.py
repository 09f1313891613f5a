"""Sessions: those that there were, each as one line, and one of them by its name, with the tree of its threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from dragoman.accounts.rows import QUARTER
from dragoman.accounts.standing import SILENT, STREAMING, Standing, most_telling, standing_of
from dragoman.accounts.trees import Tree, tree_of
from dragoman.errors import DragomanError
from dragoman.store.account_tables import AccountTables
from dragoman.store.session_questions import Figures, LastExchange, SessionQuestions, SessionRow, ThreadRow

# So many are shown where a text means several.
_SEVERAL = 5
# The class of threads that others began; in a session of an agent, the main one is it.
_AGENT = "subagent"
_MAIN = "main"


class Line(Struct, frozen=True, kw_only=True):
    """One session in a list, with all its threads."""

    session: SessionRow
    # What it goes on from or was forked from; None if nothing.
    origin: SessionRow | None
    standing: Standing
    # When it or one of its agents was heard of last.
    last: int
    # All of its threads and of those of its agents, and those among them that are agents.
    threads: int
    agents: int
    figures: Figures


class Listing(Struct, frozen=True, kw_only=True):
    """Sessions that were heard of since a time, the latest first, whether there are more, and what belongs to none."""

    lines: tuple[Line, ...]
    more: bool
    without: Figures


class Whole(Struct, frozen=True, kw_only=True):
    """One session: what it goes on from, its tree, and what each of its threads is doing."""

    session: SessionRow
    origin: SessionRow | None
    tree: Tree
    standings: Mapping[int, Standing]
    # When its last exchange ended, in microseconds.
    ended: int
    agents: int

    @property
    def standing(self) -> Standing:
        """What it is doing as a whole."""
        own = (thread for node in self.tree.nodes for thread in node.threads if thread.session == self.session.id)
        return session_standing(own, self.standings)


def listing(
    tables: AccountTables, since: int, key: str | None, most: int, opened: Mapping[int, int], now: int
) -> Listing:
    """Sessions since a time; `opened` is when the latest open exchange of a session began, by its number."""
    questions = SessionQuestions(tables.connection)
    rows = questions.newest(since, key, most + 1)
    more, rows = len(rows) > most, rows[:most]
    numbers = [row.id for row in rows]
    below = questions.below(numbers)
    # What sessions of agents came to belongs to the one that they were begun from.
    root = {number: number for number in numbers} | {child.id: of for of in below for child in below[of]}
    sums: dict[int, Figures] = {}
    threads: dict[int, int] = {}
    agents: dict[int, int] = {}
    for each in questions.by_class(sorted(root)):
        of = root[each.session]
        sums[of] = sums.get(of, Figures()) + each.figures
        threads[of] = threads.get(of, 0) + each.threads
        if each.kind == _AGENT or (each.kind == _MAIN and each.session != of):
            agents[of] = agents.get(of, 0) + each.threads
    open_in: dict[int, int] = {}
    for number, began in opened.items():
        of = root.get(number, 0)
        open_in[of] = max(open_in.get(of, 0), began)
    speaking = {thread.session: thread for thread in questions.speaking(numbers)}
    last = questions.last_exchanges(speaking.values())
    origins = questions.of(row.origin for row in rows if row.origin)
    lines = [
        Line(
            session=row,
            origin=origins.get(row.origin),
            standing=_standing(speaking.get(row.id), last, open_in.get(row.id, 0), now),
            last=max([row.last, *(child.last for child in below.get(row.id, ()))]),
            threads=threads.get(row.id, 0),
            agents=agents.get(row.id, 0),
            figures=sums.get(row.id, Figures()),
        )
        for row in rows
    ]
    without = questions.without_session(since // QUARTER) if key is None else Figures()
    return Listing(lines=tuple(lines), more=more, without=without)


def _standing(thread: ThreadRow | None, last: Mapping[int, LastExchange], opened: int, now: int) -> Standing:
    kind = "" if thread is None else thread.kind
    return standing_of(kind, None if thread is None else last.get(thread.id), opened, now)


def find(tables: AccountTables, text: str, key: str | None = None) -> SessionRow:
    """The session that is called so, or the only one whose name begins so."""
    found = SessionQuestions(tables.connection).named(text, key, _SEVERAL + 1) if text else []
    if not found:
        raise DragomanError(f"there is no session {text!r}; `dragoman sessions` lists the latest")
    if len(found) == 1:
        return found[0]
    if len({row.name for row in found}) == 1:
        keys = ", ".join(row.key or '""' for row in found[:_SEVERAL])
        raise DragomanError(f"{len(found)} keys have a session {text!r}: say whose with --key ({keys})")
    names = ", ".join(row.name for row in found[:_SEVERAL])
    more = " and more" if len(found) > _SEVERAL else ""
    raise DragomanError(f"{text!r} is the beginning of several sessions: {names}{more}")


def whole(
    tables: AccountTables, session: SessionRow, opened: Mapping[int, int], now: int, *, fold: bool = True
) -> Whole:
    """A session with all its threads and those of its agents.

    `opened` is when the latest open exchange of a thread began, by its number.
    """
    questions = SessionQuestions(tables.connection)
    children = questions.below([session.id]).get(session.id, [])
    rows = questions.threads(session.id, *(child.id for child in children))
    threads = [thread for thread, _ in rows]
    elsewhere = questions.thread_rows(thread.parent for thread in threads if thread.parent)
    last = questions.last_exchanges(threads)
    ends = [each.time + each.took for each in last.values()]
    return Whole(
        session=session,
        origin=questions.of([session.origin]).get(session.origin),
        tree=tree_of(rows, fold=fold, elsewhere=elsewhere),
        standings={
            thread.id: standing_of(thread.kind, last.get(thread.id), opened.get(thread.id, 0), now)
            for thread in threads
        },
        ended=max([session.last, *ends]),
        agents=sum(
            thread.kind == _AGENT or (thread.kind == _MAIN and thread.session != session.id) for thread in threads
        ),
    )


def session_standing(threads: Iterable[ThreadRow], standings: Mapping[int, Standing]) -> Standing:
    """What a session is doing: what is open in any of its threads, else what the one does that a person talks to."""
    from_all = most_telling(standings.values())
    if from_all.state in (STREAMING, SILENT):
        return from_all
    main = [standings[thread.id] for thread in threads if thread.kind == _MAIN]
    return most_telling(main) if main else from_all
