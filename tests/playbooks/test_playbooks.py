"""The playbooks: every dialogue is played on the gateway, and must read as it was recorded.

    > what client, provider, time, store or operator do        | bytes, line by line
    < what came of it, in true order                           + a chunk of its framing
    = what time it is since the start, where that moved

`REWRITE_PLAYBOOKS=1` writes what happens now; the diff is the review.
"""

from __future__ import annotations

import gc
import os
from difflib import unified_diff
from pathlib import Path

import pytest

from dragoman.gateway.exchange.exchange import Exchange
from dragoman.http.http_call import HttpCall
from tests.playbooks.scenes import Scene, scenes
from tests.playbooks.stage import START, Stage, settled
from tests.virtual_time import run

RECORDED = Path(__file__).parent / "recorded"
SCENES = {scene.name: scene for scene in scenes()}
# The names of those that this process has played.
_played: set[str] = set()


async def played(scene: Scene, folder: Path) -> list[str]:
    """The transcript of a dialogue."""
    stage = Stage(scene.setup.settings(), folder / "state.db")
    with settled(stage):
        stage.open()
        try:
            for step in scene.steps:
                doing = step(stage)
                if doing is not None:
                    await doing
                await stage.loop.quiet()
            stage.does("all is over")
        finally:
            await stage.close()
        stage.count()
    return stage.lines


@pytest.mark.parametrize("name", SCENES)
def test_dialogue(name: str, tmp_path: Path) -> None:
    path = RECORDED / f"{name}.txt"
    lines = run(played(SCENES[name], tmp_path), START)
    _played.add(name)
    told = "".join(f"{line}\n" for line in lines)
    if os.environ.get("REWRITE_PLAYBOOKS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(told, encoding="utf-8", errors="surrogateescape")
        return
    found = path.read_text(encoding="utf-8", errors="surrogateescape") if path.exists() else ""
    if told != found:
        diff = unified_diff(found.splitlines(), lines, "recorded", "played", lineterm="", n=4)
        pytest.fail("\n".join(diff), pytrace=False)


FAILING = [name for name in SCENES if name.endswith(("/cut", "/silent", "/refused", "/unsettled", "/cancelled"))]
FAILING += [name for name in SCENES if name.endswith(("fail", "_cancelled", "_background", "failover_cut", "left_out"))]


def test_nothing_of_an_exchange_is_left_however_it_failed(tmp_path: Path) -> None:
    assert len(FAILING) > 20
    for count, name in enumerate(set(FAILING) - _played):
        folder = tmp_path / str(count)
        folder.mkdir()
        run(played(SCENES[name], folder), START)
    gc.collect()
    assert [found for found in gc.get_objects() if type(found) in (Exchange, HttpCall)] == []


def test_every_recording_is_of_a_dialogue() -> None:
    found = {path.relative_to(RECORDED).with_suffix("").as_posix() for path in RECORDED.rglob("*") if path.is_file()}
    if os.environ.get("REWRITE_PLAYBOOKS"):
        for name in found - SCENES.keys():
            (RECORDED / f"{name}.txt").unlink()
        found &= SCENES.keys()
    assert found - SCENES.keys() == set(), "recordings of no dialogue"
