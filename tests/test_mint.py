"""The mint of the real world."""

from __future__ import annotations

import time

from dragoman import system_mint


def test_tokens_are_fresh_and_plain() -> None:
    mint = system_mint()
    tokens = {mint.token(24) for _ in range(50)}
    assert len(tokens) == 50
    assert all(len(token) == 24 and token.isalnum() and token.isascii() for token in tokens)


def test_the_time_is_now() -> None:
    assert abs(system_mint().now() - time.time()) < 5
