"""The working parts of one configuration: made once, shared by exchanges, let go without harm to those under way."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path

from msgspec.structs import replace

from dragoman.config.settings import Settings
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.observability.metrics import Metrics
from dragoman.gateway.observability.record import Record
from dragoman.gateway.runtime import Runtime
from dragoman.model.listing import ListedModel
from dragoman.providers.provider import Endpoint
from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.routing.needs import Requirements
from dragoman.routing.route import Route
from dragoman.routing.target import Target
from tests.gateway.harness import CHAT, MESSAGES, PROVIDER_KEY, House, Received, Reply, running, settings_for, whole
from tests.gateway.says import question, tells


def serving(port: int = 1) -> tuple[Runtime, io.StringIO]:
    """A service and its log."""
    log = io.StringIO()
    return Runtime(settings_for(port), Metrics(), Log(log, json=True)), log


def test_a_book_of_prices_that_cannot_be_used_is_logged_when_somebody_asks(tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_bytes(b"[]")

    async def check() -> None:
        log = io.StringIO()
        settings = replace(settings_for(1), price_book_path=str(tmp_path / "prices.json"))
        service = Runtime(settings, Metrics(), Log(log, json=True))
        assert log.getvalue() == ""
        assert service.price_book.find("openai", "gpt-5.1", 0.0) is not None
        told = json.loads(log.getvalue())
        assert told["level"] == "warn" and "is no book of prices" in log.getvalue()
        await service.close()

    asyncio.run(check())


def test_a_provider_has_one_rotation_and_one_redactor() -> None:
    async def check() -> None:
        service, _ = serving()
        provider = service.settings.providers["chat"]
        assert service.rotation(provider) is service.rotation(provider)
        assert service.redactor(provider) is service.redactor(provider)
        assert PROVIDER_KEY not in service.redactor(provider).clean_text(f"key {PROVIDER_KEY}")
        await service.close()

    asyncio.run(check())


def test_an_exchange_that_ended_is_counted_and_logged_once() -> None:
    async def check() -> None:
        service, log = serving()
        made = Record(id="req_1", client_protocol=CHAT, path="/x", started=service.clock(), time=0)
        account = service.builder_of(made)
        account.finalize()
        account.finalize(status=200)
        account.record.status = 200
        record = account.record
        [line] = [json.loads(line) for line in log.getvalue().splitlines()]
        # Only an error of our own leaves no status behind.
        assert (line["status"], line["id"]) == (500, record.id)
        assert record.ended >= record.started
        await service.close()

    asyncio.run(check())


def test_a_target_that_listed_too_small_a_window_is_left_out_of_a_plan() -> None:
    async def check() -> None:
        service, _ = serving()
        chat, every = (service.settings.providers[name] for name in ("chat", "all"))
        service.listed.put(chat, [ListedModel(id="served", window=1000)], 0.0)
        targets = [
            Target(provider=provider, endpoint=provider.endpoint_for(CHAT), model="served", strict=False)
            for provider in (chat, every)
        ]
        route = Route(name="both", members=tuple(targets))
        assert service.routing_state.plan(route, Requirements(size=100), service.target_info).order == tuple(targets)
        assert service.routing_state.plan(route, Requirements(size=100_000), service.target_info).order == (targets[1],)
        await service.close()

    asyncio.run(check())


def test_the_embedded_provider_needs_no_network() -> None:
    with running(settings=lambda port: settings_for(1)) as house:
        for model in ("echo/text", "echo/text@anthropic-messages", "echo/text@openai-responses"):
            told = house.post("/v1/messages", question(MESSAGES, CHAT) | {"model": model})
            assert told.status == 200, told.body
            assert "Hello." in told.body.decode()


def test_a_changed_configuration_serves_the_next_request() -> None:
    with running([tells(CHAT), whole({"error": {"message": "no"}}, 400)]) as house:
        assert house.post("/v1/messages", question(MESSAGES, CHAT)).status == 200

        async def change() -> None:
            old = house.app.runtime
            house.app.runtime = Runtime(settings_for(1), old.metrics, old.log, old.state)
            await old.close()

        house.run(change())
        assert house.post("/v1/messages", question(MESSAGES, CHAT)).status == 502
        assert len(house.provider.received) == 1


def test_item_10_a_changed_configuration_remembers_whose_connections_are_not_used_again() -> None:
    with running() as house:

        async def change() -> bool:
            old = house.app.runtime
            new = Runtime(old.settings, old.metrics, old.log, old.state, former=old)
            await new.close()
            return new.client.reuse is old.client.reuse

        assert house.run(change())


def test_item_12_a_changed_configuration_remembers_which_keys_rest() -> None:
    seen: list[str | None] = []

    def script(received: Received) -> Reply:
        seen.append(received.header("authorization"))
        return whole({"error": {"message": "slow down"}}, 429, retry_after="60") if len(seen) == 1 else tells(CHAT)

    keys = ("sk-first-0123456789", "sk-second-0123456789")
    with running(script, lambda port: settings_for(port, provider_keys=keys)) as house:
        assert house.post("/v1/messages", question(MESSAGES, CHAT)).status == 200

        async def change() -> None:
            old = house.app.runtime
            house.app.runtime = Runtime(old.settings, old.metrics, old.log, old.state, former=old)
            await old.close()

        house.run(change())
        for _ in range(3):
            assert house.post("/v1/messages", question(MESSAGES, CHAT)).status == 200
    assert seen == [f"Bearer {keys[0]}", *[f"Bearer {keys[1]}"] * 4]


def test_a_reload_forgives_a_provider_whose_address_or_keys_were_changed() -> None:
    """It is another thing now; what was not changed goes on resting."""
    keys = ("sk-1-0123456789abcdef", "sk-2-0123456789abcdef")

    def settings(port: int) -> Settings:
        return settings_for(port, provider_keys=keys)

    async def story(house: House) -> None:
        old = house.app.runtime
        targets = {name: f"{name}/served" for name in ("chat", "messages", "responses")}
        now = old.clock()
        for name, target in targets.items():
            for _ in range(12):
                old.routing_state.health.record(target, AttemptOutcome.CONNECTION_LOST, now, now, set())
            assert old.routing_state.is_in_cooldown(target)
            old.rotation(old.settings.providers[name]).cool(keys[0], 600.0)
        providers = dict(old.settings.providers)
        chat, messages = providers["chat"], providers["messages"]
        moved = Endpoint(protocol=CHAT, base_url="http://127.0.0.1:9/v1")
        providers["chat"] = replace(chat, endpoints=(moved,))
        providers["messages"] = replace(messages, keys=(*keys, "sk-3-0123456789abcdef"))
        changed = replace(old.settings, providers=providers)
        new = Runtime(changed, old.metrics, old.log, old.state, former=old)
        assert [new.routing_state.is_in_cooldown(target) for target in targets.values()] == [False, False, True]
        resting = {name: len(new.rotation(providers[name]).active_cooldowns()) for name in targets}
        assert resting == {"chat": 0, "messages": 1, "responses": 1}
        await new.client.close()

    with running((), settings) as house:
        house.run(story(house))
