"""The cases: every workload in every direction, as something that can be run.

A direction is written as the mapping does, in letters: A Messages, C Chat, R Responses; `A→C` is data in A rendered in
C. Requests go from the client's protocol to the provider's, answers and streams the other way.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from msgspec import Struct

from bench.replay import replayed
from bench.streams import STREAMS, frames
from bench.workloads import CHAT, MESSAGES, MODELS, PROTOCOLS, RESPONSES, SCALES, answer, request
from dragoman.streaming import StreamPipeline
from dragoman.translate import TranslatedRequest, translate_request, translate_response

LETTERS = {MESSAGES: "A", CHAT: "C", RESPONSES: "R"}
# A stream in chunks of one frame, and in one chunk.
CUTS = ("frames", "whole")
# Microseconds; a workload without a target is only reported.
TARGETS: dict[str, float] = {
    "small": 25,
    "agent": 1500,
    "replay": 1500,
    **{f"{stream}/{cut}": 6 for stream, cut in product(STREAMS, CUTS)},
}
WORKLOADS = (*SCALES, "replay", "answer", *(f"{stream}/{cut}" for stream, cut in product(STREAMS, CUTS)))


class Case(Struct, frozen=True, kw_only=True):
    """One workload in one direction; `run` handles `units` requests, answers or frames."""

    source: str
    target: str
    workload: str
    units: int
    run: Callable[[], object]

    @property
    def direction(self) -> str:
        """The direction in letters."""
        return direction(self.source, self.target)


def direction(source: str, target: str) -> str:
    """A direction in letters."""
    return f"{LETTERS[source]}→{LETTERS[target]}"


DIRECTIONS = tuple(direction(source, target) for source, target in product(PROTOCOLS, PROTOCOLS))


def cases(only: tuple[str, ...] = ()) -> list[Case]:
    """The cases that match every word of `only`: a direction (`A→C`, `a-c`) or the beginning of a workload's name."""
    chosen: list[Case] = []
    words = [word.upper().replace("-", "→") if _is_direction(word) else word for word in only]
    for (source, target), workload in product(product(PROTOCOLS, PROTOCOLS), WORKLOADS):
        named = direction(source, target)
        if all(word == named or workload.startswith(word) for word in words):
            chosen.append(_case(source, target, workload))
    return chosen


def _is_direction(word: str) -> bool:
    return word.upper().replace("-", "→") in DIRECTIONS


def _case(source: str, target: str, workload: str) -> Case:
    stream, _, cut = workload.partition("/")
    units = 1
    if workload in SCALES:
        run = _request(source, target, request(workload, source))
    elif workload == "replay":
        run = _request(source, target, replayed(source, target))
    elif workload == "answer":
        run = _answer(source, target, answer(source))
    else:
        told = frames(stream, source)
        units = len(told)
        run = _stream(source, target, told if cut == "frames" else (b"".join(told),))
    return Case(source=source, target=target, workload=workload, units=units, run=run)


def asked(source: str, target: str, workload: str = "small") -> TranslatedRequest:
    """The question, put to the provider of `target` by a client of `source`."""
    model = None if source == target else MODELS[target]
    return translate_request(request(workload, source), source=source, target=target, model=model)


def _request(source: str, target: str, body: bytes) -> Callable[[], object]:
    model = None if source == target else MODELS[target]
    return lambda: translate_request(body, source=source, target=target, model=model)


def _answer(source: str, target: str, body: bytes) -> Callable[[], object]:
    question = asked(target, source)
    return lambda: translate_response(body, source=source, target=target, request=question)


def _stream(source: str, target: str, chunks: tuple[bytes, ...]) -> Callable[[], object]:
    question = asked(target, source)

    def run() -> None:
        translator = StreamPipeline(source=source, target=target, request=question)
        for chunk in chunks:
            translator.feed(chunk)
        translator.close()

    return run
