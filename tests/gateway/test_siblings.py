"""Siblings: workers on one port tell each other what they counted, and one that cannot does not hold up the others."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path

import pytest

from dragoman.gateway import siblings as module
from dragoman.gateway.metrics import Metrics, render
from dragoman.gateway.record import Record
from dragoman.gateway.siblings import Siblings


@pytest.fixture
def directory() -> Iterator[Path]:
    """A short path: names of sockets are."""
    with tempfile.TemporaryDirectory(prefix="dgm") as name:
        yield Path(name)


def counted(model: str = "m", times: int = 1) -> Metrics:
    metrics = Metrics()
    for _ in range(times):
        record = Record(request_id="r", dialect="openai-chat", path="/", started=0.0)
        record.provider, record.model, record.status, record.ended = "p", model, 200, 1.0
        metrics.count(record)
    return metrics


def test_every_worker_hears_all_the_others(directory: Path) -> None:
    async def main() -> None:
        workers = [Siblings(directory, str(name), counted(times=name + 1)) for name in range(3)]
        for worker in workers:
            await worker.listen()
        for name, worker in enumerate(workers):
            others = await worker.snapshots()
            assert sorted(one.cells[0].requests for one in others) == [n + 1 for n in range(3) if n != name]
        for worker in workers:
            await worker.close()
        assert list(directory.iterdir()) == []

    asyncio.run(main())


def test_a_worker_alone_hears_nobody(directory: Path) -> None:
    async def main() -> None:
        worker = Siblings(directory, "0", counted())
        await worker.listen()
        assert await worker.snapshots() == []
        await worker.close()

    asyncio.run(main())


def test_what_is_told_is_the_state_at_that_moment(directory: Path) -> None:
    async def main() -> None:
        metrics = Metrics()
        one, other = Siblings(directory, "0", metrics), Siblings(directory, "1", Metrics())
        await one.listen()
        metrics.in_flight = 5
        assert [snapshot.in_flight for snapshot in await other.snapshots()] == [5]
        metrics.in_flight = 2
        assert [snapshot.in_flight for snapshot in await other.snapshots()] == [2]
        await one.close()
        assert await other.snapshots() == []

    asyncio.run(main())


def test_a_successor_takes_the_place_of_a_worker_that_died(directory: Path) -> None:
    async def main() -> None:
        (directory / "0.sock").write_bytes(b"left behind")
        worker, other = Siblings(directory, "0", counted()), Siblings(directory, "1", Metrics())
        await worker.listen()
        assert len(await other.snapshots()) == 1
        await worker.close()

    asyncio.run(main())


Tell = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


def saying(data: bytes) -> Tell:
    async def tell(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        writer.close()

    return tell


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


STRANGE: dict[str, Tell] = {
    "nothing": saying(b""),
    "no JSON": saying(b"<html>"),
    "half a document": saying(b'{"cells":[],"losses":[]'),
    "another document": saying(b'{"cells":5}'),
    "bytes that are no text": saying(b'{"cells":[{"client":"\xff"'),
    "no end": silent,
}


@pytest.mark.parametrize("case", STRANGE)
def test_a_sibling_that_cannot_tell_is_left_out(directory: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if case == "no end":
        monkeypatch.setattr(module, "_PATIENCE", 0.2)

    async def main() -> None:
        good, asking = Siblings(directory, "good", counted()), Siblings(directory, "asking", Metrics())
        await good.listen()
        strange = await asyncio.start_unix_server(STRANGE[case], str(directory / "strange.sock"))
        (directory / "dead.sock").write_bytes(b"")
        found = await asking.snapshots()
        assert [snapshot.cells[0].requests for snapshot in found] == [1]
        strange.close()
        await good.close()
        # What was hung up on ends on its own.
        await asyncio.sleep(0.05)

    asyncio.run(main())


def test_one_who_hangs_up_early_does_no_harm(directory: Path) -> None:
    async def main() -> None:
        metrics = Metrics()
        for count in range(100):
            metrics._losses["c", "d", "f" * 10_000, str(count)] = 1
        worker, other = Siblings(directory, "0", metrics), Siblings(directory, "1", Metrics())
        await worker.listen()
        for _ in range(5):
            _, writer = await asyncio.open_unix_connection(str(directory / "0.sock"))
            writer.transport.abort()
        (snapshot,) = await other.snapshots()
        assert len(snapshot.losses) == 100
        await worker.close()

    asyncio.run(main())


@pytest.mark.parametrize("model", ["a\ud800b", 'x"}\n', "x" * 1_000_000, "漢字"], ids=lambda model: ascii(model[:8]))
def test_a_hostile_model_does_not_keep_a_worker_from_telling(directory: Path, model: str) -> None:
    async def main() -> None:
        worker, other = Siblings(directory, "0", counted(model)), Siblings(directory, "1", counted(model))
        await worker.listen()
        both = [counted(model).snapshot(), *await other.snapshots()]
        await worker.close()
        lines = [line for line in render(both).decode().split("\n") if line.startswith("dragoman_requests_total")]
        assert len(lines) == 1
        assert lines[0].endswith(" 2")

    asyncio.run(main())
