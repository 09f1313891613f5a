"""Checks of providers whose targets rest, in virtual time: whom they ask, what they conclude, what they never do."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from dragoman.config.settings import Settings, Storage
from dragoman.errors import BadResponse, Exhausted, Truncated, Unreachable, Unresolved
from dragoman.gateway.health_checks import HOURLY, POLL_INTERVAL, TIMEOUT, Checks
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.observability.metrics import Metrics
from dragoman.gateway.observability.prometheus import render
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.stored_state import StoredState
from dragoman.http.upstream_call import HeaderList, UpstreamCall
from dragoman.model.jsonvalue import JsonObject
from dragoman.providers.provider import Provider
from dragoman.providers.transport_interface import Order
from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.routing.health import CONSECUTIVE_FAILURES, MAX_COOLDOWN
from dragoman.routing.health_state import HEALTHY, HealthLevel, HealthState
from tests.gateway.harness import PROVIDER_KEY, settings_for
from tests.gateway.routed import target_of
from tests.virtual_time import run
from tests.waiting import wait_until_async

EVERY = 30.0
TARGET, ANOTHER, ELSEWHERE = "chat/served", "chat/other", "messages/served"
LIST = json.dumps({"object": "list", "data": [{"id": "served"}]}).encode()
# What a list is answered with: a status and a body, an error, or nothing ever.
Said = tuple[int, bytes] | Exception | None
WELL: Said = (200, LIST)
DOWN: Said = (500, b"")


class Answer:
    """A list on its way, which takes a moment."""

    def __init__(self, said: Said) -> None:
        self._said = said
        self.status = 0
        self.headers: HeaderList = []
        self.renewed = 0
        self.is_closed = False

    async def head(self) -> None:
        if self._said is None:
            await asyncio.Event().wait()
        await asyncio.sleep(0.01)
        if isinstance(self._said, Exception):
            raise self._said
        assert self._said is not None
        self.status = self._said[0]

    async def read(self, limit: int) -> bytes:
        assert isinstance(self._said, tuple)
        return self._said[1]

    def take_complete(self) -> None: ...

    async def pump(self, take: Callable[[bytes], None]) -> None:
        raise NotImplementedError

    def pause(self) -> None:
        raise NotImplementedError

    def resume(self) -> None:
        raise NotImplementedError

    def abort(self, error: Exception) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.is_closed = True


class ToldService(Runtime):
    """A service whose providers answer what they are told to."""

    said: Said = WELL
    asked: list[tuple[float, Order]]
    answers: list[Answer]

    async def open(self, order: Order) -> UpstreamCall:
        self.asked.append((self.clock(), order))
        self.answers.append(Answer(self.said))
        return self.answers[-1]


class Town:
    """A worker as far as checks go."""

    def __init__(self, settings: Settings) -> None:
        self.out = io.StringIO()
        self.metrics = Metrics()
        log = Log(self.out, json=True)
        self.service = ToldService(settings, self.metrics, log, StoredState(Storage(store_responses=False), log))
        self.service.asked, self.service.answers = [], []
        self.checks = Checks(lambda: self.service)
        self.checks.follow()

    def reload(self, settings: Settings) -> None:
        """Go by another configuration."""
        old = self.service
        self.service = ToldService(settings, self.metrics, old.log, old.state, former=old)
        self.service.said, self.service.asked, self.service.answers = old.said, old.asked, old.answers
        self.checks.follow()

    def fail(self, target: str = TARGET, rests: int = 1) -> None:
        """Let a target rest for the nth time in a row."""
        health, now = self.service.routing_state.health, self.service.clock()
        for _ in range(CONSECUTIVE_FAILURES):
            health.record(target, AttemptOutcome.FIRST_BYTE_TIMEOUT, now, now)
        for _ in range(rests - 1):
            # Whoever tries it when it is due, and fails, makes the next rest longer.
            health.cut_short(target, now)
            permit = health.take_permit(target, now, 60.0)
            health.record(target, AttemptOutcome.FIRST_BYTE_TIMEOUT, now, now, permit=permit)
        assert self.standing(target).level is HealthLevel.COOLDOWN

    def standing(self, target: str = TARGET) -> HealthState:
        return self.service.routing_state.health.state(target, self.service.clock())

    def times(self) -> list[int]:
        """When somebody was asked, in whole seconds."""
        return [round(at) for at, _ in self.service.asked]

    def counted(self) -> dict[tuple[str, str], int]:
        return {(provider, result): count for provider, result, count in self.metrics.snapshot().health_checks}

    def told(self) -> list[JsonObject]:
        lines = [json.loads(line) for line in self.out.getvalue().splitlines()]
        return [line for line in lines if line["event"] == "provider health check"]


def checked(every: float | None = EVERY, **more: object) -> Settings:
    """Settings with one provider that is checked, and others that are not."""
    settings = settings_for(1)
    chat = replace(settings.providers["chat"], health_check_interval=every, **more)
    return replace(settings, providers={**settings.providers, "chat": chat})


@asynccontextmanager
async def town(settings: Settings | None = None) -> AsyncIterator[Town]:
    made = Town(settings or checked())
    try:
        yield made
    finally:
        await made.checks.close()
        await made.service.close()
        # Nothing is left that could ask anybody, or that is still asked.
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert all(answer.is_closed for answer in made.service.answers)


def test_a_rest_ends_when_the_list_failed_and_works_again() -> None:
    async def main() -> None:
        async with town() as here:
            here.fail(rests=10)
            here.service.said = DOWN
            await asyncio.sleep(EVERY)
            assert here.standing() == HealthState(HealthLevel.COOLDOWN, MAX_COOLDOWN)
            here.service.said = WELL
            await asyncio.sleep(2 * POLL_INTERVAL)
            standing = here.standing()
            # Nothing but the next request says that it is well.
            assert standing.level is HealthLevel.COOLDOWN
            assert standing.until == pytest.approx(EVERY + POLL_INTERVAL, abs=POLL_INTERVAL)
            permit = here.service.routing_state.permits(
                target_of(here.service.routes, "chat/served", "openai-chat"), 60.0
            )
            assert permit is not None and permit.number

    run(main())


def test_pitfall_354_they_are_off_by_default_and_ask_nobody_while_nothing_rests() -> None:
    assert Provider(name="x", endpoints=()).health_check_interval is None

    async def main() -> None:
        async with town(settings_for(1)) as here:
            for target in (TARGET, ELSEWHERE):
                here.fail(target, rests=10)
            await asyncio.sleep(MAX_COOLDOWN)
            assert here.times() == []
        async with town() as here:
            # Others rest, and of this one a target has failed, but does not rest.
            here.fail(ELSEWHERE, rests=10)
            here.service.routing_state.health.record(
                TARGET, AttemptOutcome.OVERLOADED, here.service.clock(), here.service.clock()
            )
            await asyncio.sleep(MAX_COOLDOWN)
            assert here.times() == []

    run(main())


def test_pitfall_354_it_is_the_list_that_is_asked_for_with_the_providers_own_key() -> None:
    async def main() -> None:
        async with town() as here:
            here.fail(rests=10)
            here.fail(ANOTHER, rests=10)
            await asyncio.sleep(4 * EVERY)
            # One for both of its targets, as often as was said.
            assert here.times() == [1, 31, 61, 91]
            for _, order in here.service.asked:
                assert (order.method, order.path, order.body, order.model) == ("GET", "/models", b"", "")
                assert (order.provider.name, order.key) == ("chat", PROVIDER_KEY)

    run(main())


def test_pitfall_354_an_hour_has_only_so_many_and_they_are_counted_by_themselves() -> None:
    async def main() -> None:
        async with town(checked(every=1.0)) as here:
            here.service.said = DOWN
            for _ in range(24):
                here.fail(rests=10)
                await asyncio.sleep(MAX_COOLDOWN)
            times = here.times()
            assert len([at for at in times if at <= 3600]) <= 2 * HOURLY
            assert HOURLY / 2 < len([at for at in times if at > 3600]) <= HOURLY
            assert here.counted() == {("chat", "failing"): len(times)}
            text = render([here.metrics.snapshot()]).decode()
            assert f'dragoman_health_checks_total{{provider="chat",result="failing"}} {len(times)}' in text
            # They are no exchanges, and no attempts of any.
            assert "dragoman_requests_total{" not in text and "dragoman_attempts_total{" not in text

    run(main())


@pytest.mark.parametrize(
    "said",
    [
        pytest.param((400, b"{}"), id="a wrong request"),
        pytest.param((401, b"{}"), id="a key that is not taken"),
        pytest.param((403, b"{}"), id="forbidden"),
        pytest.param((404, b"{}"), id="no list"),
        pytest.param((429, b"{}"), id="too often"),
        pytest.param((501, b"{}"), id="not implemented"),
        pytest.param((302, b""), id="a redirect"),
        pytest.param((200, b"<html>"), id="a page"),
        pytest.param((200, b"7"), id="a number"),
        pytest.param((200, b'{"error": {"message": "no"}}'), id="an error that calls itself a success"),
        pytest.param(Unresolved("no such name"), id="name servers"),
        pytest.param(Exhausted("too many open files"), id="no descriptors"),
    ],
)
def test_pitfall_355_what_is_about_the_check_itself_says_nothing(said: Said) -> None:
    async def main() -> None:
        async with town() as here:
            here.fail(rests=10)
            here.service.said = said
            await asyncio.sleep(EVERY - POLL_INTERVAL)
            assert here.counted() == {("chat", "unknown"): 1}
            assert here.standing() == HealthState(HealthLevel.COOLDOWN, MAX_COOLDOWN)
            # And so it has not seen what a list that works could end.
            here.service.said = WELL
            await asyncio.sleep(EVERY)
            assert here.counted()["chat", "alive"] == 1
            assert here.standing() == HealthState(HealthLevel.COOLDOWN, MAX_COOLDOWN)

    run(main())


@pytest.mark.parametrize(
    "said",
    [
        pytest.param((200, b'{"data": []}'), id="nothing in it"),
        pytest.param((200, b'{"object": "list", "data": null}'), id="nothing in it, in other words"),
        pytest.param((200, b'{"data": [{"id": "another"}]}'), id="another model"),
        pytest.param((200, b'[{"id": "m"}]'), id="without an object around it"),
    ],
)
def test_pitfall_355_any_list_is_one_of_a_provider_that_lives(said: Said) -> None:
    async def main() -> None:
        async with town() as here:
            here.fail(rests=10)
            here.service.said = DOWN
            await asyncio.sleep(EVERY)
            here.service.said = said
            await asyncio.sleep(2 * POLL_INTERVAL)
            assert here.counted() == {("chat", "failing"): 1, ("chat", "alive"): 1}
            assert here.standing().until < 2 * EVERY

    run(main())


@pytest.mark.parametrize(
    "said",
    [
        pytest.param((500, b""), id="500"),
        pytest.param((503, b"{}"), id="503"),
        pytest.param(Unreachable("refused"), id="unreachable"),
        pytest.param(Truncated("broken off"), id="broken off"),
        pytest.param(BadResponse("no HTTP"), id="no HTTP"),
        pytest.param(None, id="silent"),
    ],
)
def test_pitfall_355_a_check_that_fails_makes_nobody_ill_and_no_rest_longer(said: Said) -> None:
    async def main() -> None:
        async with town() as here:
            here.fail(rests=3)
            before = here.standing()
            health = here.service.routing_state.health
            health.record(ANOTHER, AttemptOutcome.ANSWERED, 0.0, 0.0)
            health.record("chat/suspect", AttemptOutcome.OVERLOADED, 0.0, 0.0)
            here.service.said = said
            await asyncio.sleep(TIMEOUT + 2 * POLL_INTERVAL)
            assert here.counted() == {("chat", "failing"): 1}
            assert here.standing() == before
            assert here.standing(ANOTHER) is HEALTHY
            assert here.standing("chat/suspect").level is HealthLevel.SUSPECT
            # When it is over, it is over, whatever checks find: nobody is asked any more.
            await asyncio.sleep(before.until)
            assert here.service.routing_state.health.take_permit(TARGET, here.service.clock(), 60.0) is not None
            assert len(here.times()) == 1

    run(main())


def test_pitfall_355_where_the_list_works_while_conversations_fail_no_rest_is_cut_short() -> None:
    async def main() -> None:
        async with town(checked(every=1.0)) as here:
            for times in range(1, 6):
                here.fail(rests=times)
                before = here.standing()
                await asyncio.sleep(4.5)
                assert here.standing() == before
            assert here.counted()["chat", "alive"] > 10

    run(main())


def test_each_rest_that_is_cut_short_takes_a_check_that_failed_during_it() -> None:
    async def main() -> None:
        async with town(checked(every=1.0)) as here:
            health = here.service.routing_state.health
            here.fail(rests=10)
            here.service.said = DOWN
            await asyncio.sleep(3.0)
            here.service.said = WELL
            await asyncio.sleep(3.0)
            assert here.standing().until < 6.0
            # The list was right, and the conversation fails all the same.
            now = here.service.clock()
            health.record(
                TARGET, AttemptOutcome.FIRST_BYTE_TIMEOUT, now, now, permit=health.take_permit(TARGET, now, 60.0)
            )
            before = here.standing()
            assert before.until == now + MAX_COOLDOWN
            await asyncio.sleep(20.0)
            assert here.standing() == before

    run(main())


def test_what_a_check_saw_of_one_rest_ends_no_later_one() -> None:
    async def main() -> None:
        async with town() as here:
            here.fail(rests=2)
            here.service.said = DOWN
            await asyncio.sleep(2 * POLL_INTERVAL)
            assert here.counted() == {("chat", "failing"): 1}
            # It rested to the end, was well for some time, and is ill for another reason.
            here.service.routing_state.health.reset(TARGET, here.service.clock())
            await asyncio.sleep(60.0)
            here.service.said = WELL
            here.fail(rests=10)
            before = here.standing()
            await asyncio.sleep(60.0)
            assert here.counted()["chat", "alive"] == 2
            assert here.standing() == before

    run(main())


def test_a_rest_that_began_while_a_check_was_under_way_is_left_alone() -> None:
    async def main() -> None:
        async with town() as here:
            here.fail(rests=4)
            here.service.said = DOWN
            await asyncio.sleep(EVERY)
            assert here.counted() == {("chat", "failing"): 1}
            here.service.said = WELL
            # Somebody cleared it, and it failed again, at the very moment.
            asked = len(here.times())
            await wait_until_async(lambda: len(here.times()) > asked, "the next check begins")
            here.service.routing_state.health.reset(TARGET, here.service.clock())
            here.fail(rests=4)
            before = here.standing()
            await asyncio.sleep(1.0)
            assert here.counted() == {("chat", "failing"): 1, ("chat", "alive"): 1}
            assert here.standing() == before

    run(main())


def test_a_target_that_came_to_rest_after_the_check_failed_is_left_alone() -> None:
    async def main() -> None:
        async with town() as here:
            here.fail(rests=10)
            here.service.said = DOWN
            await asyncio.sleep(2 * POLL_INTERVAL)
            here.fail(ANOTHER, rests=10)
            before = here.standing(ANOTHER)
            here.service.said = WELL
            await asyncio.sleep(EVERY)
            assert (here.standing().until < 2 * EVERY, here.standing(ANOTHER)) == (True, before)

    run(main())


def test_a_silent_list_is_given_up_and_one_is_asked_at_a_time() -> None:
    async def main() -> None:
        async with town(checked(every=1.0)) as here:
            here.fail(rests=10)
            here.service.said = None
            await asyncio.sleep(3 * TIMEOUT)
            assert here.times() == [1, 7, 13]
            assert [answer.is_closed for answer in here.service.answers] == [True, True, False]
            assert here.told()[0]["reason"] == "no answer within 5 s"

    run(main())


def test_the_log_tells_what_has_changed_alone() -> None:
    async def main() -> None:
        async with town(checked(every=1.0)) as here:
            here.fail(rests=10)
            here.fail(ANOTHER, rests=10)
            here.service.said = DOWN
            await asyncio.sleep(5.0)
            here.service.said = WELL
            await asyncio.sleep(5.0)
            told = [(line["level"], line["provider"], line["result"], line["cooldowns_ended"]) for line in here.told()]
            assert told == [("info", "chat", "failing", 0), ("info", "chat", "alive", 2)]
            assert here.told()[0]["reason"] == "it answered 500"

    run(main())


def test_a_reload_begins_changes_and_ends_checks() -> None:
    async def main() -> None:
        async with town(settings_for(1)) as here:
            here.fail(rests=10)
            await asyncio.sleep(10.0)
            assert here.times() == []
            here.service.said = DOWN
            here.reload(checked(every=5.0))
            await asyncio.sleep(10.5)
            assert here.times() == [11, 16]
            # What is still the same is known as before, and so the rest is over.
            here.reload(checked(every=5.0))
            here.service.said = WELL
            await asyncio.sleep(5.0)
            assert here.standing().until == pytest.approx(21.0, abs=0.1)
            here.fail(ANOTHER, rests=10)
            here.reload(settings_for(1))
            await asyncio.sleep(60.0)
            assert here.times() == [11, 16, 21]

    run(main())


def test_what_was_asked_of_a_provider_that_is_another_now_says_nothing() -> None:
    async def main() -> None:
        async with town() as here:
            here.fail(rests=10)
            here.service.said = None
            await asyncio.sleep(2 * POLL_INTERVAL)
            here.service.said = WELL
            here.reload(checked(keys=("sk-another-key-of-the-provider",)))
            # What was held against the other one is forgotten, and so nobody is asked any more.
            assert here.standing().level is HealthLevel.HEALTHY
            await asyncio.sleep(TIMEOUT)
            assert here.counted() == {}

    run(main())


def test_whoever_is_closed_asks_nobody_even_if_told_to_follow() -> None:
    async def main() -> None:
        async with town() as here:
            here.fail(rests=10)
            here.service.said = None
            await asyncio.sleep(2 * POLL_INTERVAL)
            await here.checks.close()
            assert here.service.answers[0].is_closed
            here.reload(checked(every=1.0))
            await asyncio.sleep(10.0)
            assert len(here.times()) == 1

    run(main())
