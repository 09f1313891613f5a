"""Verdicts: whether a reply is one that a client of a protocol can be given; the protocol is asked, not the code."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tests.gateway.harness import CHAT, MESSAGES, RESPONSES, Answer
from tests.laws import grammar
from tests.sdk.digging import dig_object, dig_objects, dig_text

EVENT_STREAM = "text/event-stream; charset=utf-8"
_MESSAGES_ERROR = {"type", "message"}
_OPENAI_ERROR = {"message", "type", "param", "code"}
_is_id = re.compile(r"req_[A-Za-z0-9]{24}").fullmatch
# What only a broken gateway would say.
_INNER = re.compile(rb"Traceback|internal error").search


def check_reply(protocol: str, answer: Answer, *, native: bool = False) -> None:
    """Hold a reply to a conversation against the client's protocol; `native` ones come from a provider of the same."""
    check_head(protocol, answer)
    if answer.status >= 400:
        check_error(protocol, answer, native=native)
    elif answer.header("content-type") == EVENT_STREAM:
        (check_ending if native else check_stream)(protocol, answer.body)
    else:
        assert answer.status == 200, answer
        assert answer.header("content-type") == "application/json", answer
        body = answer.json()
        if not native:
            check_whole(protocol, body)


def check_whole(protocol: str, body: Mapping[str, object]) -> None:
    """A whole answer has what every client of its protocol reads; details that are only carried are not looked at."""
    if protocol == MESSAGES:
        assert (body["type"], body["role"]) == ("message", "assistant"), body
        assert all(isinstance(block["type"], str) for block in dig_objects(body, "content")), body
        assert isinstance(body["stop_reason"], str) and isinstance(body["id"], str) and body["id"], body
        counts = dig_object(body, "usage")
        assert isinstance(counts["input_tokens"], int) and isinstance(counts["output_tokens"], int), body
    elif protocol == CHAT:
        assert body["object"] == "chat.completion" and body["id"] and isinstance(body["created"], int), body
        for choice in dig_objects(body, "choices"):
            assert isinstance(choice["finish_reason"], str) and dig_text(choice, "message", "role") == "assistant", body
    else:
        assert body["object"] == "response" and body["id"] and isinstance(body["created_at"], int | float), body
        ends = ("queued",) if body["background"] is True else ("completed", "incomplete")
        assert body["status"] in ends, body
        assert all(isinstance(item["type"], str) for item in dig_objects(body, "output")), body


def check_head(protocol: str, answer: Answer) -> None:
    """A reply is whole, and has one id under the name that the client's SDK looks for."""
    assert answer.complete, answer
    ids = [
        value for name, value in answer.headers if name == ("request-id" if protocol == MESSAGES else "x-request-id")
    ]
    assert len(ids) == 1 and _is_id(ids[0]), answer.headers
    assert [name for name, _ in answer.headers].count("content-type") == 1, answer.headers


def check_error(protocol: str, answer: Answer, *, native: bool = False) -> Mapping[str, object]:
    """The envelope of an error, member by member; a native one is the provider's own words in JSON."""
    assert answer.header("content-type") == "application/json", answer
    body = answer.json()
    if native and answer.header("x-dragoman-route") is not None:
        return body
    assert _INNER(answer.body) is None, answer.body
    error = dig_object(body, "error")
    assert isinstance(error["message"], str) and error["message"].strip(), body
    assert isinstance(error["type"], str) and error["type"], body
    if protocol == MESSAGES:
        assert set(body) == {"type", "error", "request_id"} and body["type"] == "error", body
        assert body["request_id"] == answer.header("request-id"), answer
        assert set(error) - {"details"} == _MESSAGES_ERROR, body
    else:
        assert set(body) == {"error"} and set(error) == _OPENAI_ERROR, body
        assert isinstance(error["param"], str | None) and isinstance(error["code"], str | None), body
    return error


def check_stream(protocol: str, body: bytes) -> None:
    """A translated stream obeys the whole grammar of its protocol."""
    assert _INNER(body) is None, body
    grammar.check(protocol, body)


def check_ending(protocol: str, body: bytes) -> None:
    """A relayed stream is the provider's own, but at its end says that the answer is whole or is none (S10).

    The reason to stop will do for a terminator that the provider itself left out.
    """
    assert any(end in body for end in _ENDINGS[protocol]), body[-300:]


_ENDINGS = {
    MESSAGES: (b"message_stop", b"event: error", b'"stop_reason"'),
    CHAT: (b"[DONE]", b'"error"', b'"finish_reason"'),
    RESPONSES: (b"response.completed", b"response.incomplete", b"response.failed", b'"error"', b"[DONE]"),
}
