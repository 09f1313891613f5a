"""A collector on this machine: takes spans by OTLP over HTTP, and reads them with the types of the protocol."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.waiting import LIMIT

# Never waited for by a test that passes.
PATIENCE = LIMIT


class CollectorServer:
    """What it was sent so far; `answer` is called before each reply and gives its status."""

    def __init__(self, answer: Callable[[], int]) -> None:
        self.answer = answer
        self.requests: list[ExportTraceServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.changed = threading.Condition()
        self.address = ""

    def take(self, path: str, headers: dict[str, str], body: bytes) -> int:
        """Keep what was sent, if it is taken; give the status of the reply."""
        status = self.answer()
        request = ExportTraceServiceRequest()
        request.ParseFromString(body)
        with self.changed:
            self.paths.append(path)
            self.headers.append(headers)
            if status == 200:
                self.requests.append(request)
            self.changed.notify_all()
        return status

    def spans(self) -> list[Span]:
        """Every span that was taken."""
        return [
            span
            for request in list(self.requests)
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def wait_for(self, spans: int) -> list[Span]:
        """The spans, once there are so many."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.spans()) >= spans, PATIENCE)
        return self.spans()

    def wait_asked(self, times: int) -> None:
        """Return when it was asked so often."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.paths) >= times, PATIENCE)


@contextmanager
def collecting(answer: Callable[[], int] = lambda: 200) -> Iterator[CollectorServer]:
    """A collector that runs."""
    kept = CollectorServer(answer)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            status = kept.take(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            told = ExportTraceServiceResponse().SerializeToString()
            try:
                self.send_response(status)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(told)))
                self.end_headers()
                self.wfile.write(told)
            except OSError:
                # Whoever asked did not wait for it.
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    kept.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield kept
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def plain(value: AnyValue) -> object:
    """A value of an attribute as Python has it."""
    which = value.WhichOneof("value")
    assert which is not None
    if which == "array_value":
        return tuple(plain(each) for each in value.array_value.values)
    found: object = getattr(value, which)
    return found


def attributes(named: Iterator[KeyValue] | list[KeyValue]) -> dict[str, object]:
    """Attributes by their names, each said once."""
    told = [(each.key, plain(each.value)) for each in named]
    assert len(dict(told)) == len(told)
    return dict(told)
