"""The mint of the real world."""

from __future__ import annotations

import pytest

from dragoman import mint, system_mint


def test_tokens_are_fresh_and_plain() -> None:
    mint = system_mint()
    tokens = {mint.token(24) for _ in range(50)}
    assert len(tokens) == 50
    assert all(len(token) == 24 and token.isalnum() and token.isascii() for token in tokens)


def test_the_time_is_that_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1_700_000_000.9)
    assert system_mint().now() == 1_700_000_000


def test_tokens_differ_when_what_was_drawn_runs_out() -> None:
    tokens = [mint.random_token(1000) for _ in range(20)]
    assert len(set(tokens)) == 20
    assert {len(token) for token in tokens} == {1000}
    assert len(mint.random_token(10_000)) == 10_000
