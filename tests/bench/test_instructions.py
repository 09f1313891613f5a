"""The count of instructions: dump files of callgrind, loop and ingest, the comparison with accepted figures."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.gateway.cases import BURST, CASES, WHOLE
from bench.instructions import __main__ as command
from bench.instructions import accepted
from bench.instructions.accepted import Accepted, accept, compare, read, table
from bench.instructions.callgrind import (
    INSTALL,
    CallgrindError,
    ThreadCount,
    counts_in,
    ingest_thread,
    thread_count,
)
from bench.instructions.callgrind import (
    command as callgrind_command,
)
from bench.instructions.counting import Counted, counted, least
from bench.instructions.observed import gated
from bench.instructions.rows import MEASURED, Figures, Measured, figures_of, with_differences
from dragoman.records.ingest_thread import IngestThread

_DUMP = """# callgrind format
version: 1
creator: callgrind-3.19.0
pid: 25140
cmd:  python -m dragoman serve
part: 1
thread: 4

desc: I1 cache:
desc: Trigger: dump bench

positions: line
events: Ir
summary: 0


ob=(2) /usr/lib/x86_64-linux-gnu/libsqlite3.so.0.8.6
fl=(37) ???
fn=(1234) sqlite3_step
0 120
cob=(5) /usr/lib/libpython3.11.so.1.0
cfn=(77) PyObject_Call
calls=3 0
0 4500

ob=(2)
fn=(1236) sqlite3_reset
0 30

