"""What answers on other paths took: wherever their counts stand, and however they are cut."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from dragoman.accounts.entry import Money, Tokens
from dragoman.config.settings import Settings
from dragoman.gateway.endpoints.metering import Tail
from dragoman.prices.book import Override
from dragoman.prices.table import Rates
from tests.gateway.harness import settings_for, whole
from tests.gateway.harness import stream as streamed
from tests.gateway.records.kept import recorded

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
    return replace(settings_for(port), prices={"chat/served": OWN, "responses/served": OWN})


PATHS = {
    "embeddings": ("/v1/embeddings", "chat/served", whole(EMBEDDED), Tokens(input=8), 16_000),
    "counts that come first": ("/v1/embeddings", "chat/served", whole(FIRST), Tokens(input=8), 16_000),
    "a compaction": (
        "/v1/responses/compact",
        "responses/served",
        whole(COMPACTED),
        Tokens(input=192_000, output=1800),
        398_400_000,
    ),
    "a transcript that is streamed": (
        "/v1/audio/transcriptions",
        "chat/served",
        streamed(
            b'data: {"type":"transcript.text.delta","delta":"a"}\n\n',
            b'data: {"type":"transcript.text.done","usage":{"type":"tokens","input_tokens":14,"output_tokens":5}}\n\n',
        ),
        Tokens(input=14, output=5),
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
    assert record.money is not None and (record.money.total, record.money.unpriced) == (cost, ())
    assert [attempt.money for attempt in record.attempts] == [record.money]
    assert not record.estimated


def test_what_is_paid_by_the_second_is_unpriced() -> None:
    told = whole({"text": "a", "usage": {"type": "duration", "seconds": 3}})
    with recorded([told], settings) as (house, records):
        house.post("/v1/audio/transcriptions", {"model": "chat/served"}, content_type="application/json")
    assert (records[0].tokens, records[0].money) == (None, Money(unpriced=("duration",)))


@pytest.mark.parametrize("body", [b"{}", b'{"usage":null}', b'{"usage":{"prompt', b'{"usage":{}}', b"\xff" * 10])
def test_what_tells_nothing_costs_nothing(body: bytes) -> None:
    with recorded([whole(body)], settings) as (house, records):
        house.post("/v1/embeddings", {"model": "chat/served", "input": "x"}, content_type="application/json")
    assert (records[0].tokens, records[0].money) == (None, None)


def test_only_the_end_of_an_answer_is_kept() -> None:
    tail = Tail()
    for _ in range(1000):
        tail.take(b"x" * 1000)
    tail.take(json.dumps(COMPACTED).encode())
    assert tail._size < 70_000
    assert tail.usage() == COMPACTED["usage"]


def test_a_usage_in_what_was_said_is_not_taken_for_the_last() -> None:
    tail = Tail()
    tail.take(json.dumps({"output": [{"usage": {"input_tokens": 1}}], "usage": {"input_tokens": 2}}).encode())
    assert tail.usage() == {"input_tokens": 2}
