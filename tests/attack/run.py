"""Every attack against a gateway process of its own; a table of what it cost whom."""

from __future__ import annotations

import gzip
import json
import math
import os
import socket
import sqlite3
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from tests.accounts.killing import kill_under_load
from tests.attack import translations
from tests.attack.neighbour import ANSWER, Neighbour, paced, provider
from tests.gateway.harness import CHAT, MESSAGES, PATHS, RESPONSES, Received, Reply, read_answer, whole
from tests.gateway.harness import stream as streamed
from tests.laws.hostile import filled, graph, request, tool, user
from tests.server.process import NO_LINES, Served, serving

PATIENCE = 30.0
MEBIBYTE = 1024 * 1024


class Cost(Struct, kw_only=True):
    """What an attack took: `others` is how long a neighbour's word was late at worst."""

    name: str
    sent: int
    seconds: float
    cpu: float
    memory: float
    others: float
    told: str


def cpu_of(pid: int) -> float:
    """The CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(pid: int) -> float:
    """The memory that a process holds, in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def measured(name: str, house: Served, attack: Callable[[Served], tuple[int, str]]) -> Cost:
    """Attack a gateway while a neighbour listens."""
    pid = house.process.pid
    with Neighbour(house) as neighbour:
        cpu, memory, begun = cpu_of(pid), memory_of(pid), time.monotonic()
        sent, told = attack(house)
        seconds = time.monotonic() - begun
    alive = house.process.running
    return Cost(
        name=name,
        sent=sent,
        seconds=seconds,
        cpu=cpu_of(pid) - cpu if alive else float("nan"),
        memory=memory_of(pid) - memory if alive else float("nan"),
        others=neighbour.worst,
        told=told if alive else f"{told}; the process ended",
    )


def sending(path: str, body: bytes, **headers: str) -> Callable[[Served], tuple[int, str]]:
    """Send one request, and tell what came back."""

    def attack(house: Served) -> tuple[int, str]:
        try:
            answer = house.ask("POST", path, body, **headers)
        except (TimeoutError, OSError, ValueError) as error:
            return len(body), f"no answer: {type(error).__name__}"
        return len(body), str(answer.status)

    return attack


