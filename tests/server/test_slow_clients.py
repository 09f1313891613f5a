"""A client that asks and does not read: the gateway's memory stays bounded, the provider feels it, others do not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.harness import CHAT, MESSAGES, PATHS, PROTOCOLS, Reply, read_answer
from tests.gateway.harness import stream as streamed
from tests.gateway.says import NAMES, is_finished, question, streamed_text, streams, turn
from tests.sdk.providers import stream as stream_of
from tests.server.process import WRITER, Script, Served, serving
from tests.server.workers import wait_for_turns
from tests.waiting import wait_until

PIECE = "0123456789abcdef" * 4096
PIECES = 512
MEBIBYTE = 1024 * 1024
TURNS = 4
# Far above what the buffers on the way may hold, far below what the provider has to say.
MOST_MEMORY = 16 * MEBIBYTE


class Counted:
    """A step that counts how far a provider has come, and knows its connections."""

    def __init__(self) -> None:
        self.count = 0
        self.writers: set[asyncio.StreamWriter] = set()

    async def __call__(self) -> None:
        """Count."""
        self.count += 1
        self.writers.add(WRITER.get())

    def is_blocked(self, connections: int) -> bool:
        """Whether so many connections take no more bytes."""
        blocked = [writer for writer in tuple(self.writers) if writer.transport.get_write_buffer_size()]
        return len(blocked) == connections


pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="memory and queues are found in /proc")


@pytest.fixture(scope="module")
def script() -> Script:
    script = Script()
    script.replies["served"] = streams(CHAT)
    return script


@pytest.fixture(scope="module")
def house(script: Script) -> Iterator[Served]:
    with serving(script) as served:
        yield served


def _flood(counted: Counted) -> Reply:
    """A provider that says one long thing many times."""
    *opening, first, _, _, stop, usage, done = stream_of(CHAT, turn(CHAT, PIECE * 3)).split(b"\n\n")[:-1]
    piece = first + b"\n\n"
    ends = [frame + b"\n\n" for frame in (stop, usage, done)]
    return streamed(*(frame + b"\n\n" for frame in opening), *(piece, counted) * PIECES, *ends)


def _memory(pid: int) -> int:
    """The bytes of memory that a process holds."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def _stalled(house: Served, counted: Counted, connections: int = 1) -> int:
    """Wait until the provider comes no further; return how far it came.

    The provider's connections take no more bytes, and the gateway leaves bytes of all of them unread although it has
    been awake several times: it does not read them before its clients do.
    """

    def is_stalled() -> bool:
        before = counted.count
        if not counted.is_blocked(connections) or _unread(house) < connections:
            return False
        wait_for_turns([house.process.pid], TURNS)
        return counted.is_blocked(connections) and _unread(house) >= connections and counted.count == before

    wait_until(is_stalled, f"{connections} stalled connections")
    return counted.count


def _unread(house: Served) -> int:
    """The number of connections with the provider on which the gateway has not read everything."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    provider = f":{house.provider.port:04X}"
    return sum(row[2].endswith(provider) and int(row[4].partition(":")[2], 16) > 0 for row in rows)


# The relay and a translation; a Responses stream says everything four times more at its end, which takes long.
@pytest.mark.parametrize("client", [CHAT, MESSAGES])
def test_a_client_that_does_not_read_holds_up_its_own_provider_alone(
    house: Served, script: Script, client: str
) -> None:
    counted = Counted()
    script.replies["flood"] = _flood(counted)
    assert house.post(PATHS[client], question(client, CHAT, stream=True)).status == 200
    before = _memory(house.process.pid)
    body = question(client, CHAT, stream=True, model=f"{NAMES[CHAT]}/flood")
    with house.send(PATHS[client], body, "connection: close") as end:
        stalled = _stalled(house, counted)
        assert stalled < PIECES
        assert _memory(house.process.pid) - before < MOST_MEMORY
        for other in PROTOCOLS:
            told = house.post(PATHS[other], question(other, CHAT, stream=True))
            assert is_finished(other, told.body)
        # A busy system may pass on later what its sockets took before; the gateway reads no more of the stream.
        assert _stalled(house, counted) < PIECES
        told = read_answer(end)
    assert told.complete
    assert is_finished(client, told.body)
    assert streamed_text(client, told.body) == PIECE * PIECES
    assert counted.count == PIECES


def test_fifty_clients_that_do_not_read_take_little_memory_and_leave_none_behind(house: Served, script: Script) -> None:
    counted = Counted()
    script.replies["flood"] = _flood(counted)
    before = _memory(house.process.pid)
    body = question(CHAT, CHAT, stream=True, model=f"{NAMES[CHAT]}/flood")
    ends = [house.send(PATHS[CHAT], body) for _ in range(50)]
    try:
        assert _stalled(house, counted, len(ends)) < 50 * PIECES
        assert _memory(house.process.pid) - before < 4 * MOST_MEMORY
        assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
    finally:
        for end in ends:
            end.close()
    house.process.log.wait('"failure":"cancelled"', len(ends))
    assert house.is_idle()
