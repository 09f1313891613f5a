"""Growth: how the cost of an exchange grows with what it has to do. `make bench-growth`, or

python -m bench.gateway.growth                       everything, printed
python -m bench.gateway.growth --write               the same, and written to bench/results/growth.json and the plots
python -m bench.gateway.growth --quick --growth size the first values of some of it, one round
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop
from msgspec import Struct
from msgspec.structs import replace

from bench.gateway import serving
from bench.gateway.growth_cases import EVENTS, GROWTHS, LANES, RECORDS, STREAMS, Growth, asked
from bench.gateway.growth_report import Figures, Grown, table, write
from bench.gateway.load import Crowd, LoadError, drive
from bench.gateway.process import PROC, Cores, ProcessError, Served, cores, on_core
from bench.gateway.provider import RELEASE
from bench.gateway.questions import Question
from bench.gateway.rounds import SETTLE
from bench.records import fill
from bench.workloads import CHAT, MESSAGES
from dragoman.store.record_tables import open_record_tables

# Seconds that one step may take: a round, or to begin so many streams.
_LIMIT = 120.0
# Seconds of one round of a point, from which follows how many exchanges it has; and how many it has at least and most.
_ROUND, _LEAST, _MOST = 0.25, 2, 150
_CONCURRENT = 4
# The ingest thread works once a second; what came last is in the tables after two of them.
_INGESTED = 2.2
_RELAYS = 200
_COMMANDS = {"usage": ("usage", "--since", "30d"), "sessions": ("sessions", "--since", "1h")}
_LIMITS = """
[limits]
connections_per_host = 4096
"""
# Files that a process with 2,000 streams needs, and some more.
_FILES = 10_000


class Effort(Struct, frozen=True, kw_only=True):
    """How long to look: the rounds of a point, and how many values of a growth."""

    rounds: int
    values: int | None


FULL = Effort(rounds=5, values=None)
QUICK = Effort(rounds=1, values=3)


class Setting(Struct, frozen=True, kw_only=True):
    """Where things are: a directory, the cores, and the provider."""

    directory: Path
    cores: Cores
    provider: Served

    def gateway(self, directory: Path, more: str = "") -> Served:
        """A gateway in a directory of its own."""
        directory.mkdir(exist_ok=True)
        return serving.gateway(directory, self.cores.measured, self.provider.port, more=more)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; the status says whether it could, not how it grows."""
    parser = argparse.ArgumentParser(prog="bench.gateway.growth", description="How the cost of an exchange grows.")
    parser.add_argument("--growth", default="", metavar="A,B", help=f"some of {', '.join(one.name for one in GROWTHS)}")
    parser.add_argument("--quick", action="store_true", help="the first values alone, in one round")
    parser.add_argument("--values", type=int, metavar="COUNT", help="the first values of each alone")
    parser.add_argument("--write", action="store_true", help="write bench/results/growth.json and the plots")
    options = parser.parse_args(arguments)
    names = {name for name in options.growth.split(",") if name}
    growths = [growth for growth in GROWTHS if not names or growth.name in names]
    if unknown := names - {growth.name for growth in GROWTHS}:
        print(f"nothing that grows is called {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    if not PROC.joinpath("self/stat").exists():
        print("the benchmark reads what processes cost from /proc: it needs Linux", file=sys.stderr)
        return 2
    try:
        effort = QUICK if options.quick else FULL
        effort = replace(effort, values=options.values or effort.values)
        found = run(growths, effort, write if options.write else lambda one: None)
    except (LoadError, ProcessError, TimeoutError, subprocess.SubprocessError) as error:
        print(f"the benchmark failed: {error or type(error).__name__}", file=sys.stderr)
        return 1
    print(table(found))
    return 0


def run(growths: Sequence[Growth], effort: Effort, done: Callable[[Grown], None]) -> list[Grown]:
    """Measure how these grow, one after the other; `done` gets each."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(_FILES, hard) if hard > 0 else _FILES, hard))
    grown: list[Grown] = []
    with ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="bench-growth-")))
        where = cores()
        provider = stack.enter_context(serving.provider(directory, where.apart))
        provider.wait_ready()
        setting = Setting(directory=directory, cores=where, provider=provider)
        for growth in growths:
            begun = time.perf_counter()
            values = growth.values[: effort.values]
            measure = {STREAMS: streams, RECORDS: records}.get(growth.name, partial(exchanges, growth.name))
            figures = measure(setting, values, effort.rounds)
            seconds = time.perf_counter() - begun
            print(f"{growth.name}: {seconds:.0f} s", file=sys.stderr, flush=True)
            grown.append(Grown(name=growth.name, seconds=round(seconds, 1), lines=figures))
            done(grown[-1])
    return grown


def exchanges(name: str, setting: Setting, values: Sequence[int], rounds: int) -> Figures:
    """CPU of an exchange, in microseconds, by lane and value; all points take turns in each round."""
    with setting.gateway(setting.directory / name) as gateway:
        gateway.wait_ready()
        return uvloop.run(_exchanges(name, setting, gateway, values, rounds))


async def _exchanges(name: str, setting: Setting, gateway: Served, values: Sequence[int], rounds: int) -> Figures:
    points = {
        (lane, value): asked(name, value, protocol, gateway.port)
        for lane, protocol in LANES.items()
        for value in values
    }
    with on_core(setting.cores.apart):
        counts = {point: await _count_for(question, gateway.port) for point, question in points.items()}
        costs = {point: [await _cost(gateway, question, counts[point])] for point, question in points.items()}
        for _ in range(rounds - 1):
            for point, question in points.items():
                costs[point].append(await _cost(gateway, question, counts[point]))
    return {lane: [(value, round(min(costs[lane, value]), 1)) for value in values] for lane in LANES}


async def _count_for(question: Question, port: int) -> int:
    """How many exchanges make a round, by how long some take."""
    await drive(question, port, answers=_LEAST, concurrent=1, limit=_LIMIT)
    begun = time.perf_counter()
    await drive(question, port, answers=_LEAST, concurrent=1, limit=_LIMIT)
    return exchanges_in_round((time.perf_counter() - begun) / _LEAST)


def exchanges_in_round(seconds: float) -> int:
    """How many exchanges of so many seconds make a round."""
    return max(_LEAST, min(_MOST, round(_ROUND / seconds)))


async def _cost(gateway: Served, question: Question, answers: int) -> float:
    before = gateway.cpu()
    await drive(question, gateway.port, answers=answers, concurrent=_CONCURRENT, limit=_LIMIT)
    await asyncio.sleep(SETTLE)
    return (gateway.cpu() - before) * 1e6 / answers


def streams(setting: Setting, values: Sequence[int], rounds: int) -> Figures:
    """Memory of an idle stream and CPU of a whole one, by how many there are at the same time."""
    memory: list[tuple[float, float]] = []
    cpu: list[tuple[float, float]] = []
    for value in values:
        found: list[tuple[float, float]] = []
        # A fresh gateway each: one that had as many streams before would have the memory already.
        for number in range(min(rounds, 3)):
            with setting.gateway(setting.directory / f"streams-{value}-{number}", _LIMITS) as gateway:
                gateway.wait_ready()
                found.append(uvloop.run(_streams(setting, gateway, value)))
        # The least that a process can have gained is a page.
        memory.append((value, round(max(min(one for one, _ in found), 0.1), 1)))
        cpu.append((value, round(min(one for _, one in found), 1)))
    return {"memory, KB": memory, "CPU, µs": cpu}


async def _streams(setting: Setting, gateway: Served, count: int) -> tuple[float, float]:
    question = asked(STREAMS, count, MESSAGES, gateway.port)
    with on_core(setting.cores.apart):
        # What is loaded or made once is not of a stream.
        await drive(asked(EVENTS, 10, MESSAGES, gateway.port), gateway.port, answers=20, concurrent=4, limit=_LIMIT)
        await asyncio.sleep(SETTLE)
        before, used = gateway.memory(), gateway.cpu()
        crowd = Crowd(question)
        try:
            async with asyncio.timeout(_LIMIT):
                await crowd.connect(gateway.port, count)
                answers = asyncio.ensure_future(crowd.ask(count))
                while crowd.begun < count and not answers.done():
                    await asyncio.sleep(0.01)
                await asyncio.sleep(SETTLE)
                idle = gateway.memory()
                release(setting.provider.port)
                await answers
        finally:
            crowd.close()
        await asyncio.sleep(SETTLE)
    return (idle - before) * 1e3 / count, (gateway.cpu() - used) * 1e6 / count


def release(port: int) -> None:
    """Let the provider go on with all streams that it holds."""
    with socket.create_connection(("127.0.0.1", port), timeout=_LIMIT) as connection:
        connection.sendall(b"GET %b HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" % RELEASE)
        if not connection.recv(64).startswith(b"HTTP/1.1 200"):
            raise LoadError("the provider does not release its streams")


def records(setting: Setting, values: Sequence[int], rounds: int) -> Figures:
    """CPU of a relay with its ingest, and of commands, by how many rows there are."""
    lines: dict[str, list[tuple[float, float]]] = {"relay, µs": [], **{f"{name}, ms": [] for name in _COMMANDS}}
    for value in values:
        with TemporaryDirectory(dir=setting.directory) as place:
            directory = Path(place)
            state = directory / "dragoman"
            state.mkdir(mode=0o700)
            with closing(open_record_tables(str(state / "state.db"))) as tables:
                # A file that is removed again need not outlive a crash.
                tables.connection.rows("PRAGMA synchronous=OFF")
                tables.connection.rows("PRAGMA cache_size=-400000")
                fill(tables, value, 30.0, int(time.time()))
            with setting.gateway(directory) as gateway:
                gateway.wait_ready()
                found = uvloop.run(_relays(setting, gateway, rounds))
            lines["relay, µs"].append((value, round(found, 1)))
            for name, words in _COMMANDS.items():
                took = min(_command(directory, words) for _ in range(min(rounds, 3)))
                lines[f"{name}, ms"].append((value, round(took, 1)))
    return lines


async def _relays(setting: Setting, gateway: Served, rounds: int) -> float:
    question = asked(RECORDS, 1, CHAT, gateway.port)
    costs: list[float] = []
    with on_core(setting.cores.apart):
        for _ in range(rounds + 1):
            before = gateway.cpu()
            await drive(question, gateway.port, answers=_RELAYS, concurrent=_CONCURRENT, limit=_LIMIT)
            await asyncio.sleep(_INGESTED)
            costs.append((gateway.cpu() - before) * 1e6 / _RELAYS)
    # The first round warms up.
    return min(costs[1:])


def _command(directory: Path, words: Sequence[str]) -> float:
    """Milliseconds of CPU that a command takes."""
    line = [*serving.PLAIN, *words, "--config", str(directory / "dragoman.toml"), "--json"]
    before = _children()
    subprocess.run(line, check=True, timeout=_LIMIT, stdout=subprocess.DEVNULL, env=_environment(directory))
    return (_children() - before) * 1e3


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _environment(directory: Path) -> Mapping[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(directory)}


if __name__ == "__main__":
    sys.exit(main())
