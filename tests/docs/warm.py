"""A process with `dragoman` loaded that runs each command in a fork of itself: no command imports everything anew.

    with warm_program(directory / "dragoman") as program:
        subprocess.run([program, "check"])

The program is a small client. It hands its arguments, directory, environment and standard streams to a fork of the warm
process, passes signals on, and ends with the status of the command.
"""

from __future__ import annotations

import ast
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path

from msgspec import Struct

from tests.server.process import NO_CONSTANTS, Constants, with_constants

ROOT = Path(__file__).parents[2]
# Modules that a command imports when it runs.
_LATER = ("dragoman.gateway.processes.supervisor", "dragoman.gateway.access.first_key")
_LENGTH = 8

# `shortly` has a gateway end, as by Ctrl-C, as soon as it listens.
_CLIENT = """#!{python} -IS
import os, signal, socket, sys
shortly = {shortly} and sys.argv[1:2] == ["serve"]
arguments = [*sys.argv[1:], "--host", "127.0.0.1", "--port", "0"] if shortly else sys.argv[1:]
ours, theirs = os.pipe() if shortly else (0, 1)
with socket.socket(socket.AF_UNIX) as warm:
    warm.connect({address!r})
    asked = repr((os.getcwd(), arguments, dict(os.environ))).encode()
    socket.send_fds(warm, [len(asked).to_bytes({length}, "big")], [0, theirs, 2])
    warm.sendall(asked)
    pid = int.from_bytes(warm.recv({length}), "big")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: os.kill(pid, number))
    if shortly:
        os.close(theirs)
        with open(ours) as lines:
            for line in lines:
                if line.startswith("dragoman listens on "):
                    os.kill(pid, signal.SIGINT)
    status = int.from_bytes(warm.recv({length}), "big")
sys.exit(status)
"""


class Command(Struct, frozen=True, array_like=True):
    """A command line, and where and with which environment variables it runs."""

    directory: str
    arguments: list[str]
    environ: dict[str, str]


@contextmanager
def warm_program(program: Path, *, shortly: bool = False, constants: Constants = NO_CONSTANTS) -> Iterator[Path]:
    """Write a program that stands for `dragoman`; the warm process behind it runs as long as this block, with these
    constants."""
    address = program.with_name("warm.socket")
    text = _CLIENT.format(python=sys.executable, address=str(address), length=_LENGTH, shortly=shortly)
    program.write_text(text, encoding="utf-8")
    program.chmod(0o755)
    paths = {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src")))}
    command = [sys.executable, "-m", "tests.docs.warm", str(address)]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=with_constants({**os.environ, **paths}, constants),
    ) as warm:
        try:
            assert warm.stdout is not None
            assert warm.stdout.readline() == b"ready\n"
            yield program
        finally:
            warm.terminate()


def main() -> None:
    """Wait for commands, and run each in a fork."""
    from dragoman import cli

    # It loads all commands.
    cli.tree()
    for name in _LATER:
        __import__(name)
    command = _next_command(sys.argv[1])
    os.chdir(command.directory)
    os.environ.clear()
    os.environ.update(command.environ)
    try:
        status: str | int | None = cli.main(command.arguments)
    except SystemExit as ended:
        status = ended.code
    sys.stdout.flush()
    # To take all modules apart would take longer than most commands.
    os._exit(status if isinstance(status, int) else 0)


def _next_command(address: str) -> Command:
    """Listen for commands; return only in the fork that runs one."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            with connection:
                if os.fork() == 0:
                    listener.close()
                    return _forked(connection)
            # The forks before, as far as they have ended.
            while True:
                try:
                    if os.waitpid(-1, os.WNOHANG)[0] == 0:
                        break
                except ChildProcessError:
                    break


def _forked(connection: socket.socket) -> Command:
    """Fork once more for the command; wait for its end, and report that."""
    head, streams, _, _ = socket.recv_fds(connection, _LENGTH, 3)
    asked, length = b"", int.from_bytes(head, "big")
    while len(asked) < length:
        asked += connection.recv(length - len(asked))
    command = Command(*ast.literal_eval(asked.decode()))
    pid = os.fork()
    if pid == 0:
        connection.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        # What Python knows of a stream, as whether one can seek in it, is found out when it is opened.
        sys.stdin, sys.stdout = _opened(0, "r"), _opened(1, "w")
        sys.stderr = _opened(2, "w")
        return command
    for stream in streams:
        os.close(stream)
    connection.sendall(pid.to_bytes(_LENGTH, "big"))
    ended = os.pidfd_open(pid)
    if ended not in select.select([ended, connection.fileno()], [], [])[0]:
        # The client is gone.
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    connection.sendall((status if status >= 0 else 128 - status).to_bytes(_LENGTH, "big"))
    os._exit(0)


def _opened(number: int, mode: str) -> TextIOWrapper:
    raw = os.fdopen(number, f"{mode}b", closefd=False)
    return TextIOWrapper(raw, encoding="utf-8", line_buffering=True)


if __name__ == "__main__":
    main()
