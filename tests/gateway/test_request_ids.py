"""Ids by which clients tell answers apart: a request id on every answer, and an id of its own in those made here."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from dragoman.gateway.observability.journal_entries import finalized_entry
from dragoman.gateway.observability.record import Record
from dragoman.records.exchanges import find
from dragoman.records.thread_assignment import AssignedThread
from dragoman.store.record_tables import open_record_tables
from tests.gateway.harness import (
    CHAT,
    MESSAGES,
    PATHS,
    PROTOCOLS,
    RESPONSES,
    Answer,
    House,
    running,
    settings_for,
    whole,
)
from tests.gateway.harness import stream as streamed
from tests.gateway.observability.kept import recorded
from tests.gateway.says import ABROAD, PAIRS, error_body, log_lines, question, streams, tells, turn
from tests.records.filled import fill
from tests.sdk.providers import answer as answer_of
from tests.sdk.providers import stream_of
from tests.sdk.samples import events_of

HEADERS = {MESSAGES: "request-id", CHAT: "x-request-id", RESPONSES: "x-request-id"}
KEY = "sk-of-a-client-0123456789"


def id_of(protocol: str, answer: Answer) -> str:
    """The id of the request, under the one name that the protocol's clients look for."""
    found = [value for name, value in answer.headers if name in ("request-id", "x-request-id")]
    assert len(found) == 1, answer.headers
    assert answer.header(HEADERS[protocol]) == found[0]
    return found[0]


def asked(house: House, client: str, provider: str, *, stream: bool) -> Answer:
    return house.post(PATHS[client], question(client, provider, stream=stream))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_pitfall_418_554_every_answer_has_a_request_id_of_its_own(client: str, provider: str, stream: bool) -> None:
    """The provider's own, which may be the same each time, is not what the client is told."""
    ids = {"request_id": "req_static", "x_request_id": "req_static"}
    said = streams(provider, **ids) if stream else tells(provider, **ids)
    refused = whole(error_body(provider, "invalid_request_error", "no"), 400, **ids)
    with running([said, said, refused, refused]) as house:
        answers = [asked(house, client, provider, stream=stream) for _ in range(4)]
        logged = [line["id"] for line in log_lines(house)]
    assert [answer.status for answer in answers] == [200, 200, 400, 400]
    found = [id_of(client, answer) for answer in answers]
    assert len(set(found)) == 4 and found == logged


_COUNTED = b'{"model":"echo/x","messages":[{"role":"user","content":"a"}]}'
# Method, path, body, and what is answered, by the protocol of the path.
OTHERS: dict[str, tuple[str, str, str, bytes, int]] = {
    "a model that nobody has": (MESSAGES, "POST", "/v1/messages", b'{"model":"nobody/x","max_tokens":1}', 404),
    "no JSON": (CHAT, "POST", "/v1/chat/completions", b"{", 400),
    "no model": (RESPONSES, "POST", "/v1/responses", b"{}", 400),
    "a path that is not there": (CHAT, "GET", "/v1/nowhere", b"", 403),
    "another method": (MESSAGES, "GET", "/v1/messages", b"", 405),
    "a list": (CHAT, "GET", "/v1/models", b"", 200),
    "a count": (MESSAGES, "POST", "/v1/messages/count_tokens", _COUNTED, 200),
    "a count of Responses": (RESPONSES, "POST", "/v1/responses/input_tokens", b'{"model":"echo/x","input":"a"}', 200),
    "a response that is not kept": (RESPONSES, "GET", "/v1/responses/resp_none", b"", 404),
    "embeddings": (CHAT, "POST", "/v1/embeddings", b'{"model":"echo/embedding","input":"a"}', 200),
    "a path that is closed": (CHAT, "POST", "/v1/fine_tuning/jobs", b"{}", 403),
}


