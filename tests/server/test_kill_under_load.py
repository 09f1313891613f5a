"""Law 10, exactly once: what a client saw complete is in the records once, through any crash, and all sums agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.records.killing import kill_under_load


@pytest.mark.parametrize(("rounds", "workers"), [(3, 1), (2, 2)], ids=["one worker", "two workers"])
def test_pitfall_428_429_what_clients_saw_is_there_once_however_often_the_gateway_is_killed(
    tmp_path: Path, rounds: int, workers: int
) -> None:
    came = kill_under_load(tmp_path, rounds=rounds, seed=rounds, workers=workers)
    assert came.kills == rounds
    assert 0 < came.complete <= came.rows


@pytest.mark.nightly
@pytest.mark.parametrize("workers", [1, 2], ids=["one worker", "two workers"])
def test_pitfall_428_429_often_and_with_commands_that_are_killed_as_well(tmp_path: Path, workers: int) -> None:
    came = kill_under_load(tmp_path, rounds=25, seed=workers, workers=workers, kill_drains=True)
    assert came.kills == 25
    assert 0 < came.complete <= came.rows
