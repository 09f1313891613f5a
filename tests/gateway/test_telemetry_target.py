"""Whom a gateway tells of its exchanges: as the configuration says at each moment, and never for long at the end."""

from __future__ import annotations

import asyncio
import io
import threading

import pytest
from msgspec.structs import replace

from dragoman.config.settings import Settings, Storage, Telemetry
from dragoman.gateway import telemetry_target as collector_module
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.observability.metrics import Metrics
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.telemetry_target import TelemetryTarget, collector_of, places_of
from dragoman.providers.provider import Endpoint, Provider
from dragoman.telemetry import export_queue
from dragoman.telemetry.spans import ProviderPlace
from tests.gateway.harness import CHAT, MESSAGES, settings_for
from tests.records.told_exchanges import FAILED_OVER, WHOLE
from tests.telemetry.collector import PATIENCE, collecting


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A collector may take as long as a busy machine needs, and exchanges do not wait for others."""
    monkeypatch.setattr(collector_module, "LAST_MOMENTS", PATIENCE)
    monkeypatch.setattr(export_queue, "_MAX_SEND_SECONDS", PATIENCE)
    monkeypatch.setattr(export_queue, "_GATHER", 0.02)


# Where exchanges would be written down, if anybody began to.
WRITTEN = Storage(store_responses=False, path="/nowhere/state.db")


def at(*addresses: str, **fields: object) -> Provider:
    endpoints = tuple(Endpoint(protocol=CHAT, base_url=address) for address in addresses)
    made = Provider(name="mine", endpoints=endpoints)
    return replace(made, **fields)


@pytest.mark.parametrize(
    ("provider", "place"),
    [
        (at("https://api.example.org/v1"), ProviderPlace(provider="mine", address="api.example.org", port=443)),
        (at("http://127.0.0.1:8000/v1"), ProviderPlace(provider="mine", address="127.0.0.1", port=8000)),
        (at("http://[::1]/v1"), ProviderPlace(provider="mine", address="::1", port=80)),
        (
            at("https://x.example.org", vendor="mistral"),
            ProviderPlace(provider="mistral_ai", address="x.example.org", port=443),
        ),
        (
            at("https://api.openai.com/v1", vendor="openai"),
            ProviderPlace(provider="openai", address="api.openai.com", port=443),
        ),
        (
            at("https://rt.{region}.example.org", transport="bedrock", options={"region": "eu-1"}),
            ProviderPlace(provider="aws.bedrock", address="rt.eu-1.example.org", port=443),
        ),
        (at("https://{resource}.example.org", transport="azure"), ProviderPlace(provider="azure.ai.openai")),
        (at("", transport="vertex"), ProviderPlace(provider="gcp.vertex_ai")),
        (at("echo:", transport="echo"), ProviderPlace(provider="mine", inside=True)),
    ],
    ids=lambda value: value.endpoints[0].base_url or "made later" if isinstance(value, Provider) else "",
)
def test_a_provider_is_called_as_the_conventions_do_and_where_it_is(provider: Provider, place: ProviderPlace) -> None:
    assert places_of(Settings(providers={"mine": provider})) == {"mine": place}


def test_servers_of_this_machine_have_a_place_too() -> None:
    local = at("http://127.0.0.1:11434/v1", name="ollama")
    assert set(places_of(Settings(local={"ollama": local}))) == {"ollama"}


def test_without_an_address_there_is_no_collector() -> None:
    assert collector_of(Settings()) is None
    wanted = Telemetry(endpoint="http://a", headers={"x": "y"}, sample_ratio=0.5, service_name="s")
    made = collector_of(Settings(telemetry=wanted, storage=WRITTEN))
    assert made is not None
    # Nor is there anything to tell of what is not written down.
    assert collector_of(Settings(telemetry=wanted)) is None
    assert collector_of(Settings(telemetry=wanted, storage=replace(WRITTEN, record_requests=False))) is None
    assert (made.endpoint, made.headers, made.share, made.service_name) == ("http://a", {"x": "y"}, 0.5, "s")


class Gateway:
    """A service as it is now, and what was logged."""

    def __init__(self) -> None:
        self.log = io.StringIO()
        self.service = self.made("")
        self.told = TelemetryTarget(lambda: self.service)

    def made(self, endpoint: str) -> Runtime:
        settings = replace(
            settings_for(1, protocols=(MESSAGES, CHAT)), telemetry=Telemetry(endpoint=endpoint), storage=WRITTEN
        )
        return Runtime(settings, Metrics(), Log(self.log, json=True))

    def follow(self, endpoint: str) -> None:
        former, self.service = self.service, self.made(endpoint)
        self.service.metrics = former.metrics
        self.told.follow()


def test_the_collector_of_the_moment_is_told() -> None:
    with collecting() as first, collecting() as second:

        async def run() -> str:
            gateway = Gateway()
            gateway.told.follow()
            # Nobody is named yet.
            assert gateway.told.on_ingested is None
            gateway.told.export([WHOLE])
            gateway.follow(first.address)
            assert gateway.told.on_ingested == gateway.told.export
            gateway.told.export([WHOLE])
            # The same one goes on.
            gateway.follow(first.address)
            gateway.follow(second.address)
            gateway.told.export([FAILED_OVER])
            await gateway.told.close()
            gateway.told.export([WHOLE])
            told = gateway.service.metrics.snapshot().telemetry_exports
            await gateway.service.close()
            assert told == {"sent": 2}
            return gateway.log.getvalue()

        assert asyncio.run(run()) == ""
    assert (len(first.spans()), len(second.spans())) == (2, 4)


def test_pitfall_437_the_end_is_not_held_up_by_a_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector_module, "LAST_MOMENTS", 0.1)
    free, asked = threading.Event(), threading.Event()

    def answer() -> int:
        asked.set()
        free.wait(PATIENCE)
        return 200

    with collecting(answer) as server:

        async def run() -> None:
            gateway = Gateway()
            gateway.follow(server.address)
            gateway.told.export([WHOLE])
            await asyncio.to_thread(asked.wait, PATIENCE)
            gateway.told.export([FAILED_OVER])
            await gateway.told.close()
            await asyncio.sleep(0)
            assert gateway.service.metrics.snapshot().telemetry_exports == {"dropped": 1}
            assert "the process ended before" in gateway.log.getvalue()
            await gateway.service.close()

        asyncio.run(run())
        assert not free.is_set()
        free.set()