totals: 4650
"""


def test_a_dump_file_gives_thread_instructions_and_objects() -> None:
    count = thread_count(_DUMP)
    assert count == ThreadCount(
        thread=4, instructions=4650, objects=frozenset({"libsqlite3.so.0.8.6", "libpython3.11.so.1.0"})
    )


def test_a_process_that_is_counted_from_its_start_leaves_a_file_for_each_thread(tmp_path: Path) -> None:
    assert "--instr-atstart=yes" in callgrind_command(tmp_path, from_start=True)
    assert "--instr-atstart=no" in callgrind_command(tmp_path)
    (tmp_path / "callgrind.out").write_text("")
    (tmp_path / "callgrind.out-01").write_text(_DUMP)
    (tmp_path / "callgrind.out-02").write_text(_DUMP.replace("thread: 4", "thread: 5"))
    assert [(count.thread, count.instructions) for count in counts_in(tmp_path)] == [(4, 4650), (5, 4650)]


def test_a_file_that_was_not_written_to_its_end_is_refused() -> None:
    with pytest.raises(CallgrindError, match="without thread or totals"):
        thread_count(_DUMP.partition("totals")[0])


_SQLITE = frozenset({"libsqlite3.so.0"})
_EXCHANGED = [
    ThreadCount(thread=1, instructions=1000),
    ThreadCount(thread=2, instructions=200, objects=_SQLITE),
    ThreadCount(thread=3, instructions=50),
    ThreadCount(thread=4, instructions=10),
]
_INGESTED = [
    ThreadCount(thread=1, instructions=7),
    ThreadCount(thread=3, instructions=3),
    ThreadCount(thread=4, instructions=390, objects=_SQLITE),
]


def test_the_ingest_is_the_thread_that_is_busy_with_sqlite_after_the_exchanges_and_all_others_are_the_loop() -> None:
    assert ingest_thread(_INGESTED) == 4
    assert counted(_EXCHANGED, _INGESTED, 10) == Counted(loop=126.0, ingest=40.0)


def test_the_least_of_several_rounds_counts_for_loop_and_ingest_apart() -> None:
    rounds = [Counted(loop=126.0, ingest=41.0), Counted(loop=129.0, ingest=40.0)]
    assert least(rounds) == Counted(loop=126.0, ingest=40.0)


def test_a_busy_thread_without_sqlite_is_not_taken_for_the_ingest() -> None:
    with pytest.raises(CallgrindError, match="thread 1 was busy"):
        ingest_thread([ThreadCount(thread=1, instructions=500), *_INGESTED[1:]])


def test_rows_are_thousands_per_exchange_and_per_chunk_of_a_stream() -> None:
    whole = next(case for case in CASES if case.mode == WHOLE)
    stream = next(case for case in CASES if case.mode == BURST)
    counts = Counted(loop=4_000_000.0, ingest=300_000.0)
    assert figures_of(whole, counts) == {"S1 loop": 4000.0, "S1 ingest": 300.0, "S1 total": 4300.0}
    assert figures_of(stream, counts)["S3 loop per chunk"] == 20.0


def test_differences_are_of_rows_that_were_measured() -> None:
    figures = {"S1 total": 100.0, "S8 total": 130.0, "S8 loop": 90.0}
    assert with_differences(figures) == {**figures, "S8 total over S1": 30.0}


def test_only_a_row_above_the_tolerance_is_worse_and_a_difference_never_is() -> None:
    old = Accepted(
        python="3.11", rows={"S1 loop": 1000.0, "S1 ingest": 300.0, "S2 loop": 500.0, "S8 loop over S1": 50.0}
    )
    new = {"S1 loop": 1031.0, "S1 ingest": 308.0, "S2 loop": 400.0, "S8 loop over S1": 90.0, "S3 loop": 7.0}
    compared = compare(old, new)
    assert [row.name for row in compared if row.is_worse] == ["S1 loop"]
    assert table(compared).splitlines()[1:] == [
        "S1 loop                          1,000.0     1,031.0     +3.1%  worse",
        "S1 ingest                          300.0       308.0     +2.7%",
        "S2 loop                            500.0       400.0    -20.0%",
        "S8 loop over S1                     50.0        90.0    +80.0%",
        "S3 loop                                –         7.0         –",
    ]


def test_accepting_some_rows_leaves_the_others(tmp_path: Path) -> None:
    file = tmp_path / "instructions.json"
    accept({"S1 loop": 1000.123, "S2 loop": 500.0}, file)
    accept({"S1 loop": 900.0}, file)
    assert read(file) == Accepted(python=accepted.this_python(), rows={"S1 loop": 900.0, "S2 loop": 500.0})


def test_every_case_has_accepted_figures() -> None:
    rows = read().rows
    assert not [case.name for case in MEASURED[:-1] if not any(row.startswith(f"{case.name} ") for row in rows)]
    assert "S1 Python calls" in rows


@pytest.mark.parametrize(("figure", "status"), [(102.0, 0), (104.0, 1)])
def test_the_status_says_whether_a_row_is_worse(
    figure: float, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure() -> Figures:
        return {"S1 loop": figure}

    monkeypatch.setattr(command, "MEASURED", (Measured(name="S1", measure=measure),))
    monkeypatch.setattr(command, "read", lambda: Accepted(python="3.11", rows={"S1 loop": 100.0}))
    monkeypatch.setattr(command, "is_installed", lambda: True)
    assert command.main(["--case", "s1"]) == status
    printed = capsys.readouterr()
    assert f"{figure:.1f}" in printed.out
    assert ("more than 3% worse than accepted: S1 loop" in printed.err) == bool(status)


def test_without_valgrind_or_with_an_unknown_case_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "is_installed", lambda: False)
    assert command.main(["--case", "S1"]) == 2
    assert INSTALL in capsys.readouterr().err
    assert command.main(["--case", "S99"]) == 2
    assert "no case is called s99" in capsys.readouterr().err


def test_the_ingest_thread_makes_one_step_per_permit_and_reports_it() -> None:
    steps: list[bool] = []

    def step(thread: IngestThread, pause: float, *, at_last: bool = False) -> float:
        steps.append(at_last)
        thread.rows += 5
        return 1.0

    thread = object.__new__(IngestThread)
    thread.rows = thread.errors = 0
    (permits, permit), (reports, report) = os.pipe(), os.pipe()
    try:
        permitted = gated(step, permits, report)
        os.write(permit, b".")
        assert permitted(thread, 0.0) == 0.0
        assert os.read(reports, 100) == b"5 0\n"
    finally:
        os.close(permit)
    # With the other process gone, the thread works and pauses as it does by itself.
    assert permitted(thread, 0.0, at_last=True) == 1.0
    assert steps == [False, True]
    for descriptor in (permits, reports, report):
        os.close(descriptor)