@pytest.mark.parametrize("case", OTHERS)
def test_pitfall_418_554_so_has_every_other_path_and_every_refusal(case: str) -> None:
    protocol, method, path, body, status = OTHERS[case]
    with running() as house:
        answers = [house.ask(method, path, body, content_type="application/json") for _ in range(2)]
    assert [answer.status for answer in answers] == [status, status], answers[0].body
    assert len({id_of(protocol, answer) for answer in answers}) == 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_pitfall_418_whoever_is_refused_at_the_door_is_told_one_too(protocol: str) -> None:
    with running(settings=lambda port: settings_for(port, keys=(KEY,))) as house:
        answers = [asked(house, protocol, protocol, stream=False) for _ in range(2)]
    assert [answer.status for answer in answers] == [401, 401]
    assert len({id_of(protocol, answer) for answer in answers}) == 2


# Servers that call every answer the same, or one of a few.
NAMED = ("", "chatcmpl-123", "0", "msg_1", "resp_1")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("client", "provider"), ABROAD)
def test_pitfall_418_554_an_answer_that_is_made_here_has_an_id_of_its_own(
    client: str, provider: str, stream: bool
) -> None:
    replies = []
    for name in NAMED:
        body = {**answer_of(provider, turn(provider)), "id": name}
        replies += [streamed(stream_of(provider, body, turn(provider))) if stream else whole(body)] * 2
    with running(replies) as house:
        answers = [asked(house, client, provider, stream=stream) for _ in replies]
    found = [answer_id(client, answer.body, stream=stream) for answer in answers]
    assert all(found) and len(set(found)) == len(replies)


# What a provider calls its answers: nothing at all, nothing much, or something that nobody else has.
CALLED = (None, "", "0", "msg_1", "chatcmpl-12", "resp_123", "gen-0123456789abcdef", "msg_0123456789abcdefABCDEF")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_pitfall_562_an_exchange_is_found_by_every_id_that_its_client_saw(
    client: str, provider: str, stream: bool
) -> None:
    replies = []
    for name in CALLED:
        body = {**answer_of(provider, turn(provider)), "id": name or ""}
        if name is None and not stream:
            del body["id"]
        replies.append(streamed(stream_of(provider, body, turn(provider))) if stream else whole(body))
    with recorded(replies) as (house, records):
        # What is stored is found by an id of its own.
        body = question(client, provider, stream=stream) | ({"store": False} if client == RESPONSES else {})
        answers = [house.post(PATHS[client], body) for _ in replies]
    found_by(records, [id_of(client, answer) for answer in answers])
    found_by(records, [answer_id(client, answer.body, stream=stream) for answer in answers])


@pytest.mark.parametrize("client", PROTOCOLS)
def test_so_is_one_that_failed_where_its_client_was_told_an_id(client: str) -> None:
    began = stream_of(CHAT, {**answer_of(CHAT, turn(CHAT)), "id": "0"}, turn(CHAT))
    with recorded([streamed(began[: began.index(b"[DONE]") // 2], None)]) as (house, records):
        answer = house.post(PATHS[client], question(client, CHAT, stream=True) | {"store": False})
    found_by(records, [id_of(client, answer)])
    found_by(records, [answer_id(client, answer.body, stream=True)])


def found_by(records: list[Record], ids: list[str]) -> None:
    """Every record is the one that its id leads to; an answer on the relay may have none."""
    assert len(records) == len(ids)
    with closing(open_record_tables(":memory:")) as tables:
        fill(tables, [(finalized_entry(record, "off"), AssignedThread()) for record in records])
        for record, name in zip(records, ids, strict=True):
            assert not name or find(tables, name).entry.id == record.id


def answer_id(protocol: str, body: bytes, *, stream: bool) -> str:
    told = events_of(body)[0] if stream else json.loads(body)
    for owner in ("message", "response"):
        inner = told.get(owner)
        told = inner if isinstance(inner, dict) else told
    found = told.get("id", "")
    assert isinstance(found, str)
    return found
