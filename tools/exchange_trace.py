"""Trace of one exchange: the Python calls that the gateway's main thread makes for it.

make trace                                       # the table
make trace ARGUMENTS='--exchange S2 --calls'     # and the calls of one exchange, indented by depth
python -m tools.exchange_trace --serve FILE ...  # the traced gateway: for the tool itself

A gateway runs in a process of its own, with the mock provider and the load of `bench.gateway`. After a warm-up on the
same connection, a signal switches `sys.setprofile` on. One exchange follows. When the gateway is idle again, the signal
switches it off. A timer of the gateway may add calls, so several exchanges are traced: the fewest calls are reported.

All calls of Python functions are counted. `sys.setprofile` counts a resumed generator or coroutine again. Functions,
modules, packages and changes of package are those of dragoman. A change is a call whose nearest caller within dragoman
is in another package.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import msgspec
import uvloop
from msgspec import Struct, structs

from bench.gateway import serving
from bench.gateway.cases import CASES, SHORT, Case
from bench.gateway.load import Crowd, LoadError
from bench.gateway.process import ProcessError, Served, cores
from bench.gateway.questions import question
from dragoman.cli import main as dragoman

_PACKAGE = "dragoman"
_SWITCH = signal.SIGRTMIN
_WARM_UP = 20
# Exchanges that are traced, of which the one with the fewest calls counts.
_TRACED = 5
# Seconds that an exchange, or a switch, may take.
_LIMIT = 60.0


class Call(Struct, frozen=True, array_like=True):
    """One call: the depth, module and function, and the module of the nearest caller within dragoman, if any."""

    depth: int
    module: str
    function: str
    caller: str

    @property
    def is_own(self) -> bool:
        """Whether a function of dragoman was called."""
        return _is_own(self.module)

    @property
    def changes_package(self) -> bool:
        """Whether caller and function are in different packages of dragoman."""
        return self.is_own and bool(self.caller) and package_of(self.module) != package_of(self.caller)


class Summary(Struct, frozen=True, kw_only=True):
    """How much happens in one exchange."""

    calls: int
    own_calls: int
    functions: int
    modules: int
    packages: int
    changes: int


def summarize(calls: Sequence[Call]) -> Summary:
    """The counts of a trace."""
    own = [call for call in calls if call.is_own]
    modules = {call.module for call in own}
    return Summary(
        calls=len(calls),
        own_calls=len(own),
        functions=len({(call.module, call.function) for call in own}),
        modules=len(modules),
        packages=len({package_of(module) for module in modules}),
        changes=sum(call.changes_package for call in own),
    )


def package_of(module: str) -> str:
    """The package that a module is in; one that is a package itself counts as a module of it."""
    return module if module in _PACKAGES else module.rpartition(".")[0]


def _packages() -> frozenset[str]:
    root = Path(dragoman.__code__.co_filename).parents[1]
    found = (file.parent.relative_to(root.parent) for file in root.rglob("__init__.py"))
    return frozenset(".".join(path.parts) for path in found)


_PACKAGES = _packages()


def _is_own(module: str) -> bool:
    return module == _PACKAGE or module.startswith(_PACKAGE + ".")


class Tracer:
    """Notes calls of the main thread between two signals, and writes them to a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._calls: list[Call] = []
        self._depth = 0
        # What runs the event loop: a callback has no caller that matters.
        self._below: set[FrameType] = set()
        self._is_on = False

    def switch(self, number: int, frame: FrameType | None) -> None:
        """Begin, or end and write."""
        if self._is_on:
            sys.setprofile(None)
            calls, self._calls = self._calls, []
            _write(self._file, msgspec.json.encode(calls))
        else:
            _write(self._file, b"[]")
            self._depth = 0
            self._below = set(_stack(frame))
            sys.setprofile(self._profile)
        self._is_on = not self._is_on

    def _profile(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code.co_filename == __file__:
            return
        if event == "call":
            self._calls.append(Call(self._depth, _module(frame), code.co_qualname, self._caller(frame)))
            self._depth += 1
        elif event == "return":
            # What was called before the first signal may return, too.
            self._depth = max(self._depth - 1, 0)

    def _caller(self, frame: FrameType) -> str:
        """The module of the nearest caller within dragoman."""
        for caller in _stack(frame.f_back):
            if caller in self._below:
                break
            if _is_own(module := _module(caller)):
                return module
        return ""


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame and its callers."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _write(file: Path, content: bytes) -> None:
    """Write a file that is there at once with all of its content."""
    beside = file.with_suffix(".part")
    beside.write_bytes(content)
    beside.rename(file)


def exchange(name: str) -> Case:
    """The exchange of that name: a case of `bench.gateway`, with a short stream where it is one."""
    case = next(case for case in CASES if case.name == name)
    return case if case.units == 1 else structs.replace(case, mode=SHORT)


EXCHANGES = {
    "S1": "Chat client, Chat provider",
    "S2": "Chat client, Messages provider",
    "S8": "fallback of two",
    "S9": "fastest of four",
    "S7": "Messages client and provider, a stream of 8 chunks",
    "S4": "Chat client, Messages provider, a stream of 8 chunks",
}


def trace(name: str, *, records: bool = True) -> list[Call]:
    """The calls of one exchange."""
    where = cores()
    with ExitStack() as stack:
        place = Path(stack.enter_context(TemporaryDirectory(prefix="exchange-trace-")))
        file = place / "calls.json"
        provider = stack.enter_context(serving.provider(place, where.apart))
        provider.wait_ready()
        command = (sys.executable, "-m", "tools.exchange_trace", "--serve", str(file))
        gateway = stack.enter_context(
            serving.gateway(place, where.measured, provider.port, records=records, command=command)
        )
        gateway.wait_ready()
        traces = uvloop.run(_trace(exchange(name), gateway, file))
        return min(traces, key=lambda calls: (summarize(calls).own_calls, len(calls)))


async def _trace(case: Case, gateway: Served, file: Path) -> list[list[Call]]:
    crowd = Crowd(question(case, gateway.port))
    traces: list[list[Call]] = []
    try:
        async with asyncio.timeout(_LIMIT):
            await crowd.connect(gateway.port, 1)
            await crowd.ask(_WARM_UP)
            for _ in range(_TRACED):
                # Log line, counters and journal entry follow when the client has its response already.
                gateway.wait_idle(_LIMIT)
                _switch(gateway.pid, file)
                await crowd.ask(1)
                gateway.wait_idle(_LIMIT)
                traces.append(msgspec.json.decode(_switch(gateway.pid, file), type=list[Call]))
    finally:
        crowd.close()
    return traces


def _switch(pid: int, file: Path) -> bytes:
    """Send the signal, and read the file that the gateway then writes."""
    os.kill(pid, _SWITCH)
    until = time.perf_counter() + _LIMIT
    while not file.exists():
        if time.perf_counter() > until:
            raise ProcessError(f"no trace within {_LIMIT:g} s")
        time.sleep(0.005)
    content = file.read_bytes()
    file.unlink()
    return content


def count_calls(name: str) -> int:
    """How many calls of dragoman's functions one exchange makes in the main thread, with records.

    Others are left out: the date of a response is formatted once a second.
    """
    return summarize(trace(name)).own_calls


def table(rows: Sequence[tuple[str, Summary]]) -> str:
    """The counts of several exchanges."""
    names = ("calls", "of dragoman", "functions", "modules", "packages", "changes of package")
    lines = [f"{'':<22}" + "".join(f"{name:>{max(len(name), 8) + 2}}" for name in names)]
    for title, summary in rows:
        figures = zip(names, structs.astuple(summary), strict=True)
        lines.append(f"{title:<22}" + "".join(f"{figure:>{max(len(name), 8) + 2}}" for name, figure in figures))
    return "\n".join(lines)


def listing(calls: Sequence[Call]) -> str:
    """The calls, indented by depth; a change of package is marked."""
    lines = (
        f"{'>' if call.changes_package else ' '} {'  ' * call.depth}{call.module}.{call.function}" for call in calls
    )
    return "\n".join(lines)


def serve(file: Path, arguments: Sequence[str]) -> int:
    """The gateway with a tracer."""
    signal.signal(_SWITCH, Tracer(file).switch)
    return dragoman(list(arguments))


def main(arguments: Sequence[str]) -> int:
    """Trace exchanges, with and without records, and print the table."""
    if arguments and arguments[0] == "--serve":
        return serve(Path(arguments[1]), arguments[2:])
    parser = argparse.ArgumentParser(prog="tools.exchange_trace", description="Python calls of one exchange.")
    parser.add_argument("--exchange", choices=EXCHANGES, help="one of them; all by default")
    parser.add_argument("--records", choices=("on", "off"), help="with records or without; both by default")
    parser.add_argument("--calls", action="store_true", help="list the calls, indented by depth")
    options = parser.parse_args(arguments)
    rows: list[tuple[str, Summary]] = []
    for name in [options.exchange] if options.exchange else EXCHANGES:
        for records in [options.records] if options.records else ("on", "off"):
            try:
                calls = trace(name, records=records == "on")
            except (LoadError, ProcessError, TimeoutError) as error:
                print(f"{name} cannot be traced: {error or type(error).__name__}", file=sys.stderr)
                return 2
            rows.append((f"{name}, records {records}", summarize(calls)))
            if options.calls:
                print(listing(calls))
    print(table(rows))
    print("\n".join(f"{name}: {title}" for name, title in EXCHANGES.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
