"""A gateway, a scripted provider and a raw client, each on a real socket of 127.0.0.1; tests read as a dialogue.

    with running(provider_says(...)) as house:
        reply = house.post("/v1/messages", {...})
        assert house.provider.received[0].json() == {...}

Everything runs on one loop in a thread of its own, so that blocking SDK clients can be used in the test itself.
"""

from __future__ import annotations

import asyncio
import io
import json
import math
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from typing import TypeVar
from unittest.mock import patch

from msgspec import Struct

from dragoman.config.settings import Limits, RouteConfig, Server, Settings, Timeouts
from dragoman.gateway.app import App
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.observability.metrics import Metrics
from dragoman.gateway.processes.worker import server_limits
from dragoman.gateway.runtime import Runtime
from dragoman.http.server import HttpServer as HttpServer
from dragoman.identities.identity import Rights
from dragoman.mock.answers.models import echo_models
from dragoman.model.jsonvalue import JsonObject
from dragoman.providers.provider import Endpoint, Provider
from tests.identities.holders import NO_LIMITS, holder
from tests.ports import bound_socket
from tests.waiting import LIMIT, reporting_state, wait_until_async

T = TypeVar("T")
MESSAGES, CHAT, RESPONSES = "anthropic-messages", "openai-chat", "openai-responses"
PROTOCOLS = (MESSAGES, CHAT, RESPONSES)
PATHS = {MESSAGES: "/v1/messages", CHAT: "/v1/chat/completions", RESPONSES: "/v1/responses"}
PROVIDER_KEY = "sk-provider-0123456789abcdef"
# Seconds that a client waits for a reply.
PATIENCE = LIMIT
# Seconds that exchanges under way may take to end by themselves before the harness cancels them.
_GRACE = 5.0
# Seconds by which the clock jumps at once.
_SLICE = 25.0
_LOG_LINES, _LAST_REQUESTS = 40, 10


class Received(Struct, frozen=True):
    """A request as it reached the provider, byte for byte."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        """The first value under a lower-case name."""
        return next((value for key, value in self.headers if key == name), None)

    def json(self) -> JsonObject:
        """The body as an object."""
        value = json.loads(self.body)
        assert isinstance(value, dict)
        return value


class HouseLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock can jump ahead, so that no test waits for a timeout."""

    def __init__(self) -> None:
        super().__init__()
        self._ahead = 0.0

    def time(self) -> float:
        """Seconds of the machine's clock, and of all jumps."""
        return super().time() + self._ahead

    def jump(self, seconds: float) -> None:
        """Move the clock ahead; the loop fires the timers of that time in its next turns."""
        self._ahead += seconds


# What a provider does next: bytes are written, a number is waited for, a callable is awaited, None closes at once
# (a reset if bytes are unread), and the end of the list ends the reply.
Step = bytes | float | None | Callable[[], Coroutine[None, None, None]]


async def take_turns() -> None:
    """Let the loop take some turns: bytes that were written before are read and handled."""
    for _ in range(10):
        await asyncio.sleep(0)


async def pass_time(seconds: float) -> None:
    """Let time pass for gateway and provider, without waiting."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, HouseLoop)
    while seconds > 0:
        await take_turns()
        loop.jump(min(seconds, _SLICE))
        seconds -= _SLICE
    await take_turns()


def passing(seconds: float = math.inf) -> Step:
    """A step during which time passes without waiting; for ever, if not limited."""
    return partial(pass_time, seconds)


async def stay_silent() -> None:
    """A step that never ends: the provider keeps the connection and writes nothing more."""
    await asyncio.Event().wait()


class Reply(Struct, frozen=True, kw_only=True):
    """A provider's reply: its head is written for it unless `raw` is set, then the steps are all there is."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("content-type", "application/json"),)
    steps: tuple[Step, ...] = ()
    raw: bool = False
    # Whether the steps are sent in chunks, as streams are; else their length is announced.
    chunked: bool = False


