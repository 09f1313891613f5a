"""Thread tree: the threads of a session below their parents, with figures of their own and with children. Figures
belong to exchanges and are added up here, so that the total is right whatever the parents: a thread without its parent
hangs below the session with a mark, and a circle of parents is cut at its first thread."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from dragoman.store.session_queries import SessionFigures
from dragoman.store.session_tables import ThreadRow

# Classes whose threads are shown as one line per class, unless they started others.
FOLDED = ("utility", "mcp", "side")
# Classes of threads that another thread starts, so an unknown parent is reported.
_BEGUN = frozenset({"subagent", "compaction", "side", "workflow"})
# From here on it is taken for certain where a thread belongs.
CERTAIN = 90
# Why a thread hangs below its session: its parent is not there, or is one of its own children.
MISSING, CUT = "missing", "cut"
NOTHING = SessionFigures()


class ThreadNode(Struct, frozen=True, kw_only=True):
    """One thread in a tree, or several of one class; depth 0 is right below the session."""

    depth: int
    # The last of its siblings.
    last: bool
    # One thread, or several in a fold, the oldest first.
    threads: tuple[ThreadRow, ...]
    own: SessionFigures
    # With all that was begun by it, at any depth.
    total: SessionFigures
    parent_issue: str = ""

    @property
    def thread(self) -> ThreadRow:
        """The thread, or the first of a fold."""
        return self.threads[0]

    @property
    def is_fold(self) -> bool:
        """Whether it is a fold of several threads."""
        return len(self.threads) > 1

    @property
    def is_uncertain(self) -> bool:
        """Whether it may have been begun by another thread than it hangs below."""
        return any(thread.sure < CERTAIN and (thread.parent or self.parent_issue) for thread in self.threads)


class Tree(Struct, frozen=True, kw_only=True):
    """A session's threads in the order in which they are read, parents before children."""

    nodes: tuple[ThreadNode, ...]
    total: SessionFigures
    # Number of threads that were cut out of cycles.
    circles: int = 0


def tree_of(
    rows: Sequence[tuple[ThreadRow, SessionFigures]], *, fold: bool = True, elsewhere: Collection[int] = ()
) -> Tree:
    """Hang threads below their parents, in the order of their beginnings. `elsewhere` are threads of other trees."""
    threads = {thread.id: thread for thread, _ in rows}
    own = {thread.id: figures for thread, figures in rows}
    parents, issues = _parents(threads, elsewhere)
    children: dict[int, list[int]] = {}
    for number, parent in parents.items():
        children.setdefault(parent, []).append(number)
    totals = _add_up(own, parents, children)
    nodes: list[ThreadNode] = []
    # Any depth: nothing here calls itself.
    waiting = list(reversed(_siblings(threads, children, 0, 0, issues if fold else None)))
    while waiting:
        depth, group, last = waiting.pop()
        first = group[0]
        nodes.append(
            ThreadNode(
                depth=depth,
                last=last,
                threads=tuple(threads[number] for number in group),
                own=sum((own[number] for number in group), NOTHING),
                total=sum((totals[number] for number in group), NOTHING),
                parent_issue=issues.get(first, ""),
            )
        )
        if len(group) == 1:
            waiting += reversed(_siblings(threads, children, first, depth + 1, issues if fold else None))
    total = sum((figures for _, figures in rows), NOTHING)
    return Tree(nodes=tuple(nodes), total=total, circles=sum(issue == CUT for issue in issues.values()))


def _parents(threads: Mapping[int, ThreadRow], elsewhere: Collection[int]) -> tuple[dict[int, int], dict[int, str]]:
    """The parent of each thread, 0 for the session itself, and why it differs from the stated one."""
    parents: dict[int, int] = {}
    issues: dict[int, str] = {}
    for number, thread in threads.items():
        parents[number] = thread.parent if thread.parent in threads else 0
        if not parents[number] and thread.parent not in elsewhere and (thread.parent or thread.kind in _BEGUN):
            issues[number] = MISSING
    # A path to the session is valid; a thread that occurs twice on a path is a cycle.
    sound = {0}
    for number in threads:
        way: list[int] = []
        met: set[int] = set()
        at = number
        while at not in sound and at not in met:
            way.append(at)
            met.add(at)
            at = parents[at]
        if at not in sound:
            circle = way[way.index(at) :]
            first = min(circle, key=lambda each: (threads[each].started, each))
            parents[first], issues[first] = 0, CUT
        sound |= met
    return parents, issues


def _add_up(
    own: Mapping[int, SessionFigures], parents: Mapping[int, int], children: Mapping[int, Sequence[int]]
) -> dict[int, SessionFigures]:
    """The usage of each thread with all its descendants, from the leaves up."""
    totals = dict(own)
    left = {number: len(children.get(number, ())) for number in own}
    ready = [number for number, count in left.items() if not count]
    while ready:
        number = ready.pop()
        parent = parents[number]
        if parent:
            totals[parent] += totals[number]
            left[parent] -= 1
            if not left[parent]:
                ready.append(parent)
    return totals


def _siblings(
    threads: Mapping[int, ThreadRow],
    children: Mapping[int, Sequence[int]],
    parent: int,
    depth: int,
    issues: Mapping[int, str] | None,
) -> list[tuple[int, list[int], bool]]:
    """The lines below a thread, in order: single threads, then folds by class."""
    single: list[list[int]] = []
    folds: dict[str, list[int]] = {}
    for number in sorted(children.get(parent, ()), key=lambda each: (threads[each].started, each)):
        kind = threads[number].kind
        if issues is not None and kind in FOLDED and number not in children and number not in issues:
            folds.setdefault(kind, []).append(number)
        else:
            single.append([number])
    groups = single + [folds[kind] for kind in FOLDED if kind in folds]
    return [(depth, group, at == len(groups) - 1) for at, group in enumerate(groups)]
