"""One line per request, without its credentials, there before the answer is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.mock.recorder import redacted_headers
from tests.mock.asking import mock_running
from tests.mock.calling import PROTOCOLS
from tests.sdk.digging import Object


def lines(path: Path) -> list[Object]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_request_and_its_answer_are_one_line(tmp_path: Path, protocol: str, stream: bool) -> None:
    path = tmp_path / "record"
    with mock_running(record=path) as client:
        answer = client.say(protocol, "<mock>say Hi.</mock>", stream=stream)
        (line,) = lines(path)
        assert client.say(protocol, "Hello.", unheard_of=True).status == 400
    assert answer.status == line["status"] == 200
    assert (line["protocol"], line["method"], line["query"]) == (protocol, "POST", "")
    assert "Hi." in json.dumps(line["answer"]) and "<mock>" in json.dumps(line["body"])
    refused = lines(path)[1]
    assert refused["status"] == 400 and "unheard_of" in json.dumps(refused["answer"])
    assert "very-secret" not in path.read_text()


def test_what_is_no_json_is_recorded_as_text(tmp_path: Path) -> None:
    path = tmp_path / "record"
    with mock_running(record=path) as client:
        client.ask("/v1/messages?beta=true", b"{nonsense")
        client.ask("/v1/models", method="GET")
    first, second = lines(path)
    assert (first["body"], first["query"]) == ("{nonsense", "beta=true")
    assert second["body"] is None


def test_a_record_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "record"
    for _ in range(2):
        with mock_running(record=path) as client:
            client.ask("/", method="GET", headers={})
    assert len(lines(path)) == 2


def test_headers_are_joined_and_credentials_cut() -> None:
    told = redacted_headers([(b"a", b"1"), (b"a", b"2"), (b"x-api-key", b"k"), (b"authorization", b"Bearer k")])
    assert told == {"a": "1, 2", "x-api-key": "…", "authorization": "…"}