def whole(body: object, status: int = 200, **headers: str) -> Reply:
    """A JSON reply."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"content-type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return Reply(status=status, headers=tuple(given.items()), steps=(data,))


def stream(*steps: Step, **headers: str) -> Reply:
    """An event stream, each step in a chunk of its own."""
    given = {"content-type": "text/event-stream", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return Reply(headers=tuple(given.items()), steps=steps, chunked=True)


class ScriptedProvider:
    """Answers each request with what the script gives for it; knows when its callers hang up."""

    def __init__(self, script: Callable[[Received], Reply]) -> None:
        self._script = script
        self.received: list[Received] = []
        # Calls whose caller was gone before the reply was written to its end.
        self.hung_up = 0
        self.open = 0
        self.port = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._serve, sock=bound_socket(), limit=64 * 1024 * 1024)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Hang up on everybody."""
        assert self._server is not None
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.open += 1
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            self.hung_up += 1
        finally:
            self.open -= 1
            self._tasks.discard(task)
            writer.close()

    def report(self) -> str:
        """What this provider has received and which connections it has, for a wait that gave up."""
        last = [f"  {request.method} {request.target}" for request in self.received[-_LAST_REQUESTS:]]
        counts = f"{len(self.received)} requests, {self.open} open connections, {self.hung_up} hang-ups"
        return "\n".join([f"provider at port {self.port}: {counts}", *last])

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return False
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        method, target, _ = first.split(" ", 2)
        headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        length = int(next((value for name, value in headers if name == "content-length"), "0"))
        received = Received(method, target, headers, await reader.readexactly(length))
        self.received.append(received)
        reply = self._script(received)
        writing = asyncio.ensure_future(self._write(reply, writer))
        # A caller that hangs up says so by an end of its stream, long before a write would fail.
        listening = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({writing, listening}, return_when=asyncio.FIRST_COMPLETED)
            if not writing.done() and listening.done() and listening.result() == b"":
                self.hung_up += 1
                return False
            return await writing
        finally:
            for task in (writing, listening):
                if not task.done():
                    task.cancel()
            await asyncio.gather(writing, listening, return_exceptions=True)

    async def _write(self, reply: Reply, writer: asyncio.StreamWriter) -> bool:
        if not reply.raw:
            lines = [f"HTTP/1.1 {reply.status} Said", *(f"{name}: {value}" for name, value in reply.headers)]
            # Each call has a connection of its own, and says so: one that is used again would be met half closed.
            lines.append("connection: close")
            if reply.chunked:
                lines.append("transfer-encoding: chunked")
            else:
                lines.append(f"content-length: {sum(len(step) for step in reply.steps if isinstance(step, bytes))}")
            writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        for step in reply.steps:
            if step is None:
                writer.close()
                return False
            if isinstance(step, bytes):
                writer.write(b"%x\r\n%b\r\n" % (len(step), step) if reply.chunked and step else step)
                await writer.drain()
            elif isinstance(step, int | float):
                await asyncio.sleep(step)
            else:
                await step()
        if reply.chunked:
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        # The connection is not used again where another request was read ahead of its turn; tests need no keep-alive.
        writer.close()
        return False


class Answer(Struct, frozen=True):
    """A reply of the gateway, as a raw client reads it. `complete` is false if the connection broke inside it."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    complete: bool = True

    def header(self, name: str) -> str | None:
        """The first value under a lower-case name."""
        return next((value for key, value in self.headers if key == name), None)

    def json(self) -> JsonObject:
        """The body as an object."""
        value = json.loads(self.body)
        assert isinstance(value, dict), value
        return value


class House:
    """A running gateway, the provider behind it, and a client."""

    def __init__(self, loop: asyncio.AbstractEventLoop, provider: ScriptedProvider, log: io.StringIO) -> None:
        self.loop = loop
        self.provider = provider
        self.log = log
        self.port = 0
        self.app: App
        self.server: HttpServer

    @property
    def url(self) -> str:
        """Where the gateway is."""
        return f"http://127.0.0.1:{self.port}"

    def run(self, work: Coroutine[None, None, T]) -> T:
        """Do something on the gateway's loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE)

    def pass_time(self, seconds: float) -> None:
        """Let time pass for gateway and provider, without waiting."""
        self.run(pass_time(seconds))

    def take_turns(self) -> None:
        """Let the gateway handle all that was written to it before."""
        self.run(take_turns())

    def post(self, path: str, body: object, **headers: str) -> Answer:
        """Send a request and read the whole reply."""
        with self.begin_post(path, body, **headers) as connection:
            return read_answer(connection)

    def begin_post(self, path: str, body: object, **headers: str) -> socket.socket:
        """Send a request and leave the reply on its connection."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._send("POST", path, data, headers)

    def get(self, path: str, **headers: str) -> Answer:
        """Ask for a page."""
        return self.ask("GET", path, b"", **headers)

    def ask(self, method: str, path: str, data: bytes, **headers: str) -> Answer:
        """Send one request on a connection of its own; underscores in header names stand for dashes."""
        with self._send(method, path, data, headers) as connection:
            return read_answer(connection)

    def _send(self, method: str, path: str, data: bytes, headers: Mapping[str, str]) -> socket.socket:
        given = {"host": f"127.0.0.1:{self.port}", **{name.replace("_", "-"): value for name, value in headers.items()}}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
        lines += ["connection: close", f"content-length: {len(data)}"]
        connection = self.connect()
        try:
            connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + data)
        except BaseException:
            connection.close()
            raise
        return connection

    def report(self) -> str:
        """The state of gateway and provider, for a wait that gave up."""
        lines = self.log.getvalue().splitlines()[-_LOG_LINES:]
        return "\n".join([f"gateway at port {self.port}, the end of its log:", *lines, self.provider.report()])

    def connect(self) -> socket.socket:
        """A raw connection to the gateway."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)


def read_answer(connection: socket.socket) -> Answer:
    """Read a reply to its end and take its framing off."""
    data = bytearray()
    while True:
        piece = connection.recv(65536)
        if not piece:
            break
        data += piece
    return answer_in(bytes(data))


def answer_in(data: bytes) -> Answer:
    """A reply that was read to its end, without its framing."""
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    if any(name == "transfer-encoding" for name, _ in headers):
        body, complete = unchunked(body)
    else:
        complete = len(body) == int(next((value for name, value in headers if name == "content-length"), "0"))
    return Answer(int(first.split(" ")[1]), headers, body, complete)


