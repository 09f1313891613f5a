"""A client's trace goes on to the provider; with a collector, the provider hears of the call that is told there."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, Settings, Storage, Telemetry
from dragoman.telemetry.trace_context import span_id_of, trace_id_of
from tests.gateway.harness import CHAT, MESSAGES, PATHS, House, Received, Reply, running, settings_for, whole
from tests.gateway.says import PAIRS, log_lines, question, refusal, streams, tells, with_provider

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
STATE = "rojo=1,congo=t61rcWkgMzE"
EMBEDDINGS = {"model": "chat/served", "input": ["a"]}


def told(port: int) -> Settings:
    """A gateway that tells a collector of every exchange; nobody is there to hear it."""
    return replace(
        settings_for(port),
        telemetry=Telemetry(endpoint="http://127.0.0.1:9"),
        # Where they would be written down, if anybody began to.
        storage=Storage(store_responses=False, path="/nowhere/state.db"),
        routes=(RouteConfig(pattern="both", targets=("chat/first", "all/second")),),
    )


def exchange_of(house: House) -> str:
    """The id of the only exchange."""
    (line,) = log_lines(house)
    found = line["id"]
    assert isinstance(found, str)
    return found


@pytest.mark.parametrize(("client", "provider"), PAIRS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_trace_goes_on_as_it_came(client: str, provider: str, stream: bool) -> None:
    reply = streams(provider) if stream else tells(provider)
    with running([reply]) as house:
        asked = question(client, provider, stream=stream)
        answer = house.post(PATHS[client], asked, traceparent=PARENT, tracestate=STATE)
        assert answer.status == 200
        (received,) = house.provider.received
        assert [value for name, value in received.headers if name == "traceparent"] == [PARENT]
        assert received.header("tracestate") == STATE


def test_whoever_sends_no_trace_gets_none() -> None:
    with running([tells(CHAT)]) as house:
        house.post(PATHS[CHAT], question(CHAT, CHAT), tracestate=STATE)
        (received,) = house.provider.received
        assert not [name for name, _ in received.headers if name.startswith("trace")]


@pytest.mark.parametrize(
    "sent", [PARENT.upper(), f"00-{'0' * 32}-{SPAN}-01", f"{PARENT}-x", "no trace", f"ff{PARENT[2:]}"]
)
def test_what_is_no_trace_goes_no_further_and_refuses_nothing(sent: str) -> None:
    with running([tells(CHAT)]) as house:
        answer = house.post(PATHS[CHAT], question(CHAT, CHAT), traceparent=sent, tracestate=STATE)
        assert answer.status == 200
        (received,) = house.provider.received
        assert not [name for name, _ in received.headers if name.startswith("trace")]


def test_of_two_traces_none_goes_on() -> None:
    body = json.dumps(question(CHAT, CHAT)).encode()
    with running([tells(CHAT)]) as house:
        answer = house.ask("POST", PATHS[CHAT], body, traceparent=PARENT, Traceparent=PARENT)
        assert answer.status == 200
        assert house.provider.received[0].header("traceparent") is None


def test_counts_and_other_paths_go_on_with_theirs() -> None:
    with running(lambda _: whole({"input_tokens": 7}), with_provider(counts_tokens=True)) as house:
        counted = question(MESSAGES, MESSAGES)
        house.post("/v1/messages/count_tokens", counted, traceparent=PARENT, tracestate=STATE)
        house.post("/v1/embeddings", EMBEDDINGS, traceparent=PARENT, tracestate=STATE)
        assert [received.header("traceparent") for received in house.provider.received] == [PARENT, PARENT]
        assert [received.header("tracestate") for received in house.provider.received] == [STATE, STATE]


def test_a_provider_hears_of_the_call_that_a_collector_is_told_of() -> None:
    with running([tells(CHAT)], told) as house:
        house.post(PATHS[CHAT], question(CHAT, CHAT), traceparent=PARENT, tracestate=STATE)
        (received,) = house.provider.received
        assert received.header("traceparent") == f"00-{TRACE}-{span_id_of(exchange_of(house), 0)}-01"
        assert received.header("tracestate") == STATE


def test_without_a_trace_one_is_made_where_a_collector_is_told() -> None:
    with running([tells(CHAT)], told) as house:
        house.post(PATHS[CHAT], question(CHAT, CHAT))
        (received,) = house.provider.received
        exchange = exchange_of(house)
        assert received.header("traceparent") == f"00-{trace_id_of(exchange, '')}-{span_id_of(exchange, 0)}-01"
        assert received.header("tracestate") is None


def test_what_a_client_wants_told_to_nobody_goes_on_as_it_came() -> None:
    silent = f"00-{TRACE}-{SPAN}-00"
    with running([tells(CHAT)], told) as house:
        house.post(PATHS[CHAT], question(CHAT, CHAT), traceparent=silent)
        assert house.provider.received[0].header("traceparent") == silent


def test_every_call_of_an_exchange_has_a_span_of_its_own() -> None:
    def script(received: Received) -> Reply:
        return refusal(CHAT, 503) if received.json()["model"] == "first" else tells(CHAT)

    with running(script, told) as house:
        answer = house.post(PATHS[CHAT], {**question(CHAT, CHAT), "model": "both"}, traceparent=PARENT)
        assert answer.status == 200
        exchange = exchange_of(house)
        heard = [received.header("traceparent") for received in house.provider.received]
        assert heard == [f"00-{TRACE}-{span_id_of(exchange, number)}-01" for number in range(2)]


def test_embeddings_that_go_on_to_another_target_are_told_apart_too() -> None:
    def settings(port: int) -> Settings:
        return replace(told(port), routes=(RouteConfig(pattern="both", targets=("chat/served", "all/served")),))

    tries: list[Received] = []

    def script(received: Received) -> Reply:
        tries.append(received)
        return refusal(CHAT, 503) if len(tries) == 1 else whole({"object": "list", "data": []})

    with running(script, settings) as house:
        answer = house.post("/v1/embeddings", {**EMBEDDINGS, "model": "both"}, traceparent=PARENT)
        assert answer.status == 200
        exchange = exchange_of(house)
        heard = [received.header("traceparent") for received in house.provider.received]
        assert heard == [f"00-{TRACE}-{span_id_of(exchange, number)}-01" for number in range(2)]


def test_without_records_a_collector_hears_nothing_and_no_trace_is_made() -> None:
    def settings(port: int) -> Settings:
        return replace(
            told(port), storage=Storage(store_responses=False, path="/nowhere/state.db", record_requests=False)
        )

    with running([tells(CHAT)], settings) as house:
        house.post(PATHS[CHAT], question(CHAT, CHAT))
        assert house.provider.received[0].header("traceparent") is None
