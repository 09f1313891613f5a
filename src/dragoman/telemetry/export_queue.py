"""Export queue: sends spans of recorded exchanges to a collector, by OTLP over HTTP (decision 35). `export` never
blocks: if the queue is full, the exchange is dropped and counted. Failures are logged at most once an hour. The
packages of the extra `otel` are imported in the thread, after the fork."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Protocol

from msgspec import Struct

from dragoman.records.journal_entry import JournalEntry
from dragoman.telemetry.spans import ProviderPlace, SpanNames, TraceSpan, operation_of, spans_of
from dragoman.telemetry.trace_context import is_sampled

SENT, DROPPED, FAILED = "sent", "dropped", "failed"
# Maximum queued exchanges, batch size, and timeout of a batch with its retries.
_MAX_WAITING = 2048
_BATCH = 128
_MAX_SEND_SECONDS = 5.0
# Seconds to wait for more exchanges before a small batch is sent.
_GATHER = 1.0
_LOG_INTERVAL = 3600.0
_PATH = "/v1/traces"


class Collector(Struct, frozen=True, kw_only=True):
    """The collector: its endpoint and headers, the sample ratio, and `attributes` that identify this gateway."""

    endpoint: str
    headers: Mapping[str, str] = {}
    share: float = 1.0
    service_name: str = "dragoman"
    attributes: Mapping[str, str] = {}

    def __repr__(self) -> str:
        # Headers must not reach a log.
        return f"Collector(endpoint={self.endpoint!r}, headers={len(self.headers)})"

    @property
    def address(self) -> str:
        """The URL for spans. The path is added if the endpoint is only a host."""
        return self.endpoint if self.endpoint.endswith(_PATH) else f"{self.endpoint.rstrip('/')}{_PATH}"


def is_installed() -> bool:
    """Whether the extra `otel` is installed. Only parent packages are imported."""
    try:
        return find_spec("opentelemetry.exporter.otlp.proto.http.trace_exporter") is not None
    except ImportError:
        return False


class Sender(Protocol):
    def send(self, spans: Sequence[TraceSpan]) -> bool: ...

    def stop(self) -> None: ...


class TelemetryExporter:
    """Takes exchanges from ingestion and sends their spans in a thread. `log` gets failures, `count` outcomes."""

    def __init__(
        self,
        collector: Collector,
        places: Callable[[], Mapping[str, ProviderPlace]],
        log: Callable[[str], None],
        count: Callable[[str, int], None],
    ) -> None:
        self._collector = collector
        self._places = places
        self._log = log
        self._count = count
        self._names = SpanNames()
        self._changed = threading.Condition()
        self._waiting: deque[JournalEntry] = deque()
        self._until: float | None = None
        self._sender: Sender | None = None
        self._thread: threading.Thread | None = None
        self._logged_at = -_LOG_INTERVAL

    def start(self) -> None:
        """Start the thread. Call it after the fork, in the serving process."""
        # A daemon thread: a slow collector must not delay the end of the process.
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self._thread.start()

    def export(self, entries: Sequence[JournalEntry]) -> None:
        """Queue exchanges for export. If the queue is full, they are dropped and counted."""
        share = self._collector.share
        wanted = [entry for entry in entries if operation_of(entry) and is_sampled(entry.id, entry.trace, share)]
        with self._changed:
            room = _MAX_WAITING - len(self._waiting) if self._until is None else 0
            self._waiting.extend(wanted[:room])
            self._changed.notify()
        if len(wanted) > room:
            self._drop(len(wanted) - room, "the queue is full")

    def close(self, seconds: float) -> None:
        """Send queued exchanges, for at most `seconds`. The rest is dropped and counted."""
        with self._changed:
            self._until = time.monotonic() + seconds
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(seconds)
        sender = self._sender
        if sender is not None:
            sender.stop()
        with self._changed:
            left = len(self._waiting)
            self._waiting.clear()
        if left:
            self._drop(left, "the process ended before")

    def _run(self) -> None:
        while batch := self._next():
            try:
                taken, reason = self._send(batch), "the collector does not take them"
            except Exception as error:
                # The edge of this thread: an unexpected error must not affect requests. The message contains no
                # exported data.
                taken, reason = False, type(error).__name__
            self._count(SENT if taken else FAILED, len(batch))
            if not taken:
                self._log_limited(f"cannot export spans to {self._collector.address}: {reason}")

    def _next(self) -> list[JournalEntry]:
        """Wait for the next batch; empty at the end."""
        with self._changed:
            while not self._waiting and self._until is None:
                self._changed.wait()
            if self._until is None and len(self._waiting) < _BATCH:
                self._changed.wait_for(self._has_batch, _GATHER)
            if self._until is not None and time.monotonic() > self._until:
                return []
            return [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]

    def _has_batch(self) -> bool:
        return len(self._waiting) >= _BATCH or self._until is not None

    def _send(self, batch: list[JournalEntry]) -> bool:
        if self._sender is None:
            # Imported late, and not on the event loop, because the SDK is large.
            from dragoman.telemetry.otlp_exporter import Exporter

            self._sender = Exporter(self._collector, _MAX_SEND_SECONDS)
        places = self._places()
        return self._sender.send([span for entry in batch for span in spans_of(entry, places, self._names)])

    def _drop(self, number: int, reason: str) -> None:
        self._count(DROPPED, number)
        self._log_limited(f"cannot export spans to {self._collector.address}: {reason}")

    def _log_limited(self, message: str) -> None:
        now = time.monotonic()
        if now - self._logged_at >= _LOG_INTERVAL:
            self._logged_at = now
            self._log(message)
