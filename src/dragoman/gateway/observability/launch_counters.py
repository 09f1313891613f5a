"""Launch counters: usage of each launch of a client, by the name in its requests (decision 30). In memory of this
process and bounded: invented names evict only launches of the same key while there is room."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from dragoman.identities.key_text import without_key_texts
from dragoman.mint import random_token
from dragoman.records.journal_entry import JournalEntry
from dragoman.sessions.classes import MAIN, class_of

HEADER = b"x-dragoman-launch"
MAX_LAUNCHES_PER_KEY = 100
MAX_LAUNCHES = 1000
# More than any exchange takes; a provider may report anything.
_MAX_TOKENS = 1 << 40
# Paths on which models work, without lists and counts.
_CALLS = frozenset({"/messages", "/chat/completions", "/responses", "/responses/compact"})
_CLIENT_CANCELLED = "cancelled"
_is_name = re.compile(r"[A-Za-z0-9._-]{1,64}").fullmatch
# Ids that people can copy into a command: UUIDs, `ses_…`.
_is_session = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}").fullmatch


def is_launch_name(text: str) -> bool:
    """Whether a launch may have this name."""
    return _is_name(text) is not None and without_key_texts(text) == text


def launch_name(header: bytes | None) -> str:
    """The name in a request's header; none if it is no name."""
    if header is None:
        return ""
    text = header.decode("latin-1")
    return text if is_launch_name(text) else ""


class LaunchCount(Struct, kw_only=True):
    """The counts of one launch."""

    # All requests, conversations among them, and failed ones among those.
    requests: int = 0
    calls: int = 0
    failed: int = 0
    input: int = 0
    output: int = 0
    # Nano-dollars, and exchanges of which something had no price.
    cost: int = 0
    unpriced: int = 0
    # The number of losses by feature.
    losses: dict[str, int] = field(default_factory=dict)
    # The session of the last main thread that got an answer, by the client's own id, and when that was.
    session: str = ""
    session_time: float = 0.0

    def count(self, entry: JournalEntry) -> None:
        """Count one exchange that has ended."""
        self.requests += 1
        if entry.path in _CALLS:
            self.calls += 1
            # A client that goes away has its reasons, and ends so at times.
            self.failed += entry.failure != _CLIENT_CANCELLED and (bool(entry.failure) or entry.status >= 400)
        counted = entry.tokens
        if counted is not None:
            self.input += min(max(counted.input, 0), _MAX_TOKENS)
            self.output += min(max(counted.output, 0), _MAX_TOKENS)
        if entry.cost is not None:
            self.cost += entry.cost.total
            self.unpriced += bool(entry.cost.unpriced)
        for loss in entry.losses:
            self.losses[loss.feature] = self.losses.get(loss.feature, 0) + 1
        session = entry.facts.session
        if _is_session(session) and entry.status < 400 and not entry.failure and class_of(entry.facts).kind == MAIN:
            self.session, self.session_time = session, entry.time / 1e6


class WorkerLaunchCount(Struct, frozen=True):
    """A count of one process, and the process: a restarted one has counted less."""

    process: str
    tally: LaunchCount


class LaunchCounters:
    """The tallies of one process, by the name of the gateway key and of the launch."""

    def __init__(self) -> None:
        self._process = random_token(12)
        # The latest count is last.
        self._counts: dict[tuple[str, str], LaunchCount] = {}
        self._of_key: dict[str, int] = {}

    def count(self, entry: JournalEntry) -> None:
        """Count an exchange of a launch."""
        named = entry.key, entry.launch
        launch_count = self._counts.pop(named, None)
        if launch_count is None:
            launch_count = LaunchCount()
            self._make_room(entry.key)
            self._of_key[entry.key] = self._of_key.get(entry.key, 0) + 1
        launch_count.count(entry)
        self._counts[named] = launch_count

    def count_of(self, key: str, name: str) -> WorkerLaunchCount:
        """The count of a launch under a key; None if unknown."""
        launch_count = self._counts.get((key, name)) or LaunchCount()
        return WorkerLaunchCount(self._process, replace(launch_count, losses=dict(launch_count.losses)))

    def _make_room(self, key: str) -> None:
        """Let the oldest go: of the same key if that has as many as it may have, else of whomever."""
        if self._of_key.get(key, 0) >= MAX_LAUNCHES_PER_KEY:
            oldest = next(named for named in self._counts if named[0] == key)
        elif len(self._counts) >= MAX_LAUNCHES:
            oldest = next(iter(self._counts))
        else:
            return
        del self._counts[oldest]
        self._of_key[oldest[0]] -= 1
        if not self._of_key[oldest[0]]:
            del self._of_key[oldest[0]]


def summed(worker_counts: Iterable[WorkerLaunchCount]) -> tuple[list[str], LaunchCount]:
    """The sum of all processes, and their IDs."""
    processes: list[str] = []
    total = LaunchCount()
    for each in worker_counts:
        processes.append(each.process)
        launch_count = each.tally
        total.requests += launch_count.requests
        total.calls += launch_count.calls
        total.failed += launch_count.failed
        total.input += launch_count.input
        total.output += launch_count.output
        total.cost += launch_count.cost
        total.unpriced += launch_count.unpriced
        for name, count in launch_count.losses.items():
            total.losses[name] = total.losses.get(name, 0) + count
        if launch_count.session_time > total.session_time:
            total.session, total.session_time = launch_count.session, launch_count.session_time
    return sorted(processes), total
