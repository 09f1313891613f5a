"""`dragoman serve` as a process of its own, a scripted provider in this one, and clients between them.

    with serving(script) as house:
        reply = house.post("/v1/messages", question(MESSAGES, CHAT))
        assert house.stop() == 0

Whatever the process says is read as it comes, so that a test can wait for a line. It is ended by its id in any case.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import pty
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TypeVar

from msgspec.structs import replace

from dragoman.model.jsonvalue import JsonObject
from dragoman.providers.catalogue import catalogue
from tests.gateway.harness import PROVIDER_KEY, Answer, House, HouseLoop, Received, Reply, ScriptedProvider, answer_in
from tests.server.workers import children
from tests.waiting import LIMIT, reporting_state, state_of_everything, wait_until

T = TypeVar("T")
# Seconds until a wait gives up.
PATIENCE = LIMIT
ROOT = Path(__file__).parents[2]
MEBIBYTE = 1024 * 1024
NO_LINES: tuple[str, ...] = ()
# Constants of the gateway, by module and name; see `constants/sitecustomize.py`.
Constants = Mapping[str, float]
# Seconds between two looks at the configuration file. A changed file is read at the second look.
LOOK_EVERY = "dragoman.gateway.processes.config_reload.POLL_INTERVAL"
# Seconds within which a repeated signal counts once.
SAME_SIGNAL = "dragoman.gateway.processes.worker.SAME_SIGNAL"
# Seconds until a worker that died is started again; doubled each time.
FIRST_PAUSE = "dragoman.gateway.processes.supervisor._FIRST_PAUSE"
QUICK: Constants = {LOOK_EVERY: 0.05}
NO_CONSTANTS: Constants = {}
# Lines of a log, lines of standard output and requests at a provider that a failed wait shows.
_LOG_LINES, _OUT_LINES, _REQUESTS = 60, 20, 20

WRITER: ContextVar[asyncio.StreamWriter] = ContextVar("WRITER")


class Lines:
    """What a process writes to one of its streams, line by line, read in a thread.

    `before_giving_up` is called when a wait fails, before the error collects the state of everything.
    """

    def __init__(self, stream: IO[bytes], before_giving_up: Callable[[], None] | None = None) -> None:
        self._before_giving_up = before_giving_up
        self._lines: list[str] = []
        self._news = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def _read(self, stream: IO[bytes]) -> None:
        # The end of a terminal is an error to those who read from it.
        with stream, suppress(OSError):
            for line in stream:
                with self._news:
                    self._lines.append(line.decode().rstrip("\r\n"))
                    self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def all(self) -> list[str]:
        """Every line so far."""
        with self._news:
            return list(self._lines)

    def wait(self, text: str, count: int = 1) -> str:
        """Wait for the line with a text in it, or the `count`-th of them."""

        def found() -> list[str]:
            return [line for line in self._lines if text in line]

        with self._news:
            if self._news.wait_for(lambda: len(found()) >= count or self._ended, PATIENCE) and len(found()) >= count:
                return found()[count - 1]
        raise self._failure(f"{count} lines with {text!r}")

    def finish(self) -> list[str]:
        """Every line, once the stream has ended."""
        self._thread.join(PATIENCE)
        if not self._ended:
            raise self._failure("the end of the stream")
        return self.all()

    def _failure(self, what: str) -> AssertionError:
        if self._before_giving_up is not None:
            self._before_giving_up()
        own = "\n".join(self.all()[-_LOG_LINES:])
        return AssertionError(f"waited for: {what}\n{own}\n{state_of_everything()}")


class Process:
    """A gateway process, or one of another command that serves. Its port is known once it listens."""

    def __init__(
        self,
        arguments: Sequence[str],
        directory: Path,
        environment: Mapping[str, str] | None = None,
        under: Sequence[str] = NO_LINES,
        terminal: bool = False,
        command: str = "serve",
        constants: Constants = NO_CONSTANTS,
    ) -> None:
        # What ends it in C, or does not let it go on, is told with a traceback.
        variables = {**clean_environment(directory), "PYTHONFAULTHANDLER": "1", **(environment or {})}
        # What the log is read from and written to.
        ours, theirs = pty.openpty() if terminal else os.pipe()
        self._process = subprocess.Popen(
            [*under, sys.executable, "-m", "dragoman", command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=theirs,
            cwd=directory,
            env=with_constants(variables, {**QUICK, **constants}) if command == "serve" else variables,
            # Whoever runs the tests may do so in a terminal, which is none of this process's.
            start_new_session=True,
        )
        os.close(theirs)
        assert self._process.stdout is not None
        self.pid = self._process.pid
        self.out = Lines(self._process.stdout, self._abort)
        self.log = Lines(os.fdopen(ours, "rb"), self._abort)
        self._reporting = reporting_until_closed(self._report)

    def _abort(self) -> None:
        """End the process and its workers so that their log ends with the tracebacks of all threads."""
        if not self.running:
            return
        for pid in (*children(self.pid), self.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGABRT)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE)

    def _report(self) -> str:
        """Last lines of the log and of standard output, and the exit status or the workers."""
        status = self._process.poll()
        state = f"running, with the workers {sorted(children(self.pid))}" if status is None else f"ended with {status}"
        out = [] if self.out is self.log else ["standard output:", *self.out.all()[-_OUT_LINES:]]
        # The state comes last, because the beginning of a long report is cut off.
        return "\n".join(["log:", *self.log.all()[-_LOG_LINES:], *out, f"process {self.pid}: {state}"])

    def listening(self) -> int:
        """Wait until it listens; give the port."""
        return port_in(self.out.wait(" listens on "))

    def send(self, number: signal.Signals) -> None:
        """Send a signal to this process."""
        os.kill(self.pid, number)

    def wait(self) -> int:
        """Wait for the end; give the exit status."""
        self.out.finish()
        self.log.finish()
        try:
            status = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"waited for: the end of process {self.pid}\n{state_of_everything()}") from None
        self._reporting.close()
        return status

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """Ask it to end, and wait. After an interrupt it does not serve on for `timeouts.lame_duck`, which is 5 s."""
        if self.running:
            self.send(number)
        return self.wait()

    def end(self) -> None:
        """End it if it still runs, in whatever way it takes."""
        if self.running:
            self._process.kill()
        self.wait()

    def events(self, name: str) -> list[JsonObject]:
        """The log's lines of one kind."""
        return [line for line in map(as_object, self.log.all()) if line["event"] == name]


