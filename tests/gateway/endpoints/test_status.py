"""`GET /status`: names and numbers of providers and targets, for whoever may know them."""

from __future__ import annotations

from typing import cast

import pytest
from msgspec.structs import replace

from dragoman import __version__
from dragoman.config.settings import Server, Settings
from dragoman.errors import ClientError
from dragoman.gateway.admission import AdmissionLimits, Slot
from dragoman.gateway.endpoints.status import require_local_client
from dragoman.http.server import ServerRequest
from dragoman.identities.identity import ALL_RIGHTS
from dragoman.identities.key_text import new_key
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.listing import ListedModel
from dragoman.prices.book import Override
from dragoman.prices.table import Rates
from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.routing.health_state import HealthLevel
from dragoman.routing.rotation import digest_of
from tests.gateway.harness import CHAT, PATHS, PROVIDER_KEY, Received, Reply, running, settings_for, whole
from tests.gateway.says import message_of, question, tells, with_provider
from tests.sdk.digging import dig_objects

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
            "keys_in_cooldown": [],
            "calls": 0,
            "concurrency": None,
            "queued": 0,
            "check": None,
        }
        assert [row["name"] for row in providers if isinstance(row, dict)] == [*house.app.runtime.settings.providers]
        for secret in (*KEYS, "127.0.0.1", str(house.provider.port)):
            assert secret.encode() not in told.body


def test_it_tells_who_is_checked_and_what_was_found() -> None:
    with running((), with_provider(health_check_interval=30.0)) as house:
        service = house.app.runtime

        def told() -> list[object]:
            rows = dig_objects(house.get("/status").json(), "providers")
            return [row["check"] for row in rows if row["name"] in ("chat", "messages", "echo")]

        never = {"every": 30.0, "found": None, "ago": None}
        assert told() == [never, never, None]
        service.metrics.record_health_check("chat", "failing", 100.0)
        service.clock = lambda: 112.5
        assert told() == [never, {"every": 30.0, "found": "failing", "ago": 12.5}, None]


def test_it_tells_calls_waits_and_standings() -> None:
    with running() as house:
        service = house.app.runtime
        traffic = service.routing_state
        for begun in range(5):
            traffic.health.record("chat/m", AttemptOutcome.CONNECTION_LOST, 100.0 + begun, 99.0 + begun)
        traffic.health.record("all/m", AttemptOutcome.ANSWERED, 100.0, 99.0)
        service.clock = lambda: 106.0

        async def enter() -> list[object]:
            service.admission.set_limits({"chat": AdmissionLimits(1)})
            return [service.admission.enter("chat", "k") for _ in range(3)]

        held = house.run(enter())
        assert isinstance(held[0], Slot)
        status = house.get("/status").json()
        providers = status["providers"]
        assert isinstance(providers, list)
        busy = next(row for row in providers if isinstance(row, dict) and row["name"] == "chat")
        assert (busy["calls"], busy["concurrency"], busy["queued"]) == (1, 1, 2)
        assert status["targets"] == [
            {
                "target": "chat/m",
                "health": "cooldown",
                "seconds": 3.0,
                "since": 2.0,
                "last": "connection_lost",
                "failed": 2.0,
                "consecutive_failures": 0,
                "cooldowns": 1,
            },
            {
                "target": "all/m",
                "health": "healthy",
                "seconds": 0.0,
                "since": 6.0,
                "last": "",
                "failed": None,
                "consecutive_failures": 0,
                "cooldowns": 0,
            },
        ]


def test_pitfall_353_it_tells_which_keys_rest_why_and_what_the_provider_said() -> None:
    def limited(received: Received) -> Reply:
        first = received.header("authorization") == f"Bearer {KEYS[0]}"
        return whole({"error": {"message": "slow down"}}, 429, retry_after="86400") if first else tells(CHAT)

    with running(limited, lambda port: settings_for(port, provider_keys=KEYS)) as house:
        assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
        told = house.get("/status")
        providers = told.json()["providers"]
        assert isinstance(providers, list)
        (resting,) = (row["keys_in_cooldown"] for row in providers if isinstance(row, dict) and row["name"] == "chat")
        assert isinstance(resting, list) and len(resting) == 1 and isinstance(resting[0], dict)
        assert (resting[0]["key"], resting[0]["why"], resting[0]["hint"]) == (0, "rate_limited", 86400.0)
        left = resting[0]["seconds"]
        # Days are not believed.
        assert isinstance(left, float) and 0.0 < left <= 900.0
        assert not any(key.encode() in told.body or digest_of(key).encode() in told.body for key in KEYS)


def test_pitfall_347_a_target_without_a_key_that_may_be_used_is_shown_as_such() -> None:
    with running() as house:
        service = house.app.runtime
        now = service.clock()
        service.routing_state.health.record("chat/m", AttemptOutcome.ANSWERED, now, now)
        service.rotation(service.settings.providers["chat"]).cool(PROVIDER_KEY, 60.0, "m")
        (report,) = service.health_reports()
        assert (report.health.level, report.health.until > now) == (HealthLevel.NO_KEY, True)