def unchunked(body: bytes) -> tuple[bytes, bool]:
    """A chunked body without its framing, and whether it came to its end."""
    out = bytearray()
    at = 0
    while at < len(body):
        line = body.find(b"\r\n", at)
        size = body[at:line] if line >= 0 else body[at:]
        length = int(size or b"0", 16)
        if length == 0:
            return bytes(out), size == b"0"
        if line < 0:
            break
        out += body[line + 2 : line + 2 + length]
        at = line + 4 + length
    return bytes(out), False


def settings_for(
    port: int,
    *,
    protocols: Sequence[str] = PROTOCOLS,
    keys: Sequence[str] = (),
    rights: Rights = NO_LIMITS,
    timeouts: Timeouts | None = None,
    limits: Limits | None = None,
    server: Server | None = None,
    provider_keys: tuple[str, ...] = (PROVIDER_KEY,),
) -> Settings:
    """One provider per protocol (`messages`, `chat`, `responses`), `all` which speaks all three, and `echo`."""
    host = f"http://127.0.0.1:{port}"
    # What each protocol's own SDK takes as its base URL.
    bases = {MESSAGES: host, CHAT: f"{host}/v1", RESPONSES: f"{host}/v1"}
    ends = {name: Endpoint(protocol=name, base_url=base) for name, base in bases.items()}
    short = {MESSAGES: "messages", CHAT: "chat", RESPONSES: "responses"}
    providers = {
        short[name]: Provider(name=short[name], endpoints=(ends[name],), keys=provider_keys, models=("served",))
        for name in protocols
    }
    every = tuple(ends[name] for name in protocols)
    providers["all"] = Provider(name="all", endpoints=every, keys=provider_keys, models=("served",))
    echo = tuple(Endpoint(protocol=name, base_url="echo:") for name in (CHAT, MESSAGES, RESPONSES))
    providers["echo"] = Provider(
        name="echo",
        endpoints=echo,
        auth="none",
        transport="echo",
        models=echo_models(),
        counts_tokens=True,
        stores_responses=False,
    )
    return Settings(
        server=server or Server(),
        providers=providers,
        # Among providers that lists tell of, echo would step back.
        echo_table=True,
        routes=(RouteConfig(pattern="claude-*", targets=("messages/*",)),),
        keys=tuple(
            holder(f"key{count}", sha256(key.encode()).digest(), rights=rights) for count, key in enumerate(keys)
        ),
        timeouts=timeouts or Timeouts(),
        limits=limits or Limits(),
    )


def new_service(settings: Settings, log: io.StringIO) -> Runtime:
    """The working parts of a gateway, on the loop that runs."""
    return Runtime(settings, Metrics(), Log(log, json=True))


def _has_open_transports(loop: asyncio.AbstractEventLoop) -> bool:
    transports = loop._transports  # type: ignore[attr-defined]  # asyncio has no public list of them
    return any(transport._sock is not None for transport in transports.values())


@contextmanager
def running(
    script: Callable[[Received], Reply] | Sequence[Reply] = (),
    settings: Callable[[int], Settings] = settings_for,
) -> Iterator[House]:
    """A gateway in front of a provider that follows a script: a function, or replies in order."""
    replies = iter(script) if not callable(script) else None

    def scripted(received: Received) -> Reply:
        assert replies is not None
        reply = next(replies, None)
        assert reply is not None, f"more requests than replies\n{house.report()}\n{received.headers}"
        return reply

    loop = HouseLoop()
    thread = threading.Thread(target=loop.run_forever, name="house", daemon=True)
    thread.start()
    house = House(loop, ScriptedProvider(script if callable(script) else scripted), io.StringIO())

    async def start() -> asyncio.Server:
        await house.provider.start()
        settled = settings(house.provider.port)
        house.app = App(new_service(settled, house.log))
        house.server = HttpServer(house.app, house.app.refuse, server_limits(settled.limits, settled.timeouts))
        listening = await loop.create_server(house.server, sock=bound_socket())
        house.port = listening.sockets[0].getsockname()[1]
        return listening

    async def stop(listening: asyncio.Server) -> None:
        listening.close()
        house.server.retire()
        if not await house.server.wait_idle(_GRACE):
            house.server.cancel_all()
            await house.server.wait_idle(LIMIT)
        if house.app.admin is not None:
            house.app.admin.close()
        await house.app.runtime.close()
        await house.app.runtime.state.close(0.0)
        await house.provider.stop()
        # A transport that was closed just now closes its socket in the next turns of the loop.
        for _ in range(3):
            await asyncio.sleep(0)
        await wait_until_async(lambda: not _has_open_transports(loop), "every transport of the loop is closed")

    try:
        # A provider that has to list its models within seconds may need longer on a busy machine.
        with reporting_state(house.report), patch("dragoman.gateway.model_list_fetch._TIMEOUT", LIMIT):
            listening = house.run(start())
            try:
                yield house
            finally:
                house.run(stop(listening))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()
