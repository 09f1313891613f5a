"""Service: everything that one configuration settles, made once and replaced as a whole when the file changes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from dragoman.config.config_file import content_digest
from dragoman.config.prices import price_book_of
from dragoman.config.settings import Settings
from dragoman.errors import Unconfigured, Unconnected
from dragoman.gateway.access.client_address import networks
from dragoman.gateway.access.guard import Guard
from dragoman.gateway.access.key_concurrency import KeyCalls
from dragoman.gateway.admission import Admission, AdmissionLimits, Slot, divided
from dragoman.gateway.byte_budget import ByteBudget
from dragoman.gateway.check_cache import CheckCache
from dragoman.gateway.forwarding.error_responses import JSON, id_header
from dragoman.gateway.forwarding.redaction import Redactor
from dragoman.gateway.forwarding.target_settings import TargetSettings, compute_settings
from dragoman.gateway.model_list_cache import ModelListCache
from dragoman.gateway.model_resolver import ModelResolver
from dragoman.gateway.observability.costs import Costs
from dragoman.gateway.observability.journal_entries import finalized_entry
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.observability.metrics import Metrics
from dragoman.gateway.observability.record import LogDetails, Record
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.gateway.observability.session_facts import SessionFacts
from dragoman.gateway.observability.usage_recorder import UsageRecorder
from dragoman.gateway.paths import ApiPath
from dragoman.gateway.prefix_cache import PrefixCache
from dragoman.gateway.routing_state import RoutingState
from dragoman.gateway.stored_responses.stored_state import StoredState, must_record_owners
from dragoman.gateway.target_info import TargetInfo
from dragoman.gateway.timers import Timers
from dragoman.http.client import HttpClient
from dragoman.http.server import ServerRequest
from dragoman.http.upstream_call import HeaderList, UpstreamCall, UpstreamRequest
from dragoman.identities.identity import Identity
from dragoman.launching.local_servers import foreign_user_at, port_of
from dragoman.mint import system_mint
from dragoman.mock.echo_call import EchoCall
from dragoman.protocols.codec import Mint
from dragoman.providers.http_transport import path_of, request_of
from dragoman.providers.provider import Provider, facts_of
from dragoman.providers.transport import transport_of
from dragoman.providers.transport_interface import Order
from dragoman.records.ids import response_suffix
from dragoman.routing.health import HealthReport
from dragoman.routing.health_state import HealthLevel, HealthState
from dragoman.routing.rotation import Rotation
from dragoman.routing.target import Target

if TYPE_CHECKING:
    from dragoman.contents.writer import ContentsWriter

# Maximum targets with cached settings, and maximum length of their model names: names come from outside, and may be as
# large as a body.
_MAX_TARGETS = 1024
_MAX_MODEL_LENGTH = 512


class ResetResult(Struct, frozen=True, kw_only=True):
    """The state of a target before a reset: its health, and its keys in cooldown."""

    health: str
    keys: int


class Runtime:
    """The gateway's working parts. Metrics, log, state and knowledge of providers (`former`) outlive a reload."""

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
        self.log = metrics.log = log
        log.count, log.count_lock = metrics.count, metrics.lock
        self.state = state or StoredState(settings.storage, log)
        # The usage recorder, once it is started.
        self.usage_recorder: UsageRecorder = (
            former.usage_recorder
            if former is not None
            else UsageRecorder(settings.storage, log, server=self.state.server)
        )
        if settings.storage.database is not None:
            self.usage_recorder.configuration = content_digest(settings.file)
        metrics.recorded = self.usage_recorder.recorded
        # What stores the bodies of conversations, where an operator asks for it.
        self.contents: ContentsWriter | None = former.contents if former is not None else None
        self.guard = guard or Guard(settings)
        self._records_ids_with_keys = must_record_owners(settings, requires_keys=True)
        self._records_ids_without_keys = must_record_owners(settings, requires_keys=False)
        self.proxies = networks(settings.server.trusted_proxies)
        self.routes = ModelResolver(settings, stores_responses=self.state.store is not None)
        # Prices and context windows, read on first use.
        self.price_book = price_book_of(settings, lambda words: log.event("warn", words))
        self.mint = system_mint()
        self.costs = Costs(self.price_book, time.time)
        # The exported share of exchanges; None without one.
        self.sample_ratio = settings.telemetry.sample_ratio if settings.has_telemetry_export else None
        self.client: HttpClient = HttpClient(
            connect_timeout=settings.timeouts.connect,
            connections=settings.limits.connections_per_host,
            reuse=former.client.reuse if former is not None else None,
        )
        self.draining = False
        # Getting the running loop costs a system call each time.
        self.loop = asyncio.get_running_loop()
        self.clock: Callable[[], float] = self.loop.time
        self.timers: Timers = former.timers if former is not None else Timers(self.loop)
        self.routing_state: RoutingState = former.routing_state if former is not None else RoutingState(self.clock)
        rotations = former._rotations if former is not None else {}
        self._rotations: dict[str, Rotation] = {
            name: Rotation(name, provider.keys, self.routing_state.health, self.clock, rotations.get(name))
            for name, provider in settings.callable.items()
        }
        if former is not None:
            self._forgive_changed(former.settings)
        # Session facts.
        self.session_facts: SessionFacts = former.session_facts if former is not None else SessionFacts()
        self.session_facts.is_required = any(
            rule.when.thread for route_config in settings.routes for rule in route_config.rules
        )
        # Calls and queues of each provider.
        self.admission: Admission = former.admission if former is not None else Admission(self.clock)
        # Running requests of each gateway key.
        self.key_calls: KeyCalls = former.key_calls if former is not None else KeyCalls(self.clock)
        # Bytes of request bodies that are not complete, and of responses that are read as a whole.
        limits = settings.limits
        self.unfinished: ByteBudget = former.unfinished if former is not None else ByteBudget(limits.unfinished_bytes)
        self.buffered: ByteBudget = former.buffered if former is not None else ByteBudget(limits.buffered_bytes)
        self.unfinished.set_limit(limits.unfinished_bytes)
        self.buffered.set_limit(limits.buffered_bytes)
        metrics.loads = self.admission.loads
        metrics.levels, metrics.keys_in_cooldown = self._levels, self._keys_in_cooldown
        metrics.may_name = self.may_name
        self.admission.set_limits(_limits(settings))
        self._redactors: dict[str, Redactor] = {}
        # By the identity of their targets, which they hold.
        self._target_settings: dict[int, TargetSettings] = {}
        self.listed: ModelListCache = ModelListCache(settings.callable, former.listed if former is not None else None)
        self.routes.listed = self._models_listed
        # Cached translations of request arrays. Settings decide about it: each configuration begins with none.
        self.prefixes = self.session_facts.prefixes = PrefixCache()
        metrics.prefix_bytes = lambda: self.prefixes.size
        # What requests left in memory: something of it may be being forgotten.
        self.usage_recorder.on_rotated = self.prefixes.clear
        self.checks = CheckCache(self.clock)
        self.target_info = TargetInfo(self.price_book, self.listed, self._rotations, self.admission, self.mint.now)

    def _forgive_changed(self, former: Settings) -> None:
        """Forget failures of providers whose addresses or keys changed; a key that stays in place stays in cooldown."""
        now, health = self.clock(), self.routing_state.health
        changed: set[str] = set()
        for name, provider in self.settings.providers.items():
            before = former.providers.get(name)
            if before is None or _call_settings(provider) != _call_settings(before):
                changed.add(name)
                health.reset_keys(name, now)
            elif provider.keys != before.keys:
                changed.add(name)
        if changed:
            for report in health.reports(now):
                if report.subject.partition("/")[0] in changed:
                    health.reset(report.subject, now)

    def _models_listed(self, provider: Provider) -> Iterable[str]:
        cached = self.listed.of(provider)
        return () if cached is None else cached.models

    @property
    def rng(self) -> Callable[[], float]:
        """Numbers from 0 up to, but not including, 1."""
        return self.routing_state.rng

    @property
    def records_ids(self) -> bool:
        """Whether owners of responses that providers store are recorded."""
        return self._records_ids_with_keys and (self._records_ids_without_keys or not self.guard.open)

    def health_of(self, target: Target) -> str | None:
        """The health of a target in one word; None if it was not tried."""
        health = self.routing_state.health
        return health.state(target.id, self.clock()).level.value if health.has_target(target.id) else None

    def may_name(self, target: str) -> bool:
        """Whether every key holder may see a target's name: configured, listed or in the catalogue."""
        if not self.guard.several_keys:
            return True
        name, _, model = target.partition("/")
        provider = self.settings.callable.get(name)
        if provider is None:
            return False
        listed = self.listed.of(provider)
        if target in self.routes.spelled or (listed is not None and model in listed.models):
            return True
        facts = facts_of(self.price_book, provider, model, self.mint.now())
        return facts is not None and facts.entry.partition("/")[2] == model

    def health_reports(self) -> list[HealthReport]:
        """The health of all targets that were called, and of their keys."""
        reports = self.routing_state.health.reports(self.clock())
        return [replace(report, health=self._health_state(report.subject, report.health)) for report in reports]

    def _levels(self) -> dict[str, HealthLevel]:
        return {report.subject: report.health.level for report in self.health_reports()}

    def _keys_in_cooldown(self) -> dict[str, int]:
        """The number of keys in cooldown of each provider that has keys."""
        return {
            name: len({place for place, _ in rotation.active_cooldowns()})
            for name, rotation in self._rotations.items()
            if rotation.count
        }

    def _health_state(self, target: str, health: HealthState) -> HealthState:
        """The health of a target: `NO_KEY` if all of its keys are in cooldown."""
        provider, _, model = target.partition("/")
        rotation = self._rotations.get(provider)
        wakes = None if rotation is None else rotation.wakes(model)
        return (
            health if wakes is None or health.level is HealthLevel.COOLDOWN else HealthState(HealthLevel.NO_KEY, wakes)
        )

    def reset_target(self, target: str) -> ResetResult:
        """Reset a target and its keys to healthy; returns the previous state."""
        now, health = self.clock(), self.routing_state.health
        provider, _, model = target.partition("/")
        before = health.state(target, now)
        health.reset(target, now)
        return ResetResult(health=before.level.value, keys=len(health.reset_keys(provider, now, model)))

    def rotation(self, provider: Provider) -> Rotation:
        """The keys of a provider, taking turns."""
        return self._rotations[provider.name]

    def redactor(self, provider: Provider) -> Redactor:
        """The redactor of a provider's secrets."""
        cached = self._redactors.get(provider.name)
        if cached is None:
            cached = self._redactors[provider.name] = Redactor(provider)
        return cached

    def target_settings(self, target: Target) -> TargetSettings:
        """Settings of all calls to a target."""
        cached = self._target_settings.get(id(target))
        if cached is None:
            provider, pooled_limits = target.provider, self.settings.server.forward_pooled_rate_limits
            cached = compute_settings(
                target, self.rotation(provider), self.redactor(provider), pooled_limits=pooled_limits
            )
            if len(target.model) <= _MAX_MODEL_LENGTH:
                if len(self._target_settings) >= _MAX_TARGETS:
                    self._target_settings.clear()
                self._target_settings[id(target)] = cached
        return cached

    async def admitted(self, provider: str, record: Record) -> Slot | None:
        """A slot among the calls of a provider, None if they are not limited; `Overloaded` if none comes in time."""
        if provider not in self.admission.limited:
            return None
        slot = self.admission.enter(provider, record.key, record.started + self.settings.timeouts.effective_total)
        return slot if isinstance(slot, Slot) else await slot

    def open_at_once(self, order: Order) -> UpstreamCall | None:
        """A call to a provider; None if its credentials may have to be fetched first."""
        provider = order.provider
        if provider.transport == "echo":
            return EchoCall(_echo_call(order), order.endpoint.protocol)
        if provider.name in self.settings.local and foreign_user_at(port_of(order.endpoint.base_url)) is not None:
            whose = "what listens at its usual port belongs to another user of this machine"
            raise Unconfigured("the provider is not configured completely", remedy=whose)
        return self.client.open(request_of(order)) if provider.transport == "http" else None

    async def open(self, order: Order) -> UpstreamCall:
        """A call to a provider, with credentials that are fetched first if they must be."""
        call = self.open_at_once(order)
        if call is not None:
            return call
        provider = order.provider
        try:
            # Credentials may have to be fetched first, which is part of getting through.
            async with asyncio.timeout(self.settings.timeouts.connect):
                made = await transport_of(provider.transport).call(order)
        except TimeoutError:
            raise Unconnected("the provider's credentials were not available in time") from None
        # Clouds are called with credentials and at addresses that the configuration does not spell out.
        self.redactor(provider).learn(made)
        return self.client.open(made)

    def mint_of(self, record: Record) -> Mint:
        """Where the ids of an exchange come from: an answer without one of its own is found by that of its record."""
        return Mint(token=self.mint.token, now=self.mint.now, response_token=response_suffix(record.id))

    def builder_of(self, record: Record) -> RecordBuilder:
        """The account of an exchange that begins."""
        return RecordBuilder(record, self.clock, self.finish)

    def finish(self, record: Record) -> None:
        """Write down an exchange that is finalized, and have it logged and counted."""
        entry = finalized_entry(record, self.usage_recorder.addresses)
        self.usage_recorder.finalize(entry)
        self.log.exchange(entry, LogDetails(record.address, record.path, record.refusal, record.advice, record.at_door))

    def builder_of_unauthenticated(self, record: Record) -> RecordBuilder:
        """The record of a rejected client."""
        return RecordBuilder(record, self.clock, self._finish_unauthenticated)

    def _finish_unauthenticated(self, record: Record) -> None:
        entry = finalized_entry(record, self.usage_recorder.addresses)
        self.usage_recorder.finalize_unauthenticated(entry)
        self.log.exchange(entry, LogDetails(record.address, record.path, record.refusal, record.advice, record.at_door))

    async def close(self) -> None:
        """Let go of idle connections; exchanges under way end on their own."""
        await self.client.close()


