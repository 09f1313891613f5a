"""Client process: runs a client with the terminal attached, until it ends."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Self
from urllib.parse import urlsplit

from dragoman.config.values import is_loopback
from dragoman.errors import DragomanError
from dragoman.launching.clients import LaunchableClient, LaunchPlan
from dragoman.launching.keys import GivenKey

# Signals that a terminal sends to all its foreground processes. The client handles them.
_STOP = "SIGTSTP"
_FOR_THE_CLIENT = ("SIGINT", "SIGQUIT", _STOP)
# Signals for this process alone, which are forwarded to the client.
_PASSED_ON = ("SIGTERM", "SIGHUP")
EXCEPTIONS = ("NO_PROXY", "no_proxy")
_PROXIES = ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")


def program_of(client: LaunchableClient, environ: Mapping[str, str]) -> str:
    path = shutil.which(client.program, path=search_path(environ))
    if path is None or not Path(path).is_absolute():
        raise DragomanError(f"{client.program} is not on PATH; {client.remedy}")
    return path


def search_path(environ: Mapping[str, str]) -> str:
    """PATH without the current directory, which may be a checkout, and without relative entries."""
    try:
        here: Path | None = Path.cwd()
    except FileNotFoundError:
        here = None
    places = map(Path, environ.get("PATH", os.defpath).split(os.pathsep))
    return os.pathsep.join(str(place) for place in places if place.is_absolute() and place.resolve() != here)


def environment_of(plan: LaunchPlan, key: GivenKey, url: str, environ: Mapping[str, str]) -> dict[str, str]:
    environment = {name: value for name, value in environ.items() if name not in plan.removed}
    if "PATH" in environment:
        # The client's interpreter is searched there.
        environment["PATH"] = search_path(environ)
    environment |= {**plan.environment, plan.key_variable: key.text}
    return {**environment, **past_proxies(url, environment)}


def past_proxies(url: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Proxy exceptions for a gateway on this machine, added to present ones."""
    host = urlsplit(url).hostname or ""
    if not is_loopback(host) or not any(environ.get(name) for name in _PROXIES):
        return {}
    return {name: _listed(environ.get(name, ""), host) for name in EXCEPTIONS}


def _listed(names: str, host: str) -> str:
    return names if host in names.split(",") else ",".join(filter(None, (names, host)))


class ClientRun:
    """A client process. Within the block, signals do not end this process. Before the client runs, a signal cancels its
    start. The client stays in this process group: the terminal belongs to it, and job control stops both."""

    def __init__(self) -> None:
        self._pid: int | None = None
        self._early: int | None = None
        self._before: dict[signal.Signals, signal._HANDLER] = {}

    def __enter__(self) -> Self:
        # Handlers instead of SIG_IGN, which the client would inherit.
        for name in (*_FOR_THE_CLIENT, *_PASSED_ON):
            if name in signal.Signals.__members__:
                number = signal.Signals[name]
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def was_begun(self) -> bool:
        return self._pid is not None

    def to_end(self, words: Sequence[str], environment: Mapping[str, str]) -> int:
        if self._early is None:
            # The client inherits a lock that marks it as running (`settings_files`).
            process = subprocess.Popen(words, env=environment, close_fds=False)
            self._pid = process.pid
            if self._early is not None:
                # A signal that arrived before the start, and reached only this process.
                self._send(self._early)
            # Only this process reaps the client, so its process ID stays valid.
            status = process.wait() if os.name == "nt" else _waited(process.pid)
            process.returncode = status
        else:
            status = -self._early
        return 128 - status if status < 0 else status

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._pid is None:
            if signal.Signals(number).name != _STOP:
                self._early = number
        elif signal.Signals(number).name in _PASSED_ON:
            self._send(number)

    def _send(self, number: int) -> None:
        assert self._pid is not None
        with suppress(ProcessLookupError):
            os.kill(self._pid, number)


def _waited(pid: int) -> int:
    """Wait for a child. If the child stops, stop this process, too, so that its shell notices, and continue with it."""
    with _signal_pipe() as pipe:
        while True:
            ended, status = os.waitpid(pid, os.WUNTRACED | os.WNOHANG)
            if not ended:
                select.select([pipe], (), ())
                os.read(pipe, 4096)
            elif not os.WIFSTOPPED(status):
                return os.waitstatus_to_exitcode(status)
            else:
                os.kill(os.getpid(), signal.SIGSTOP)
                # The shell continued this process alone, but meant the client, too.
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)


@contextmanager
def _signal_pipe() -> Iterator[int]:
    """A pipe that gets a byte for every signal, including SIGCHLD. A main thread blocked in `waitpid` would run its
    handlers too late, since the kernel may deliver a signal to another thread."""
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    handler = signal.signal(signal.SIGCHLD, lambda number, frame: None)
    wakeup = signal.set_wakeup_fd(theirs, warn_on_full_buffer=False)
    try:
        yield ours
    finally:
        signal.set_wakeup_fd(wakeup)
        signal.signal(signal.SIGCHLD, handler)
        os.close(ours)
        os.close(theirs)
