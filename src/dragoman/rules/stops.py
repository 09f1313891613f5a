"""Stop strings for upstreams that know none (S11): text is cut before the first one, wherever the stream was cut."""

from __future__ import annotations

from dragoman.model.events import Ended, Event, PartEnded, PartGrew, PartStarted, Stopped, TextDelta
from dragoman.model.parts import Text
from dragoman.model.response import Stop, StopReason


class StopScanner:
    """Passes text on until a stop string is complete, holding back only what may become one.

    The stop string that is complete first wins, of two that are complete at once the longer, so that the outcome does
    not depend on where the text was cut.
    """

    __slots__ = ("_held", "_stops", "matched")

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = tuple(dict.fromkeys(stop for stop in stops if stop))
        self._held = ""
        self.matched: str | None = None

    def feed(self, text: str) -> str:
        """Take the next text and give what can be said now."""
        if self.matched is not None:
            return ""
        text = self._held + text
        hit = self._first_hit(text)
        if hit is not None:
            start, self.matched = hit
            self._held = ""
            return text[:start]
        safe = self._safe_length(text)
        self._held = text[safe:]
        return text[:safe]

    def close(self) -> str:
        """Give what was held back, now that nothing can complete it."""
        rest, self._held = self._held, ""
        return rest

    def _first_hit(self, text: str) -> tuple[int, str] | None:
        hits = [(start, stop) for stop in self._stops if (start := text.find(stop)) >= 0]
        return min(hits, key=lambda hit: (hit[0] + len(hit[1]), hit[0])) if hits else None

    def _safe_length(self, text: str) -> int:
        """Find where the longest suffix begins that is a proper prefix of a stop string."""
        safe = len(text)
        for stop in self._stops:
            start = text.find(stop[0], max(0, len(text) - len(stop) + 1), safe)
            while start >= 0:
                if stop.startswith(text[start:]):
                    safe = start
                    break
                start = text.find(stop[0], start + 1, safe)
        return safe


class StopStage:
    """Ends the answer at a stop string that the provider could not be asked to watch for (S11)."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self.matched = False
        self._scanners: dict[int, StopScanner] = {}
        self._open: set[int] = set()

    def passed(self, events: list[Event]) -> list[Event]:
        """The events as far as the client may see them now."""
        told: list[Event] = []
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
                        told.append(PartGrew(event.index, TextDelta(text, event.delta.logprobs)))
                    if scanner.matched is not None:
                        return told + self._ending(scanner.matched)
                    continue
            elif isinstance(event, PartEnded):
                self._open.discard(event.index)
                scanner = self._scanners.pop(event.index, None)
                rest = scanner.close() if scanner is not None else ""
                if rest:
                    told.append(PartGrew(event.index, TextDelta(rest)))
            told.append(event)
        return told

    def _ending(self, sequence: str) -> list[Event]:
        self.matched = True
        ends: list[Event] = [PartEnded(index) for index in sorted(self._open)]
        return [*ends, Stopped(Stop(reason=StopReason.SEQUENCE, native="stop", sequence=sequence)), Ended()]
