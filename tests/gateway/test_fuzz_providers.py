"""Fuzz, the provider's side: whatever a provider answers, the client gets its own protocol: an answer or an error."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman.model.jsonvalue import JsonValue
from dragoman.wire.json import decode
from tests.gateway.fuzzed import FEW, FuzzedHouse, fuzzed
from tests.gateway.harness import MESSAGES, PATHS, RESPONSES, Reply, whole
from tests.gateway.harness import stream as streamed
from tests.gateway.mutations import any_json, damaged, mutated, mutated_answers, mutated_streams, spelled, spellings
from tests.gateway.says import PAIRS, error_body, question, streams, tells
from tests.gateway.verdicts import check_reply

JSON, EVENTS = "application/json", "text/event-stream"
KINDS = (
    JSON,
    EVENTS,
    "text/event-stream;charset=utf-8",
    "text/html",
    "application/octet-stream",
    "x",
    "Text/Event-Stream",
)
COUNTS = {MESSAGES: "/v1/messages/count_tokens", RESPONSES: "/v1/responses/input_tokens"}
# How the library words what it cannot read.
_blames = re.compile(rb"expected [^,]+, found |is not JSON: ").search
# What an answer's body may be said to be coded in, truly or not.
CODINGS = ("identity", "gzip", "br", "zstd", "deflate", "gzip, gzip", "nonsense")


@pytest.fixture(scope="module")
def fuzz() -> Iterator[FuzzedHouse]:
    with fuzzed() as house:
        yield house


def check(fuzz: FuzzedHouse, client: str, provider: str, stream: bool, reply: Reply) -> None:
    """Ask a question to which the provider gives this reply, and judge what the client gets."""
    fuzz.script = lambda received: reply
    answer = fuzz.house.post(PATHS[client], question(client, provider, stream=stream))
    check_reply(client, answer, native=client == provider)
    # What the provider reported wrong is not the client's fault.
    assert not 400 <= answer.status < 500 or _blames(answer.body) is None, answer
    fuzz.check_silence()


@pytest.mark.parametrize(("client", "provider"), PAIRS)
@FEW
@given(data=st.data(), stream=st.booleans(), kind=st.sampled_from((JSON, JSON, *KINDS)))
def test_a_mutated_answer_is_told_or_an_error(
    fuzz: FuzzedHouse, client: str, provider: str, data: st.DataObject, stream: bool, kind: str
) -> None:
    check(fuzz, client, provider, stream, whole(data.draw(mutated_answers(provider)), content_type=kind))


@pytest.mark.parametrize(("client", "provider"), PAIRS)
@FEW
@given(data=st.data(), stream=st.booleans(), kind=st.sampled_from((EVENTS, EVENTS, EVENTS, *KINDS)))
def test_a_mutated_stream_is_told_or_an_error(
    fuzz: FuzzedHouse, client: str, provider: str, data: st.DataObject, stream: bool, kind: str
) -> None:
    said = data.draw(mutated_streams(provider))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(said)), max_size=3)))
    pieces = [said[start:end] for start, end in zip([0, *cuts], [*cuts, len(said)], strict=True) if start < end]
    check(fuzz, client, provider, stream, streamed(*pieces, content_type=kind))


@pytest.mark.parametrize(("client", "provider"), PAIRS)
@FEW
@given(data=st.data(), stream=st.booleans(), kind=st.sampled_from(KINDS), status=st.integers(200, 599) | st.just(200))
def test_anything_at_all_is_told_or_an_error(
    fuzz: FuzzedHouse, client: str, provider: str, data: st.DataObject, stream: bool, kind: str, status: int
) -> None:
    body = data.draw(st.binary(max_size=200) | any_json().map(spelled))
    if data.draw(st.booleans()):
        body = b"data: " + body + b"\n\n"
    check(fuzz, client, provider, stream, whole(body, status, content_type=kind))


def error_of(protocol: str, kind: str) -> JsonValue:
    """An error as a provider of a protocol answers it."""
    return decode(json.dumps(error_body(protocol, kind, "It is not to be, said the provider.")))


@pytest.mark.parametrize(("client", "provider"), PAIRS)
@FEW
@given(
    data=st.data(),
    stream=st.booleans(),
    status=st.integers(400, 599),
    kind=st.sampled_from(
        ("invalid_request_error", "overloaded_error", "rate_limit_error", "insufficient_quota", "", "x")
    ),
)
def test_a_mutated_error_is_an_error(
    fuzz: FuzzedHouse, client: str, provider: str, data: st.DataObject, stream: bool, status: int, kind: str
) -> None:
    body = data.draw(mutated(error_of(provider, kind)).flatmap(spellings))
    check(fuzz, client, provider, stream, whole(body, status))


_octets = st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=30)
_TOLD = (
    "retry-after",
    "retry-after-ms",
    "x-should-retry",
    "request-id",
    "x-request-id",
    "anthropic-ratelimit-requests-limit",
    "anthropic-ratelimit-requests-remaining",
    "anthropic-ratelimit-requests-reset",
    "anthropic-ratelimit-tokens-remaining",
    "anthropic-ratelimit-input-tokens-reset",
    "anthropic-ratelimit-unified-status",
    "x-ratelimit-limit-requests",
    "x-ratelimit-remaining-tokens",
    "x-ratelimit-reset-requests",
    "x-ratelimit-reset-tokens",
    "set-cookie",
    "location",
    "content-encoding",
    "connection",
    "trailer",
)
_NUMBERS = (
    "0",
    "1",
    "-1",
    "1e999",
    "NaN",
    "9" * 400,
    "1.5",
    "6m0s",
    "1d2h",
    "2026-10-21T07:28:00Z",
    "0000-00-00",
    "\u00b2",
)
_DATES = ("Wed, 21 Oct 2026 07:28:00 GMT", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59", "1ms", "1h1h")


@pytest.mark.parametrize(("client", "provider"), PAIRS)
@FEW
@given(
    headers=st.dictionaries(
        st.sampled_from(_TOLD), _octets | st.sampled_from((*_NUMBERS, *_DATES, *CODINGS)), min_size=1, max_size=4
    ),
    stream=st.booleans(),
    status=st.sampled_from((200, 200, 400, 429, 503, 529)),
)
def test_any_headers_of_an_answer_are_read_or_left_out(
    fuzz: FuzzedHouse, client: str, provider: str, headers: dict[str, str], stream: bool, status: int
) -> None:
    good = streams(provider) if stream else tells(provider)
    bad = whole(error_body(provider, "rate_limit_error", "Too much."), status)
    reply = good if status == 200 else bad
    check(fuzz, client, provider, stream, replace(reply, headers=(*reply.headers, *headers.items())))


@FEW
@given(
    pair=st.sampled_from(PAIRS),
    stream=st.booleans(),
    first=st.integers(100, 199) | st.integers(0, 999),
    body=st.binary(max_size=30),
    framing=st.sampled_from((b"content-length: 5", b"transfer-encoding: chunked", b"connection: close", b"upgrade: x")),
    rest=st.sampled_from((b"", b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", b"HTTP/1.1 404 No\r\n\r\n")),
)
def test_any_status_and_framing_is_an_answer_or_an_error(
    fuzz: FuzzedHouse, pair: tuple[str, str], stream: bool, first: int, body: bytes, framing: bytes, rest: bytes
) -> None:
    raw = b"HTTP/1.1 %03d Said\r\n%b\r\n\r\n%b%b" % (first, framing, body, rest)
    check(fuzz, *pair, stream, Reply(raw=True, steps=(raw,)))


@FEW
@given(pair=st.sampled_from(PAIRS), stream=st.booleans(), data=st.data())
def test_any_octets_in_place_of_an_answer_are_an_error(
    fuzz: FuzzedHouse, pair: tuple[str, str], stream: bool, data: st.DataObject
) -> None:
    good = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
    raw = data.draw(st.binary(max_size=60) | damaged(good))
    check(fuzz, *pair, stream, Reply(raw=True, steps=(raw,)))


@FEW
@given(
    data=st.data(),
    client=st.sampled_from(tuple(COUNTS)),
    provider=st.sampled_from(tuple(COUNTS)),
    status=st.just(200) | st.integers(200, 599),
)
def test_any_count_is_told_or_estimated(
    fuzz: FuzzedHouse, data: st.DataObject, client: str, provider: str, status: int
) -> None:
    body = data.draw(any_json().map(lambda value: spelled({"input_tokens": value})) | st.binary(max_size=20))
    fuzz.script = lambda received: whole(body, status)
    answer = fuzz.house.post(COUNTS[client], question(client, provider))
    counted = answer.json()["input_tokens"]
    assert answer.status == 200 and isinstance(counted, int) and counted >= 0, answer
    assert not isinstance(counted, bool), answer
    fuzz.check_silence()
