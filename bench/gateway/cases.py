"""The cases: who asks whom for what, and the processor time that a request or a chunk may cost."""

from __future__ import annotations

from msgspec import Struct, structs

from bench.gateway.answers import CHUNKS, SHORT_CHUNKS
from bench.workloads import CHAT, MESSAGES, RESPONSES

# How the provider answers: at once, as a stream without a pause, or as a stream whose chunks arrive one by one. A short
# stream is one write of few chunks: no case measures it, the trace of an exchange is of it.
WHOLE, BURST, PACED, SHORT = "whole", "burst", "paced", "short"
# A short stream that rests behind its first chunk until the provider is told to go on; and, before their number, a
# burst of other chunks than 200. Both are of `growth`.
HELD, LONG = "held", "long "
# Lines with several targets, and how many microseconds more a request may cost there.
TWO, FOUR = "two", "four"
LINES = {TWO: "a fallback of two targets", FOUR: "the fastest of four targets"}
MORE = 10.0
# Clients that ask at the same time; a paced stream mostly waits, so there are more of them.
CONCURRENT = {WHOLE: 16, BURST: 16, PACED: 20, SHORT: 16}


class Case(Struct, frozen=True, kw_only=True):
    """One exchange, many times over; `must` and `aim` are microseconds for a unit on the reference machine."""

    name: str
    title: str
    client: str
    provider: str
    mode: str
    # How many exchanges make a round: enough to be long for the clock.
    exchanges: int
    must: float
    aim: float
    workload: str = "small"
    # What nginx needs on the reference machine, where it forwards the same exchange; None where it cannot.
    floor: float | None = None
    tls: bool = False
    # The line that the model is of, where that has several targets: see `serving.py`.
    line: str = ""
    # Whether requests are calls of one conversation: they differ in their last message, the others in their first one.
    repeats: bool = False
    # Whether the gateway key has lists of models, providers, addresses and paths.
    has_lists: bool = False
    # Whether the contents of requests and responses are stored.
    has_contents: bool = False

    @property
    def label(self) -> str:
        """The name, with how the provider answers where a name has both."""
        return self.name if self.mode == WHOLE else f"{self.name} {self.mode}"

    @property
    def unit(self) -> str:
        """What is counted."""
        return "request" if self.mode == WHOLE else "chunk"

    @property
    def units(self) -> int:
        """How many of them an exchange has."""
        return {WHOLE: 1, SHORT: SHORT_CHUNKS}.get(self.mode, CHUNKS)

    @property
    def concurrent(self) -> int:
        """How many exchanges run at the same time."""
        return CONCURRENT[self.mode]


class Bound(Struct, frozen=True):
    """What a unit may cost, what it is to cost one day, and what nginx needs for it, in microseconds."""

    must: float
    aim: float
    floor: float | None = None


def _whole(name: str, title: str, who: tuple[str, str], exchanges: int, bound: Bound, workload: str = "small") -> Case:
    client, provider = who
    return Case(
        name=name,
        title=title,
        client=client,
        provider=provider,
        mode=WHOLE,
        exchanges=exchanges,
        must=bound.must,
        aim=bound.aim,
        floor=bound.floor,
        workload=workload,
    )


def _streams(name: str, title: str, who: tuple[str, str], burst: Bound, paced: Bound) -> tuple[Case, Case]:
    first = structs.replace(_whole(name, title, who, 200, burst), mode=BURST)
    second = structs.replace(_whole(name, title, who, 40, paced), mode=PACED)
    return first, second


def _choosing(name: str, case: Case, line: str) -> Case:
    """A case again, whose model is of a line with several targets."""
    title = f"{case.name} with {LINES[line]}"
    must, aim = case.must + MORE, case.aim + MORE
    return structs.replace(case, name=name, title=title, line=line, must=must, aim=aim, floor=None)


_RELAYED = "Messages client, Messages provider: relay of a stream"
_S1 = _whole("S1", "Chat client, Chat provider: relay of 2 KB", (CHAT, CHAT), 3000, Bound(240, 70, 23))
_S2 = _whole("S2", "Chat client, Messages provider", (CHAT, MESSAGES), 2000, Bound(260, 70))
CASES = (
    _S1,
    _S2,
    *_streams("S3", "Messages client, Chat provider, stream", (MESSAGES, CHAT), Bound(8, 7), Bound(45, 30)),
    *_streams("S4", "Chat client, Messages provider, stream", (CHAT, MESSAGES), Bound(8, 7), Bound(45, 30)),
    *_streams("S5", "Responses client, Chat provider, stream", (RESPONSES, CHAT), Bound(10, 8), Bound(50, 32)),
    _whole("S6", "Messages client, Chat provider: 300 KB", (MESSAGES, CHAT), 120, Bound(2500, 1500), "agent"),
    *_streams("S7", _RELAYED, (MESSAGES, MESSAGES), Bound(4, 2, 1.5), Bound(40, 25, 12)),
    _choosing("S8", _S1, TWO),
    _choosing("S9", _S1, FOUR),
    _choosing("S10", _S2, TWO),
    _choosing("S11", _S2, FOUR),
)
# The relays again, to a provider behind TLS; their bounds are those without.
TLS_CASES = tuple(
    structs.replace(case, name=f"{case.name} TLS", floor=None, tls=True) for case in CASES if case.floor is not None
)


def chosen(names: tuple[str, ...], *, tls: bool) -> list[Case]:
    """The cases of these names, all if there are none."""
    offered = (*CASES, *TLS_CASES) if tls else CASES
    wanted = {name.upper() for name in names}
    return [case for case in offered if not wanted or case.name.split()[0] in wanted]
