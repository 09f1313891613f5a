"""Stop sequences for providers without them (S11): cuts text before the first one, wherever the stream was cut."""

from __future__ import annotations

import re

from dragoman.model.events import Ended, Event, PartEnded, PartGrew, PartStarted, Stopped, TextDelta
from dragoman.model.features import Feature
from dragoman.model.losses import Ledger
from dragoman.model.parts import Text
from dragoman.model.response import Stop, StopReason

_WATCHED = 16 * 1024
_FEW = 64


def watched(stops: tuple[str, ...], ledger: Ledger) -> tuple[str, ...]:
    """The stop sequences that the gateway searches for: all, up to `_WATCHED` characters."""
    room = _WATCHED
    for number, stop in enumerate(stops):
        room -= len(stop)
        if room < 0:
            note = f"{len(stops) - number} stop strings are not looked for, they are too long together"
            ledger.dropped(Feature.STOP_SEQUENCES, ("stop", number), note)
            return stops[:number]
    return stops


class StopSequences:
    """Several strings as one automaton (Aho-Corasick), which reads each character once. A state is the longest prefix
    of a string that the text so far ends with; 0 is the empty prefix."""

    __slots__ = ("_fallbacks", "_find_first", "_steps", "complete", "depths")

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._steps: list[dict[str, int]] = [{}]
        self.depths = [0]
        # The string that is complete in a state, the longest if there are several.
        self.complete: list[str | None] = [None]
        for stop in filter(None, stops):
            self._add(stop)
        self._fallbacks = [0] * len(self._steps)
        self._link()
        # A search for the first characters skips nearly all text.
        firsts = "".join(map(re.escape, self._steps[0])) if len(self._steps[0]) <= _FEW else ""
        self._find_first = re.compile(f"[{firsts}]" if firsts else "(?s:.)").search

    def _add(self, stop: str) -> None:
        state = 0
        for letter in stop:
            following = self._steps[state].get(letter)
            if following is None:
                following = self._steps[state][letter] = len(self._steps)
                self._steps.append({})
                self.depths.append(self.depths[state] + 1)
                self.complete.append(None)
            state = following
        self.complete[state] = stop

    def _link(self) -> None:
        """Store for each state the next shorter prefix that the text also ends with, shallow states first."""
        steps, fallbacks, complete = self._steps, self._fallbacks, self.complete
        for state in sorted(range(len(steps)), key=self.depths.__getitem__):
            for letter, following in steps[state].items():
                fallback = self.next(fallbacks[state], letter) if state else 0
                fallbacks[following] = fallback
                complete[following] = complete[following] or complete[fallback]

    def next(self, state: int, letter: str) -> int:
        steps, fallbacks = self._steps, self._fallbacks
        while letter not in steps[state]:
            if not state:
                return 0
            state = fallbacks[state]
        return steps[state][letter]

    def run(self, state: int, text: str) -> tuple[int, int]:
        """Read text up to the first complete string. Returns the state and the number of characters read."""
        at, end = 0, len(text)
        while at < end:
            if not state:
                match = self._find_first(text, at)
                if match is None:
                    return 0, end
                at = match.start()
            state = self.next(state, text[at])
            at += 1
            if self.complete[state] is not None:
                break
        return state, at


class StopScanner:
    """Emits text until a stop sequence is complete, and holds only a possible one. The first complete sequence wins, of
    two the longer, so that the result does not depend on where the text was cut."""

    __slots__ = ("_held", "_state", "_stops", "matched")

    def __init__(self, stops: StopSequences | tuple[str, ...]) -> None:
        self._stops = stops if isinstance(stops, StopSequences) else StopSequences(stops)
        self._state = 0
        self._held = ""
        self.matched: str | None = None

    def feed(self, text: str) -> str:
        """Read more text and return the part that may be sent."""
        if self.matched is not None:
            return ""
        before, self._held = self._held, ""
        self._state, end = self._stops.run(self._state, text)
        self.matched = self._stops.complete[self._state]
        text = before + (text[:end] if self.matched is not None else text)
        safe = len(text) - self._stops.depths[self._state]
        if self.matched is None:
            self._held = text[safe:]
            return text[:safe]
        return text[: len(text) - len(self.matched)]

    def close(self) -> str:
        """Return the held text, which no more text can complete."""
        rest, self._held, self._state = self._held, "", 0
        return rest


class StopStage:
    """Ends the response at a stop sequence that the provider does not support (S11)."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = StopSequences(stops)
        self.matched = False
        self._scanners: dict[int, StopScanner] = {}
        self._open: set[int] = set()

    def passed(self, events: list[Event]) -> list[Event]:
        emitted: list[Event] = []
        for event in events:
            if isinstance(event, PartStarted):
                self._open.add(event.index)
                if isinstance(event.part, Text):
                    self._scanners[event.index] = StopScanner(self._stops)
            elif isinstance(event, PartGrew):
                scanner = self._scanners.get(event.index)
                if scanner is not None and isinstance(event.delta, TextDelta):
                    text = scanner.feed(event.delta.text)
                    if text:
                        emitted.append(PartGrew(event.index, TextDelta(text, event.delta.logprobs)))
                    if scanner.matched is not None:
                        return emitted + self._ending(scanner.matched)
                    continue
            elif isinstance(event, PartEnded):
                self._open.discard(event.index)
                scanner = self._scanners.pop(event.index, None)
                rest = scanner.close() if scanner is not None else ""
                if rest:
                    emitted.append(PartGrew(event.index, TextDelta(rest)))
            emitted.append(event)
        return emitted

    def _ending(self, sequence: str) -> list[Event]:
        self.matched = True
        ends: list[Event] = [PartEnded(index) for index in sorted(self._open)]
        return [*ends, Stopped(Stop(reason=StopReason.SEQUENCE, native="stop", sequence=sequence)), Ended()]
