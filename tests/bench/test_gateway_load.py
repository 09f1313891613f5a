"""The gateway's benchmark as processes: provider, load and gateway hear each other, and end together.

Times are not asserted: they measure the machine.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import uvloop
from msgspec import structs

from bench.gateway import process, run, serving
from bench.gateway.answers import whole
from bench.gateway.cases import CASES, PACED, Case
from bench.gateway.load import LoadError, drive
from bench.gateway.metronome import TURNS, Metronome
from bench.gateway.process import ProcessError, Served, cores, free_port
from bench.gateway.questions import find_mark, question
from bench.gateway.rounds import TOGETHER
from bench.workloads import CHAT
from tests.waiting import LIMIT, wait_until


@pytest.fixture(scope="module", autouse=True)
def patient() -> Iterator[None]:
    """Processes may take as long to start and to end as a busy machine needs."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(process, "READY", LIMIT)
        patched.setattr(process, "ENDED", LIMIT)
        yield


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The mock provider as a process."""
    with serving.provider(tmp_path_factory.mktemp("provider"), cores().apart) as served:
        served.wait_ready()
        yield served


_PACED = [case for case in CASES if case.mode == PACED]
# Paced streams take seconds: one case of them is enough for a day.
_CASES = [
    pytest.param(case, id=case.label, marks=[pytest.mark.nightly] if case in _PACED[1:] else []) for case in CASES
]


@pytest.mark.parametrize("case", _CASES)
def test_the_load_hears_its_own_answers_from_the_provider(case: Case, provider: Served) -> None:
    outcome = uvloop.run(drive(question(case, provider.port), provider.port, answers=4, concurrent=4, limit=LIMIT))
    assert outcome.answers == len(outcome.latencies) == 4
    assert outcome.reads >= 4


def test_the_load_stops_at_the_first_wrong_answer(provider: Served) -> None:
    asked = question(CASES[0], provider.port)
    lost = structs.replace(asked, head=asked.head.replace(b"/v1/chat", b"/v1/chit"))
    with pytest.raises(LoadError, match="status 404"):
        uvloop.run(drive(lost, provider.port, answers=5, concurrent=2, limit=LIMIT))


def test_the_load_gives_up_in_time(provider: Served) -> None:
    paced = next(case for case in CASES if case.mode == PACED)
    with pytest.raises(LoadError, match="answers after"):
        uvloop.run(drive(question(paced, provider.port), provider.port, answers=50, concurrent=1, limit=0.3))


def test_clients_connect_again_to_a_server_that_closes_connections() -> None:
    connections = 0

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        mark = find_mark(await reader.readexactly(length))
        assert mark is not None
        for write in whole(CHAT).filled(mark):
            writer.write(write.replace(b"server: mock", b"connection: close"))
        await writer.drain()
        writer.close()

    async def ask() -> int:
        server = await asyncio.start_server(respond, "127.0.0.1", 0)
        async with server:
            port: int = server.sockets[0].getsockname()[1]
            return (await drive(question(CASES[0], port), port, answers=7, concurrent=2, limit=LIMIT)).answers

    assert uvloop.run(ask()) == 7
    assert connections >= 7


def test_the_metronome_gives_each_stream_its_own_turn() -> None:
    wanted: list[threading.Event] = []

    async def beat() -> list[int]:
        turns: list[int] = []
        done = asyncio.Event()
        metronome = Metronome(asyncio.get_running_loop())

        def stream(number: int) -> None:
            def step() -> bool:
                turns.append(number)
                more = turns.count(number) < 3
                if len(turns) == 3 * TURNS:
                    done.set()
                return more

            metronome.add(step)

        for number in range(TURNS):
            stream(number)
        async with asyncio.timeout(LIMIT):
            await done.wait()
        wanted.append(metronome._wanted)
        return turns

    turns = asyncio.run(beat())
    # Its thread ends once it is wanted by a loop that is closed.
    wanted[0].set()
    assert len(turns) == 3 * TURNS
    assert sorted(turns[:TURNS]) == list(range(TURNS))
    assert all(before != after for before, after in pairwise(turns))


def test_a_process_has_a_cost_and_a_memory_and_ends_with_its_children(tmp_path: Path) -> None:
    child = "import time; time.sleep(60)"
    parent = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}]); time.sleep(60)"
    served = Served([sys.executable, "-c", parent], free_port(), tmp_path / "log", core=cores().measured)
    try:
        wait_until(lambda: len(served.pids()) == 2, "the process has a child")
        assert served.cpu() > 0
        assert served.memory() > 5
        served.move(cores().apart)
    finally:
        for pid in served.pids()[1:]:
            os.kill(pid, 15)
        served.stop()


def test_a_process_that_does_not_start_says_its_last_words(tmp_path: Path) -> None:
    words = "import sys; sys.exit('no such luck')"
    with (
        Served([sys.executable, "-c", words], free_port(), tmp_path / "log", core=cores().measured) as served,
        pytest.raises(ProcessError, match="status 1: no such luck"),
    ):
        served.wait_ready()


def test_a_process_may_choose_its_port(tmp_path: Path) -> None:
    words = "import time; print('on 127.0.0.1:4711', flush=True); time.sleep(60)"
    with Served([sys.executable, "-c", words], 0, tmp_path / "log", core=cores().measured) as served:
        assert served.wait_listening(re.compile(rb"on 127\.0\.0\.1:(\d+)"), LIMIT) > 0
        assert served.port == 4711


def test_a_quick_look_at_the_gateway_prints_a_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_LAST_LINES", LIMIT)
    status = run.main(["--quick", "--case", "S2", "--layout", TOGETHER, "--no-cold-start"])
    printed = capsys.readouterr()
    assert status == 0, printed.err
    assert "| S2: Chat client, Messages provider " in printed.out
    assert "flatter" not in printed.out
