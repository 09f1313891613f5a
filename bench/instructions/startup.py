"""Counting a start: instructions of a command, of an import and of `serve` until it is ready, with compiled modules."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.gateway import serving
from bench.gateway.process import cores
from bench.instructions.callgrind import Callgrind, CallgrindError, command, counts_in

# Seconds that a start under valgrind may take.
_LIMIT = 300.0
COMMANDS = {
    "start --version": ("-m", "dragoman", "--version"),
    "start import": ("-c", "import dragoman"),
    "start import translate": ("-c", "from dragoman import translate_request"),
    "start usage": ("-m", "dragoman", "usage"),
}
SERVE, MEMORY = "start serve", "start serve, RSS in MB"


def starts() -> dict[str, float]:
    """The rows of a start: thousands of instructions, and megabytes."""
    with TemporaryDirectory(prefix="bench-start-") as place:
        directory = Path(place)
        figures = {name: _command(directory, arguments) / 1000 for name, arguments in COMMANDS.items()}
        return {**figures, **_serve(directory)}


def environment(directory: Path) -> dict[str, str]:
    """Variables under which two starts do the same: bytecode is written once, to a directory of this run."""
    return {
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(directory / "bytecode"),
        "XDG_STATE_HOME": str(directory / "state"),
        "XDG_CONFIG_HOME": str(directory / "config"),
    }


def _command(directory: Path, arguments: Sequence[str]) -> int:
    """Instructions of a Python with these arguments, in its second run: the first one compiles the modules."""
    line = [sys.executable, *arguments]
    _run(line, directory)
    with TemporaryDirectory(dir=directory) as dumps:
        _run([*command(Path(dumps), from_start=True), *line], directory)
        counts = counts_in(Path(dumps))
    if not counts:
        raise CallgrindError(f"callgrind wrote nothing for {' '.join(arguments)}")
    return sum(count.instructions for count in counts)


def _run(line: Sequence[str], directory: Path) -> None:
    done = subprocess.run(
        line, cwd=directory, env=_whole(directory), stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT
    )
    if done.returncode:
        raise CallgrindError(f"{' '.join(line)} ended with {done.returncode}: {done.stderr[-400:]!r}")


def _whole(directory: Path) -> dict[str, str]:
    # DRAGOMAN_CONFIG would name a file to read.
    others = {name: value for name, value in os.environ.items() if not name.startswith("DRAGOMAN_")}
    return {**others, **environment(directory)}


def _serve(directory: Path) -> dict[str, float]:
    """Instructions of a gateway until it answers, and its memory, which is read of one that runs without valgrind."""
    core = cores().measured
    variables = environment(directory)
    with (
        TemporaryDirectory(dir=directory) as place,
        serving.gateway(Path(place), core, 1, variables=variables) as plain,
    ):
        plain.wait_ready(_LIMIT)
        plain.wait_idle(_LIMIT)
        memory = plain.memory()
    with TemporaryDirectory(dir=directory) as place:
        line = [*command(Path(place), from_start=True), *serving.PLAIN]
        with serving.gateway(Path(place), core, 1, command=line, variables=variables) as gateway:
            gateway.wait_ready(_LIMIT)
            gateway.wait_idle(_LIMIT)
            counts = Callgrind(gateway.pid, Path(place)).dump()
    return {SERVE: sum(count.instructions for count in counts) / 1000, MEMORY: memory}
