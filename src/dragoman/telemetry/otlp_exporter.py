"""OTLP exporter: sends spans with OpenTelemetry's SDK. Only this module imports the packages of the extra `otel`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dragoman.telemetry import genai_attributes as names
from dragoman.telemetry.spans import TraceSpan

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from requests import PreparedRequest  # noqa: TID251 - what the exporter sends with

    from dragoman.telemetry.export_queue import Collector

_SCOPE = "dragoman"
# Headers that the exporter sets beside the configured ones. It also reads some from the environment, which may belong
# to another collector.
_OWN_HEADERS = frozenset(
    {"accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "user-agent"}
)


class Exporter:
    """Sends spans to one collector, each batch within a timeout that includes retries."""

    def __init__(self, collector: Collector, seconds: float) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace.export import SpanExportResult
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        from requests import Session  # noqa: TID251 - what the exporter sends with

        # The export queue logs an unreachable collector, once.
        for name in ("opentelemetry", "urllib3"):
            logging.getLogger(name).addHandler(logging.NullHandler())
        session = Session()
        session.auth = _only(collector.headers)
        # A collector on this machine is called directly, despite any proxy.
        session.trust_env = not _is_near(collector.endpoint)
        self._taken = SpanExportResult.SUCCESS
        self._exporter = OTLPSpanExporter(
            endpoint=collector.address, headers=collector.headers, timeout=seconds, session=session
        )
        self._resource = Resource.create({names.SERVICE_NAME: collector.service_name, **collector.attributes})
        self._scope = InstrumentationScope(_SCOPE)

    def send(self, spans: Sequence[TraceSpan]) -> bool:
        return self._exporter.export([readable(span, self._resource, self._scope) for span in spans]) is self._taken

    def stop(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # the SDK has no types there


def _is_near(address: str) -> bool:
    host = urlsplit(address).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _only(headers: Mapping[str, str]) -> Callable[[PreparedRequest], PreparedRequest]:
    """Restricts requests to the configured headers: none from the environment, and no password from `.netrc`."""
    allowed = _OWN_HEADERS | {name.lower() for name in headers}

    def sign(request: PreparedRequest) -> PreparedRequest:
        for name in [name for name in request.headers if name.lower() not in allowed]:
            del request.headers[name]
        request.headers.update(headers)
        return request

    return sign


def readable(span: TraceSpan, resource: Resource, scope: InstrumentationScope) -> ReadableSpan:
    """Convert a span to the SDK's form. A tracer only supports spans that it starts and ends itself."""
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    trace, flags = int(span.trace, 16), TraceFlags(TraceFlags.SAMPLED)
    return ReadableSpan(
        name=span.name,
        context=SpanContext(trace, int(span.id, 16), False, flags),
        parent=SpanContext(trace, int(span.parent, 16), span.remote, flags) if span.parent else None,
        resource=resource,
        attributes=span.attributes,
        kind=SpanKind.CLIENT if span.calls else SpanKind.INTERNAL,
        status=Status(StatusCode.ERROR if span.failed else StatusCode.UNSET),
        start_time=span.started,
        end_time=span.ended,
        instrumentation_scope=scope,
    )
