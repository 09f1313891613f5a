"""The processes that a gateway has started, as the system knows them."""

from __future__ import annotations

from collections.abc import Iterable, Set
from contextlib import suppress
from pathlib import Path

from tests.waiting import wait_until

NOBODY: frozenset[int] = frozenset()


def children(pid: int) -> set[int]:
    """The processes that a process has started and that have not ended."""
    started: list[str] = []
    # A process that ends meanwhile has no children any more.
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            started += (task / "children").read_text().split()
    return {int(child) for child in started if is_running(int(child))}


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        # The second field is a name in brackets, which may hold anything.
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def running_workers(pid: int, count: int, without: Set[int] = NOBODY) -> set[int]:
    """Wait until a gateway has exactly `count` workers, not counting `without`, which have ended; return them."""

    def workers() -> set[int] | None:
        found = children(pid) - without
        return found if len(found) == count else None

    return wait_until(workers, f"{count} workers of process {pid}") or set()


def wait_gone(pids: Iterable[int]) -> None:
    """Wait until processes have ended."""
    wait_until(lambda: not any(is_running(pid) for pid in pids), f"the end of the processes {pids}")


def wait_handled(pids: Iterable[int]) -> None:
    """Wait until each of these processes has handled the signals that were sent to it, and sleeps."""
    wait_until(lambda: all(_has_handled(pid) for pid in pids), f"the processes {pids} have handled their signals")


def _has_handled(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    pending = [status.partition(f"\n{name}:")[2].split()[0] for name in ("SigPnd", "ShdPnd")]
    # A process that has still to run a handler is woken up for it.
    return not any(int(mask, 16) for mask in pending) and "\nState:\tS" in status


def wait_for_turns(pids: Iterable[int], turns: int) -> None:
    """Wait until each of these processes has slept and woken up `turns` times.

    An idle supervisor wakes up once for each look at its file, an idle worker at least once.
    """
    due = {pid: _sleeps(pid) + turns for pid in pids}
    wait_until(lambda: all(_sleeps(pid) >= count for pid, count in due.items()), f"{turns} turns of {sorted(due)}")


def _sleeps(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
