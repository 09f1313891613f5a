"""Service: everything that one configuration settles, made once and replaced as a whole when the file changes."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable

from msgspec import Struct

from dragoman.config.prices import book_of
from dragoman.config.settings import Settings
from dragoman.errors import Unconfigured, Unconnected
from dragoman.gateway.access.client_address import networks
from dragoman.gateway.access.guard import Guard
from dragoman.gateway.access.key_concurrency import KeyCalls
from dragoman.gateway.admission import Admission, AdmissionLimits, Slot, divided
from dragoman.gateway.byte_budget import ByteBudget
from dragoman.gateway.check_cache import CheckCache
from dragoman.gateway.exchange.redaction import Redactor
from dragoman.gateway.model_list_cache import ModelListCache
from dragoman.gateway.model_resolver import ModelResolver
from dragoman.gateway.observability.costs import Costs
from dragoman.gateway.observability.launch_counters import LaunchCounters
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.observability.metrics import Metrics
from dragoman.gateway.observability.record import Record
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.gateway.observability.session_facts import SessionFacts
from dragoman.gateway.observability.usage_recorder import UsageRecorder
from dragoman.gateway.routing_state import RoutingState
from dragoman.gateway.stored_responses.stored_state import StoredState, notes_ids
from dragoman.gateway.target_info import TargetInfo
from dragoman.http.client import HttpClient
from dragoman.http.upstream_call import UpstreamCall, UpstreamRequest
from dragoman.launching.local_servers import port_of, stranger_at
from dragoman.mint import random_token, system_mint
from dragoman.mock.echo_call import open_echo
from dragoman.protocols.codec import Mint
from dragoman.providers.key_cooldowns import KeyCooldowns
from dragoman.providers.price_lookup import facts_of
from dragoman.providers.provider import Provider
from dragoman.providers.rotation import Rotation
from dragoman.providers.transport import transport_of
from dragoman.providers.transport_interface import Order
from dragoman.records.ids import answer_suffix, new_id
from dragoman.routing.health_state import GOOD, HealthLevel, HealthState
from dragoman.routing.target import Target


class TargetHealthView(Struct, frozen=True, kw_only=True):
    """How a target is thought of, for whoever asks: `seconds` are left of that, 0 if it has no end."""

    target: str
    standing: str
    seconds: float = 0.0
    # For how long it has been so, what failed last, how long ago, how many failed in a row, and how often it rested.
    since: float = 0.0
    last: str = ""
    failed: float | None = None
    in_a_row: int = 0
    rests: int = 0


class Cleared(Struct, frozen=True, kw_only=True):
    """What was held against a target until now: how it stood, and how many of its keys rested."""

    standing: str
    keys: int


class Runtime:
    """The gateway's working parts. Metrics, log and state outlive a change of the configuration.

    What was learned of the providers does, too: it is taken over from the `former` service.
    """

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        log: Log,
        state: StoredState | None = None,
        *,
        guard: Guard | None = None,
        former: Runtime | None = None,
    ) -> None:
        self.settings = settings
        self.metrics = metrics
        self.tallies: LaunchCounters = metrics.tallies
        self.log = metrics.log = log
        self.state = state or StoredState(settings.storage, log)
        # What is written down of exchanges, once somebody starts it.
        self.accounting: UsageRecorder = (
            former.accounting if former is not None else UsageRecorder(settings.storage, log)
        )
        metrics.recorded = self.accounting.recorded
        self.notes_ids = notes_ids(settings)
        self.guard = guard or Guard(settings)
        self.proxies = networks(settings.server.trusted_proxies)
        self.routes = ModelResolver(settings, keeps=self.state.store is not None)
        # Prices and windows; nothing is read before somebody asks.
        self.book = book_of(settings, lambda words: log.event("warn", words))
        self.mint = system_mint()
        self.costs = Costs(self.book, self.mint.now)
        # The share of exchanges that a collector is told of; None without one.
        self.told_share = settings.telemetry.sample if settings.tells else None
        self.client: HttpClient = HttpClient(
            connect_timeout=settings.timeouts.connect,
            connections=settings.limits.connections,
            reuse=former.client.reuse if former is not None else None,
        )
        self.draining = False
        # To ask for the running one costs a call to the system each time.
        self.loop = asyncio.get_running_loop()
        self.clock: Callable[[], float] = self.loop.time
        self.traffic: RoutingState = former.traffic if former is not None else RoutingState(self.clock)
        rotations = former._rotations if former is not None else {}
        self._rotations: dict[str, Rotation] = {
            name: Rotation(provider.keys, self.clock, rotations.get(name), name)
            for name, provider in settings.callable.items()
        }
        if former is not None:
            self._forgive_changed(former.settings)
        # Who is speaking.
        self.listener: SessionFacts = former.listener if former is not None else SessionFacts()
        self.listener.asked = any(rule.when.thread for line in settings.routes for rule in line.rules)
        # How many calls each provider has, and who waits for one.
        self.admission: Admission = former.admission if former is not None else Admission(self.clock)
        # How many exchanges each gateway key has.
        self.key_calls: KeyCalls = former.key_calls if former is not None else KeyCalls(self.clock)
        # Bytes of request bodies that are not complete, and of responses that are read as a whole.
        limits = settings.limits
        self.unfinished: ByteBudget = former.unfinished if former is not None else ByteBudget(limits.unfinished_bytes)
        self.buffered: ByteBudget = former.buffered if former is not None else ByteBudget(limits.buffered_bytes)
        self.unfinished.settle(limits.unfinished_bytes)
        self.buffered.settle(limits.buffered_bytes)
        metrics.loads = self.admission.loads
        metrics.levels, metrics.resting = self._levels, self._resting_keys
        metrics.may_name = self.may_name
        self.admission.settle(_limits(settings))
        self._redactors: dict[str, Redactor] = {}
        self.listed: ModelListCache = ModelListCache(settings.callable, former.listed if former is not None else None)
        self.routes.listed = self._models_listed
        self.checks = CheckCache(self.clock)
        self.knowledge = TargetInfo(self.book, self.listed, self._rotations, self.admission, self.mint.now)

    def _forgive_changed(self, former: Settings) -> None:
        """Hold nothing against a provider that is called elsewhere, or with other keys, than it was before.

        A key that stays, at the same place, goes on resting.
        """
        now = self.clock()
        changed: set[str] = set()
        for name, provider in self.settings.providers.items():
            before = former.providers.get(name)
            if before is None or _place(provider) != _place(before):
                changed.add(name)
                self._rotations[name].rests.clear(now)
            elif provider.keys != before.keys:
                changed.add(name)
        if changed:
            for report in self.traffic.health.reports(now):
                if report.target.partition("/")[0] in changed:
                    self.traffic.health.clear(report.target, now)

    def _models_listed(self, provider: Provider) -> Iterable[str]:
        found = self.listed.of(provider)
        return () if found is None else found.models

    @property
    def chance(self) -> Callable[[], float]:
        """Numbers from 0 up to, but not including, 1."""
        return self.traffic.chance

    def health_of(self, target: Target) -> str | None:
        """How a target stands, in a word; None if it was not tried."""
        health = self.traffic.health
        return health.standing(target.id, self.clock()).level.value if health.knows(target.id) else None

    def may_name(self, target: str) -> bool:
        """Whether everybody who has a key may hear a target's name: not if it may be known to who asked for it alone.

        What the configuration names, its provider lists or everybody can buy is no secret.
        """
        if len(self.settings.keys) < 2 and not self.settings.several_owners:
            return True
        name, _, model = target.partition("/")
        provider = self.settings.callable.get(name)
        if provider is None:
            return False
        listed = self.listed.of(provider)
        if target in self.routes.spelled or (listed is not None and model in listed.models):
            return True
        facts = facts_of(self.book, provider, model, self.mint.now())
        return facts is not None and facts.entry.partition("/")[2] == model

    def unnamed(self) -> dict[str, int]:
        """How many targets stand how whose names are not told."""
        levels = (level.value for target, level in self._levels().items() if not self.may_name(target))
        return dict(Counter(levels))

    def standings(self) -> Iterable[TargetHealthView]:
        """How targets are thought of that were tried, and whose names may be told."""
        now = self.clock()
        for report in self.traffic.health.reports(now):
            if not self.may_name(report.target):
                continue
            standing = self._standing(report.target, report.standing)
            seconds = max(standing.until - now, 0.0) if standing is not GOOD else 0.0
            yield TargetHealthView(
                target=report.target,
                standing=standing.level.value,
                seconds=seconds,
                since=max(now - report.since, 0.0),
                last="" if report.last is None else report.last.value,
                failed=None if report.last is None else max(now - report.failed, 0.0),
                in_a_row=report.in_a_row,
                rests=report.rests,
            )

    def _levels(self) -> dict[str, HealthLevel]:
        reports = self.traffic.health.reports(self.clock())
        return {report.target: self._standing(report.target, report.standing).level for report in reports}

    def _resting_keys(self) -> dict[str, int]:
        """How many keys of each provider rest that has any keys."""
        return {
            name: len({place for place, _ in rotation.resting()})
            for name, rotation in self._rotations.items()
            if rotation.count
        }

    def _standing(self, target: str, found: HealthState) -> HealthState:
        """How a target stands, its keys considered."""
        provider, _, model = target.partition("/")
        rotation = self._rotations.get(provider)
        wakes = None if rotation is None else rotation.wakes(model)
        return found if wakes is None or found.level is HealthLevel.RESTING else HealthState(HealthLevel.KEYLESS, wakes)

    def clear(self, target: str) -> Cleared:
        """Take a target for good, whatever it did, and let its keys be used again; give what was held against it."""
        now = self.clock()
        provider, _, model = target.partition("/")
        rests = self._rotations[provider].rests
        before = self.traffic.health.standing(target, now)
        self.traffic.health.clear(target, now)
        return Cleared(standing=before.level.value, keys=len(rests.clear(now, model=model)))

    def rotation(self, provider: Provider) -> Rotation:
        """The keys of a provider, taking turns."""
        return self._rotations[provider.name]

    def key_rests(self) -> dict[str, KeyCooldowns]:
        """Which keys rest, by the names of their providers."""
        return {name: rotation.rests for name, rotation in self._rotations.items()}

    def redactor(self, provider: Provider) -> Redactor:
        """What must not leave of a provider."""
        found = self._redactors.get(provider.name)
        if found is None:
            found = self._redactors[provider.name] = Redactor(provider)
        return found

    async def admitted(self, provider: str, record: Record) -> Slot | None:
        """A place among the calls of a provider, None if those are not counted; `Overloaded` if none comes in time.

        The time of the exchange goes on while it is waited for.
        """
        if not self.admission.limits(provider):
            return None
        found = self.admission.enter(provider, record.key, record.started + self.settings.timeouts.whole)
        return found if isinstance(found, Slot) else await found

    async def open(self, order: Order) -> UpstreamCall:
        """Put an order on its way."""
        provider = order.provider
        if provider.transport == "echo":
            return open_echo(_echo_call(order), order.endpoint.protocol)
        if provider.name in self.settings.local and stranger_at(port_of(order.endpoint.base_url)) is not None:
            whose = "what listens at its usual port belongs to another user of this machine"
            raise Unconfigured("the provider is not configured completely", remedy=whose)
        call = transport_of(provider.transport).call(order)
        if provider.transport == "http":
            return self.client.open(await call)
        try:
            # Credentials may have to be fetched first, which is part of getting through.
            async with asyncio.timeout(self.settings.timeouts.connect):
                made = await call
        except TimeoutError:
            raise Unconnected("the provider's credentials could not be fetched in time") from None
        # Clouds are called with credentials and at addresses that the configuration does not spell out.
        self.redactor(provider).learn(made)
        return self.client.open(made)

    def new_id(self) -> str:
        """An id for one exchange; they ascend."""
        return new_id(time.time_ns() // 1000, random_token)

    def mint_of(self, record: Record) -> Mint:
        """Where the ids of an exchange come from: an answer without one of its own is found by that of its record."""
        return Mint(token=self.mint.token, now=self.mint.now, answer=answer_suffix(record.id))

    def account(self, record: Record) -> RecordBuilder:
        """The account of an exchange that begins."""
        return RecordBuilder(record, self.clock, self.finish)

    def finish(self, record: Record) -> None:
        """Write down, count and log an exchange that is settled."""
        self.accounting.settle(record)
        self._count(record)

    def account_of_stranger(self, record: Record) -> RecordBuilder:
        """The account of somebody who is not let in."""
        return RecordBuilder(record, self.clock, self._finish_stranger)

    def _finish_stranger(self, record: Record) -> None:
        self.accounting.settle_stranger(record)
        self._count(record)

    def _count(self, record: Record) -> None:
        self.metrics.count(record)
        if record.launch:
            self.tallies.count(record)
        # With the loop's next turn: the thread that writes lines would take the interpreter from whoever answers.
        self.loop.call_soon(self.log.exchange, record)

    async def close(self) -> None:
        """Let go of idle connections; exchanges under way end on their own."""
        await self.client.close()


def _place(provider: Provider) -> tuple[object, ...]:
    """Where and how a provider is called, its keys aside."""
    return provider.endpoints, provider.transport, provider.auth, provider.headers, provider.options


def _limits(settings: Settings) -> dict[str, AdmissionLimits]:
    """How many calls this process may have with each provider that has a limit."""
    return {
        name: divided(
            AdmissionLimits(provider.concurrency, provider.queue, provider.queue_time), settings.server.workers
        )
        for name, provider in settings.providers.items()
        if provider.concurrency is not None
    }


def _echo_call(order: Order) -> UpstreamRequest:
    from dragoman.providers.http_transport import PATHS

    path = order.path or PATHS[order.endpoint.protocol]
    return UpstreamRequest(method=order.method, url=f"echo:{path}", headers=order.headers, body=order.body)
