"""What answers on other paths took: wherever their counts stand, and however they are cut."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, Server, Settings
from dragoman.gateway.endpoints import passthrough_usage
from dragoman.gateway.endpoints.passthrough_usage import Tail
from dragoman.gateway.observability.costs import UNREPORTED
from dragoman.model.jsonvalue import JsonObject
from dragoman.prices.book import Override
from dragoman.prices.table import Rates
from dragoman.records.journal_entry import CostBreakdown, TokenCounts
from dragoman.wire.json import decode_object
from tests.gateway.harness import Reply, settings_for, stay_silent, whole
from tests.gateway.harness import stream as streamed
from tests.gateway.observability.kept import recorded
from tests.waiting import wait_until

DOLLAR = 1_000_000
OWN = Override(rates=Rates(input=2 * DOLLAR, output=8 * DOLLAR))
VECTORS = [{"object": "embedding", "index": 0, "embedding": [0.25] * 50_000}]
EMBEDDED = {"object": "list", "data": VECTORS, "model": "served", "usage": {"prompt_tokens": 8, "total_tokens": 8}}
FIRST = {"usage": {"prompt_tokens": 8, "total_tokens": 8}, "object": "list", "data": []}
COMPACTED = {
    "id": "resp_1",
    "object": "response.compaction",
    "output": [],
    "usage": {
        "input_tokens": 192_000,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 1800,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 193_800,
    },
}


def settings(port: int) -> Settings:
    opened = Server(passthrough_paths=("GET /files/*",))
    return replace(settings_for(port, server=opened), prices={"chat/served": OWN, "responses/served": OWN})


PATHS = {
    "embeddings": ("/v1/embeddings", "chat/served", whole(EMBEDDED), TokenCounts(input=8), 16_000),
    "counts that come first": ("/v1/embeddings", "chat/served", whole(FIRST), TokenCounts(input=8), 16_000),
    "a compaction": (
        "/v1/responses/compact",
        "responses/served",
        whole(COMPACTED),
        TokenCounts(input=192_000, output=1800),
        398_400_000,
    ),
    "a transcript that is streamed": (
        "/v1/audio/transcriptions",
        "chat/served",
        streamed(
            b'data: {"type":"transcript.text.delta","delta":"a"}\n\n',
            b'data: {"type":"transcript.text.done","usage":{"type":"tokens","input_tokens":14,"output_tokens":5}}\n\n',
        ),
        TokenCounts(input=14, output=5),
        68_000,
    ),
}


@pytest.mark.parametrize("case", PATHS)
def test_pitfall_412_every_path_whose_answer_has_a_usage_is_metered(case: str) -> None:
    path, model, told, tokens, cost = PATHS[case]
    with recorded([told], settings) as (house, records):
        answer = house.post(path, {"model": model, "input": "Hello."}, content_type="application/json")
        assert answer.status == 200
        assert answer.body == b"".join(step for step in told.steps if isinstance(step, bytes))
    (record,) = records
    assert record.tokens == tokens
    assert record.cost is not None and (record.cost.total, record.cost.unpriced) == (cost, ())
    assert [attempt.cost for attempt in record.attempts] == [record.cost]
    assert not record.estimated


@pytest.mark.parametrize("told", [{"prompt_tokens": 0, "total_tokens": 0}, {"input_tokens": 0, "output_tokens": 0}])
def test_pitfall_388_a_reported_zero_is_a_count_on_another_path(told: dict[str, int]) -> None:
    with recorded([whole({"data": [], "usage": told})], settings) as (house, records):
        house.post("/v1/embeddings", {"model": "chat/served", "input": ""}, content_type="application/json")
    assert records[0].tokens == TokenCounts()
    assert records[0].cost is not None and (records[0].cost.total, records[0].cost.unpriced) == (0, ())


def test_what_is_paid_by_the_second_is_unpriced() -> None:
    told = whole({"text": "a", "usage": {"type": "duration", "seconds": 3}})
    with recorded([told], settings) as (house, records):
        house.post("/v1/audio/transcriptions", {"model": "chat/served"}, content_type="application/json")
    assert (records[0].tokens, records[0].cost) == (None, CostBreakdown(unpriced=("duration",)))


@pytest.mark.parametrize("body", [b"{}", b'{"usage":null}', b'{"usage":{"prompt', b'{"usage":{}}', b"\xff" * 10])
def test_what_a_model_did_without_a_word_of_what_it_took_is_not_free(body: bytes) -> None:
    with recorded([whole(body)], settings) as (house, records):
        house.post("/v1/images/generations", {"model": "chat/served", "prompt": "x"}, content_type="application/json")
    assert (records[0].tokens, records[0].cost) == (None, UNREPORTED)
    assert [attempt.cost for attempt in records[0].attempts] == [UNREPORTED]


@pytest.mark.parametrize(("fee", "cost"), [(None, 0), (5 * 10**9, 5_000_000)])
def test_what_costs_nothing_whatever_it_takes_needs_no_counts(fee: int | None, cost: int) -> None:
    def free(port: int) -> Settings:
        own = Override(rates=Rates(input=0, output=0, request=fee))
        return replace(settings_for(port), prices={"chat/served": own})

    with recorded([whole(b"{}")], free) as (house, records):
        house.post("/v1/moderations", {"model": "chat/served", "input": "x"}, content_type="application/json")
    assert records[0].cost is not None
    assert (records[0].cost.total, records[0].cost.unpriced, records[0].cost.entry) == (cost, (), "chat/served")


def test_what_no_model_does_costs_nothing() -> None:
    with recorded([whole(b"{}")], settings) as (house, records):
        house.post("/v1/files", {"purpose": "x"}, content_type="application/json", x_dragoman_provider="chat")
    assert (records[0].tokens, records[0].cost) == (None, None)


WRITTEN = b'data: {"object":"text_completion","choices":[{"index":0,"text":"hi"}]}\n\n'
COUNTED = b'data: {"choices":[],"usage":{"prompt_tokens":14,"completion_tokens":5}}\n\n'


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/fim/completions"])
def test_what_a_model_writes_elsewhere_is_not_free_where_nothing_is_told(path: str) -> None:
    ended = [streamed(WRITTEN), streamed(WRITTEN, None), whole({"choices": [{"index": 0, "text": "hi"}]})]
    with recorded([*ended, streamed(WRITTEN, COUNTED)], settings) as (house, records):
        for _ in range(4):
            house.post(path, {"model": "chat/served", "prompt": "x"}, content_type="application/json")
    unknown = [(record.tokens, record.cost) for record in records[:3]]
    assert unknown == [(None, CostBreakdown(unpriced=("usage",)))] * 3
    assert [attempt.cost for attempt in records[0].attempts] == [CostBreakdown(unpriced=("usage",))]
    told = records[3].cost
    assert told is not None and (told.total, told.unpriced) == (68_000, ())


def test_the_record_of_another_path_says_what_is_known() -> None:
    body = {"model": "chat/served", "input": "Hello."}
    with recorded([whole(EMBEDDED), whole({"error": {"message": "no", "type": "x"}}, 400)], settings) as (
        house,
        records,
    ):
        house.post("/v1/embeddings", body, content_type="application/json")
        house.post("/v1/embeddings", body, content_type="application/json")
        house.post("/v1/embeddings", {**body, "model": "nobody/has it"}, content_type="application/json")
    assert [record.requested_model for record in records] == ["chat/served", "chat/served", "nobody/has it"]
    assert all(record.size > 0 for record in records)
    answered, refused = records[0].attempts[0], records[1].attempts[0]
    assert (answered.kind, refused.kind) == ("answered", "invalid_request")
    duration = (records[0].ended - records[0].started) * 1_000_000
    assert 0 < answered.started <= answered.ended <= duration
    assert (refused.cost, refused.maybe_billed, records[1].cost) == (None, False, None)


def lines(port: int) -> Settings:
    """The same model at one provider, and at either of two."""
    made = settings(port)
    line = RouteConfig(pattern="embed", targets=("chat/served", "responses/served"))
    return replace(made, routes=(*made.routes, line))


CUT = Reply(raw=True, steps=(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{", None))
REFUSALS = {status: whole({"error": {"message": "no", "type": "x"}}, status) for status in (400, 401, 429, 500, 504)}


@pytest.mark.parametrize("told", [whole(EMBEDDED), whole(b"{}"), CUT, *REFUSALS.values()])
def test_a_call_reads_the_same_whether_there_was_another_target_or_not(told: Reply) -> None:
    body = {"input": "Hello."}
    with recorded([told] * 3, lines) as (house, records):
        house.post("/v1/embeddings", {**body, "model": "chat/served"}, content_type="application/json")
        house.post("/v1/embeddings", {**body, "model": "embed"}, content_type="application/json")
        wait_until(lambda: len(records) == 2, "both exchanges are recorded")
    alone, first = (replace(record.attempts[0], started=0.0, ended=0.0) for record in records)
    assert alone == first
    assert alone.key == 0 and alone.kind


def test_what_no_model_does_and_waits_for_no_place_costs_nothing_however_it_ends() -> None:
    with recorded([CUT, REFUSALS[504]], settings) as (house, records):
        for _ in range(2):
            house.get("/v1/files/file-1/content", x_dragoman_provider="chat")
        wait_until(lambda: len(records) == 2, "both exchanges are recorded")
    for record in records:
        (attempt,) = record.attempts
        assert attempt.kind in ("stream_broken", "first_byte_timeout")
        assert (attempt.maybe_billed, attempt.cost, record.cost) == (False, None, None)


@pytest.mark.parametrize("several", [False, True], ids=["one target", "several"])
@pytest.mark.parametrize("begun", [False, True], ids=["before its answer", "in its answer"])
def test_a_call_that_was_left_may_have_cost_something(several: bool, begun: bool) -> None:
    body = json.dumps({"model": "embed" if several else "chat/served", "input": "Hello."}).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{"
    with recorded([Reply(raw=True, steps=(head, stay_silent) if begun else (stay_silent,))], lines) as (house, records):
        with house.connect() as connection:
            said = f"POST /v1/embeddings HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n"
            connection.sendall(said.encode() + body)
            wait_until(lambda: len(house.provider.received) == 1, "the provider receives the request")
            if begun:
                assert connection.recv(1)
        wait_until(lambda: bool(records), "the exchange is recorded")
    (record,) = records
    assert record.failure == "cancelled"
    assert [attempt.kind for attempt in record.attempts] == ["client_disconnected"]
    assert record.cost == UNREPORTED


def test_a_call_that_broke_may_have_cost_something() -> None:
    with recorded([CUT], settings) as (house, records):
        house.post("/v1/embeddings", {"model": "chat/served", "input": "x"}, content_type="application/json")
        wait_until(lambda: bool(records), "the exchange is recorded")
    (record,) = records
    assert (record.attempts[0].kind, record.attempts[0].maybe_billed) == ("stream_broken", True)
    assert record.cost == UNREPORTED


def test_only_the_end_of_an_answer_is_kept() -> None:
    tail = Tail()
    for _ in range(1000):
        tail.take(b"x" * 1000)
    tail.take(json.dumps(COMPACTED).encode())
    assert tail._size < 70_000
    assert tail.usage() == COMPACTED["usage"]


@pytest.mark.parametrize("said", [b'"usage":{x}}}}', b'"usage":{"a":[{},{}', b'"usage":{"a":"}}}}'])
def test_what_only_looks_like_counts_is_looked_at_for_a_moment(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def counted(data: bytes) -> JsonObject:
        tried.append(len(data))
        return decode_object(data)

    monkeypatch.setattr(passthrough_usage, "decode_object", counted)
    tail = Tail()
    tail.take(said * 5000)
    assert tail.usage() is None
    assert 0 < len(tried) <= 1024
    # A few of them before the counts do no harm.
    tail.take(b'{"usage":{"input_tokens":3,"details":[' + b"{}," * 50 + b"{}]}}" + said)
    found = tail.usage()
    assert found is not None and found["input_tokens"] == 3


def test_a_usage_in_what_was_said_is_not_taken_for_the_last() -> None:
    tail = Tail()
    tail.take(json.dumps({"output": [{"usage": {"input_tokens": 1}}], "usage": {"input_tokens": 2}}).encode())
    assert tail.usage() == {"input_tokens": 2}
