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
# The class of threads that others began.
_AGENT = "subagent"


class Line(Struct, frozen=True, kw_only=True):
    """One session in a list, with all its threads."""

    session: SessionRow
    # What it goes on from or was forked from; None if nothing.
    origin: SessionRow | None
    standing: Standing
    # All of its threads, and those among them that are agents.
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

    @property
    def standing(self) -> Standing:
        """What it is doing as a whole."""
        return session_standing((thread for node in self.tree.nodes for thread in node.threads), self.standings)


def listing(
    tables: AccountTables, since: int, key: str | None, most: int, opened: Mapping[int, int], now: int
) -> Listing:
    """Sessions since a time; `opened` is when the latest open exchange of a session began, by its number."""
    questions = SessionQuestions(tables.connection)
    rows = questions.newest(since, key, most + 1)
    more, rows = len(rows) > most, rows[:most]
    numbers = [row.id for row in rows]
    sums: dict[int, Figures] = {}
    threads: dict[int, int] = {}
    agents: dict[int, int] = {}
    for each in questions.by_class(numbers):
        sums[each.session] = sums.get(each.session, Figures()) + each.figures
        threads[each.session] = threads.get(each.session, 0) + each.threads
        if each.kind == _AGENT:
            agents[each.session] = each.threads
    speaking = {thread.session: thread for thread in questions.speaking(numbers)}
    last = questions.last_exchanges(speaking.values())
    origins = questions.of(row.origin for row in rows if row.origin)
    lines = [
        Line(
            session=row,
            origin=origins.get(row.origin),
            standing=_standing(speaking.get(row.id), last, opened.get(row.id, 0), now),
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
    """A session with all its threads; `opened` is when the latest open exchange of a thread began, by its number."""
    questions = SessionQuestions(tables.connection)
    rows = questions.threads(session.id)
    threads = [thread for thread, _ in rows]
    last = questions.last_exchanges(threads)
    ends = [each.time + each.took for each in last.values()]
    return Whole(
        session=session,
        origin=questions.of([session.origin]).get(session.origin),
        tree=tree_of(rows, fold=fold),
        standings={
            thread.id: standing_of(thread.kind, last.get(thread.id), opened.get(thread.id, 0), now)
            for thread in threads
        },
        ended=max([session.last, *ends]),
    )


def session_standing(threads: Iterable[ThreadRow], standings: Mapping[int, Standing]) -> Standing:
    """What a session is doing: what is open in any of its threads, else what the one does that a person talks to."""
    from_all = most_telling(standings.values())
    if from_all.state in (STREAMING, SILENT):
        return from_all
    main = [standings[thread.id] for thread in threads if thread.kind == "main"]
    return most_telling(main) if main else from_all