def _call_settings(provider: Provider) -> tuple[object, ...]:
    """Where and how a provider is called, its keys aside."""
    return provider.endpoints, provider.transport, provider.auth, provider.headers, provider.options


def _limits(settings: Settings) -> dict[str, AdmissionLimits]:
    """The concurrency limit of each provider in this process."""
    return {
        name: divided(
            AdmissionLimits(provider.concurrency, provider.queue_size, provider.queue_timeout), settings.server.workers
        )
        for name, provider in settings.providers.items()
        if provider.concurrency is not None
    }


def _echo_call(order: Order) -> UpstreamRequest:
    path = order.path or path_of(order.endpoint.protocol)
    return UpstreamRequest(method=order.method, url=f"echo:{path}", headers=order.headers, body=order.body)


class Incoming(Struct, frozen=True):
    """A request outside conversations: its runtime, endpoint, record and gateway key."""

    runtime: Runtime
    request: ServerRequest
    api_path: ApiPath
    builder: RecordBuilder
    key: Identity | None

    def check_again(self) -> None:
        """Refuse a key that lost its rights since the request arrived."""
        if self.key is not None:
            self.runtime.guard.check_again(self.key, self.request.table, self.api_path.protocol)

    def headers(self) -> HeaderList:
        """The headers of a JSON response."""
        record = self.builder.record
        return [JSON, id_header(record.client_protocol, record.id), *self.runtime.guard.greeting(self.request)]

    def send(self, body: bytes) -> None:
        """Respond with a JSON document."""
        self.builder.finalize(status=200)
        self.request.respond(200, self.headers(), body)