def coded(layers: int) -> bytes:
    """Layers of gzip around blocks that hold nothing: much is read in every layer, and nothing comes out in the end."""
    head = gzip.compress(b"")[:10]
    # An empty block that is stored.
    begins, goes_on = head, b"\0\0\0\xff\xff"
    for _ in range(layers - 1):
        begins = head + squeezed(begins)
        goes_on = squeezed(goes_on * (16 * MEBIBYTE // len(goes_on)))
    return begins + goes_on * max(1, 35_000 // len(goes_on))


def squeezed(data: bytes) -> bytes:
    """A piece of a compressed stream that stands for the same bytes wherever it stands."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return squeeze.compress(data) + squeeze.flush(zlib.Z_FULL_FLUSH)


def strict_tools(size: int) -> bytes:
    """As many strict tools as fit, each of a graph that takes long to follow."""
    return filled(
        lambda n: request(
            CHAT, "messages/served", [user(CHAT)], tools=[tool(CHAT, f"t{k}", graph(14), strict=True) for k in range(n)]
        ),
        size,
    )


def doubling(size: int) -> bytes:
    """One strict schema whose definitions hold each other twice, with something long in the last of them."""
    depth = 8
    definitions: dict[str, object] = {
        f"d{k}": {
            "type": "object",
            "properties": {
                side: {"allOf": [{"$ref": f"#/$defs/d{k + 1}"}], "description": side} for side in ("left", "right")
            },
        }
        for k in range(depth)
    }

    def made(n: int) -> object:
        last = {"type": "string", "enum": ["x" * n]}
        root = {"root": {"allOf": [{"$ref": "#/$defs/d0"}]}}
        schema = {"type": "object", "properties": root, "$defs": {**definitions, f"d{depth}": last}}
        return request(CHAT, "messages/served", [user(CHAT)], tools=[tool(CHAT, "t", schema, strict=True)])

    return filled(made, size)


def newlines(house: Served) -> tuple[int, str]:
    """Ask a provider whose first frame ends in three newlines."""
    body = {"model": "chat/newlines", "stream": True, "messages": [{"role": "user", "content": "x"}]}
    with closing(house.send(PATHS[CHAT], body, "connection: close")) as end:
        end.settimeout(PATIENCE)
        try:
            return 20, str(read_answer(end).status)
        except OSError as error:
            return 20, f"no answer: {type(error).__name__}"


def says_newlines(received: Received) -> Reply:
    """A provider whose frames end in three newlines."""
    if b"newlines" not in received.body:
        return provider(received)
    chunk = {**ANSWER, "object": "chat.completion.chunk"}
    chunk["choices"] = [{"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}]
    return streamed(b": keep-alive\n\n\n", b"data: %b\n\n\n" % json.dumps(chunk).encode(), b"data: [DONE]\n\n")


def aborted(house: Served) -> tuple[int, str]:
    """Ten uploads of 20 MB that end one byte early."""
    size = 20 * MEBIBYTE
    for _ in range(10):
        with house.connect() as end:
            head = f"POST {PATHS[CHAT]} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {size}\r\n\r\n"
            end.sendall(head.encode() + b" " * (size - 1))
    time.sleep(1.0)
    return 10 * size, "aborted"


def tiny_chunks(house: Served) -> tuple[int, str]:
    """8 MiB in chunks of two bytes, left open."""
    count = 4 * MEBIBYTE
    end = house.connect()
    end.settimeout(2 * PATIENCE)
    head = f"POST {PATHS[CHAT]} HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n"
    end.sendall(head.encode())
    piece = b"2\r\n  \r\n" * 65536
    for _ in range(count // 65536):
        end.sendall(piece)
    time.sleep(0.5)
    held = memory_of(house.process.pid)
    end.close()
    return 7 * count, f"{held:.0f} MB while it lasted"


def large_streams(house: Served) -> tuple[int, str]:
    """Three hundred streamed exchanges with bodies of 300 KB."""
    words = "word " * 60_000
    body = {"model": "chat/newlines", "stream": True, "messages": [{"role": "user", "content": words}]}
    for _ in range(300):
        house.post(PATHS[MESSAGES], {**body, "max_tokens": 10})
    return 300 * len(words), "300 answers"


def held_store(house: Served) -> tuple[int, str]:
    """Stored answers while another process holds the file; every id that is told is asked for afterwards."""
    path = house.directory / ".local/state/dragoman/state.db"
    told: list[str] = []
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        ends = [
            house.send(PATHS[RESPONSES], {"model": "chat/served", "input": "x"}, "connection: close") for _ in range(5)
        ]
        time.sleep(3.0)
        db.execute("ROLLBACK")
    for end in ends:
        with closing(end):
            answer = read_answer(end)
        if answer.status == 200:
            told.append(str(answer.json()["id"]))
    lost = sum(house.get(f"/v1/responses/{name}").status != 200 for name in told)
    return 5, f"{len(told)} told, {lost} of them not kept"


def blocked_log() -> Cost:
    """A log that nobody reads, and requests that are refused."""
    with serving(provider) as house:
        more = house.directory / "blocked"
        more.mkdir()
        ours, theirs = os.pipe()
        out = more / "out"
        with out.open("wb") as said:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "dragoman", "serve", "--config", str(house.file), "--port", "0"],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=theirs,
                cwd=more,
            )
        os.close(theirs)
        try:
            while b" listens on " not in out.read_bytes():
                time.sleep(0.05)
            listens = int(out.read_text().split(",")[0].rsplit(":", 1)[1])
            begun, answered = time.monotonic(), 0
            with suppress(OSError):
                for _ in range(2000):
                    with socket.create_connection(("127.0.0.1", listens), timeout=5.0) as end:
                        end.sendall(b"GET /nowhere HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
                        answered += bool(end.recv(100))
            return Cost(
                name="a log that nobody reads, 2,000 refusals",
                sent=2000 * 70,
                seconds=time.monotonic() - begun,
                cpu=cpu_of(process.pid),
                # Neither is measured here.
                memory=math.nan,
                others=math.nan,
                told=f"{answered} of 2000 answered",
            )
        finally:
            os.close(ours)
            process.kill()
            process.wait()


def _simple() -> Iterator[tuple[str, Callable[[Served], tuple[int, str]]]]:
    """Attacks that need nothing but a gateway and a provider."""
    json_type = {"content_type": "application/json"}
    for layers in (2, 3, 4):
        names = ", ".join(["gzip"] * layers)
        yield f"content-encoding: {names}", sending(PATHS[CHAT], coded(layers), content_encoding=names, **json_type)
    form = {"content_type": "multipart/form-data; boundary=x"}
    yield 'a form of name="model"', sending("/v1/audio/transcriptions", b'name="model"\r\n' * 9000, **form)
    yield "100 KB of strict tools", sending(PATHS[CHAT], strict_tools(105_000), **json_type)
    yield "three newlines", newlines
    yield "ten aborted uploads of 20 MB", aborted
    yield "8 MiB in chunks of two bytes", tiny_chunks
    yield "300 streams with bodies of 300 KB", large_streams
    for size in (100_000, 2_000_000, 8_000_000):
        tiny = filled(lambda n: request(MESSAGES, "chat/served", [user(MESSAGES)] * n), size)
        yield f"{size / 1e6:g} MB of tiny messages", sending(PATHS[MESSAGES], tiny, **json_type)
    for size in (1_000_000, 30_000_000):
        text = filled(lambda n: request(MESSAGES, "chat/served", [user(MESSAGES, "word, und 12 " * n)]), size)
        yield f"a count of {size / 1e6:g} MB", sending("/v1/messages/count_tokens", text, **json_type)
    yield "the store held by another process", held_store


def amplified() -> Cost:
    """How much goes out for a strict schema that came in."""
    size = 0

    def weighs(received: Received) -> Reply:
        nonlocal size
        size = max(size, len(received.body))
        return paced(received) or whole({"error": {"message": "no"}}, status=400)

    body = doubling(92_000)
    with serving(weighs) as house:
        cost = measured("one strict schema", house, sending(PATHS[CHAT], body, content_type="application/json"))
    cost.told = f"{cost.told}; {size:,} bytes went out for {len(body):,}"
    return cost


# How often a gateway is killed, and with how many workers.
_KILLS = ((20, 1), (16, 2))


def killed() -> Cost:
    """A gateway that is killed under load, and whoever drains its journals, too; what is lost or twice ends it all."""
    begun, rows, complete, crashed, kills = time.monotonic(), 0, 0, 0, 0
    for rounds, workers in _KILLS:
        with TemporaryDirectory() as folder:
            came = kill_under_load(Path(folder), rounds=rounds, seed=time.time_ns(), workers=workers, kill_drains=True)
        rows, complete, crashed = rows + came.rows, complete + came.complete, crashed + came.crashed
        kills += came.kills
    return Cost(
        name=f"killed under load, {kills} times",
        sent=rows,
        seconds=time.monotonic() - begun,
        # None of them is measured here.
        cpu=math.nan,
        memory=math.nan,
        others=math.nan,
        told=f"{complete} complete answers, each once among {rows} rows; {crashed} crashed; sums agree",
    )


def main(only: str = "") -> int:
    """Run them all, or those with a word in their names."""
    print(f"{'attack':40} {'sent':>12} {'seconds':>8} {'CPU s':>7} {'MB':>6} {'others, ms':>10}  told", flush=True)
    for name, attack in _simple():
        if only in name:
            with serving(says_newlines, arguments=NO_LINES) as house:
                _print(measured(name, house, attack))
    for whole_attack in (amplified, blocked_log, killed):
        if only in whole_attack.__name__ or not only:
            _print(whole_attack())
    if only in "translations":
        translations.main()
    return 0


def _print(cost: Cost) -> None:
    print(
        f"{cost.name:40} {cost.sent:12,} {cost.seconds:8.2f} {cost.cpu:7.2f} {cost.memory:6.0f} "
        f"{1000 * cost.others:10.0f}  {cost.told}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
