"""Records over HTTP from a gateway with several workers: each worker has those of all, at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from dragoman.identities.key_text import hash_text, new_key
from dragoman.model.jsonvalue import JsonObject
from tests.cli.transcripts import Transcript
from tests.gateway.admin.event_streams import EventStream, listening
from tests.gateway.harness import MESSAGES, Received, Reply
from tests.gateway.says import question, tells
from tests.server.process import PATIENCE, Gate, Served, clean_environment, serving
from tests.server.workers import children
from tests.waiting import wait_until

ADA, BOB = new_key(), new_key()
KEYS = f'[keys.ada]\nhash = "{hash_text(ADA)}"\nrole = "admin"\n[keys.bob]\nhash = "{hash_text(BOB)}"\n'
REQUESTS = 12


class _Script:
    """A provider that answers at once, or behind a gate."""

    def __init__(self) -> None:
        self.gate: Gate | None = None

    def __call__(self, received: Received) -> Reply:
        reply = tells(MESSAGES)
        return reply if self.gate is None else Reply(steps=(self.gate, *reply.steps))


@pytest.fixture
def script() -> _Script:
    return _Script()


@pytest.fixture
def house(script: _Script) -> Iterator[Served]:
    with serving(script, KEYS, arguments=("--workers", "2")) as house:
        yield house


def converse(house: Served) -> None:
    assert house.post("/v1/messages", question(MESSAGES, MESSAGES), x_api_key=BOB).status == 200


def records(house: Served, path: str, key: str = ADA) -> JsonObject:
    """What the admin API answers, with all that was written until then."""
    answer = house.get(f"/admin/v1{path}", authorization=f"Bearer {key}")
    assert answer.status == 200, answer.body
    assert answer.header("x-dragoman-incomplete") is None
    document: JsonObject = answer.json()
    return document


def listed(house: Served, path: str, name: str, key: str = ADA) -> list[JsonObject]:
    rows = records(house, path, key)[name]
    assert isinstance(rows, list)
    return [row for row in rows if isinstance(row, dict)]


def streams_of_all_workers(house: Served, stack: ExitStack) -> list[EventStream]:
    """A stream of each worker: their rings have epochs of their own."""
    streams: dict[str, EventStream] = {}

    def has_both() -> bool:
        with ExitStack() as opened:
            stream = opened.enter_context(listening(house, ADA))
            assert stream.status == 200
            event_id, name, _ = stream.event()
            assert name == "resync"
            epoch = event_id.rpartition("-")[0]
            if epoch not in streams:
                streams[epoch] = stream
                stack.push(opened.pop_all())
        return len(streams) == 2

    wait_until(has_both, "a stream of each worker")
    return list(streams.values())


def ended(stream: EventStream, count: int) -> list[str]:
    """The ids of the next exchanges that are finalized."""
    ids: list[str] = []
    while len(ids) < count:
        _, name, data = stream.event()
        if name == "finalized":
            ids.append(str(data["id"]))
    return ids


def test_each_worker_has_the_exchanges_of_all_at_once(house: Served) -> None:
    for number in range(1, REQUESTS + 1):
        converse(house)
        # Whatever worker answers.
        for key in (ADA, BOB):
            assert len(listed(house, "/exchanges", "exchanges", key)) == number
    total = records(house, "/usage", BOB)["total"]
    assert isinstance(total, dict)
    assert total["requests"] == REQUESTS


def test_streams_of_each_worker_have_the_events_of_all(house: Served) -> None:
    with ExitStack() as stack:
        streams = streams_of_all_workers(house, stack)
        for _ in range(REQUESTS):
            converse(house)
        expected = sorted(str(row["id"]) for row in listed(house, "/exchanges", "exchanges"))
        assert len(expected) == REQUESTS
        for stream in streams:
            assert sorted(ended(stream, REQUESTS)) == expected


def test_an_exchange_of_a_killed_worker_is_finalized_as_crashed(house: Served, script: _Script) -> None:
    script.gate = Gate()
    with ExitStack() as stack:
        streams = streams_of_all_workers(house, stack)
        stack.enter_context(closing(house.send("/v1/messages", question(MESSAGES, MESSAGES), f"x-api-key: {BOB}")))
        script.gate.reached()
        opened = {stream.event()[1:][0] for stream in streams}
        assert opened == {"opened"}
        victim = _worker_with_open_exchange(house)
        os.kill(victim, signal.SIGKILL)
        # Streams of the other worker go on.
        outcomes: list[object] = []
        for stream in streams:
            block = stream.block()
            while block and not any(line == "event: finalized" for line in block):
                block = stream.block()
            outcomes += [line for line in block if '"outcome":"crashed"' in line]
        assert outcomes
    script.gate.open()


def test_streams_end_on_each_worker_when_their_key_is_revoked(house: Served) -> None:
    made = house.ask("POST", "/admin/v1/keys", b'{"name": "eve", "role": "viewer"}', authorization=f"Bearer {ADA}")
    assert made.status == 201
    text, tag = made.json()["key"], made.header("etag")
    assert isinstance(text, str) and tag is not None
    # Every worker knows it when it starts.
    assert house.stop() == 0
    house.restart("--workers", "2")
    with ExitStack() as stack:
        streams = [stack.enter_context(listening(house, text)) for _ in range(8)]
        assert [stream.event()[1] for stream in streams] == ["resync"] * 8
        revoked = house.ask("DELETE", "/admin/v1/keys/eve", b"", authorization=f"Bearer {ADA}", if_match=tag)
        assert revoked.status == 200
        for stream in streams:
            block = stream.block()
            while block:
                block = stream.block()


def test_logs_of_a_gateway_are_followed_until_an_interrupt(house: Served) -> None:
    words = [sys.executable, "-m", "dragoman", "logs", "--json", "--follow", "--gateway", house.url]
    process = subprocess.Popen(
        words,
        cwd=house.directory,
        env={**clean_environment(house.directory), "DRAGOMAN_KEY": BOB},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        lines = Transcript(process.stdout.fileno())
        seen: list[str] = []
        for _ in range(3):
            converse(house)
            seen.append(json.loads(lines.take("\n"))["id"])
        assert seen == [row["id"] for row in listed(house, "/exchanges", "exchanges")]
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
    finally:
        process.kill()
        process.communicate()


def _worker_with_open_exchange(house: Served) -> int:
    """The worker in whose journal an exchange is open: journals have the process in their names."""
    (folder,) = Path(house.directory).rglob("state.db.records")
    (journal,) = [path for path in folder.glob("*.log") if b'["opened",' in path.read_bytes()]
    worker = int(journal.stem.split("-")[1])
    assert worker in children(house.process.pid)
    return worker
