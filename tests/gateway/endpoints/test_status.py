"""`GET /status`: names and numbers of providers and targets, for whoever may know them."""

from __future__ import annotations

from typing import cast

import pytest

from dragoman import __version__
from dragoman.config.settings import Server, Settings
from dragoman.errors import ClientError
from dragoman.gateway.admission import Limits, Slot
from dragoman.gateway.endpoints.status import check_near
from dragoman.http.server import Request
from dragoman.routing.outcomes import Kind
from tests.gateway.harness import CHAT, PROVIDER_KEY, running, settings_for

KEYS = (PROVIDER_KEY, "sk-another-secret-of-the-provider")
KEY = "sesame-open-the-gate"


def test_it_tells_providers_and_how_many_keys_they_have_and_no_secret() -> None:
    with running((), lambda port: settings_for(port, provider_keys=KEYS)) as house:
        told = house.get("/status")
        assert (told.status, told.header("content-type")) == (200, "application/json")
        status = told.json()
        assert (status["version"], status["workers"], status["in_flight"]) == (__version__, 1, 0)
        assert status["targets"] == []
        providers = status["providers"]
        assert isinstance(providers, list)
        assert providers[1] == {
            "name": "chat",
            "protocols": [CHAT],
            "keys": 2,
            "calls": 0,
            "concurrency": None,
            "waiting": 0,
        }
        assert [row["name"] for row in providers if isinstance(row, dict)] == [*house.app.service.settings.providers]
        for secret in (*KEYS, "127.0.0.1", str(house.provider.port)):
            assert secret.encode() not in told.body


def test_it_tells_calls_waits_and_standings() -> None:
    with running() as house:
        service = house.app.service
        traffic = service.traffic
        for begun in range(5):
            traffic.health.note("chat/m", Kind.NO_ANSWER, 100.0 + begun, 99.0 + begun)
        traffic.health.note("all/m", Kind.ANSWERED, 100.0, 99.0)
        service.clock = lambda: 106.0

        async def enter() -> list[object]:
            service.admission.settle({"chat": Limits(1)})
            return [service.admission.enter("chat", "k") for _ in range(3)]

        held = house.run(enter())
        assert isinstance(held[0], Slot)
        status = house.get("/status").json()
        providers = status["providers"]
        assert isinstance(providers, list)
        busy = next(row for row in providers if isinstance(row, dict) and row["name"] == "chat")
        assert (busy["calls"], busy["concurrency"], busy["waiting"]) == (1, 1, 2)
        assert status["targets"] == [
            {"target": "chat/m", "standing": "resting", "seconds": 3.0},
            {"target": "all/m", "standing": "good", "seconds": 0.0},
        ]


def test_a_key_is_asked_for_where_there_are_any() -> None:
    with running((), lambda port: settings_for(port, keys=(KEY,))) as house:
        assert house.get("/status").status == 401
        told = house.get("/status", authorization=f"Bearer {KEY}")
        assert told.status == 200
        assert KEY.encode() not in told.body
        # With a key it may be asked from anywhere.
        assert house.get("/status", x_api_key=KEY, x_forwarded_for="203.0.113.9").status == 200


@pytest.mark.parametrize("header", ["x_forwarded_for", "forwarded", "via"])
@pytest.mark.parametrize("proxies", [(), ("127.0.0.1",)], ids=["unknown", "trusted"])
def test_without_keys_nobody_is_told_through_a_proxy(proxies: tuple[str, ...], header: str) -> None:
    def settings(port: int) -> Settings:
        return settings_for(port, server=Server(trusted_proxies=proxies))

    with running((), settings) as house:
        assert house.get("/status").status == 200
        for said in ("127.0.0.1", "203.0.113.9", "nonsense"):
            assert house.get("/status", **{header: said}).status == 403


class Far:
    """A request from another machine."""

    peer = "203.0.113.9"

    def header(self, name: bytes) -> bytes | None:
        return None


@pytest.mark.parametrize("peer", ["203.0.113.9", "::ffff:203.0.113.9", "2001:db8::1", ""])
def test_without_keys_another_machine_is_not_told(peer: str) -> None:
    with running() as house:
        far = Far()
        far.peer = peer
        with pytest.raises(ClientError) as caught:
            # Nothing else of a request is looked at.
            check_near(house.app.service, cast(Request, far))
        assert caught.value.status == 403
        for near in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
            far.peer = near
            check_near(house.app.service, cast(Request, far))


def test_a_foreign_page_is_refused_as_everywhere() -> None:
    with running() as house:
        assert house.get("/status", origin="https://evil.example").status == 403
        assert house.get("/status", host="evil.example").status == 403
        assert house.post("/status", {}).status == 405
