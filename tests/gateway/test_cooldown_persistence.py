"""Rests outlive a restart: they are kept by the time of day, and taken up as far as they are not over."""

from __future__ import annotations

import asyncio
import io
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from unittest.mock import patch

import msgspec
import pytest
from msgspec.structs import replace

from dragoman.config.settings import Settings, Storage
from dragoman.gateway.cooldown_persistence import PersistedCooldowns
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.observability.metrics import Metrics
from dragoman.gateway.routing_state_sync import RoutingStateSync
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses import stored_state
from dragoman.gateway.workers.shared_memory import SharedMemory
from dragoman.gateway.workers.worker_channel import WorkerChannel
from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.routing.health import CONSECUTIVE_FAILURES, MAX_COOLDOWN, MAX_KEY_COOLDOWN, Health
from dragoman.routing.health_state import HealthLevel, HealthState
from dragoman.routing.rotation import digest_of
from dragoman.store import Tables, open_tables
from tests.gateway.harness import PROVIDER_KEY, settings_for

TARGET = "chat/served"
# A time of day.
NOON = 1_700_000_000.0
UPGRADED = Path(__file__).parents[1] / "data/upgrade/state.sql"


class Life:
    """One life of a gateway, at a time of day, whose clock began at some other time than that of its last life."""

    def __init__(self, settings: Settings, clock: float, wall: float) -> None:
        self.out = io.StringIO()
        self.now, self.wall = clock, wall
        with patch.object(stored_state, "open_tables", partial(open_tables, clock=lambda: self.wall)):
            self.service = Runtime(settings, Metrics(), Log(self.out, json=True))
        self.service.clock = lambda: self.now
        for rotation in self.service._rotations.values():
            rotation._clock = self.service.clock
        self.kept = PersistedCooldowns(lambda: self.service, lambda: self.wall)
        self.news = RoutingStateSync(WorkerChannel(SharedMemory(1), 0, b""), lambda: self.service, self.kept)

    def fail(self) -> None:
        """Let the target fail until it rests."""
        for _ in range(CONSECUTIVE_FAILURES):
            self.service.routing_state.health.record(TARGET, AttemptOutcome.UNREACHABLE, self.now, self.now)

    def rest(self, seconds: float) -> None:
        """Let the key rest."""
        self.service._rotations["chat"].cool(PROVIDER_KEY, seconds, "m", AttemptOutcome.RATE_LIMITED, 86400.0)

    @property
    def level(self) -> HealthLevel:
        return self.service.routing_state.health.state(TARGET, self.now).level

    @property
    def key_rests_for(self) -> float:
        """Seconds until the key may be used."""
        until = self.service.routing_state.health.key_until("chat", digest_of(PROVIDER_KEY), "m")
        return max(until - self.now, 0.0)


@asynccontextmanager
async def life(path: Path | str, *, clock: float, wall: float, settings: Settings | None = None) -> AsyncIterator[Life]:
    """A life from its start to its end."""
    lived = Life(replace(settings or settings_for(1), storage=Storage(path=str(path))), clock, wall)
    await lived.kept.load()
    try:
        yield lived
    finally:
        lived.news.broadcast()
        await lived.service.close()
        await lived.service.state.close(0.0)


def test_pitfall_350_rests_outlive_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        file, wall = tmp_path / "state.db", NOON
        async with life(file, clock=5000.0, wall=wall) as before:
            before.fail()
            before.rest(600.0)
            assert before.level is HealthLevel.COOLDOWN
        # The machine was started anew, two seconds later.
        async with life(file, clock=7.0, wall=wall + 2.0) as after:
            assert after.level is HealthLevel.COOLDOWN
            (report,) = after.service.routing_state.health.reports(after.now)
            assert (round(report.health.until, 3), round(report.since, 3), report.cooldowns) == (10.0, 5.0, 1)
            assert (report.last, round(report.failed, 3)) == (AttemptOutcome.UNREACHABLE, 5.0)
            assert round(after.key_rests_for, 3) == 598.0
            ((place, key),) = after.service._rotations["chat"].active_cooldowns()
            assert (place, key.last, key.hint) == (0, AttemptOutcome.RATE_LIMITED, 86400.0)
            assert round(key.since, 3) == 5.0

    asyncio.run(main())


