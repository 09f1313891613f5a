"""Telemetry target: the configured collector (decision 35). It starts with `follow`, after a worker's fork."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from urllib.parse import urlsplit

from dragoman.config.settings import Settings
from dragoman.gateway.runtime import Runtime
from dragoman.providers.provider import Provider
from dragoman.records.journal_entry import JournalEntry
from dragoman.records.journal_ingest import OnIngested
from dragoman.telemetry import genai_attributes
from dragoman.telemetry.export_queue import Collector, TelemetryExporter
from dragoman.telemetry.spans import ProviderPlace

# How long the shutdown waits for a collector, in seconds (pitfall 437).
LAST_MOMENTS = 2.0
_PORTS = {"http": 80, "https": 443}


class TelemetryTarget:
    """The collector of the present service; another one takes its place when the configuration names another."""

    def __init__(self, runtime: Callable[[], Runtime]) -> None:
        self._runtime = runtime
        self._loop = asyncio.get_running_loop()
        self._collector: Collector | None = None
        self._telemetry: TelemetryExporter | None = None
        self._closing: set[asyncio.Future[None]] = set()

    def follow(self) -> None:
        """Export to the configured collector; the queue of a former one is flushed."""
        collector = collector_of(self._runtime().settings)
        if collector == self._collector:
            return
        former, self._telemetry = self._telemetry, None
        self._collector = collector
        if former is not None:
            self._end(former)
        if collector is not None:
            count = self._runtime().metrics.count_exports
            self._telemetry = TelemetryExporter(
                collector, lambda: places_of(self._runtime().settings), self._warn, count
            )
            self._telemetry.start()

    @property
    def on_ingested(self) -> OnIngested | None:
        """The callback for ingested records, called in the ingest thread; None without a collector."""
        return self.export if self._telemetry is not None else None

    def export(self, entries: Sequence[JournalEntry]) -> None:
        """Queue ingested records for export; called in the ingest thread."""
        telemetry = self._telemetry
        if telemetry is not None:
            telemetry.export(entries)

    async def close(self) -> None:
        """Export the queue, for two seconds at most. A cancelled caller leaves no task behind."""
        telemetry, self._telemetry = self._telemetry, None
        if telemetry is not None:
            self._end(telemetry)
        if self._closing:
            await asyncio.wait(self._closing)

    def _end(self, telemetry: TelemetryExporter) -> None:
        ended: asyncio.Future[None] = self._loop.create_future()
        self._closing.add(ended)
        ended.add_done_callback(self._closing.discard)

        def end() -> None:
            telemetry.close(LAST_MOMENTS)
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_done, ended)

        # Unlike those of the loop's own pool it is not waited for at the end of the process.
        threading.Thread(target=end, name="telemetry-end", daemon=True).start()

    def _warn(self, words: str) -> None:
        # At the very end no reader is left.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(partial(self._runtime().log.event, "warn", words))


def _done(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)


def collector_of(settings: Settings) -> Collector | None:
    """The configured collector; None without telemetry."""
    telemetry = settings.telemetry
    if not settings.has_telemetry_export:
        return None
    return Collector(
        endpoint=telemetry.endpoint,
        headers=telemetry.headers,
        share=telemetry.sample_ratio,
        service_name=telemetry.service_name,
        attributes=telemetry.attributes,
    )


def places_of(settings: Settings) -> dict[str, ProviderPlace]:
    """Name and address of each provider, for spans."""
    return {name: _place(provider) for name, provider in settings.callable.items()}


def _place(provider: Provider) -> ProviderPlace:
    provider_names = genai_attributes.PROVIDERS
    # A second one of its kind, or another's models behind a cloud, is the cloud's.
    named = (
        provider_names.get(provider.transport) or provider_names.get(provider.vendor_or_name) or provider.vendor_or_name
    )
    if provider.transport == "echo":
        return ProviderPlace(provider=named, inside=True)
    url = provider.endpoints[0].base_url
    for option, value in provider.options.items():
        url = url.replace(f"{{{option}}}", value)
    parts = urlsplit(url)
    # Some clouds' addresses are made when they are called.
    if not parts.hostname or "{" in parts.netloc:
        return ProviderPlace(provider=named)
    return ProviderPlace(provider=named, address=parts.hostname, port=parts.port or _PORTS[parts.scheme])
