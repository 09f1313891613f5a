"""The harness: what a wait that gives up prints of a running gateway, and what is closed when it stops."""

from __future__ import annotations

import pytest

from tests.gateway.harness import CHAT, PATHS, running
from tests.gateway.says import question, tells
from tests.waiting import state_of_everything, wait_until


def test_a_wait_that_gives_up_prints_log_and_provider() -> None:
    with running([tells(CHAT)]) as house:
        house.post(PATHS[CHAT], question(CHAT, CHAT))
        wait_until(lambda: house.provider.open == 0, "the provider's connection is closed")
        with pytest.raises(AssertionError) as raised:
            wait_until(lambda: False, "nothing", limit=0.0)
    text = str(raised.value)
    assert '"event":"exchange"' in text.replace(" ", "")
    assert f"provider at port {house.provider.port}: 1 requests, 0 open connections, 0 hang-ups" in text
    assert "POST /v1/chat/completions" in text


def test_a_house_that_stopped_reports_nothing() -> None:
    with running() as house:
        assert f"port {house.port}" in state_of_everything()
    assert f"port {house.port}" not in state_of_everything()
