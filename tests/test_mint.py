"""The mint of the real world."""

from __future__ import annotations

import os
import time

from dragoman import mint, system_mint


def test_tokens_are_fresh_and_plain() -> None:
    mint = system_mint()
    tokens = {mint.token(24) for _ in range(50)}
    assert len(tokens) == 50
    assert all(len(token) == 24 and token.isalnum() and token.isascii() for token in tokens)


def test_the_time_is_now() -> None:
    assert abs(system_mint().now() - time.time()) < 5


def test_tokens_differ_when_what_was_drawn_runs_out() -> None:
    tokens = [mint.random_token(1000) for _ in range(20)]
    assert len(set(tokens)) == 20
    assert {len(token) for token in tokens} == {1000}
    assert len(mint.random_token(10_000)) == 10_000


def test_a_forked_process_makes_tokens_of_its_own() -> None:
    mint.random_token(8)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, mint.random_token(24).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading) as told:
        theirs = told.read()
    assert len(theirs) == 24
    assert theirs != mint.random_token(24)
