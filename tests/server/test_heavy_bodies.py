"""Bodies that are heavier than they look, against a real process: its memory stays, and others are served meanwhile."""

from __future__ import annotations

import gzip
import socket
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.harness import CHAT, PATHS, read_answer
from tests.gateway.says import question, streams
from tests.server.process import PATIENCE, Script, Served, serving

MEBIBYTE = 1024 * 1024


@pytest.fixture(scope="module")
def house() -> Iterator[Served]:
    script = Script()
    script.replies["served"] = streams(CHAT)
    with serving(script) as served:
        assert served.post(PATHS[CHAT], question(CHAT, CHAT, stream=True)).status == 200
        yield served


def memory(pid: int) -> int:
    """The bytes of memory that a process holds; nothing where the system does not tell."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return 0
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def connect(house: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", house.port), timeout=PATIENCE)


def head(*lines: str, path: str = PATHS[CHAT]) -> bytes:
    return "\r\n".join((f"POST {path} HTTP/1.1", "host: 127.0.0.1", "connection: close", *lines, "", "")).encode()


def test_item_5_uploads_that_are_broken_off_leave_no_memory_behind(house: Served) -> None:
    before = memory(house.process.pid)
    for _ in range(10):
        with connect(house) as end:
            end.sendall(head("content-length: 25000000") + b"x" * 20_000_000)
        house.metric("dragoman_requests_in_flight")
    assert house.post(PATHS[CHAT], question(CHAT, CHAT, stream=True)).status == 200
    # Ten of them once kept 190 MB.
    assert memory(house.process.pid) - before < 60 * MEBIBYTE


def test_item_5_a_body_of_tiny_chunks_takes_little_more_than_its_size(house: Served) -> None:
    before = memory(house.process.pid)
    most = 0
    with connect(house) as end:
        end.sendall(head("transfer-encoding: chunked"))
        for _ in range(512):
            end.sendall(b"2\r\nxx\r\n" * 4096)
            most = max(most, memory(house.process.pid) - before)
        end.sendall(b"0\r\n\r\n")
        assert read_answer(end).status == 400
    # Four mebibytes in pieces of two bytes once took more than a hundred.
    assert most < 40 * MEBIBYTE


def nothing(layers: int) -> bytes:
    """Many layers of gzip over one that never gives out a byte, of 200 MB before the others."""
    pack = zlib.compressobj(1, wbits=31)
    block = b"\0\0\0\xff\xff" * 200_000
    body = pack.compress(b"\x1f\x8b\x08\0\0\0\0\0\0\xff")
    body += b"".join(pack.compress(block) for _ in range(200)) + pack.flush()
    for _ in range(layers - 2):
        body = gzip.compress(body)
    return body


@pytest.mark.parametrize("layers", [2, 4])
def test_item_4_nested_codings_hold_up_nobody(house: Served, layers: int) -> None:
    body = nothing(layers)
    coding = "content-encoding: " + ", ".join(["gzip"] * layers)
    with connect(house) as end:
        end.sendall(head(coding, f"content-length: {len(body)}") + body)
        assert house.post(PATHS[CHAT], question(CHAT, CHAT, stream=True)).status == 200
        assert read_answer(end).status == (413 if layers == 2 else 415)


def test_a_small_request_with_millions_of_members_on_a_relayed_path_ends_nothing(house: Served) -> None:
    body = gzip.compress(gzip.compress(b'{"model":"chat/served"' + b',"a":1' * 5_500_000 + b"}"))
    assert len(body) < 400
    with connect(house) as end:
        lines = ("content-type: application/json", "content-encoding: gzip, gzip", f"content-length: {len(body)}")
        end.sendall(head(*lines, path="/v1/embeddings") + body)
        # It once stood still for so long that it was taken for dead, and ended.
        assert house.post(PATHS[CHAT], question(CHAT, CHAT, stream=True)).status == 200
        assert read_answer(end).status == 413
    assert house.process.running


def test_small_requests_with_millions_of_values_take_no_memory(house: Served) -> None:
    heavy = b'{"model":"chat/served","messages":[],"odd":[' + b"[]," * 10_000_000 + b"1]}"
    body = gzip.compress(gzip.compress(heavy))
    assert len(body) < 400
    before, most = memory(house.process.pid), 0
    ends = [connect(house) for _ in range(4)]
    for end in ends:
        end.sendall(head("content-encoding: gzip, gzip", f"content-length: {len(body)}") + body)
    for end in ends:
        assert house.post(PATHS[CHAT], question(CHAT, CHAT, stream=True)).status == 200
        most = max(most, memory(house.process.pid) - before)
        assert read_answer(end).status == 413
        end.close()
    # Two of them at once took 1.3 GB; the bodies themselves are 30 MB each.
    assert most < 400 * MEBIBYTE
