"""Telemetry never delays, breaks or repeats anything: it sends what it can, and counts and tells what it cannot."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from dragoman.records.journal_entry import LIST, JournalEntry
from dragoman.telemetry import export_queue as telemetry_module
from dragoman.telemetry.export_queue import DROPPED, FAILED, SENT, Collector, TelemetryExporter, is_installed
from dragoman.telemetry.spans import ProviderPlace
from tests.records.told_exchanges import (
    BROKEN,
    FAILED_OVER,
    GONE,
    LOST,
    PARENT,
    PLACES,
    STREAMED,
    TURNED_AWAY,
    WHOLE,
)
from tests.telemetry.collector import PATIENCE, CollectorServer, collecting

ALL = [WHOLE, STREAMED, FAILED_OVER, GONE, TURNED_AWAY, BROKEN, LOST]
EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"


class Heard:
    """What was said and counted."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.counts: Counter[str] = Counter()

    def count(self, what: str, number: int) -> None:
        self.counts[what] += number


def made(address: str, heard: Heard, *, share: float = 1.0) -> TelemetryExporter:
    return TelemetryExporter(Collector(endpoint=address, share=share), lambda: PLACES, heard.words.append, heard.count)


def many(number: int) -> list[JournalEntry]:
    return [replace(WHOLE, id=f"req_{n}") for n in range(number)]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch may take as long as a busy machine needs, and does not wait for others."""
    monkeypatch.setattr(telemetry_module, "_MAX_SEND_SECONDS", PATIENCE)
    monkeypatch.setattr(telemetry_module, "_GATHER", 0.02)


@pytest.fixture
def impatient(patient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent again."""
    monkeypatch.setattr(telemetry_module, "_MAX_SEND_SECONDS", 0.3)


def test_every_exchange_is_told_once() -> None:
    heard = Heard()
    with collecting() as server:
        telemetry = made(server.address, heard)
        telemetry.start()
        telemetry.export(ALL[:3])
        telemetry.export(ALL[3:])
        telemetry.close(PATIENCE)
    spans = server.spans()
    assert len({span.span_id for span in spans}) == len(spans) == sum(1 + len(entry.calls) for entry in ALL)
    assert heard.counts == {SENT: len(ALL)}
    assert heard.words == []


def test_a_few_exchanges_do_not_wait_for_others() -> None:
    with collecting() as server:
        telemetry = made(server.address, Heard())
        telemetry.start()
        telemetry.export([WHOLE])
        assert len(server.wait_for(2)) == 2
        telemetry.close(PATIENCE)


def test_many_exchanges_go_in_batches() -> None:
    heard = Heard()
    with collecting() as server:
        telemetry = made(server.address, heard)
        telemetry.export(many(300))
        telemetry.start()
        telemetry.close(PATIENCE)
    assert len(server.paths) == 3
    assert heard.counts == {SENT: 300}


def test_a_share_is_told_and_what_a_client_wants_told() -> None:
    heard = Heard()
    with collecting() as server:
        telemetry = made(server.address, heard, share=0.25)
        telemetry.export([*many(400), replace(WHOLE, id="req_own", trace=PARENT)])
        telemetry.export([replace(WHOLE, id="req_silent", trace=PARENT[:-2] + "00"), replace(WHOLE, kind=LIST)])
        telemetry.start()
        telemetry.close(PATIENCE)
    ids = {
        value.value.string_value
        for span in server.spans()
        for value in span.attributes
        if value.key == "dragoman.request_id"
    }
    assert "req_own" in ids
    assert "req_silent" not in ids
    assert 60 < len(ids) < 140
    assert heard.counts == {SENT: len(ids)}


def test_pitfall_455_a_collector_that_fails_is_counted_and_told_once(impatient: None) -> None:
    heard = Heard()
    with collecting(lambda: 500) as server:
        telemetry = made(server.address, heard)
        telemetry.export(many(300))
        telemetry.start()
        telemetry.close(PATIENCE)
    assert heard.counts == {FAILED: 300}
    assert heard.words == [f"cannot export spans to {server.address}/v1/traces: the collector does not take them"]


def test_pitfall_455_a_collector_that_is_away_is_counted_and_told_once(impatient: None) -> None:
    with collecting() as server:
        pass
    heard = Heard()
    telemetry = made(server.address, heard)
    telemetry.start()
    telemetry.export([WHOLE])
    telemetry.export([GONE])
    telemetry.close(PATIENCE)
    assert heard.counts == {FAILED: 2}
    assert len(heard.words) == 1


