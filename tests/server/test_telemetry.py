"""A real gateway tells a real collector of what went through it, and does not depend on it in anything."""

from __future__ import annotations

import signal
import threading

from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.gateway.harness import CHAT, MESSAGES, PATHS, Received, Reply, read_answer
from tests.gateway.harness import stream as streamed
from tests.gateway.says import question, refusal, speaking, streams, tells, turn
from tests.sdk.providers import stream as stream_of
from tests.server.process import Gate, serving
from tests.telemetry.collector import CollectorServer, attributes, collecting
from tests.waiting import wait_until

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
CANARY = "canary-in-a-prompt"
# Seconds between two ingestions, and for which exchanges wait for others: exported at once, or not before the end.
INGEST, GATHER = "dragoman.records.ingest_thread.IngestThread.__init__.every", "dragoman.telemetry.export_queue._GATHER"
QUICK, LATE = {INGEST: 0.05, GATHER: 0.05}, {INGEST: 3600.0, GATHER: 3600.0}
# How long a collector may take at the end: one that does not answer is given up soon, one that does is waited for.
SHORT_END, LONG_END = ({"dragoman.gateway.telemetry_target.LAST_MOMENTS": seconds} for seconds in (0.1, 60.0))


def telling(address: str, more: str = "") -> str:
    return f'"both" = ["chat/ill", "messages/served"]\n[telemetry]\nendpoint = "{address}"\n{more}'


def scripted(received: Received) -> Reply:
    asked = received.json()
    protocol = MESSAGES if received.target.startswith("/v1/messages") else CHAT
    if asked["model"] == "ill":
        return refusal(protocol, 503)
    return streams(protocol) if asked.get("stream") else tells(protocol)


def tree(spans: list[Span]) -> dict[str, list[Span]]:
    """The spans of each exchange, its own first, by the model that was asked for."""
    own = {span.span_id: span for span in spans if not span.name.startswith("call ")}
    found = {span_id: [span] for span_id, span in own.items()}
    for span in spans:
        if span.span_id not in own:
            found[span.parent_span_id].append(span)
    return {str(attributes(each[0].attributes)["dragoman.requested_model"]): each for each in found.values()}


def test_a_collector_is_told_of_every_exchange_and_of_nothing_that_was_said() -> None:
    with (
        collecting() as collector,
        serving(scripted, telling(collector.address), arguments=["--workers", "2"], constants=QUICK) as house,
    ):
        said = {"messages": [{"role": "user", "content": CANARY}]}
        for model, more in (("chat/served", {}), ("messages/served", {"stream": True}), ("both", {}), ("no-such", {})):
            house.post(PATHS[CHAT], {"model": model, **said, **more}, traceparent=PARENT)
        exchanges = tree(collector.wait_for(4 + 4))
        received = house.provider.received
        assert house.stop() == 0
    assert set(exchanges) == {"chat/served", "messages/served", "both", "no-such"}
    for own, *calls in exchanges.values():
        assert (own.trace_id.hex(), own.parent_span_id.hex()) == (TRACE, SPAN)
        assert all(call.trace_id == own.trace_id for call in calls)
        assert all(own.start_time_unix_nano <= call.start_time_unix_nano for call in calls)
        assert all(call.end_time_unix_nano <= own.end_time_unix_nano for call in calls)
    told = {model: attributes(spans[0].attributes) for model, spans in exchanges.items()}
    assert told["chat/served"]["gen_ai.usage.input_tokens"]
    assert told["chat/served"]["server.address"] == "127.0.0.1"
    assert told["messages/served"]["gen_ai.request.stream"] is True
    assert [span.name for span in exchanges["both"]] == ["chat served", "call chat", "call messages"]
    assert [span.status.code for span in exchanges["both"]] == [
        Status.STATUS_CODE_UNSET,
        Status.STATUS_CODE_ERROR,
        Status.STATUS_CODE_UNSET,
    ]
    assert (exchanges["no-such"][0].name, told["no-such"]["error.type"]) == ("chat", "not_found")
    assert not any(name.startswith("gen_ai.usage") for name in told["no-such"])
    # Each provider was told the very span that the collector has of its call.
    heard = {str(each.header("traceparent")) for each in received}
    calls = [call for _, *calls in exchanges.values() for call in calls]
    assert heard == {f"00-{TRACE}-{call.span_id.hex()}-01" for call in calls}
    assert not [request for request in collector.requests if CANARY.encode() in request.SerializeToString()]


