"""Following the stream of a stored response, and how it ends."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator

import pytest

from dragoman.config.settings import Timeouts
from dragoman.store import Tables
from tests.gateway.harness import House
from tests.gateway.keeping_house import (
    SLOW,
    create,
    ended,
    error_in,
    in_store,
    keeping,
    told,
)
from tests.gateway.says import log_lines
from tests.sdk.digging import Object
from tests.sdk.samples import events_of
from tests.waiting import LIMIT, wait_until


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with keeping() as opened:
        # The thread of the store begins with its first unit, and belongs to no single test.
        in_store(opened, lambda tables: None)
        yield opened


def _numbers(events: list[Object]) -> list[object]:
    return [event["sequence_number"] for event in events]


def test_a_stream_in_the_background_can_be_heard_again_from_any_place(house: House) -> None:
    body = {"model": "echo/text@openai-chat", "input": "Hello.", "stream": True, "background": True}
    answer = house.post("/v1/responses", body)
    events = events_of(answer.body)
    assert _numbers(events) == list(range(len(events)))
    last = events[-1]["response"]
    assert isinstance(last, dict) and last["background"] is True
    path = f"/v1/responses/{last['id']}?stream=true"
    assert house.get(path).body == answer.body
    assert _numbers(events_of(house.get(f"{path}&starting_after=3").body)) == list(range(4, len(events)))
    assert events_of(house.get(f"{path}&starting_after={len(events)}").body) == []
    assert error_in(house.get(f"{path}&starting_after=x"))[:2] == (400, "starting_after")
    assert house.ask("HEAD", path, b"").body == b""
    assert told(house, f"/v1/responses/{last['id']}") == last


def test_a_response_that_runs_can_be_heard_to_its_end_by_whoever_comes(house: House) -> None:
    made = create(house, model=SLOW, background=True, stream=False, input="a b c")
    assert made["status"] == "queued"
    assert told(house, f"/v1/responses/{made['id']}")["status"] in ("queued", "in_progress")
    again = house.post("/v1/responses", {"model": SLOW, "input": "x", "previous_response_id": made["id"]})
    assert error_in(again)[:2] == (400, "previous_response_id")
    assert ended(house, made["id"])["status"] == "completed"
    assert create(house, previous_response_id=made["id"])["status"] == "completed"


def test_a_stream_that_is_cancelled_ends_with_an_event_that_says_so(house: House) -> None:
    body = {"model": SLOW, "input": "word " * 400, "stream": True, "background": True}
    connection = house.connect()
    with connection:
        data = json.dumps(body).encode()
        head = f"POST /v1/responses HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len(data)}\r\n\r\n"
        connection.sendall(head.replace("host: x", f"host: 127.0.0.1:{house.port}").encode() + data)
        heard = b""
        while b"output_text.delta" not in heard:
            heard += connection.recv(65536)
        response_id = heard.split(b'"id":"resp_')[1].split(b'"')[0].decode()
        cancelled = house.post(f"/v1/responses/resp_{response_id}/cancel", b"")
        assert cancelled.json()["status"] == "cancelled"
        while piece := connection.recv(65536):
            heard += piece
    assert b"event: response.failed\n" in heard and b'"status":"cancelled"' in heard
    assert house.post(f"/v1/responses/resp_{response_id}/cancel", b"").json()["status"] == "cancelled"
    again = events_of(house.get(f"/v1/responses/resp_{response_id}?stream=true").body)
    assert again[-1]["type"] == "response.failed"
    assert _numbers(again) == list(range(len(again)))


def test_a_stream_whose_response_is_deleted_ends_with_an_event_that_says_so(house: House) -> None:
    body = {"model": SLOW, "input": "word " * 400, "stream": True, "background": True}
    with house.connect() as connection:
        data = json.dumps(body).encode()
        head = f"POST /v1/responses HTTP/1.1\r\nhost: 127.0.0.1:{house.port}\r\nconnection: close\r\n"
        connection.sendall(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
        heard = b""
        while b"output_text.delta" not in heard:
            heard += connection.recv(65536)
        response_id = heard.split(b'"id":"resp_')[1].split(b'"')[0].decode()
        assert house.ask("DELETE", f"/v1/responses/resp_{response_id}", b"").status == 200
        while piece := connection.recv(65536):
            heard += piece
    assert b"event: error\n" in heard and b"deleted" in heard


def _lines_of(house: House, path: str) -> list[Object]:
    """The lines of the log that tell of requests to a path."""
    return [line for line in log_lines(house) if line["path"] == path.removeprefix("/v1")]


def test_a_listener_that_stops_reading_is_cut_off() -> None:
    with keeping(timeouts=Timeouts(idle=0.4)) as house:
        made = create(house, background=True)
        assert ended(house, made["id"])["status"] == "completed"

        def stream_of_it(tables: Tables) -> None:
            frame = b'event: x\ndata: {"sequence_number":1}\n\n: ' + b"x" * 1_000_000 + b"\n\n"
            for number in range(1, 30):
                tables.connection.change("INSERT INTO events VALUES (?, ?, ?, x'')", (made["id"], number, frame))

        in_store(house, stream_of_it)
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", house.port))
            connection.settimeout(LIMIT)
            path = f"/v1/responses/{made['id']}"
            before = len(_lines_of(house, path))
            connection.sendall(f"GET {path}?stream=true HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
            # It is logged when it has ended.
            wait_until(lambda: len(_lines_of(house, path)) > before, "the listener is cut off")
            heard = bytearray()
            with contextlib.suppress(ConnectionError):
                while got := connection.recv(1_000_000):
                    heard += got
        assert not heard.endswith(b"0\r\n\r\n")
