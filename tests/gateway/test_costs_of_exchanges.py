"""What exchanges cost, over real sockets: all nine pairs, whole and streamed, failed and left."""

from __future__ import annotations

import gzip
import json
import threading

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, Settings
from dragoman.gateway.exchange import full_delivery
from dragoman.gateway.observability.costs import UNREPORTED
from dragoman.gateway.observability.journal_entries import finalized_entry, outcome_of
from dragoman.prices.book import Override
from dragoman.prices.table import Rates
from dragoman.records.journal_entry import FAILED, REFUSED, CostBreakdown, TokenCounts
from dragoman.records.rows import is_unpriced
from dragoman.streaming import StreamPipeline
from dragoman.tokens.families import family_of
from dragoman.tokens.request import count_request, count_texts
from tests.gateway.harness import (
    CHAT,
    MESSAGES,
    PATIENCE,
    PROTOCOLS,
    RESPONSES,
    Reply,
    stay_silent,
    whole,
)
from tests.gateway.harness import stream as streamed
from tests.gateway.keeping_house import keeping
from tests.gateway.observability.kept import recorded
from tests.gateway.says import (
    NAMES,
    PAIRS,
    SAID,
    error_body,
    error_frame,
    is_finished,
    log_lines,
    question,
    speaking,
    turn,
    with_settings,
)
from tests.sdk.digging import Object
from tests.sdk.providers import answer as answer_of
from tests.sdk.providers import stream_of
from tests.sdk.samples import events_of
from tests.waiting import wait_until

DOLLAR = 1_000_000
OWN = Override(
    rates=Rates(
        input=3 * DOLLAR,
        output=15 * DOLLAR,
        cache_read=3 * DOLLAR // 10,
        cache_write=375 * DOLLAR // 100,
        cache_write_1h=6 * DOLLAR,
        search=10 * 10**9,
    ),
    tiers={"priority": Rates(input=6 * DOLLAR, output=30 * DOLLAR)},
)
PRICES = {f"{name}/served": OWN for name in NAMES.values()}
PRICED = with_settings(prices=PRICES)
PATH = {MESSAGES: "/v1/messages", CHAT: "/v1/chat/completions", RESPONSES: "/v1/responses"}
STOPS = {MESSAGES: "end_turn", CHAT: "stop", RESPONSES: "completed"}
COUNTS: dict[str, Object] = {
    MESSAGES: {
        "input_tokens": 1000,
        "cache_read_input_tokens": 2000,
        "cache_creation_input_tokens": 500,
        "cache_creation": {"ephemeral_5m_input_tokens": 400, "ephemeral_1h_input_tokens": 100},
        "output_tokens": 200,
        "output_tokens_details": {"thinking_tokens": 50},
        "server_tool_use": {"web_search_requests": 2},
        "service_tier": "priority",
    },
    CHAT: {
        "prompt_tokens": 3500,
        "prompt_tokens_details": {"cached_tokens": 2000, "cache_write_tokens": 500},
        "completion_tokens": 200,
        "completion_tokens_details": {"reasoning_tokens": 50},
        "total_tokens": 3700,
        "cost": 0.0125,
    },
    RESPONSES: {
        "input_tokens": 3500,
        "input_tokens_details": {"cached_tokens": 2000, "cache_write_tokens": 500},
        "output_tokens": 200,
        "output_tokens_details": {"reasoning_tokens": 50},
        "total_tokens": 3700,
        "cost_in_usd_ticks": 125_000_000,
    },
}
# What stands beside the counts.
BESIDE: dict[str, Object] = {
    MESSAGES: {},
    CHAT: {"service_tier": "priority"},
    RESPONSES: {"service_tier": "priority", "tool_usage": {"web_search": {"num_requests": 2}}},
}
# By hand: 1,000 plain at $6, 200 said at $30, 2,000 read at $0.30, 500 (400 and 100) written at $3.75 (and $6),
# 2 searches at one cent.
COMMON = CostBreakdown(
    input=6_000_000, output=6_000_000, cache_read=600_000, cache_write=1_875_000, entry="x", tier="priority"
)
COSTS = {
    MESSAGES: replace(COMMON, cache_write=1_500_000, cache_write_1h=600_000, search=20_000_000),
    CHAT: replace(COMMON, reported=12_500_000),
    RESPONSES: replace(COMMON, search=20_000_000, reported=12_500_000),
}


