"""Counting one case: starts gateway and provider, warms up, and counts a number of exchanges from end to end."""

from __future__ import annotations

import asyncio
import os
import select
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

import uvloop
from msgspec import Struct

from bench.gateway import serving
from bench.gateway.cases import Case
from bench.gateway.load import Crowd
from bench.gateway.process import Served, cores
from bench.gateway.questions import question
from bench.instructions.callgrind import Callgrind, CallgrindError, ThreadCount, command, ingest_thread
from bench.instructions.observed import PERMITS, REPORTS

# Rounds of exchanges that are counted, of which the least counts.
_ROUNDS = 3
# Clients that ask at the same time.
CONCURRENT = 8
# Seconds: how long a gateway under valgrind may take to start, and each thing that is waited for later.
_READY, _LIMIT = 300.0, 300.0
# Hashes of strings decide about collisions in dictionaries: the same ones in each run.
_VARIABLES = {"PYTHONHASHSEED": "0"}


class Counted(Struct, frozen=True, kw_only=True):
    """Instructions of one exchange, on average: of the ingest thread and of all others."""

    loop: float
    ingest: float


class Ingest:
    """The other end of the FIFOs of `bench.instructions.observed`."""

    def __init__(self, directory: Path) -> None:
        for name in (PERMITS, REPORTS):
            os.mkfifo(directory / name)
        # Opened for both directions, so that it waits for nobody, and is not at its end before the gateway starts.
        self._permits = os.open(directory / PERMITS, os.O_RDWR)
        self._reports = os.open(directory / REPORTS, os.O_RDWR)
        self._rows = self._errors = 0

    def __enter__(self) -> Ingest:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._permits)
        os.close(self._reports)

    def step(self) -> int:
        """Have the ingest thread make one step; the number of rows that it added."""
        os.write(self._permits, b".")
        if not select.select([self._reports], [], [], _LIMIT)[0]:
            raise CallgrindError(f"no step of the ingest thread within {_LIMIT:g} s")
        rows, errors = map(int, os.read(self._reports, 100).split())
        if errors != self._errors:
            raise CallgrindError("the ingest thread failed")
        added, self._rows = rows - self._rows, rows
        return added


def count(case: Case, exchanges: int, warm_up: int, concurrent: int = CONCURRENT) -> Counted:
    """Count exchanges of a case at a gateway of their own, with a key, metrics, routing and records."""
    where = cores()
    with ExitStack() as stack:
        place = Path(stack.enter_context(TemporaryDirectory(prefix="bench-instructions-")))
        provider = stack.enter_context(serving.provider(place, where.apart))
        provider.wait_ready(_READY)
        observed = [*command(place), sys.executable, "-m", "bench.instructions.observed", str(place)]
        ingest = Ingest(place)
        gateway = stack.enter_context(
            serving.gateway(
                place,
                where.measured,
                provider.port,
                command=observed,
                variables=_VARIABLES,
                more=_more_settings(case),
            )
        )
        # Left before the gateway is stopped: it ends after a last step of the ingest thread, which then waits no more.
        stack.enter_context(ingest)
        gateway.wait_ready(_READY)
        return uvloop.run(
            _count(case, (exchanges, warm_up, concurrent), gateway, ingest, Callgrind(gateway.pid, place))
        )


def _more_settings(case: Case) -> str:
    # The lists first: they continue the last table of the file.
    return (serving.KEY_LISTS if case.has_lists else "") + (serving.CONTENTS if case.has_contents else "")


async def _count(
    case: Case, numbers: tuple[int, int, int], gateway: Served, ingest: Ingest, callgrind: Callgrind
) -> Counted:
    exchanges, warm_up, concurrent = numbers
    crowd = Crowd(question(case, gateway.port))
    try:
        async with asyncio.timeout(_LIMIT):
            await crowd.connect(gateway.port, concurrent)
            await crowd.ask(warm_up)
        gateway.wait_idle(_LIMIT)
        _ingested(ingest, warm_up)
        callgrind.switch("on")
        return least([await _round(crowd, exchanges, gateway, ingest, callgrind) for _ in range(_ROUNDS)])
    finally:
        crowd.close()


async def _round(crowd: Crowd, exchanges: int, gateway: Served, ingest: Ingest, callgrind: Callgrind) -> Counted:
    """Count exchanges, and then their ingest."""
    lines = _log_lines(gateway)
    async with asyncio.timeout(_LIMIT):
        await crowd.ask(exchanges)
    gateway.wait_idle(_LIMIT)
    exchanged = callgrind.dump()
    _ingested(ingest, exchanges)
    _wait_logged(gateway, lines + exchanges)
    gateway.wait_idle(_LIMIT)
    return counted(exchanged, callgrind.dump(), exchanges)


def least(rounds: Sequence[Counted]) -> Counted:
    """The least of several rounds: what varies are wake-ups of threads, which only add instructions."""
    return Counted(loop=min(one.loop for one in rounds), ingest=min(one.ingest for one in rounds))


def counted(exchanged: Iterable[ThreadCount], ingested: Iterable[ThreadCount], exchanges: int) -> Counted:
    """The counts of the dump after the exchanges and that after their ingest, for one exchange."""
    after = list(ingested)
    thread = ingest_thread(after)
    both = [*exchanged, *after]
    ingest = sum(one.instructions for one in both if one.thread == thread)
    return Counted(ingest=ingest / exchanges, loop=(sum(one.instructions for one in both) - ingest) / exchanges)


def _ingested(ingest: Ingest, exchanges: int) -> None:
    rows = ingest.step()
    if rows != exchanges:
        raise CallgrindError(f"{rows} rows were ingested for {exchanges} exchanges")


def _wait_logged(gateway: Served, lines: int) -> None:
    until = time.perf_counter() + _LIMIT
    while _log_lines(gateway) < lines:
        if time.perf_counter() > until:
            raise CallgrindError(f"{_log_lines(gateway)} lines in the log instead of {lines}")
        time.sleep(0.03)


def _log_lines(gateway: Served) -> int:
    # Valgrind writes lines of its own.
    return gateway.log.read_bytes().count(b"\n{")