def reporting_until_closed(report: Callable[[], str]) -> ExitStack:
    """Have failed waits print `report()` until the result is closed."""
    stack = ExitStack()
    stack.enter_context(reporting_state(report))
    return stack


def read_until(connection: socket.socket, text: bytes) -> bytes:
    """Read until a text has come."""
    data = b""
    while text not in data:
        piece = connection.recv(65536)
        assert piece, data
        data += piece
    return data


def port_in(line: str) -> int:
    """The port in the greeting's first line."""
    return int(line.split(",")[0].rsplit(":", 1)[1])


def as_object(line: str) -> JsonObject:
    """A line of the log, which is JSON where it goes to no terminal."""
    value = json.loads(line)
    assert isinstance(value, dict), line
    return value


def clean_environment(directory: Path) -> dict[str, str]:
    """This process's environment without what a configuration could be made of."""
    known = {name for listing in catalogue().values() for name in listing.env}
    known |= {"DRAGOMAN_CONFIG", "XDG_CONFIG_HOME", "XDG_STATE_HOME"}
    known |= {"HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"}
    environment = {name: value for name, value in os.environ.items() if name not in known}
    paths = [str(ROOT / "src"), environment.get("PYTHONPATH", "")]
    return environment | {"HOME": str(directory), "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def with_constants(environment: Mapping[str, str], constants: Constants) -> dict[str, str]:
    """An environment in which a gateway has these constants."""
    if not constants:
        return dict(environment)
    # Last on the path, so that another `sitecustomize` of a test takes precedence.
    path = f"{environment['PYTHONPATH']}{os.pathsep}{ROOT / 'tests/server/constants'}"
    return {**environment, "PYTHONPATH": path, "TEST_CONSTANTS": json.dumps(dict(constants))}


class Provider(ScriptedProvider):
    """A scripted provider whose steps can reach the connection they are written to."""

    async def _write(self, reply: Reply, writer: asyncio.StreamWriter) -> bool:
        WRITER.set(writer)
        # Each reply is its connection's last, and says so: else the next call may be sent where nobody reads any more.
        return await super()._write(replace(reply, headers=(*reply.headers, ("connection", "close"))), writer)

    def report(self) -> str:
        """The last requests, for a wait that failed."""
        requests = [f"{each.method} {each.target} {each.body[:300]!r}" for each in self.received[-_REQUESTS:]]
        counts = f"{len(self.received)} requests, {self.open} open connections, {self.hung_up} hung up by the caller"
        return "\n".join([f"provider at port {self.port}: {counts}; the last requests:", *requests])


async def reset() -> None:
    """A step that breaks the connection so that the other side gets a reset instead of an end."""
    writer = WRITER.get()
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class Gate:
    """A step that holds a reply until it is opened, and knows who waits at it and who left."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened = asyncio.Event()
        self._news = threading.Condition()
        self.waiting = 0
        self.left = 0

    async def __call__(self) -> None:
        """Wait, as a step of a reply."""
        self._loop = asyncio.get_running_loop()
        self._count(1, 0)
        try:
            await self._opened.wait()
        except asyncio.CancelledError:
            self._count(-1, 1)
            raise
        self._count(-1, 0)

    def open(self) -> None:
        """Let everybody go on, now and later."""
        assert self._loop is not None, "nobody came to the gate"
        self._loop.call_soon_threadsafe(self._opened.set)

    def reached(self, count: int = 1) -> None:
        """Wait until so many replies are held."""
        self._until(lambda: self.waiting >= count, lambda: f"{self.waiting} of {count} calls came")

    def deserted(self, count: int = 1) -> None:
        """Wait until `count` callers have hung up."""
        self._until(lambda: self.left >= count, lambda: f"{self.left} of {count} calls were cancelled")

    def _count(self, waiting: int, left: int) -> None:
        with self._news:
            self.waiting += waiting
            self.left += left
            self._news.notify_all()

    def _until(self, reached: Callable[[], bool], words: Callable[[], str]) -> None:
        with self._news:
            if self._news.wait_for(reached, PATIENCE):
                return
        raise AssertionError(f"{words()}\n{state_of_everything()}")


class Script:
    """What a provider answers, by the model that it is asked for."""

    def __init__(self) -> None:
        self.replies: dict[str, Reply] = {}

    def __call__(self, received: Received) -> Reply:
        """The reply to a request."""
        return self.replies[str(received.json()["model"])]


class Served(House):
    """A gateway process and the provider behind it, with the clients of the gateway's own harness."""

    def __init__(self, loop: HouseLoop, provider: Provider, directory: Path) -> None:
        super().__init__(loop, provider, io.StringIO())
        self.directory = directory
        self.file = directory / "dragoman.toml"
        self.process: Process

    def run(self, work: Coroutine[None, None, T]) -> T:
        """Do something on the provider's loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(2 * PATIENCE)

    def connect(self) -> socket.socket:
        """A raw connection to the gateway."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def stop(self) -> int:
        """Ask the process to end, and wait; give the exit status."""
        return self.process.stop(signal.SIGTERM)

    @contextmanager
    def started(self, *arguments: str, constants: Constants = NO_CONSTANTS) -> Iterator[None]:
        """A gateway on the files of this directory, while the block runs."""
        self._start(arguments, constants)
        try:
            yield
        finally:
            self.process.end()

    def restart(self, *arguments: str, constants: Constants = NO_CONSTANTS) -> None:
        """Start another gateway on the files of the one that has ended."""
        assert not self.process.running
        self._start(arguments, constants)

    def _start(self, arguments: Sequence[str], constants: Constants) -> None:
        given = ["--config", str(self.file), "--port", "0", *arguments]
        self.process = Process(given, self.directory, constants=constants)
        self.port = self.process.listening()

    def replace_file(self, text: str) -> None:
        """Put a new configuration in the old one's place, in one step: the gateway never reads half of it."""
        new = self.file.with_suffix(".new")
        new.write_text(text)
        new.chmod(0o600)
        new.replace(self.file)

    def send(self, path: str, body: object, *lines: str) -> socket.socket:
        """Send a request and leave the reply unread."""
        connection = self.connect()
        connection.sendall(self.request(path, body, *lines))
        return connection

    async def ask_along(self, path: str, body: object) -> Answer:
        """Send a request and read the reply, beside others."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=MEBIBYTE)
        try:
            writer.write(self.request(path, body, "connection: close"))
            return answer_in(await reader.read())
        finally:
            writer.close()

    def request(self, path: str, body: object, *lines: str) -> bytes:
        """A request's bytes."""
        data = json.dumps(body).encode()
        host = f"host: 127.0.0.1:{self.port}"
        head = "\r\n".join((f"POST {path} HTTP/1.1", host, f"content-length: {len(data)}", *lines, "", ""))
        return head.encode() + data

    def metric(self, line: str) -> float:
        """The value of a metric, by its name and labels."""
        lines = self.get("/metrics").body.decode().splitlines()
        return next(float(found.rsplit(" ", 1)[1]) for found in lines if found.startswith(line + " "))

    def is_idle(self) -> bool:
        """Wait until no exchange is in flight."""
        return wait_until(lambda: self.metric("dragoman_requests_in_flight") == 0, "no exchange in flight")

    def exchanges(self, count: int) -> list[JsonObject]:
        """Wait for so many exchanges in the log."""
        self.process.log.wait('"event":"exchange"', count)
        return self.process.events("exchange")


def config(port: int, more: str = "") -> str:
    """Providers `messages`, `chat` and `responses` at a port, each of the protocol it is named after.

    It stops without serving on for a while, unless `more` says otherwise.
    """
    host = f"http://127.0.0.1:{port}"
    timeouts = "[timeouts]\nlame_duck = 0\n"
    if "[timeouts]\n" in more:
        more = more if "lame_duck" in more else more.replace("[timeouts]\n", timeouts)
        timeouts = ""
    return f"""
{timeouts}
[providers.messages]
protocol = "anthropic-messages"
base_url = "{host}"
api_key = "{PROVIDER_KEY}"
models = "served"

[providers.chat]
protocol = "openai-chat"
base_url = "{host}/v1"
api_key = "{PROVIDER_KEY}"
models = "served"

[providers.responses]
protocol = "openai-responses"
base_url = "{host}/v1"
api_key = "{PROVIDER_KEY}"
models = "served"

[models]
"routed" = "chat/served"
{more}
"""


@contextmanager
def serving(
    script: Callable[[Received], Reply],
    more: str = "",
    *,
    arguments: Sequence[str] = NO_LINES,
    environment: Mapping[str, str] | None = None,
    under: Sequence[str] = NO_LINES,
    terminal: bool = False,
    constants: Constants = NO_CONSTANTS,
) -> Iterator[Served]:
    """A gateway process in front of a provider that follows a script; `more` is added to its configuration.

    `under` is a command that starts it, if it is not to be started directly; `terminal` is where its log goes.
    """
    with provided(script, more) as house:
        given = ["--config", str(house.file), "--port", "0", *arguments]
        house.process = Process(given, house.directory, environment, under, terminal, constants=constants)
        try:
            house.port = house.process.listening()
            yield house
        finally:
            house.process.end()


@contextmanager
def provided(script: Callable[[Received], Reply], more: str) -> Iterator[Served]:
    """A provider that follows a script, and a configuration with it in an empty directory; no gateway yet."""
    with TemporaryDirectory() as name, looping() as loop:
        provider = Provider(script)
        house = Served(loop, provider, Path(name))
        house.run(provider.start())
        try:
            house.file.write_text(config(provider.port, more))
            house.file.chmod(0o600)
            with reporting_state(provider.report):
                yield house
        finally:
            house.run(provider.stop())


@contextmanager
def looping() -> Iterator[HouseLoop]:
    """A loop in a thread of its own."""
    loop = HouseLoop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()