def reply(protocol: str, *, stream: bool, usage: Object | None, **beside: object) -> Reply:
    """An answer with these counts; None leaves them out."""
    said = replace(turn(protocol), usage=usage or None)
    body = {**answer_of(protocol, said), **beside}
    if usage is None:
        del body["usage"]
    if not stream:
        return whole(body)
    if usage is None:
        body["usage"] = None
    told = stream_of(protocol, body, said)
    if protocol == CHAT:
        tier = json.dumps(beside).encode()[1:-1]
        told = told.replace(b'"object"', tier + b', "object"') if beside else told
        if usage is None:
            told = b"".join(frame + b"\n\n" for frame in told.split(b"\n\n")[:-1] if b'"choices": []' not in frame)
    if usage is None:
        told = told.replace(b', "usage": {"input_tokens": 1, "output_tokens": 1}', b"")
    return streamed(told)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_pitfall_415_the_same_usage_costs_the_same_streamed_or_whole(client: str, provider: str, stream: bool) -> None:
    told = reply(provider, stream=stream, usage=COUNTS[provider], **BESIDE[provider])
    more: Object = {"stream_options": {"include_usage": True}} if client == CHAT and stream else {}
    with recorded([told], PRICED) as (house, records):
        answer = house.post(PATH[client], question(client, provider, stream=stream, **more))
        assert answer.status == 200
    (record,) = records
    money = record.cost
    assert money is not None
    assert replace(money, entry="x", version="") == COSTS[provider]
    assert money.entry == f"{NAMES[provider]}/served"
    assert record.tokens == TokenCounts(
        input=3500,
        cache_read=2000,
        cache_write=500,
        cache_write_1h=100 if provider == MESSAGES else 0,
        output=200,
        thinking=50,
        searches=0 if provider == CHAT else 2,
    )
    (attempt,) = record.attempts
    assert (attempt.cost, attempt.tokens, attempt.estimated) == (money, record.tokens, False)
    assert (record.response_model, record.stop_reason) == ("served", STOPS[provider])
    assert (
        record.response_id and record.response_id == json.loads(json.dumps(answer_of(provider, turn(provider))))["id"]
    )


def counted(text: str) -> int:
    return count_texts([text], family_of("served")).tokens


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_what_a_provider_does_not_tell_is_counted_here(client: str, provider: str, stream: bool) -> None:
    with recorded([reply(provider, stream=stream, usage=None)], PRICED) as (house, records):
        answer = house.post(PATH[client], question(client, provider, stream=stream))
        assert answer.status == 200
        sent = house.provider.received[0].json()
        if stream:
            assert is_finished(client, answer.body)
    (record,) = records
    assert record.usage is None
    assert record.estimated
    assert record.tokens == TokenCounts(input=count_request(sent, "served").tokens, output=counted(SAID))
    assert record.cost is not None and record.cost.unpriced == ()
    assert record.cost.output == record.tokens.output * 15_000
    assert [attempt.estimated for attempt in record.attempts] == [True]


def replied(protocol: str, usage: dict[str, int], *, stream: bool) -> Reply:
    """An answer with these counts, which the opening of a stream tells as well."""
    made = reply(protocol, stream=stream, usage=dict(usage))
    opening, told = b'"usage": {"input_tokens": 1, "output_tokens": 1}', json.dumps(usage).encode()
    steps = tuple(
        step.replace(opening, b'"usage": ' + told) if isinstance(step, bytes) else step for step in made.steps
    )
    return replace(made, steps=steps)


