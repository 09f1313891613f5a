"""The mint of the real world, in a process that was forked."""

from __future__ import annotations

import os

from dragoman import mint


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
