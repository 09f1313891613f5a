"""Recordings in the shapes in which repositories keep them; the contents are invented."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

import pytest
import zstandard

from tools.replaying.protocols import CHAT, MESSAGES, RESPONSES, Object
from tools.replaying.recordings import Exchange, Unread, found_in

ASKED: Object = {"model": "m-1", "messages": [{"role": "user", "content": "hi"}]}
TOLD: Object = {"model": "m-1", "choices": [{"index": 0, "message": {"role": "assistant", "content": "ho"}}]}
MESSAGE: Object = {"type": "message", "role": "assistant", "content": [], "stop_reason": "end_turn", "model": "c"}
RESPONSE: Object = {"object": "response", "output": [], "status": "completed", "text": {"format": {"type": "text"}}}
CHUNK: Object = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "ho"}}]}
STREAM = f"data: {json.dumps(CHUNK)}\n\ndata: [DONE]\n\n"
URI = "https://api.maker.test/v1/chat/completions"


def _found(folder: Path, name: str, content: str | bytes) -> list[Exchange]:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return [one for one in found_in(folder) if isinstance(one, Exchange)]


def _cassette(body: str) -> str:
    asked = f"    uri: {URI}\n    body: '{json.dumps(ASKED)}'\n"
    return f'interactions:\n- request:\n{asked}  response:\n    status: {{"code": 200}}\n{body}'


def test_cassette_of_python(tmp_path: Path) -> None:
    (one,) = _found(tmp_path, "a.yaml", _cassette(f"    body:\n      string: '{json.dumps(TOLD)}'\n"))
    assert (one.protocol, one.host, one.request, one.status) == (CHAT, "api.maker.test", ASKED, 200)
    assert one.whole is not None and json.loads(one.whole) == TOLD
    assert one.name == "a.yaml#0"


def test_cassette_with_a_parsed_body(tmp_path: Path) -> None:
    text = _cassette("    parsed_body:\n      model: m-1\n      choices:\n      - message:\n          content: ho\n")
    (one,) = _found(tmp_path, "a.yaml", text)
    assert one.protocol == CHAT and one.answered


def test_cassette_of_a_stream_compressed(tmp_path: Path) -> None:
    packed = base64.b64encode(zstandard.ZstdCompressor().compress(STREAM.encode())).decode()
    text = _cassette(f"    body:\n      string: !!binary |\n        {packed}\n")
    (one,) = _found(tmp_path, "a.yaml.gz", gzip.compress(text.encode()))
    assert (one.protocol, one.stream) == (CHAT, STREAM.encode())


def test_cassette_of_two_lists(tmp_path: Path) -> None:
    value = {"requests": [{"body": json.dumps(ASKED)}], "responses": [{"body": {"string": json.dumps(TOLD)}}]}
    (one,) = _found(tmp_path, "a.json", json.dumps(value))
    assert one.request == ASKED and one.answered


def test_error_belongs_to_the_address(tmp_path: Path) -> None:
    error = {"error": {"message": "no"}}
    pair = {
        "request": {"uri": "https://api.maker.test/v1/responses", "body": json.dumps({"model": "m", "input": "hi"})},
        "response": {"status": 400, "body": json.dumps(error)},
    }
    (one,) = _found(tmp_path, "a.json", json.dumps([pair]))
    assert (one.protocol, one.status) == (RESPONSES, 400)


def test_exchange_with_another_kind_of_server_is_passed_over(tmp_path: Path) -> None:
    pair = {"request": {"uri": "https://maker.test/v2/chat", "body": json.dumps(ASKED)}, "response": {"body": "{}"}}
    assert _found(tmp_path, "a.json", json.dumps([pair])) == []


def test_recorder_that_keeps_chunks_and_objects(tmp_path: Path) -> None:
    pairs = [
        {"request": {"url": URI, "body": ASKED}, "response": {"status": 200, "chunks": [STREAM[:20], STREAM[20:]]}},
        {"request": {"url": URI, "body": ASKED}, "response": {"status": 200, "body": RESPONSE}},
    ]
    first, second = _found(tmp_path, "a.json", json.dumps({"recordings": pairs}))
    assert first.stream == STREAM.encode()
    assert second.protocol == RESPONSES and second.whole is not None and json.loads(second.whole) == RESPONSE


def test_http_archive_with_a_compressed_answer(tmp_path: Path) -> None:
    packed = base64.b64encode(gzip.compress(json.dumps(TOLD).encode())).decode()
    content = {"encoding": "base64", "text": json.dumps([packed])}
    entry = {"request": {"url": URI, "postData": {"text": json.dumps(ASKED)}}, "response": {"content": content}}
    (one,) = _found(tmp_path, "a.har", json.dumps({"log": {"entries": [entry]}}))
    assert one.request == ASKED and one.answered


def test_wire_of_httprr(tmp_path: Path) -> None:
    body = json.dumps(TOLD).encode()
    asked = b"POST " + URI.encode() + b" HTTP/1.1\r\n\r\n" + json.dumps(ASKED).encode()
    told = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    (one,) = _found(tmp_path, "a.httprr", b"httprr trace v1\n%d %d\n" % (len(asked), len(told)) + asked + told)
    assert one.whole == body and one.request == ASKED


def test_lines_of_events_are_streams(tmp_path: Path) -> None:
    start: Object = {"type": "message_start", "message": {}}
    lines = [start, {"type": "message_stop"}, start, {"type": "message_stop"}]
    text = "\n".join(json.dumps(line) for line in lines[:2]) + "\n"
    (one,) = _found(tmp_path, "a.chunks.txt", text)
    assert one.protocol == MESSAGES
    assert (
        one.stream
        == b'event: message_start\ndata: %s\n\nevent: message_stop\ndata: {"type": "message_stop"}\n\n'
        % (json.dumps(start).encode())
    )


def test_several_streams_in_one_file_are_told_apart(tmp_path: Path) -> None:
    lines: list[Object] = []
    for name in ("a", "b"):
        lines += [{"type": "message_start", "message": {"id": name}}, {"type": "message_stop"}]
    found = _found(tmp_path, "a.chunks.txt", "\n".join(json.dumps(line) for line in lines))
    assert [one.place for one in found] == [0, 1]


def test_stream_as_it_came_is_kept_byte_for_byte(tmp_path: Path) -> None:
    text = STREAM.rstrip("\n")
    (one,) = _found(tmp_path, "deep/a.sse", text)
    assert one.stream == text.encode()


def test_bodies_by_themselves(tmp_path: Path) -> None:
    found = _found(tmp_path, "a.json", json.dumps({"kept": [MESSAGE, ASKED, {"else": 1}]}))
    assert [(one.protocol, one.answered) for one in found] == [(MESSAGES, True), (CHAT, False)]


def test_same_answer_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(json.dumps(MESSAGE))
    assert len(_found(tmp_path, "a.json", json.dumps(MESSAGE))) == 1


@pytest.mark.parametrize("name", ["a.json", "a.yaml"])
def test_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("{'a: [")
    (one,) = found_in(tmp_path)
    assert isinstance(one, Unread) and one.file == name