def test_pitfall_345_what_was_cleared_or_answered_does_not_come_back(tmp_path: Path) -> None:
    async def main() -> None:
        file, wall = tmp_path / "state.db", NOON
        async with life(file, clock=100.0, wall=wall) as before:
            before.fail()
            before.rest(600.0)
            before.news.broadcast()
            before.now += 1.0
            before.service.reset_target("chat/m")
            permit = before.service.routing_state.health.take_permit(TARGET, before.now, 60.0)
            assert permit is not None
            before.service.routing_state.health.record(
                TARGET, AttemptOutcome.ANSWERED, before.now, before.now, None, permit
            )
            assert before.level is HealthLevel.SLOW_START
        async with life(file, clock=100.0, wall=wall + 1.0) as after:
            assert (after.level, after.key_rests_for) == (HealthLevel.HEALTHY, 0.0)

    asyncio.run(main())


def test_pitfall_345_a_rest_that_was_cut_short_does_not_come_back(tmp_path: Path) -> None:
    async def main() -> None:
        file, wall = tmp_path / "state.db", NOON
        async with life(file, clock=100.0, wall=wall) as before:
            before.fail()
            before.news.broadcast()
            before.now += 1.0
            assert before.service.routing_state.health.cut_short(TARGET, before.now)
        async with life(file, clock=100.0, wall=wall + 1.0) as after:
            assert after.level is HealthLevel.HEALTHY

    asyncio.run(main())


def test_pitfall_351_a_time_of_day_that_was_set_back_makes_no_rest_endless(tmp_path: Path) -> None:
    async def main() -> None:
        file, wall = tmp_path / "state.db", NOON
        async with life(file, clock=100.0, wall=wall) as before:
            before.fail()
            before.rest(600.0)
        async with life(file, clock=100.0, wall=wall - 86400.0) as after:
            assert after.key_rests_for == MAX_KEY_COOLDOWN
            assert after.service.routing_state.health.state(TARGET, after.now).until == 100.0 + MAX_COOLDOWN

    asyncio.run(main())


def test_pitfall_350_without_a_file_a_restart_begins_anew() -> None:
    async def main() -> None:
        for path in ("", ":memory:"):
            async with life(path, clock=100.0, wall=NOON) as before:
                before.fail()
                before.news.broadcast()
                assert before.service.state.store is not None
                assert await before.service.state.store.read(lambda tables: tables.cooldowns.current()) == []

    asyncio.run(main())


def test_rows_that_nobody_can_read_are_passed_over(tmp_path: Path) -> None:
    def spoil(tables: Tables) -> None:
        tables.cooldowns.persist("target of tomorrow", NOON + 60.0, b"\xc1")
        tables.cooldowns.persist("key of tomorrow", NOON + 60.0, b"")

    async def main() -> None:
        file, wall = tmp_path / "state.db", NOON
        async with life(file, clock=100.0, wall=wall) as before:
            before.rest(600.0)
            # A name that is no name is not worth a row.
            before.service._rotations["chat"].cool(PROVIDER_KEY, 600.0, "x" * 2000)
            store = before.service.state.store
            assert store is not None
            await store.write(spoil)
        async with life(file, clock=100.0, wall=wall) as after:
            assert round(after.key_rests_for) == 600
            assert len(after.service.routing_state.health.snapshot()) == 1

    asyncio.run(main())


