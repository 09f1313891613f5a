"""`dragoman forget` beside a gateway that stores contents: nothing of an exchange that still runs is stored."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from dragoman.contents.archive import open_archive
from dragoman.contents.redaction import ContentsRedactor
from tests.gateway.harness import MESSAGES, PATHS, Received, Reply, read_answer
from tests.gateway.harness import stream as streamed
from tests.gateway.says import question, speaking, streams, turn
from tests.sdk.providers import stream as stream_of
from tests.server.process import Gate, Served, clean_environment, serving
from tests.waiting import LIMIT

KEY = "dgm_key-of-the-erasure-test-0123456789"
SESSION = "5b1c1f0e-0000-4000-8000-000000000001"
# Random letters are in a compressed file as they are.
MARKER, LATER = "q7Zk3Vx9Lw2Rf8Tn", "Hs4Yb1Mc6Jp0Dg5W"
RUNNING = 6


def _headers(session: str) -> tuple[str, ...]:
    return (f"x-api-key: {KEY}", f"x-claude-code-session-id: {session}", "user-agent: claude-cli/2.1.325")


def _asked(text: str) -> dict[str, object]:
    messages = [{"role": "user", "content": text}]
    return {**question(MESSAGES, MESSAGES, stream=True), "messages": messages}


def _ask(house: Served, text: str, session: str) -> None:
    with house.send(PATHS[MESSAGES], _asked(text), *_headers(session), "connection: close") as connection:
        assert b"message_stop" in read_answer(connection).body


def _forget(house: Served, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "dragoman", "forget", *words, "--yes", "--config", str(house.file)],
        cwd=house.directory,
        env=clean_environment(house.directory),
        capture_output=True,
        text=True,
        timeout=2 * LIMIT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("words", [("--key", "laptop"), ("--session", SESSION)], ids=["key", "session"])
def test_pitfall_657_an_exchange_that_runs_meanwhile_leaves_nothing(tmp_path: Path, words: tuple[str, ...]) -> None:
    gate = Gate()

    def script(received: Received) -> Reply:
        if f"{MARKER} running" not in received.body.decode():
            return streams(MESSAGES)
        begun = speaking(MESSAGES)
        end = stream_of(MESSAGES, turn(MESSAGES)).removeprefix(begun)
        return streamed(begun, f": {MARKER}\n\n".encode(), gate, f": {MARKER}\n\n".encode(), end)

    state = tmp_path / "state.db"
    settings = f'[storage]\npath = "{state}"\n[storage.contents]\nrecord = "on"\n[keys.laptop]\nkey = "{KEY}"\n'
    with serving(script, more=settings, arguments=("--workers", "2")) as house:
        _ask(house, f"{MARKER} ended", SESSION)
        with ExitStack() as stack:
            running = [
                stack.enter_context(
                    house.send(
                        PATHS[MESSAGES], _asked(f"{MARKER} running {number}"), *_headers(SESSION), "connection: close"
                    )
                )
                for number in range(RUNNING)
            ]
            gate.reached(RUNNING)
            _forget(house, *words)
            assert _files_with(tmp_path, MARKER) == []
            _ask(house, LATER, "another")
            gate.open()
            for connection in running:
                assert MARKER.encode() in read_answer(connection).body
        assert house.stop() == 0
    with closing(open_archive(str(state), ContentsRedactor())) as archive:
        (later,) = [archive.read(exchange) for exchange in archive.tables.oldest(100)]
    assert later is not None and json.loads(later.bodies[0].data) == _asked(LATER)
    assert _files_with(tmp_path, MARKER) == []
    assert _files_with(tmp_path, LATER) == ["contents.db"]


def _files_with(folder: Path, text: str) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]
