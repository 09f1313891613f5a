"""What all commands have in common."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import pytest

from tests.cli.machine import put_trusted
from tests.cli.screens import call
from tests.gateway.harness import CHAT, MESSAGES
from tests.ports import CLOSED_PORT
from tests.server.process import PATIENCE, clean_environment

# More than a pipe holds: whoever has written it knows that the other side reads.
MUCH = b" " * (1 << 20)


def test_an_interrupt_ends_a_command_without_a_traceback(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "dragoman", "translate", "--from", CHAT, "--to", MESSAGES, "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=clean_environment(tmp_path),
    )
    try:
        assert process.stdin is not None
        process.stdin.write(MUCH)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=PATIENCE)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(PATIENCE)
    assert (process.returncode, *said) == (130, b"", b"")


# Stands for any moment of the loading, which is over too soon to be met with a signal.
LOADING = """
import builtins, signal, sys
load = builtins.__import__

def interrupted(name, *others):
    if name == "dragoman.providers.catalogue":
        signal.raise_signal(signal.SIGINT)
    return load(name, *others)

builtins.__import__ = interrupted
sys.argv = ["dragoman", "providers"]
import dragoman.__main__
"""


def test_an_interrupt_while_the_commands_are_loaded_is_told_by_the_status_alone(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADING],
        capture_output=True,
        cwd=tmp_path,
        env=clean_environment(tmp_path),
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


REQUEST = '{"model":"echo/text","messages":[{"role":"user","content":"Hi"}]}'
# Commands that write, and that end by themselves.
WRITE = [
    "",
    "--help",
    "--version",
    "providers",
    "providers --json",
    "models",
    "prices",
    "check",
    "route echo/text",
    "env claude",
    "key new",
    "doctor --offline",
    "completion bash",
    "translate --to openai-responses request.json",
    "explain request.json",
]


@pytest.fixture
def unread() -> Iterator[IO[bytes]]:
    """The end of a pipe that has no reader."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb", buffering=0) as stream:
        yield stream


@pytest.mark.parametrize("typed", WRITE)
def test_pitfall_617_a_reader_that_goes_ends_a_command_quietly(typed: str, tmp_path: Path, unread: IO[bytes]) -> None:
    (tmp_path / "request.json").write_text(REQUEST)
    # Where no gateway of whoever runs the tests listens.
    settings = f"[server]\ndiscover = false\nport = {CLOSED_PORT}\n"
    put_trusted(tmp_path, settings, clean_environment(tmp_path))
    with TemporaryFile() as inputs, TemporaryFile() as err:
        assert call(typed.split(), tmp_path, (inputs, unread, err)) == 141
        err.seek(0)
        # What it has to say beside that may be said, and nothing of the reader.
        assert not [line for line in err.read().decode().splitlines() if not line.startswith("dragoman: note: ")]


def test_pitfall_617_nobody_hears_complaints_either(tmp_path: Path, unread: IO[bytes]) -> None:
    with TemporaryFile() as inputs:
        assert call(["check", "--config", "nowhere.toml"], tmp_path, (inputs, unread, unread)) == 141


@pytest.mark.parametrize("typed", ["providers", "--help"])
def test_pitfall_617_the_interpreter_complains_of_no_reader_at_its_end(
    typed: str, tmp_path: Path, unread: IO[bytes]
) -> None:
    done = process(typed, tmp_path, unread)
    assert (done.returncode, done.stderr) == (141, b"")


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="there is no such file here")
@pytest.mark.parametrize("typed", ["providers", "--help", "completion fish"])
def test_output_that_cannot_be_written_is_told_once(typed: str, tmp_path: Path) -> None:
    with FULL.open("wb") as full, TemporaryFile() as inputs, TemporaryFile() as err:
        assert call(typed.split(), tmp_path, (inputs, full, err)) == 1
        err.seek(0)
        assert err.read() == b"dragoman: output: No space left on device\n"


@pytest.mark.skipif(not FULL.exists(), reason="there is no such file here")
def test_the_interpreter_does_not_tell_it_again_at_its_end(tmp_path: Path) -> None:
    with FULL.open("wb") as full:
        done = process("providers", tmp_path, full)
    assert (done.returncode, done.stderr) == (1, b"dragoman: output: No space left on device\n")


def process(typed: str, place: Path, stdout: IO[bytes]) -> subprocess.CompletedProcess[bytes]:
    """Run a command as a process that writes to a file."""
    return subprocess.run(
        [sys.executable, "-m", "dragoman", *typed.split()],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        cwd=place,
        env={**clean_environment(place), "PYTHONUNBUFFERED": ""},
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.parametrize(
    ("command", "closed"), [("providers --configured", ">&-"), ("--version", "2>&-"), ("check", ">&- 2>&-")]
)
def test_a_stream_that_is_closed_is_no_traceback(command: str, closed: str, tmp_path: Path) -> None:
    line = f"{sys.executable} -P -m dragoman {command} {closed}"
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        env=clean_environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0
    assert "Traceback" not in done.stdout + done.stderr