def test_cooldowns_that_were_persisted_under_former_names_are_taken_up(tmp_path: Path) -> None:
    """The file is of the version before levels and outcomes were renamed (`tests/data/README.md`)."""

    async def main() -> None:
        file = tmp_path / "state.db"
        with closing(sqlite3.connect(file)) as db:
            db.executescript(UPGRADED.read_text(encoding="utf-8"))
        standard = settings_for(1)
        chat = standard.providers["chat"]
        named = {name: replace(chat, name=name) for name in ("provider0", "provider1", "provider2")}
        settings = replace(standard, providers={**standard.providers, **named})
        # They began ten seconds ago, and end in 2100.
        async with life(file, clock=100.0, wall=1_790_000_010.0, settings=settings) as after:
            assert [
                (report.subject, report.health, report.cooldowns, report.since, report.last, report.failed)
                for report in sorted(after.service.routing_state.health.reports(100.0), key=lambda each: each.subject)
            ] == [
                (
                    f"provider{number}/model",
                    HealthState(HealthLevel.COOLDOWN, 100.0 + MAX_COOLDOWN),
                    2,
                    90.0,
                    last,
                    90.0,
                )
                for number, last in enumerate(
                    (AttemptOutcome.CONNECTION_LOST, AttemptOutcome.FIRST_BYTE_TIMEOUT, AttemptOutcome.STREAM_BROKEN)
                )
            ]
            for provider, key, last in (
                ("provider0", "k0 ", AttemptOutcome.INSUFFICIENT_QUOTA),
                ("provider1", "k1 ", AttemptOutcome.INVALID_KEY),
            ):
                (key_report,) = after.service.routing_state.health.reports(100.0, provider)
                assert (key_report.subject, key_report.since, key_report.last) == (key, 90.0, last)
                assert key_report.health == HealthState(HealthLevel.COOLDOWN, 100.0 + MAX_KEY_COOLDOWN)
            assert after.service.routing_state.health.reports(100.0, "provider2") == []

    asyncio.run(main())


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        (["chat/served", "cooldown", NOON + 60.0, 0.0, 1, NOON, "unreachable"], HealthLevel.COOLDOWN),
        # A name of no version, and members that are none.
        (["chat/served", "moonlit", NOON + 60.0], HealthLevel.HEALTHY),
        (["chat/served", 5, NOON + 60.0], HealthLevel.HEALTHY),
        (["chat/served"], HealthLevel.HEALTHY),
        ({"target": "chat/served"}, HealthLevel.HEALTHY),
    ],
)
def test_names_of_any_other_version_are_passed_over(tmp_path: Path, members: object, expected: HealthLevel) -> None:
    async def main() -> None:
        file = tmp_path / "state.db"
        body = msgspec.msgpack.encode(members)
        async with life(file, clock=100.0, wall=NOON) as before:
            store = before.service.state.store
            assert store is not None
            await store.write(lambda tables: tables.cooldowns.persist(f"target {TARGET}", NOON + 60.0, body))
        async with life(file, clock=100.0, wall=NOON) as after:
            assert after.level is expected

    asyncio.run(main())


def test_a_store_that_cannot_be_read_holds_up_no_start(tmp_path: Path) -> None:
    async def main() -> None:
        async with life(tmp_path / "state.db", clock=100.0, wall=NOON) as lived:
            store = lived.service.state.store
            assert store is not None
            await store.write(lambda tables: tables.connection.change("DROP TABLE rests"))
            await lived.kept.load()
            assert "cannot load persisted cooldowns" in lived.out.getvalue()

    asyncio.run(main())


def test_a_cooldown_from_before_a_reset_does_not_come_back_and_a_later_one_does() -> None:
    health = Health()
    health.cool_key("chat", "k", "m", 700.0, 100.0)
    (before,) = health.take_updates()
    health.reset_keys("chat", 110.0)
    health.merge_persisted(replace(before, epoch=0.0))
    assert health.key_until("chat", "k", "m") <= 110.0
    health.merge_persisted(replace(before, epoch=0.0, since=120.0))
    assert health.key_until("chat", "k", "m") == 700.0