def test_a_client_that_leaves_is_told_as_one_that_left() -> None:
    gate = Gate()
    with (
        collecting() as collector,
        serving(lambda _: streamed(speaking(CHAT), gate), telling(collector.address), constants=QUICK) as house,
    ):
        with house.send(PATHS[CHAT], question(CHAT, CHAT, stream=True)) as connection:
            gate.reached()
            connection.recv(1)
        gate.deserted()
        own, call = collector.wait_for(2)
        assert attributes(own.attributes)["dragoman.outcome"] == "cancelled"
        assert attributes(call.attributes)["dragoman.call.outcome"] == "client_disconnected"
        assert [span.status.code for span in (own, call)] == [Status.STATUS_CODE_UNSET] * 2


def test_pitfall_455_a_collector_that_fails_is_told_once_and_breaks_nothing() -> None:
    with (
        collecting(lambda: 500) as collector,
        serving(scripted, telling(collector.address), constants=QUICK) as house,
    ):
        assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
        collector.wait_asked(1)
        house.process.log.wait("the collector does not take them")
        assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
        collector.wait_asked(2)
        assert house.metric('dragoman_telemetry_exports_total{result="failed"}') >= 1
        assert house.get("/readyz").status == 200
        assert house.stop() == 0
        assert len([line for line in house.process.log.all() if "cannot export spans to " in line]) == 1


def test_pitfall_437_a_stop_waits_for_what_runs_and_not_for_a_collector() -> None:
    gate, free = Gate(), threading.Event()

    def answer() -> int:
        free.wait()
        return 200

    def script(received: Received) -> Reply:
        begun = speaking(CHAT)
        return streamed(begun, gate, stream_of(CHAT, turn(CHAT)).removeprefix(begun))

    with (
        collecting(answer) as collector,
        serving(script, telling(collector.address), constants={**QUICK, **SHORT_END}) as house,
    ):
        with house.send(PATHS[MESSAGES], question(MESSAGES, CHAT, stream=True), "connection: close") as running:
            gate.reached()
            house.process.send(signal.SIGTERM)
            house.process.log.wait("stopping when running requests have ended")
            gate.open()
            assert b"message_stop" in read_answer(running).body
        # The collector answers nobody before this is over.
        try:
            assert house.stop() == 0
        finally:
            free.set()


def test_what_is_not_sent_yet_is_told_at_the_end() -> None:
    constants = {**LATE, **LONG_END}
    with collecting() as collector, serving(scripted, telling(collector.address), constants=constants) as house:
        assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
        assert house.stop() == 0
        assert len(collector.spans()) == 2


def test_a_collector_that_is_named_later_is_told_from_then_on_and_another_one_after_it() -> None:
    with collecting() as first, collecting() as second, serving(scripted, constants=QUICK) as house:
        assert house.post(PATHS[CHAT], question(CHAT, CHAT), traceparent=PARENT).status == 200
        # It was passed on as it came.
        assert house.provider.received[-1].header("traceparent") == PARENT
        house.replace_file(f'{house.file.read_text()}[telemetry]\nendpoint = "{first.address}"\n')
        house.process.log.wait("configuration reloaded")
        assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
        made = house.provider.received[-1].header("traceparent")
        wait_until(lambda: made in parents(first), "the first collector has the call")
        house.replace_file(house.file.read_text().replace(first.address, second.address))
        house.process.log.wait("configuration reloaded", 2)
        assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
        later = house.provider.received[-1].header("traceparent")
        wait_until(lambda: later in parents(second), "the second collector has the call")
        assert house.stop() == 0
        assert later not in parents(first) and made not in parents(second)


def parents(collector: CollectorServer) -> list[str]:
    """The spans of a collector as headers name them."""
    return [f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01" for span in collector.spans()]