def test_a_collector_that_comes_back_is_told_again() -> None:
    # A status after which nothing is sent again.
    statuses = [400]
    heard = Heard()
    with collecting(lambda: statuses.pop() if statuses else 200) as server:
        telemetry = made(server.address, heard)
        telemetry.start()
        telemetry.export([WHOLE])
        server.wait_asked(1)
        telemetry.export([FAILED_OVER])
        telemetry.close(PATIENCE)
    assert heard.counts == {FAILED: 1, SENT: 1}
    assert len(server.spans()) == 4


def _held(server: CollectorServer) -> threading.Event:
    """Let a collector answer nobody until it is told to."""
    free = threading.Event()

    def answer() -> int:
        with server.changed:
            server.paths.append("held")
            server.changed.notify_all()
        free.wait(PATIENCE)
        return 200

    server.answer = answer
    return free


def test_pitfall_455_whoever_hands_over_waits_for_no_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry_module, "_MAX_WAITING", 200)
    heard = Heard()
    with collecting() as server:
        free = _held(server)
        telemetry = made(server.address, heard)
        telemetry.start()
        telemetry.export([WHOLE])
        server.wait_asked(1)
        # The collector holds the first one for as long as it likes; all of this returns before it is let go.
        for _ in range(3):
            telemetry.export(many(100))
        assert heard.counts == {DROPPED: 100}
        assert heard.words == [f"cannot export spans to {server.address}/v1/traces: the queue is full"]
        free.set()
        telemetry.close(PATIENCE)
    assert heard.counts[DROPPED] == 100
    assert heard.counts[SENT] + heard.counts[FAILED] == 201


def test_pitfall_437_the_end_waits_for_no_collector() -> None:
    heard = Heard()
    with collecting() as server:
        free = _held(server)
        telemetry = made(server.address, heard)
        telemetry.start()
        telemetry.export([WHOLE])
        server.wait_asked(1)
        telemetry.export(many(10))
        # It returns although the collector answers only after that.
        telemetry.close(0.1)
        assert heard.counts == {DROPPED: 10}
        telemetry.export([WHOLE])
        assert heard.counts == {DROPPED: 11}
        free.set()


def test_pitfall_437_what_never_began_ends_too() -> None:
    heard = Heard()
    telemetry = made("http://127.0.0.1:9", heard)
    telemetry.export([WHOLE])
    telemetry.close(PATIENCE)
    assert heard.counts == {DROPPED: 1}


def test_an_error_of_its_own_ends_nothing() -> None:
    heard = Heard()
    asked: list[int] = []

    def places() -> Mapping[str, ProviderPlace]:
        asked.append(1)
        if len(asked) == 1:
            raise KeyError("a canary that nobody may read")
        return PLACES

    with collecting() as server:
        telemetry = TelemetryExporter(Collector(endpoint=server.address), places, heard.words.append, heard.count)
        telemetry.export(many(129))
        telemetry.start()
        telemetry.close(PATIENCE)
    assert heard.counts == {FAILED: 128, SENT: 1}
    assert heard.words == [f"cannot export spans to {server.address}/v1/traces: KeyError"]


def test_without_the_extra_nothing_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_installed()
    monkeypatch.setitem(sys.modules, EXPORTER, None)
    assert not is_installed()
    heard = Heard()
    telemetry = made("http://127.0.0.1:9", heard)
    telemetry.start()
    telemetry.export([WHOLE])
    telemetry.close(PATIENCE)
    assert heard.counts == {FAILED: 1}
    assert heard.words == ["cannot export spans to http://127.0.0.1:9/v1/traces: ModuleNotFoundError"]


def test_a_collector_shows_no_header() -> None:
    assert "secret" not in repr(Collector(endpoint="http://127.0.0.1:4318", headers={"authorization": "secret"}))


@pytest.mark.parametrize(
    ("endpoint", "address"),
    [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
        ("https://example.org/api/public/otel", "https://example.org/api/public/otel/v1/traces"),
        ("https://example.org/v1/traces", "https://example.org/v1/traces"),
    ],
)
def test_a_collector_is_named_with_or_without_the_path(endpoint: str, address: str) -> None:
    assert Collector(endpoint=endpoint).address == address
