"""What the fuzz found, one test each."""

from __future__ import annotations

import pytest

from tests.gateway.harness import MESSAGES, PATHS, PROTOCOLS, RESPONSES, running, stream, whole
from tests.gateway.says import failure_of, message_of, question

UNREADABLE = {
    "a frame without data": b"data: \n\n",
    "a frame that is no JSON": b"event: response.completed\ndata:data: [DONE]\n\n",
    "a failed response that is no JSON": b'event: response.failed\ndata: {"type":"response.failed",\n\n',
}


@pytest.mark.parametrize("body", [b"{", b'{"error": 01}', b'{"error": {"message": "no"}} and more', b'{"\xff": 1}'])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_error_that_only_begins_like_json_is_told_in_the_clients_envelope(protocol: str, body: bytes) -> None:
    with running([whole(body, 400)]) as house:
        told = house.post(PATHS[protocol], question(protocol, protocol))
    assert told.status == 400
    assert failure_of(protocol, told)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_answer_that_is_not_utf8_anywhere_is_a_502(protocol: str) -> None:
    with running([whole(b'{"\x80": 1, "skipped": "\xff"}')]) as house:
        told = house.post(PATHS[protocol], question(protocol, protocol))
    assert told.status == 502
    assert message_of(protocol, told)


@pytest.mark.parametrize("shape", UNREADABLE)
def test_a_relayed_stream_that_cannot_be_read_from_its_beginning_is_a_502(shape: str) -> None:
    with running([stream(UNREADABLE[shape])]) as house:
        told = house.post(PATHS[RESPONSES], question(RESPONSES, RESPONSES, stream=True))
    assert told.status == 502
    assert message_of(RESPONSES, told)


def test_a_malformed_header_is_refused_in_the_envelope_of_its_path() -> None:
    with running() as house:
        told = house.post(PATHS[MESSAGES], {}, x_dragoman_strict="\x1f")
    assert told.status == 400
    assert message_of(MESSAGES, told)
