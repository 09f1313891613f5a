"""Replays recorded exchanges with language models through the library, and tells what came out different.

python tools/replay.py FOLDER                   the table; status 1 if a difference has no explanation
python tools/replay.py FOLDER --show calls 5    also the first five differences of a kind that nobody explained
python tools/replay.py FOLDER --explained       also what was explained, and why
python tools/replay.py FOLDER --jobs 2          with two processes

The folder holds recordings as public repositories keep them: cassettes, fixtures, streams. Each answer goes to clients
of all protocols, whole and streamed, cut at odd places, and comes back in a second turn. What the official SDKs read of
it is compared with a plain reading of the recording that shares no code with the library.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tools.replaying.explained import Rule, explained  # noqa: E402 - the paths above come first
from tools.replaying.journey import Difference, Tally, journeys  # noqa: E402
from tools.replaying.recordings import Exchange, Unread, found_in  # noqa: E402

# In the order of the table. Grammar and crashes are never right; a refusal may be.
KINDS = {
    "crashes": "an exception that is no error of the library",
    "grammar": "an answer that the SDK's types or the stream's grammar do not allow",
    "requests": "a translated request that the SDK's types do not allow",
    "refusals": "an answer that the library could not read",
    "refused requests": "a recorded request that was refused",
    "refused turns": "a second turn that was refused",
    "relays": "bytes changed between the same protocols",
    "cuts": "another cut of the bytes, another answer",
    "errors": "an error not told, told in other words, or made up",
    "texts": "text",
    "reasonings": "reasoning",
    "calls": "names and arguments of calls",
    "ids": "ids of calls",
    "ends": "how the answer ended",
    "usages": "tokens: input, output, cached",
    "second texts": "text that the provider does not find again",
    "second calls": "calls, with their ids, that it does not find again",
    "second results": "results under other ids",
    "second seals": "signatures and sealed reasoning that do not come back",
    "second reasonings": "reasoning that does not come back",
}


class Outcome:
    """All exchanges, and what became of them."""

    def __init__(self) -> None:
        self.exchanges: Counter[str] = Counter()
        self.translations = 0
        self.streams = 0
        self.unread: list[Unread] = []
        self.left: dict[str, list[Difference]] = defaultdict(list)
        self.meant: dict[str, list[tuple[Difference, Rule]]] = defaultdict(list)

    def add(self, exchange: Exchange, tally: Tally) -> None:
        """Take the outcome of one exchange."""
        form = "streams" if exchange.stream is not None else "whole answers" if exchange.answered else "only requests"
        self.exchanges[form] += 1
        self.translations += tally.translations
        self.streams += tally.streams
        for difference in tally.differences:
            rule = explained(difference)
            if rule is None:
                self.left[difference.kind].append(difference)
            else:
                self.meant[difference.kind].append((difference, rule))

    @property
    def table(self) -> str:
        """The outcome as a table in Markdown."""
        forms = ", ".join(f"{count} {form}" for form, count in sorted(self.exchanges.items()))
        rows = [
            f"{sum(self.exchanges.values())} exchanges ({forms}), {self.translations} translations, "
            f"{self.streams} streams, {len(self.unread)} files not read",
            "",
            "| What | Differences | Explained | Left | Exchanges | |",
            "|---|---:|---:|---:|---:|---|",
        ]
        for kind, words in KINDS.items():
            left, meant = self.left.get(kind, []), self.meant.get(kind, [])
            concerned = len({difference.file for difference in left})
            rows.append(f"| {kind} | {len(left) + len(meant)} | {len(meant)} | {len(left)} | {concerned} | {words} |")
        return "\n".join(rows)


def replayed(found: Iterable[Exchange | Unread], jobs: int = 1) -> Outcome:
    """Send every exchange on its journeys."""
    outcome = Outcome()
    exchanges: list[Exchange] = []
    for one in found:
        if isinstance(one, Unread):
            outcome.unread.append(one)
        else:
            exchanges.append(one)
    if jobs == 1:
        for exchange in exchanges:
            outcome.add(exchange, journeys(exchange))
        return outcome
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for exchange, tally in zip(exchanges, pool.map(journeys, exchanges, chunksize=8), strict=True):
            outcome.add(exchange, tally)
    return outcome


def shown(differences: list[Difference], limit: int) -> Iterator[str]:
    """The first differences, one of each file and pair."""
    seen: set[tuple[str, str]] = set()
    for difference in differences:
        if (difference.file, difference.pair) in seen or len(seen) == limit:
            continue
        seen.add((difference.file, difference.pair))
        yield f"{difference.file}\n  {difference.pair}, {difference.form}"
        said, came = _where(difference.said, difference.came)
        yield f"  said  {said}\n  came  {came}"


def _where(said: str, came: str, around: int = 60, longest: int = 400) -> tuple[str, str]:
    """Both sides from a little before the place where they part."""
    pairs = zip(said, came, strict=False)
    at = next((place for place, (one, other) in enumerate(pairs) if one != other), min(len(said), len(came)))
    start = max(0, at - around) if at > around else 0
    mark = "…" if start else ""
    return mark + repr(said[start : start + longest]), mark + repr(came[start : start + longest])


def main() -> int:
    """Replay a folder."""
    parser = argparse.ArgumentParser(description="Replay recorded exchanges through the library.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--show", nargs="+", metavar=("KIND", "N"), default=[], help="differences of a kind")
    parser.add_argument("--explained", action="store_true", help="what was explained, and why")
    parser.add_argument("--unread", action="store_true", help="files that could not be read")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes")
    options = parser.parse_args()
    *words, last = options.show or [""]
    kind, limit = (" ".join(words), int(last)) if last.isdigit() else (" ".join([*words, last]), 10)
    if kind and kind not in KINDS:
        parser.error(f"unknown kind {kind!r}; known are {', '.join(KINDS)}")
    outcome = replayed(found_in(options.folder), options.jobs)
    print(outcome.table)
    if options.explained:
        reasons = Counter((kind, rule.why) for kind, meant in outcome.meant.items() for _, rule in meant)
        print("", *(f"{count} {kind}: {why}" for (kind, why), count in reasons.most_common()), sep="\n")
    if options.unread:
        print("", *(f"{one.file}: {one.why}" for one in outcome.unread), sep="\n")
    if kind:
        print("", *shown(outcome.left[kind], limit), sep="\n")
    return 1 if any(outcome.left.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
