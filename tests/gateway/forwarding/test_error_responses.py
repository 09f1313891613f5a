"""Replies: errors in the client's own envelope, and headers that stay legal whatever stands in them."""

from __future__ import annotations

import json
import re

import pytest

from dragoman.errors import (
    BadResponse,
    ClientError,
    ConfigError,
    DragomanError,
    Oversized,
    RefusedError,
    Stalled,
    TimedOut,
    Truncated,
    Unanswered,
    Unconfigured,
    Unconnected,
    Unreachable,
    WireError,
)
from dragoman.gateway.forwarding.error_responses import encode_error, failure_of, id_header, losses_header, route_header
from dragoman.gateway.model_resolver import UnknownModel
from dragoman.model.failure import Failure, FailureKind
from dragoman.translate import LossLine

MESSAGES, CHAT, RESPONSES = "anthropic-messages", "openai-chat", "openai-responses"
OPENAI = (CHAT, RESPONSES, "")

# What goes wrong; then status and type for Messages; then status, type and code for the others (mapping.md §21).
ERRORS: dict[str, tuple[DragomanError, tuple[int, str], tuple[int, str, str | None]]] = {
    "a bad message": (
        ClientError(400, "words"),
        (400, "invalid_request_error"),
        (400, "invalid_request_error", None),
    ),
    "no key": (
        ClientError(401, "words"),
        (401, "authentication_error"),
        (401, "invalid_request_error", "invalid_api_key"),
    ),
    "a foreign page": (
        ClientError(403, "words"),
        (403, "permission_error"),
        (403, "invalid_request_error", "permission_denied"),
    ),
    "no such path": (ClientError(404, "words"), (404, "not_found_error"), (404, "invalid_request_error", None)),
    "no such model": (
        UnknownModel("words"),
        (404, "not_found_error"),
        (404, "invalid_request_error", "model_not_found"),
    ),
    "another method": (
        ClientError(405, "words"),
        (405, "invalid_request_error"),
        (405, "invalid_request_error", None),
    ),
    "a slow body": (ClientError(408, "words"), (408, "invalid_request_error"), (408, "invalid_request_error", None)),
    "a large body": (
        ClientError(413, "words"),
        (413, "request_too_large"),
        (413, "invalid_request_error", "request_too_large"),
    ),
    "an unknown coding": (
        ClientError(415, "words"),
        (400, "invalid_request_error"),
        (415, "invalid_request_error", "unsupported_encoding"),
    ),
    "large headers": (
        ClientError(431, "words"),
        (431, "invalid_request_error"),
        (431, "invalid_request_error", None),
    ),
    "our own fault": (ClientError(500, "words"), (500, "api_error"), (500, "server_error", None)),
    "no connection": (Unreachable("words"), (502, "api_error"), (502, "server_error", "upstream_error")),
    "half an answer": (Truncated("words"), (502, "api_error"), (502, "server_error", "upstream_error")),
    "no answer at all": (BadResponse("words"), (502, "api_error"), (502, "server_error", "upstream_error")),
    "an answer beyond the limit": (Oversized("words"), (502, "api_error"), (502, "server_error", "upstream_error")),
    "no word of an answer": (Unanswered("words"), (502, "api_error"), (502, "server_error", "upstream_error")),
    "no credentials": (Unconfigured("words"), (502, "api_error"), (502, "server_error", "upstream_error")),
    "no connection in time": (Unconnected("words"), (504, "timeout_error"), (504, "server_error", "timeout")),
    "an answer that stands still": (Stalled("words"), (504, "timeout_error"), (504, "server_error", "timeout")),
    "silence": (TimedOut("words"), (504, "timeout_error"), (504, "server_error", "timeout")),
    "a body that breaks the rules": (
        WireError("/model", "words", "number"),
        (400, "invalid_request_error"),
        (400, "invalid_request_error", None),
    ),
    "what the target cannot say": (
        RefusedError("thinking", "thread", "words"),
        (400, "invalid_request_error"),
        (400, "invalid_request_error", "unsupported_parameter"),
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_pitfall_187_an_error_has_the_envelope_of_messages(case: str) -> None:
    error, (status, kind), _ = ERRORS[case]
    reply = encode_error(error, MESSAGES, "req_1")
    body = json.loads(reply.body)
    assert reply.status == status
    assert (body["type"], body["request_id"], body["error"]["type"]) == ("error", "req_1", kind)
    assert "words" in body["error"]["message"]


@pytest.mark.parametrize("protocol", OPENAI, ids=["Chat", "Responses", "no protocol"])
@pytest.mark.parametrize("case", ERRORS)
def test_pitfall_187_an_error_has_the_envelope_of_openai(case: str, protocol: str) -> None:
    error, _, (status, kind, code) = ERRORS[case]
    reply = encode_error(error, protocol, "req_1")
    body = json.loads(reply.body)
    assert reply.status == status
    assert set(body) == {"error"}
    assert set(body["error"]) >= {"message", "type", "param", "code"}
    assert (body["error"]["type"], body["error"]["code"]) == (kind, code)
    assert "words" in body["error"]["message"]


def test_an_unknown_model_names_the_parameter() -> None:
    assert json.loads(encode_error(UnknownModel("words"), CHAT, "r").body)["error"]["param"] == "model"


def test_pitfall_188_overload_keeps_its_meaning_on_both_sides() -> None:
    overload = Failure(kind=FailureKind.OVERLOADED, status=529, message="busy")
    assert encode_error(overload, MESSAGES, "r").status == 529
    assert json.loads(encode_error(overload, MESSAGES, "r").body)["error"]["type"] == "overloaded_error"
    assert encode_error(overload, CHAT, "r").status == 503


@pytest.mark.parametrize("protocol", [MESSAGES, *OPENAI])
def test_a_setting_that_is_missing_is_told_to_the_operator_alone(protocol: str) -> None:
    error = ConfigError(
        key="providers.cloud.key", problem="AWS_SECRET is empty", remedy="export it", file="/etc/dragoman.toml", line=4
    )
    reply = encode_error(error, protocol, "r")
    assert reply.status == 502
    for secret in (b"AWS_SECRET", b"/etc", b"cloud", b"export"):
        assert secret not in reply.body


def test_errors_of_the_clients_body_are_the_librarys_to_word() -> None:
    assert failure_of(WireError("/a", "b", "c")) is None
    assert failure_of(RefusedError("a", "b", "c")) is None


@pytest.mark.parametrize("case", ["a\r\nb", "\u2028", '"quotes"', "\x1b[2J"])
def test_words_from_outside_stay_inside_their_string(case: str) -> None:
    body = encode_error(UnknownModel(case), CHAT, "r").body
    assert json.loads(body)["error"]["message"] == case
    assert b"\n" not in body


@pytest.mark.parametrize(
    ("protocol", "name"), [(MESSAGES, b"request-id"), (CHAT, b"x-request-id"), (RESPONSES, b"x-request-id")]
)
def test_the_id_has_the_name_that_the_clients_sdk_looks_for(protocol: str, name: bytes) -> None:
    assert id_header(protocol, "req_1") == (name, b"req_1")


HOSTILE = {
    "a plain name": "stop",
    "line breaks": "a\r\nset-cookie: x=1\r\n\r\n<html>",
    "a comma that poses as another loss": "x, dropped:tools@tools",
    "an escape sequence": "\x1b[2J\x07",
    "line separators of Unicode": "\u2028\u2029\u0085",
    "a lone surrogate": "\ud800",
    "a null": "\0",
    "other scripts": "漢字",
    "a megabyte": "x" * 1_000_000,
    "a megabyte of another script": "漢" * 1_000_000,
    "semicolons and quotes": 'a;b="c"',
    "nothing": "",
}
is_legal = re.compile(rb"[\x20-\x7e]*").fullmatch


def loss(at: str) -> LossLine:
    return LossLine(fate="dropped", feature="sampling", weight="changes_response", at=at, note="no such member")


@pytest.mark.parametrize("case", HOSTILE)
def test_pitfall_212_losses_are_a_legal_header_for_any_members_name(case: str) -> None:
    name, value = losses_header([loss("first"), loss(HOSTILE[case]), loss("last")])
    assert name == b"x-dragoman-losses"
    assert is_legal(value)
    assert len(value) < 2100
    parts = value.split(b", ")
    assert len(parts) == 3
    assert parts[0] == b"dropped:sampling@first"
    assert parts[-1] == b"dropped:sampling@last"


def test_pitfall_212_no_loss_is_said_to_be_none() -> None:
    assert losses_header([]) == (b"x-dragoman-losses", b"none")


def test_losses_that_do_not_fit_are_counted() -> None:
    _, value = losses_header([loss(f"extras.member{count:06}") for count in range(100_000)])
    parts = value.split(b", ")
    assert len(value) < 2100
    assert parts[-1] == b"+%d more" % (100_000 - (len(parts) - 1))


def test_bookkeeping_is_in_the_header_and_gives_way_where_room_is_short() -> None:
    marks: list[LossLine] = [
        {
            "fate": "dropped",
            "feature": "cache_breakpoint",
            "weight": "bookkeeping",
            "at": f"messages[{n}].cache",
            "note": "",
        }
        for n in range(1000)
    ]
    _, value = losses_header([marks[0], loss("last")])
    assert value == b"dropped:cache_breakpoint@messages[0].cache, dropped:sampling@last"
    _, value = losses_header([*marks, loss("last")])
    assert value.startswith(b"dropped:sampling@last, dropped:cache_breakpoint@messages[0].cache, ")


@pytest.mark.parametrize("case", HOSTILE)
def test_the_route_is_a_legal_header_for_any_models_name(case: str) -> None:
    name, value = route_header("openai", HOSTILE[case], CHAT)
    assert name == b"x-dragoman-route"
    assert is_legal(value)
    assert value.startswith(b"openai/")
    assert len(value) < 4000
    assert value.split(b"; ")[-1] == b"protocol=openai-chat"


def test_a_models_name_does_not_pose_as_the_protocol() -> None:
    _, value = route_header("openai", "m; protocol=anthropic-messages", CHAT)
    assert value.count(b"; protocol=") == 1


def test_the_route_tells_policy_and_attempts_where_there_are_any() -> None:
    assert route_header("a", "m", CHAT)[1] == b"a/m; protocol=openai-chat"
    assert route_header("a", "m", CHAT, "fastest", 2)[1] == b"a/m; protocol=openai-chat; policy=fastest; attempts=2"
    assert route_header("a", "m", CHAT, attempts=2)[1] == b"a/m; protocol=openai-chat; attempts=2"
