"""A store that another process held for a while: what ran meanwhile is neither lost nor told twice (decision 21)."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.gateway import background
from tests.gateway.harness import PATIENCE
from tests.gateway.keeping_house import ended, told
from tests.gateway.test_kept_first import asking, kept_in


@pytest.mark.parametrize("way", ["a listener", "somebody who asks"])
def test_what_runs_here_is_never_given_up_by_those_who_look_at_it(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The store took no promise for a while: every one is broken.
    monkeypatch.setattr(background, "_ALIVE", -1)
    body = {"model": "chat/served", "input": "ticking", "background": True, "stream": way == "a listener"}
    with kept_in(tmp_path) as house:
        if way == "a listener":
            with asking(lambda: house.post("/v1/responses", body)) as heard:
                frames = heard.result(PATIENCE).body
            assert frames.count(b"event: response.completed") == 1 and b"response.failed" not in frames
        else:
            made = str(house.post("/v1/responses", body).json()["id"])
            assert str(told(house, f"/v1/responses/{made}")["status"]) in ("queued", "in_progress")
            assert ended(house, made)["status"] == "completed"
        assert house.provider.hung_up == 0