# The totals as each protocol names them.
TOTALS = {
    MESSAGES: ("input_tokens", "output_tokens"),
    CHAT: ("prompt_tokens", "completion_tokens"),
    RESPONSES: ("input_tokens", "output_tokens"),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_pitfall_388_a_reported_zero_is_not_replaced_by_an_estimate(client: str, provider: str, stream: bool) -> None:
    taken, said = TOTALS[provider]
    for told, tokens in (({taken: 0, said: 7}, TokenCounts(output=7)), ({taken: 7, said: 0}, TokenCounts(input=7))):
        with recorded([replied(provider, told, stream=stream)], PRICED) as (house, records):
            assert house.post(PATH[client], question(client, provider, stream=stream)).status == 200
        (record,) = records
        assert (record.tokens, record.estimated) == (tokens, False)
        assert record.cost is not None
        assert (record.cost.input, record.cost.output) == (tokens.input * 3_000, tokens.output * 15_000)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_pitfall_388_a_total_that_is_missing_is_counted_here(client: str, provider: str, stream: bool) -> None:
    taken, said = TOTALS[provider]
    for told in ({taken: 7}, {said: 7}):
        with recorded([replied(provider, told, stream=stream)], PRICED) as (house, records):
            assert house.post(PATH[client], question(client, provider, stream=stream)).status == 200
            sent = house.provider.received[0].json()
        (record,) = records
        counts = TokenCounts(
            input=told.get(taken, count_request(sent, "served").tokens), output=told.get(said, counted(SAID))
        )
        assert (record.tokens, record.estimated) == (counts, True)


@pytest.mark.parametrize("client", PROTOCOLS)
def test_several_choices_of_a_whole_answer_are_told_as_a_stream_and_counted_or_reported(client: str) -> None:
    words = [f"{word}: {SAID * 20}" for word in ("One", "Two", "Three")]
    choices = [
        {"index": place, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        for place, text in enumerate(words)
    ]
    body: Object = {**answer_of(CHAT, turn(CHAT)), "choices": choices, "usage": None}
    with recorded([whole(body)], PRICED) as (house, records):
        answer = house.post(PATH[client], question(client, CHAT, stream=True))
        assert is_finished(client, answer.body)
    (record,) = records
    lost = [loss["at"] for loss in record.losses if loss["feature"] == "choices"]
    assert [text.encode() in answer.body for text in words] == [True, client == CHAT, client == CHAT]
    assert lost == ([] if client == CHAT else ["alternatives"])
    assert record.estimated and record.tokens is not None
    if client == CHAT:
        spent = sum(map(counted, words))
        assert abs(record.tokens.output - spent) <= spent // 8


@pytest.mark.parametrize("client", PROTOCOLS)
def test_a_stream_that_comes_in_one_piece_is_counted_however_long_that_is(client: str) -> None:
    word = {"id": "chatcmpl-1", "model": "served", "choices": [{"index": 0, "delta": {"content": " hello"}}]}
    last = {**word, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    events = [*[json.dumps(word)] * 1500, json.dumps(last), "[DONE]"]
    packed = gzip.compress("".join(f"data: {event}\n\n" for event in events).encode())
    told = (("content-type", "text/event-stream"), ("content-encoding", "gzip"))
    with recorded([Reply(headers=told, steps=(packed,), chunked=True)], PRICED) as (house, records):
        house.post(PATH[client], question(client, CHAT, stream=True))
    (record,) = records
    assert record.estimated and record.tokens is not None
    assert abs(record.tokens.output - 1500) <= 1500 // 8


@pytest.mark.parametrize("client", PROTOCOLS)
def test_a_broken_stream_that_began_with_what_was_asked_is_counted_by_what_it_said(client: str) -> None:
    opening, *others = speaking(RESPONSES).split(b"\n\n")
    name, _, data = opening.partition(b"data: ")
    begun = json.loads(data)
    begun["response"]["instructions"] = "x" * 100_000
    said = b"\n\n".join([name + b"data: " + json.dumps(begun).encode(), *others])
    with recorded([streamed(said, None)], PRICED) as (house, records):
        house.post(PATH[client], question(client, RESPONSES, stream=True))
    (record,) = records
    assert record.failure and record.estimated and record.tokens is not None
    assert 1 < record.tokens.output <= counted(SAID)


@pytest.mark.parametrize("client", PROTOCOLS)
def test_a_broken_stream_that_began_with_more_than_is_kept_is_counted_by_what_it_said(client: str) -> None:
    opening, *others = speaking(RESPONSES).split(b"\n\n")
    name, _, data = opening.partition(b"data: ")
    begun = json.loads(data)
    begun["response"]["instructions"] = "x" * 1_400_000
    echo = name + b"data: " + json.dumps(begun).encode()
    said = b"\n\n".join([echo, echo.replace(b"response.created", b"response.in_progress"), *others])
    pieces = [said[at : at + 16_384] for at in range(0, len(said), 16_384)]
    with recorded([streamed(*pieces, None)], PRICED) as (house, records):
        house.post(PATH[client], question(client, RESPONSES, stream=True))
    (record,) = records
    assert record.failure and record.estimated
    assert record.tokens is not None and 1 < record.tokens.output <= counted(SAID)
    assert record.cost is not None and record.cost.unpriced == ()


@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut"])
def test_a_stream_with_one_word_too_long_to_be_counted_is_not_free(cut: bool) -> None:
    word = {"id": "chatcmpl-1", "model": "served", "choices": [{"index": 0, "delta": {"content": "word " * 400_000}}]}
    last: Object = {**word, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    events = [json.dumps(word)] + ([] if cut else [json.dumps(last), "[DONE]"])
    said = "".join(f"data: {event}\n\n" for event in events).encode()
    pieces = [said[at : at + 16_384] for at in range(0, len(said), 16_384)]
    with recorded([streamed(*pieces, *[None] * cut)], PRICED) as (house, records):
        house.post(PATH[CHAT], question(CHAT, CHAT, stream=True))
    (record,) = records
    assert bool(record.failure) is cut
    assert (record.tokens, record.cost) == (None, UNREPORTED)


BROKEN = {
    "cut": lambda provider: streamed(speaking(provider), None),
    "failed": lambda provider: streamed(speaking(provider), error_frame(provider, "overloaded_error", "too much")),
}


@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_pitfall_422_433_what_passed_of_a_broken_stream_is_counted(client: str, provider: str, case: str) -> None:
    with recorded([BROKEN[case](provider)], PRICED) as (house, records):
        house.post(PATH[client], question(client, provider, stream=True))
        sent = house.provider.received[0].json()
    (record,) = records
    assert record.failure and record.estimated
    tokens = record.tokens
    assert tokens is not None
    # The opening of a message tells its input, and a placeholder for its output.
    assert tokens.input == (1 if provider == MESSAGES else count_request(sent, "served").tokens)
    assert 1 < tokens.output <= counted(SAID)
    assert record.cost is not None and record.cost.total == tokens.input * 3000 + tokens.output * 15_000


ENDS = {MESSAGES: b"event: message_stop", CHAT: b"data: [DONE]"}


def told_counts(provider: str) -> bytes:
    """A stream without its end: its counts and why it ended are told."""
    told = reply(provider, stream=True, usage=COUNTS[provider])
    said, end, _ = b"".join(step for step in told.steps if isinstance(step, bytes)).partition(ENDS[provider])
    assert end
    return said


@pytest.mark.parametrize("client", PROTOCOLS)
@pytest.mark.parametrize("provider", [MESSAGES, CHAT])
def test_what_was_told_of_a_stream_that_broke_off_behind_its_end_counts(client: str, provider: str) -> None:
    with recorded([streamed(told_counts(provider), None)], PRICED) as (house, records):
        house.post(PATH[client], question(client, provider, stream=True))
    (record,) = records
    assert (record.failure, record.estimated) == ("", False)
    assert record.tokens is not None and (record.tokens.input, record.tokens.output) == (3500, 200)


@pytest.mark.parametrize("client", PROTOCOLS)
@pytest.mark.parametrize("provider", [MESSAGES, CHAT])
def test_what_was_told_counts_for_a_client_that_left_before_the_end(client: str, provider: str) -> None:
    with recorded([streamed(told_counts(provider), stay_silent)], PRICED) as (house, records):
        body = json.dumps(question(client, provider, stream=True)).encode()
        head = f"POST {PATH[client]} HTTP/1.1\r\nhost: 127.0.0.1:{house.port}\r\ncontent-length: {len(body)}\r\n\r\n"
        with house.connect() as connection:
            connection.sendall(head.encode() + body)
            assert connection.recv(1)
        wait_until(lambda: bool(records), "the exchange is recorded")
    (record,) = records
    assert (record.failure, record.estimated) == ("cancelled", False)
    assert record.tokens is not None and (record.tokens.input, record.tokens.output) == (3500, 200)
    assert record.usage is not None and record.usage.output == 200
    assert record.cost is not None and record.cost.unpriced == ()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("provider", PROTOCOLS)
def test_pitfall_423_what_a_client_left_is_cancelled_and_counted(provider: str, stream: bool) -> None:
    reached = threading.Event()

    async def wait() -> None:
        reached.set()
        await stay_silent()

    told = streamed(speaking(provider), wait) if stream else Reply(raw=True, steps=(wait,))
    with recorded([told], PRICED) as (house, records):
        body = json.dumps(question(provider, provider, stream=stream)).encode()
        head = f"POST {PATH[provider]} HTTP/1.1\r\nhost: 127.0.0.1:{house.port}\r\ncontent-length: {len(body)}\r\n\r\n"
        with house.connect() as connection:
            connection.sendall(head.encode() + body)
            assert reached.wait(PATIENCE)
            if stream:
                assert connection.recv(1)
        wait_until(lambda: bool(records), "the exchange is recorded")
        wait_until(lambda: house.provider.hung_up == 1, "the gateway ends the provider's call")
    (record,) = records
    assert (record.failure, record.estimated) == ("cancelled", True)
    assert record.tokens is not None and record.tokens.input > 0
    assert (record.tokens.output > 0) == stream
    assert record.cost is not None and record.cost.total > 0
    # Nobody knows how much there was of an answer that comes whole.
    assert record.cost.unpriced == (() if stream else ("output",))


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_what_a_provider_goes_on_with_in_the_background_costs_more_than_is_known(status: str) -> None:
    begun: Object = {**answer_of(RESPONSES, turn(RESPONSES)), "status": status, "output": [], "usage": None}
    with recorded([whole(begun)], PRICED) as (house, records):
        asked = {**question(RESPONSES, RESPONSES), "background": True, "store": True}
        assert house.post(PATH[RESPONSES], asked).json()["status"] == status
    (record,) = records
    assert record.tokens is not None and record.tokens.input > 0 and record.estimated
    assert record.cost is not None and record.cost.total == record.tokens.input * 3000
    assert record.cost.unpriced == ("output",)


def test_what_was_refused_costs_nothing_and_what_may_have_been_billed_is_not_free() -> None:
    refused = whole(error_body(CHAT, "invalid_request_error", "no"), 400)
    with recorded([refused, Reply(steps=(b"",)), Reply(raw=True, steps=(b"HTTP/1.1 200 OK\r\ncontent-le", None))]) as (
        house,
        records,
    ):
        for _ in range(3):
            house.post(PATH[CHAT], question(CHAT, CHAT))
    first, empty, cut = records
    assert (first.tokens, first.cost) == (None, None)
    for record in (empty, cut):
        assert record.attempts[0].maybe_billed is (record.cost is not None)
        assert record.cost is None or record.cost.unpriced == ("usage",)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_what_we_break_ourselves_is_not_free(stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(*_: object, **__: object) -> None:
        raise TypeError("what nobody thought of")

    if stream:
        monkeypatch.setattr(StreamPipeline, "feed", break_down)
    else:
        monkeypatch.setattr(full_delivery, "translate_response", break_down)
    with recorded([reply(CHAT, stream=stream, usage=COUNTS[CHAT])], PRICED) as (house, records):
        assert house.post(PATH[MESSAGES], question(MESSAGES, CHAT, stream=stream)).status == 500
    # Beside it there is what the client was told in the end, which is no exchange of its own.
    (record,) = [record for record in records if record.kind]
    assert record.cost is not None and record.cost.unpriced == ("usage",)
    assert [(attempt.kind, attempt.maybe_billed) for attempt in record.attempts] == [("gateway_error", True)]


@pytest.mark.parametrize("path", [PATH[CHAT], "/v1/embeddings"])
@pytest.mark.parametrize(("status", "billed"), [(504, True), (500, False), (429, False)])
def test_the_log_and_the_rows_agree_on_what_an_error_may_have_cost(path: str, status: int, billed: bool) -> None:
    with recorded([whole(error_body(CHAT, "server_error", "no"), status)]) as (house, records):
        house.post(path, question(CHAT, CHAT), content_type="application/json")
    (record,) = records
    assert [attempt.maybe_billed for attempt in record.attempts] == [billed]
    assert record.cost == (UNREPORTED if billed else None)
    assert is_unpriced(finalized_entry(record, "off")) is billed


@pytest.mark.parametrize("code", ["server_error", "rate_limit_exceeded", "invalid_api_key"])
def test_the_log_and_the_rows_agree_on_an_error_that_is_told_with_a_good_status(code: str) -> None:
    told = {"error": {"message": "no", "type": code, "code": code}}
    with recorded([whole(told)]) as (house, records):
        house.post(PATH[CHAT], question(CHAT, CHAT))
    (record,) = records
    assert record.failure
    unpriced = record.cost is not None and bool(record.cost.unpriced)
    assert is_unpriced(finalized_entry(record, "off")) is unpriced


def test_pitfall_420_the_same_request_twice_is_two_exchanges() -> None:
    replies = [reply(MESSAGES, stream=False, usage=COUNTS[MESSAGES])] * 2
    with recorded(replies, PRICED) as (house, records):
        answers = [house.post(PATH[MESSAGES], question(MESSAGES, MESSAGES)) for _ in range(2)]
    assert len(records) == 2 and len({record.id for record in records}) == 2
    assert records[0].cost == records[1].cost is not None
    assert answers[0].body == answers[1].body


def test_pitfall_419_the_last_counts_of_a_stream_are_the_ones_that_count() -> None:
    chunks = [
        {"id": "c", "model": "served", "choices": [{"index": 0, "delta": {"content": word}}], "usage": usage}
        for word, usage in (
            ("a", {"prompt_tokens": 10, "completion_tokens": 1}),
            ("b", {"prompt_tokens": 10, "completion_tokens": 2}),
        )
    ]
    last: Object = {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    final: Object = {"id": "c", "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 3}}
    told = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in (*chunks, last, final))
    for client in PROTOCOLS:
        with recorded([streamed(told + b"data: [DONE]\n\n")], PRICED) as (house, records):
            house.post(PATH[client], question(client, CHAT, stream=True))
        (record,) = records
        assert record.tokens == TokenCounts(input=10, output=3)
        assert not record.estimated


def test_pitfall_425_what_a_failed_attempt_took_counts_with_what_followed() -> None:
    def settings(port: int) -> Settings:
        made = PRICED(port)
        line = RouteConfig(pattern="both", targets=("responses/served", "messages/served"))
        return replace(made, routes=(*made.routes, line))

    failed: Object = {**answer_of(RESPONSES, turn(RESPONSES)), "status": "failed", "output": []}
    failed |= {"error": {"code": "server_error", "message": "broke"}, "usage": COUNTS[RESPONSES]}
    with recorded([whole(failed), reply(MESSAGES, stream=False, usage=COUNTS[MESSAGES])], settings) as (house, records):
        asked = {**question(RESPONSES, RESPONSES), "model": "both"}
        assert house.post(PATH[RESPONSES], asked).status == 200
    (record,) = records
    first, second = record.attempts
    assert first.cost is not None and second.cost is not None and record.cost is not None
    assert record.cost.total == first.cost.total + second.cost.total
    assert record.tokens is not None and record.tokens.input == 7000


@pytest.mark.parametrize("said", [b"", b"something was said"], ids=["at once", "after a while"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", PROTOCOLS)
def test_what_a_failed_response_tells_of_its_counts_is_what_it_cost(client: str, stream: bool, said: bytes) -> None:
    made: Object = {**answer_of(RESPONSES, turn(RESPONSES)), "output": []}
    begun: Object = {**made, "status": "in_progress", "usage": None}
    failed: Object = {**made, "status": "failed", "usage": COUNTS[RESPONSES]}
    failed |= {"error": {"code": "server_error", "message": "broke"}}
    events = [{"type": "response.created", "response": begun}, {"type": "response.failed", "response": failed}]
    first, last = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)
    middle = speaking(RESPONSES).partition(b"\n\n")[2] if said else b""
    told = streamed(first + middle + last) if stream else whole(failed)
    with recorded([told], PRICED) as (house, records):
        house.post(PATH[client], question(client, RESPONSES, stream=stream))
    (record,) = records
    assert record.failure == "internal"
    assert outcome_of(record) in (REFUSED, FAILED)
    assert record.tokens == TokenCounts(input=3500, cache_read=2000, cache_write=500, output=200, thinking=50)
    assert not record.estimated
    # By hand: 1,000 plain at $3, 200 said at $15, 2,000 read at $0.30, 500 written at $3.75.
    assert record.cost is not None
    assert (record.cost.total, record.cost.unpriced) == (3_000_000 + 3_000_000 + 600_000 + 1_875_000, ())


BROKE: Object = {"code": "server_error", "message": "broke"}


@pytest.mark.parametrize("several", [False, True], ids=["one target", "several"])
@pytest.mark.parametrize("says", [False, True], ids=["says nothing", "says something"])
@pytest.mark.parametrize("client", PROTOCOLS)
def test_a_failed_response_without_counts_is_an_error_unless_it_says_something(
    client: str, says: bool, several: bool
) -> None:
    def settings(port: int) -> Settings:
        made = PRICED(port)
        return replace(made, routes=(*made.routes, RouteConfig(pattern="both", targets=("responses/served",) * 2)))

    made: Object = {**answer_of(RESPONSES, turn(RESPONSES)), "status": "failed", "usage": None, "error": BROKE}
    failed = made if says else {**made, "output": []}
    with recorded([whole(failed)] * 9, settings) as (house, records):
        name = "both" if several else "responses/served"
        house.post(PATH[client], {**question(client, RESPONSES), "model": name})
    (record,) = records
    assert record.failure == "internal" and not record.estimated
    assert (record.tokens, record.cost) == (None, UNREPORTED if says else None)
    assert {attempt.kind for attempt in record.attempts} == {"connection_lost"}
    assert [attempt.cost for attempt in record.attempts] == [record.cost] * len(record.attempts)


@pytest.mark.parametrize("client", PROTOCOLS)
def test_a_chat_answer_that_failed_midway_without_counts_took_nobody_knows_what(client: str) -> None:
    said: Object = {"role": "assistant", "content": "word " * 2000}
    made: Object = {"index": 0, "message": said, "finish_reason": "error"}
    with recorded([whole({**answer_of(CHAT, turn(CHAT)), "choices": [made], "usage": None})], PRICED) as (
        house,
        records,
    ):
        house.post(PATH[client], question(client, CHAT))
    (record,) = records
    assert (record.tokens, record.cost, record.estimated) == (None, UNREPORTED, False)


@pytest.mark.parametrize("provider", [CHAT, RESPONSES])
@pytest.mark.parametrize("client", PROTOCOLS)
def test_an_error_behind_a_good_status_costs_what_it_tells(client: str, provider: str) -> None:
    told: Object = {"error": {**BROKE, "type": "server_error"}}
    with recorded([whole(told), whole({**told, "usage": COUNTS[provider]})], PRICED) as (house, records):
        for _ in range(2):
            assert house.post(PATH[client], question(client, provider)).status == 500
    silent, counted = records
    assert (silent.tokens, silent.cost) == (None, None)
    assert counted.tokens is not None and (counted.tokens.input, counted.tokens.output) == (3500, 200)
    assert counted.cost is not None and not counted.estimated


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("provider", PROTOCOLS)
def test_what_is_kept_is_counted_too(provider: str, stream: bool) -> None:
    with keeping([reply(provider, stream=stream, usage=None)]) as house:
        answer = house.post(PATH[RESPONSES], question(RESPONSES, provider, stream=stream, store=True))
        assert answer.status == 200
        told = events_of(answer.body)[-1]["response"] if stream else answer.json()
        assert isinstance(told, dict) and told["status"] == "completed"
        # Who keeps it itself is asked for it.
        assert provider == RESPONSES or house.get(f"/v1/responses/{told['id']}").status == 200
        (line, *_) = log_lines(house)
    assert line["estimated"] is True and line["unpriced"] == ["model"]
