"""Spans arrive at a real collector as they were made, with the headers of the configuration and no others."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Received
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from dragoman.telemetry.export_queue import Collector
from dragoman.telemetry.otlp_exporter import Exporter
from dragoman.telemetry.spans import SpanNames, TraceSpan, spans_of
from tests.records.told_exchanges import (
    BROKEN,
    FAILED_OVER,
    GONE,
    LOST,
    PLACES,
    STREAMED,
    TURNED_AWAY,
    WHOLE,
)
from tests.telemetry.collector import PATIENCE, attributes, collecting

ENTRIES = {
    "whole": WHOLE,
    "streamed": STREAMED,
    "failed over": FAILED_OVER,
    "cancelled": GONE,
    "refused": TURNED_AWAY,
    "broken": BROKEN,
    "crashed": LOST,
}


@contextmanager
def exporting(collector: Collector, seconds: float = PATIENCE) -> Iterator[Exporter]:
    exporter = Exporter(collector, seconds)
    try:
        yield exporter
    finally:
        exporter.stop()


def same(received: Received, span: TraceSpan) -> bool:
    """Whether a span is what it was before it was sent."""
    kind = Received.SPAN_KIND_CLIENT if span.calls else Received.SPAN_KIND_INTERNAL
    status = Status.STATUS_CODE_ERROR if span.failed else Status.STATUS_CODE_UNSET
    return (
        received.name == span.name
        and received.kind == kind
        and received.status.code == status
        and not received.status.message
        and (received.trace_id.hex(), received.span_id.hex()) == (span.trace, span.id)
        and received.parent_span_id.hex() == span.parent
        and (received.start_time_unix_nano, received.end_time_unix_nano) == (span.started, span.ended)
        and attributes(received.attributes) == span.attributes
    )


@pytest.mark.parametrize("case", ENTRIES)
def test_spans_arrive_as_they_were_made(case: str) -> None:
    spans = spans_of(ENTRIES[case], PLACES, SpanNames())
    with collecting() as collector, exporting(Collector(endpoint=collector.address)) as exporter:
        assert exporter.send(spans)
    received = collector.spans()
    assert len(received) == len(spans)
    assert all(map(same, received, spans))
    assert collector.paths == ["/v1/traces"]


def test_the_gateway_says_who_it_is() -> None:
    with collecting() as server:
        collector = Collector(
            endpoint=f"{server.address}/v1/traces",
            service_name="gateway-1",
            attributes={"deployment.environment.name": "here"},
        )
        with exporting(collector) as exporter:
            exporter.send(spans_of(WHOLE, PLACES, SpanNames()))
    (sent,) = server.requests[0].resource_spans
    said = attributes(sent.resource.attributes)
    assert said["service.name"] == "gateway-1"
    assert said["deployment.environment.name"] == "here"
    assert said["telemetry.sdk.language"] == "python"
    assert [scope.scope.name for scope in sent.scope_spans] == ["dragoman"]
    assert server.paths == ["/v1/traces"]


def test_headers_of_the_configuration_are_sent_and_no_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # Those of another program's collector, and a password of its user.
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer other,x-other=1")
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n", encoding="utf-8")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    spans = spans_of(WHOLE, PLACES, SpanNames())
    with collecting() as server:
        with exporting(Collector(endpoint=server.address)) as exporter:
            exporter.send(spans)
        with exporting(Collector(endpoint=server.address, headers={"authorization": "Bearer mine"})) as exporter:
            exporter.send(spans)
    bare, own = server.headers
    assert "authorization" not in bare
    assert not [headers for headers in (bare, own) if "x-other" in headers]
    assert own["authorization"] == "Bearer mine"
    assert bare["content-type"] == "application/x-protobuf"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_collector_of_this_machine_is_called_directly(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with collecting() as server:
        address = server.address.replace("127.0.0.1", host)
        with exporting(Collector(endpoint=address)) as exporter:
            assert exporter.send(spans_of(WHOLE, PLACES, SpanNames()))
    assert len(server.spans()) == 2


def test_another_collector_is_called_by_way_of_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with collecting() as proxy:
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, proxy.address)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        with exporting(Collector(endpoint="http://collector.invalid:4318")) as exporter:
            assert exporter.send(spans_of(WHOLE, PLACES, SpanNames()))
    assert proxy.paths == ["http://collector.invalid:4318/v1/traces"]


def test_a_collector_that_fails_is_told_by_a_value_and_says_nothing_itself(capfd: pytest.CaptureFixture[str]) -> None:
    spans = spans_of(WHOLE, PLACES, SpanNames())
    with collecting(lambda: 500) as server, exporting(Collector(endpoint=server.address), 0.3) as exporter:
        assert not exporter.send(spans)
    assert capfd.readouterr() == ("", "")


def test_a_collector_that_is_away_is_told_by_a_value(capfd: pytest.CaptureFixture[str]) -> None:
    # A port that is taken, and that nobody listens at.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with exporting(Collector(endpoint=address), 0.3) as exporter:
            assert not exporter.send(spans_of(WHOLE, PLACES, SpanNames()))
    assert capfd.readouterr() == ("", "")