def test_pitfall_345_a_rest_can_be_cleared() -> None:
    with running((), lambda port: settings_for(port, provider_keys=KEYS)) as house:
        service = house.app.runtime
        now = service.clock()
        for target in ("chat/m", "chat/n"):
            for _ in range(5):
                service.routing_state.health.record(target, AttemptOutcome.UNREACHABLE, now, now)
        rotation = service.rotation(service.settings.providers["chat"])
        rotation.cool(KEYS[0], 600.0)
        rotation.cool(KEYS[1], 600.0, "m")
        rotation.cool(KEYS[1], 600.0, "n")
        told = house.post("/status", {"reset": "chat/m"})
        assert (told.status, told.json()) == (200, {"target": "chat/m", "health": "cooldown", "keys": 2})
        assert {report.subject: report.health.level for report in service.health_reports()} == {
            "chat/m": HealthLevel.HEALTHY,
            "chat/n": HealthLevel.COOLDOWN,
        }
        assert [(place, notice.model) for place, notice in rotation.active_cooldowns()] == [(1, "n")]
        again = house.post("/status", {"reset": "chat/m"})
        assert again.json() == {"target": "chat/m", "health": "healthy", "keys": 0}
        assert "target health reset" in house.log.getvalue()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b'{"reset": 5}', 400),
        (b'{"reset": "chat/m", "more": 1}', 400),
        (b'{"reset": "\xff"}', 400),
        (b'{"reset": "' + b"x" * 70_000 + b'"}', 413),
        (b'{"reset": "chat"}', 404),
        (b'{"reset": "chat/"}', 404),
        (b'{"reset": "nobody/m"}', 404),
        # The log would have it.
        pytest.param(b'{"reset": "chat/%b"}' % new_key().encode(), 400, id="a key"),
    ],
)
def test_what_cannot_be_cleared_is_said(body: bytes, status: int) -> None:
    with running() as house:
        told = house.post("/status", body)
        assert told.status == status
        assert message_of(CHAT, told)


def test_pitfall_345_only_who_may_know_may_clear() -> None:
    wish = {"reset": "chat/m"}
    with running((), lambda port: settings_for(port, keys=(KEY,), rights=ALL_RIGHTS)) as house:
        assert house.post("/status", wish).status == 401
        assert house.post("/status", wish, authorization=f"Bearer {KEY}").status == 200
    with running() as house:
        assert house.post("/status", wish, origin="https://evil.example").status == 403
        assert house.post("/status", wish, x_forwarded_for="203.0.113.9").status == 403
        assert house.post("/status", wish).status == 200


def test_a_key_is_asked_for_where_there_are_any() -> None:
    with running((), lambda port: settings_for(port, keys=(KEY,), rights=ALL_RIGHTS)) as house:
        assert house.get("/status").status == 401
        told = house.get("/status", authorization=f"Bearer {KEY}")
        assert told.status == 200
        assert KEY.encode() not in told.body
        # With a key it may be asked from anywhere.
        assert house.get("/status", x_api_key=KEY, x_forwarded_for="203.0.113.9").status == 200


@pytest.mark.parametrize(
    "header",
    ["x_forwarded_for", "forwarded", "via", "x_real_ip", "x_forwarded_host", "x_forwarded_proto", "cf_connecting_ip"],
)
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
            require_local_client(house.app.runtime, cast(ServerRequest, far))
        assert caught.value.status == 403
        for near in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
            far.peer = near
            require_local_client(house.app.runtime, cast(ServerRequest, far))


def test_a_foreign_page_is_refused_as_everywhere() -> None:
    with running() as house:
        assert house.get("/status", origin="https://evil.example").status == 403
        assert house.get("/status", host="evil.example").status == 403
        assert house.ask("DELETE", "/status", b"").status == 405


def test_what_one_key_asks_for_by_a_name_of_its_own_is_not_told_to_another() -> None:
    def settings(port: int, *keys: str) -> Settings:
        prices = {"chat/priced": Override(rates=Rates(input=1))}
        return replace(settings_for(port, keys=keys, rights=ALL_RIGHTS), prices=prices)

    def told(*keys: str) -> tuple[JsonObject, bytes]:
        with running((), lambda port: settings(port, *keys)) as house:
            service = house.app.runtime
            for model in ("served", "priced", "our-secret-project", "another"):
                service.routing_state.health.record(f"chat/{model}", AttemptOutcome.ANSWERED, 100.0, 99.0)
            provider = service.settings.providers["chat"]
            service.listed.put(provider, [ListedModel(id="another")], 1.0)
            service.rotation(provider).cool(PROVIDER_KEY, 900.0, "our-secret-project")
            headers = {"authorization": f"Bearer {keys[0]}"}
            metrics = house.get("/metrics", **headers).body
            return house.get("/status", **headers).json(), metrics

    status, metrics = told(KEY, "another-key-of-the-gateway")
    assert [row["target"] for row in _rows(status)] == ["chat/another", "chat/priced", "chat/served"]
    assert status["unnamed"] == {"no_key": 1}
    assert "our-secret-project" not in str(status)
    assert b"our-secret-project" not in metrics
    assert b'dragoman_target_health{target="other",state="no_key"} 1' in metrics
    # Who alone has a key has asked for it.
    status, metrics = told(KEY)
    assert "chat/our-secret-project" in [row["target"] for row in _rows(status)]
    assert status["unnamed"] == {}
    assert b"our-secret-project" in metrics


def _rows(status: JsonObject) -> list[JsonObject]:
    targets = status["targets"]
    assert isinstance(targets, list)
    return sorted((row for row in targets if isinstance(row, dict)), key=lambda row: str(row["target"]))
