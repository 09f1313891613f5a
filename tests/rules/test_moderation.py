"""A moderation policy that blocks is refused by whoever has none."""

from __future__ import annotations

import pytest

from dragoman.errors import RefusedError
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.request import Request
from dragoman.rules.extras import blocks, refuse_blocking

SETTINGS: list[tuple[JsonObject, bool]] = [
    ({"model": "m"}, False),
    ({"policy": {"input": {"mode": "score"}, "output": None}}, False),
    ({"policy": {"input": {"mode": "score"}, "output": {"mode": "block"}}}, True),
    ({"policy": "block"}, False),
]


@pytest.mark.parametrize(("moderation", "blocking"), SETTINGS)
def test_a_policy_blocks_if_any_side_does(moderation: JsonObject, blocking: bool) -> None:
    assert blocks(moderation) is blocking


def test_only_what_blocks_is_refused() -> None:
    refuse_blocking(Request(origin="openai-chat", model="m"))
    refuse_blocking(Request(origin="openai-chat", model="m", moderation={"model": "m"}))
    with pytest.raises(RefusedError):
        refuse_blocking(Request(origin="openai-chat", model="m", moderation=SETTINGS[2][0]))
