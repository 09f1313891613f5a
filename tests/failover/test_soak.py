"""Soak: 40 clients and 20,000 requests in front of two workers; nothing is lost, counted twice, or left behind.

The providers are a `dragoman mock`. Most requests are turns of conversations. One in ten goes to a line whose first
target fails, and one in ten is refused by its provider. `make nightly` runs it, for a minute or two.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path

import pytest
from msgspec import Struct

from dragoman.model.jsonvalue import JsonObject
from tests.gateway.harness import CHAT, MESSAGES, PATHS, PROTOCOLS, RESPONSES, Answer, answer_in
from tests.gateway.says import NAMES, is_finished, question, streamed_text, text_of
from tests.mock.asking import Client
from tests.sdk.digging import Object, dig, dig_object, dig_objects, dig_text
from tests.sdk.samples import events_of
from tests.server.process import Process, clean_environment
from tests.waiting import wait_until

CLIENTS, REQUESTS, WORKERS = 40, 20_000, 2
# Requests of each client until its workers have filled their caches, and after that.
FIRST, LATER = REQUESTS // CLIENTS // 10, REQUESTS // CLIENTS * 9 // 10
TURNS = 10
# The model of each conversation, in turn: its providers answer, the first target fails, or it is refused.
ANSWERED, FAILED_OVER, REFUSED = "answered", "failed-over", "refused"
KINDS = (*[ANSWERED] * 8, FAILED_OVER, REFUSED)
# What a worker may hold at the end beyond what it held after the first tenth: pooled connections to the mock, of which
# each request under way may leave one, and memory of caches with a limit.
MORE_DESCRIPTORS = CLIENTS
MORE_MEGABYTES = 16

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors and memory are found in /proc"),
]


def _config(mock: int) -> str:
    paths = {MESSAGES: "", CHAT: "/v1", RESPONSES: "/v1"}
    tables = [
        f'[providers.{NAMES[protocol]}]\nprotocol = "{protocol}"\n'
        f'base_url = "http://127.0.0.1:{mock}{path}"\napi_key = "sk-0123456789abcdef"\nmodels = "mock-text"\n'
        for protocol, path in paths.items()
    ]
    lines = [
        f'"{FAILED_OVER}-{name}" = ["{name}/mock-error", "{other}/mock-text"]\n'
        for name, other in (("messages", "chat"), ("chat", "responses"), ("responses", "messages"))
    ]
    return "".join([f"[server]\nworkers = {WORKERS}\n", *tables, "[models]\n", *lines])


class Held(Struct, frozen=True, kw_only=True):
    """What a worker holds."""

    descriptors: int
    megabytes: float


class Gateway:
    """The gateway, its records, and what its workers hold."""

    def __init__(self, process: Process, directory: Path) -> None:
        self.process = process
        self.port = process.listening()
        self._directory = directory
        self._client = Client(self.port)

    def is_idle(self) -> bool:
        """Whether no request is under way."""
        lines = self._client.ask("/metrics", method="GET", headers={}).raw.decode().splitlines()
        return "dragoman_requests_in_flight 0" in lines

    def held(self) -> dict[int, Held]:
        """What each worker holds while nothing is under way."""
        wait_until(self.is_idle, "no request is under way")
        pid = self.process.pid
        workers = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return {int(worker): _held_by(int(worker)) for worker in workers}

    def run(self, *arguments: str) -> list[JsonObject]:
        """What a command prints, an object a line."""
        done = subprocess.run(
            [sys.executable, "-m", "dragoman", *arguments, "--config", str(self._directory / "dragoman.toml")],
            env=clean_environment(self._directory),
            capture_output=True,
            text=True,
            check=True,
        )
        return [json.loads(line) for line in done.stdout.splitlines()]


def _held_by(pid: int) -> Held:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    kilobytes = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
    return Held(descriptors=sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()), megabytes=kilobytes / 1024)


class Caller:
    """A client of one protocol that has one conversation after the other, and checks every answer.

    For each way to ask, a client keeps its connection, and another one opens one for each request: so both workers meet
    everything in the first tenth, and load what they need for it.
    """

    def __init__(self, number: int, port: int) -> None:
        ways = [*product(PROTOCOLS, PROTOCOLS, (True, False))]
        self._client, self._provider, self._stream = ways[number % len(ways)]
        self._keeps = number // len(ways) % 2 == 0
        self._number = number
        self._port = port
        self._asked = 0
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        # The turns of the conversation, or the id of the last response.
        self._history: list[Object] = []
        self._previous = ""
        self.ids: list[str] = []
        self.statuses: Counter[int] = Counter()

    async def ask(self, count: int) -> None:
        """Send some requests, one after the other, and close the connection."""
        try:
            for _ in range(count):
                await self._turn()
        finally:
            self._close()

    async def _turn(self) -> None:
        conversation, turn = divmod(self._asked, TURNS)
        kind = KINDS[(self._number + conversation) % len(KINDS)]
        words = f"Turn {turn} of conversation {conversation} with client {self._number}."
        if turn == 0:
            self._history, self._previous = [], ""
        self._asked += 1
        answer = await self._sent(self._body(kind, words))
        name = answer.header("request-id") or answer.header("x-request-id")
        assert name is not None and answer.complete, answer
        self.ids.append(name)
        self.statuses[answer.status] += 1
        if kind == REFUSED:
            assert answer.status == 429 and "here it is: 429" in dig_text(answer.json(), "error", "message"), answer
            return
        assert answer.status == 200, answer
        said = self._said(answer)
        assert said == f"You said: {words}", answer
        self._history += [{"role": "user", "content": words}, {"role": "assistant", "content": said}]

    def _body(self, kind: str, words: str) -> Object:
        name = NAMES[self._provider]
        models = {ANSWERED: f"{name}/mock-text", FAILED_OVER: f"{FAILED_OVER}-{name}", REFUSED: f"{name}/mock-error"}
        asked: list[Object] = [{"role": "user", "content": words}]
        if self._client != RESPONSES:
            more: Object = {"messages": [*self._history, *asked]}
        elif self._previous:
            more = {"input": asked, "previous_response_id": self._previous}
        else:
            more = {"input": asked}
        return question(self._client, CHAT, stream=self._stream, **{**more, "model": models[kind]})

    def _said(self, answer: Answer) -> str:
        if self._stream:
            assert is_finished(self._client, answer.body), answer
            if self._client == RESPONSES:
                self._previous = str(dig(events_of(answer.body)[-1], "response", "id"))
            return streamed_text(self._client, answer.body)
        body = answer.json()
        self._previous = str(body["id"])
        return text_of(self._client, body)

    async def _sent(self, body: Object) -> Answer:
        data = json.dumps(body).encode()
        head = f"POST {PATHS[self._client]} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(data)}\r\n"
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(f"{head}connection: {'keep-alive' if self._keeps else 'close'}\r\n\r\n".encode() + data)
        answer = answer_in(await _reply(reader))
        if not self._keeps:
            self._close()
        return answer

    def _close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def _reply(reader: asyncio.StreamReader) -> bytes:
    """The bytes of one response, of a connection that may go on."""
    data = bytearray(await reader.readuntil(b"\r\n\r\n"))
    head = data.lower()
    if b"transfer-encoding: chunked" not in head:
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        return bytes(data + await reader.readexactly(length))
    while not data.endswith(b"\r\n0\r\n\r\n"):
        size = await reader.readuntil(b"\r\n")
        data += size + await reader.readexactly(int(size, 16) + 2)
    return bytes(data)


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with ExitStack() as stack:
        mock = Process(["--port", "0"], tmp_path, command="mock")
        stack.callback(mock.end)
        file = tmp_path / "dragoman.toml"
        file.write_text(_config(mock.listening()))
        file.chmod(0o600)
        process = Process(["--config", str(file), "--port", "0"], tmp_path)
        stack.callback(process.end)
        yield Gateway(process, tmp_path)


def test_twenty_thousand_requests_leave_nothing_behind(gateway: Gateway) -> None:
    callers = [Caller(number, gateway.port) for number in range(CLIENTS)]

    async def all_ask(count: int) -> None:
        await asyncio.gather(*(caller.ask(count) for caller in callers))

    asyncio.run(all_ask(FIRST))
    before = gateway.held()
    asyncio.run(all_ask(LATER))
    after = gateway.held()
    ids = [name for caller in callers for name in caller.ids]
    statuses = sum((caller.statuses for caller in callers), start=Counter[int]())
    assert len(ids) == len(set(ids)) == REQUESTS
    assert statuses == {200: REQUESTS * 9 // 10, 429: REQUESTS // 10}
    # The records have each of them once.
    recorded = [line["id"] for line in gateway.run("logs", "--json", "--since", "all", "-n", str(2 * REQUESTS))]
    assert len(recorded) == REQUESTS
    assert set(recorded) == set(ids)
    (usage,) = gateway.run("usage", "--json", "--since", "all")
    total = dig_object(usage, "total")
    assert (total["requests"], total["errors"]) == (REQUESTS, statuses[429])
    assert sum(int(str(row["requests"])) for row in dig_objects(usage, "rows")) == REQUESTS
    # The workers are those of the beginning, and hold hardly more.
    assert after.keys() == before.keys() and len(after) == WORKERS
    for pid, held in after.items():
        assert held.descriptors <= before[pid].descriptors + MORE_DESCRIPTORS, (before, after)
        assert held.megabytes <= before[pid].megabytes + MORE_MEGABYTES, (before, after)
    assert gateway.process.stop() == 0
    said = [json.loads(line) for line in gateway.process.log.all()]
    assert {line["level"] for line in said} == {"info"}
    assert sum(line["event"] == "exchange" for line in said) == REQUESTS
