"""The driver of an exchange: it owns client, calls, timer and store, and does what the machine commands.

One coroutine, that awaits what the machine waits for; pieces of a stream, the timer and the store call back into the
machine in between. A piece of a flowing stream goes from the provider's read callback to one write without it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import ConfigError, DragomanError, Oversized, TimedOut, Truncated, Unconfigured, bare
from dragoman.gateway.admission import Slot
from dragoman.gateway.byte_budget import ReaderCharge
from dragoman.gateway.exchange.attempt import ErrorResponse
from dragoman.gateway.exchange.client import Client, ClientRequest
from dragoman.gateway.exchange.events_commands import (
    Abort,
    AwaitOwner,
    AwaitStored,
    Begin,
    CacheTurn,
    CallTarget,
    ClientDisconnected,
    Collect,
    CountUsage,
    Detach,
    Done,
    Drop,
    End,
    ExchangeEvent,
    Finalize,
    Follow,
    HangUp,
    HeartbeatDue,
    Limit,
    Locate,
    Name,
    Offload,
    Pause,
    ReadError,
    ReadFull,
    Reserve,
    ResolveReferences,
    Respond,
    Resume,
    Start,
    StartHeartbeats,
    Stored,
    StoreFull,
    StoreStreamed,
    StreamThrough,
    Translated,
    WaitFailed,
    Waiting,
    Write,
)
from dragoman.gateway.exchange.header_forwarding import traced
from dragoman.gateway.exchange.large_events import LargeEvents
from dragoman.gateway.exchange.response_reader import TOO_LARGE, GatheredCall, HungUp, collect, read_error, read_full
from dragoman.gateway.exchange.state_machine import Machine
from dragoman.gateway.exchange.store_commands import StoreCommands
from dragoman.gateway.exchange.timeouts import Overstayed
from dragoman.gateway.exchange.usage_estimate import Counting, Passed
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.gateway.observability.unexpected_errors import traceback_summary
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.detached_client import DetachedClient
from dragoman.gateway.stored_responses.exchange_storage import ExchangeStorage
from dragoman.gateway.stored_responses.store_failures import unreadable
from dragoman.gateway.thread_offload import offload
from dragoman.http.upstream_call import UpstreamCall
from dragoman.providers.transport_interface import Order, Unframer
from dragoman.store import StoreError
from dragoman.streaming import StreamPipeline
from dragoman.wire.json import encode

# How something that is waited for may end.
_OUTCOMES = (HungUp, DragomanError)
# What a stream may hold before it is charged, and from then on between two charges, in bytes.
_UNCHARGED = 1024 * 1024
# How long an exchange that has ended waits to know what it took, in seconds.
_COUNTING = 2.0


class Begun(Struct, frozen=True):
    """A request that was understood before, and what keeps its answer."""

    resume: Resume
    storage: ExchangeStorage


class Driver(StoreCommands):
    """Runs one exchange. Nothing here is held by what it holds once it has ended."""

    _upstream_call: UpstreamCall | None = None
    # The right to call its provider, where calls are counted.
    _slot: Slot | None = None
    # What is buffered of its answer, as the budget of its key has it.
    _charge: ReaderCharge | None = None
    # How many bytes of a stream are charged.
    _charged = 0
    _hung_up = False
    # The stream that is heard, what came of it, and how much that may be.
    _translator: StreamPipeline | None = None
    _events: LargeEvents | None = None
    _unframer: Unframer | None = None
    _passed: Passed
    _max_bytes: float = math.inf

    def __init__(self, runtime: Runtime, client_request: ClientRequest, client: Client, builder: RecordBuilder) -> None:
        super().__init__(runtime, client_request, client, builder)
        self._machine = Machine(runtime, client_request, builder, self._storage)

    async def run(self, request: Awaitable[bytes] | Begun) -> None:
        """Serve a request, whose body is still to come or which was begun before."""
        try:
            if isinstance(request, Begun):
                self._storage.follow_up(request.storage)
                event: ExchangeEvent = request.resume
            else:
                try:
                    event = Begin(await request)
                except _OUTCOMES as error:
                    event = self._outcome(error)
            while (command := self._step(event)) is not None:
                try:
                    event = Done(await _WAITS[type(command)](self, command))
                except _OUTCOMES as error:
                    event = self._outcome(error)
        except asyncio.CancelledError:
            try:
                await self._last_moments()
                if not isinstance(self._client, DetachedClient):
                    # Whoever cancelled something in the background waits for its end, and has its conversation.
                    await self._count_unfinished()
            finally:
                await self._go()
            raise
        except Exception:
            # A mistake of our own; whoever was asked has worked all the same.
            self._machine.abandon()
            raise
        finally:
            self._end()

    async def _go(self) -> None:
        """Settle the exchange of a client that has gone, or under which the gateway stops."""
        if self._step(ClientDisconnected(self._runtime.draining and not self._client.gone)) is not None:
            try:
                await self._last_moments()
            finally:
                # There is no other time to tell it.
                self._step(Stored())

    def _outcome(self, error: Exception) -> ExchangeEvent:
        """What became of something that was waited for and failed: a value, without the frames that hold an error."""
        match error:
            case ConfigError():
                self._runtime.log.event("error", "cannot call provider", key=error.key, problem=error.problem)
                return WaitFailed(Unconfigured("the provider is not configured completely", remedy=str(error)))
            case StoreError():
                return WaitFailed(unreadable(error, self._runtime.log))
            case DragomanError():
                return WaitFailed(bare(error), isinstance(error, TimedOut) and self._client.paused)
            case _:
                # Somebody hung up on the provider.
                return Done()

    def _step(self, event: ExchangeEvent) -> Waiting | None:
        """Let the machine move, and do what it commands; give what is to be waited for."""
        waiting: Waiting | None = None
        for command in self._machine.handle(event):
            act = _ACTS.get(type(command))
            if act is not None:
                act(self, command)
            else:
                waiting = command  # type: ignore[assignment]  # what is not done at once is waited for
        return waiting

    def _end(self) -> None:
        """End whatever is still under way, and let go of everything."""
        self._limits.stop()
        self._limits.alive = None
        self._client.on_pause = self._client.on_resume = None
        if self._upstream_call is not None:
            self._upstream_call.close()
        self._give_back()
        self._discharge()
        self._forget_request()
        self._storage.end()

    # Before the provider.

    def _work(self, command: Offload) -> Awaitable[object]:
        return offload(command.work, command.size, self._builder.record.key, paid=command.paid)

    async def _detach(self, command: Detach) -> bytes:
        """Let the response run in the background, as an exchange of its own."""
        runtime = self._runtime
        detached, record = DetachedClient(), self._builder.record
        # What is asked is the same: it has one id, and is one exchange in the accounts, which ends with the response.
        its_own = runtime.builder_of(replace(record, started=runtime.clock(), time=time.time(), losses=()))
        other = Driver(runtime, replace(self._client_request, query="", key_slot=None), detached, its_own)
        begun = Begun(command.resume, self._storage)

        async def run() -> None:
            try:
                await other.run(begun)
            finally:
                its_own.finalize()

        response = encode(
            await self._storage.detach(
                command.prepared, detached, run, self._hand_on_request, self._client_request.key_slot
            )
        )
        self._builder.update(kind="")
        if not its_own.is_finalized:
            # Its client is about to hear of it.
            runtime.usage_recorder.open(its_own.record, command.prepared.target, len(command.resume.body))
        return response

    def _hand_on_request(self) -> Callable[[], None]:
        """What gives back the bytes of the request, which are held as long as its response runs."""
        held = [self._client.take_charge(), self._reference_charge]
        self._reference_charge = None

        def give_back() -> None:
            for charge in held:
                if charge is not None:
                    charge.close()

        return give_back

    # The provider.

    def _pause(self, command: Pause) -> Awaitable[None]:
        return asyncio.sleep(command.seconds)

    def _drop(self, _: Drop) -> None:
        self._hang_up_call()
        self._give_back()
        self._discharge()

    def _hang_up_call(self) -> None:
        self._limits.pausing()
        if self._upstream_call is not None:
            self._upstream_call.close()
            self._upstream_call = None

    def _give_back(self) -> None:
        if self._slot is not None:
            self._slot.release()
            self._slot = None

    async def _call(self, command: CallTarget) -> UpstreamCall:
        if self._upstream_call is not None:
            self._hang_up_call()
        prepared, runtime = command.prepared, self._runtime
        target = prepared.target
        if self._slot is None and runtime.admission.limits(target.provider.name):
            self._machine.calls.queued()
            self._slot = await runtime.admitted(target.provider.name, self._builder.record)
            self._machine.calls.admitted()
        runtime.usage_recorder.open(self._builder.record, target, len(command.body))
        self._upstream_call = call = await runtime.open(
            Order(
                target.provider,
                target.endpoint,
                target.model,
                prepared.streams,
                command.body,
                traced(prepared.headers, self._builder.record, runtime.sample_ratio),
                command.key,
                query=prepared.query,
            )
        )
        self._limits.follow(call, command.first_byte)
        await call.head()
        return call

    async def _read_error(self, command: ReadError) -> ErrorResponse:
        reader = command.reader
        body = await read_error(self._called(), self._limits, self._clock)
        return await offload(partial(reader.read, body), reader.work(len(body)), self._builder.record.key, paid=True)

    def _read_full(self, _: ReadFull) -> Awaitable[bytes]:
        return read_full(self._reading())

    def _collect(self, command: Collect) -> Awaitable[int]:
        return collect(command, self._reading())

    def _reading(self) -> GatheredCall:
        max_bytes, key = self._runtime.settings.limits.response_body, self._builder.record.key
        return GatheredCall(self._called(), self._limits, self._clock, max_bytes, key, self._open_charge())

    def _open_charge(self) -> ReaderCharge:
        if self._charge is None:
            budget = self._runtime.buffered.of(self._builder.record.key)
            self._charge = budget.open(self._stop_reading, self._read_on)
        return self._charge

    def _charge_stream(self, translator: StreamPipeline) -> None:
        """Charge what a stream holds: of an unfinished event, of frames that wait, and what its end tells again."""
        size = translator.held + translator.gathered + self._machine.attempt.held_size
        if size > self._charged + _UNCHARGED:
            self._open_charge().add(size - self._charged)
            self._charged = size

    def _stop_reading(self) -> None:
        self._limits.suspend()
        self._called().pause()

    def _read_on(self) -> None:
        self._limits.resume()
        if self._events is not None:
            self._events.resume()
        elif self._upstream_call is not None:
            self._upstream_call.resume()

    def _is_held_up(self) -> bool:
        """Whether a stream is not to be read on: its client is slow, or there is no room for more of it."""
        return self._client.paused or (self._charge is not None and self._charge.is_paused)

    def _discharge(self) -> None:
        self._charged = 0
        if self._charge is not None:
            # What was sent is held until the client has read it.
            self._charge.complete()
            self._client.after_sending(self._charge.close)
            self._charge = None

    def _called(self) -> UpstreamCall:
        assert self._upstream_call is not None
        return self._upstream_call

    # Streams.

    async def _stream_through(self, command: StreamThrough) -> None:
        client, call, translator = self._client, self._called(), command.translator
        if translator is not self._translator:
            # What is only passed on is nowhere gathered.
            self._translator = translator
            self._max_bytes = math.inf if command.relay else self._runtime.settings.limits.response_body
        else:
            # An answer that goes on after a pause.
            self._max_bytes -= self._passed.size
        self._unframer = command.unframer
        self._passed = self._machine.attempt.passed
        self._events = events = LargeEvents(
            call,
            translator,
            self._deliver,
            self._builder.record.key,
            self._limits,
            feed=command.feed,
            writer=command.writer,
            is_held=self._is_held_up,
        )
        client.on_pause, client.on_resume = self._slowed, events.resume
        if client.paused:
            call.pause()
        self._limits.alive = self._heartbeat_due
        if translator.is_past_opening:
            self._limits.reading(stream=True)
            self._passed.content_began()
        else:
            self._limits.opening()
        self._hung_up = False
        try:
            await events.pump(self._take)
            if (unframer := self._unframer) is not None:
                self._unframer = None
                self._take(unframer.close())
                await events.wait_delivered()
            out = await events.run(translator.call_ended, translator.held)
            if out:
                self._translated(out, self._clock())
            await self._wait_for_owner()
            await events.close_ahead()
        except DragomanError as error:
            await self._wait_for_owner()
            if isinstance(error, Truncated | Overstayed):
                await events.close_ahead()
            if translator.answered:
                await self._count_unfinished()
            raise
        except HungUp:
            await self._wait_for_owner()
            if translator.answered:
                await self._count_unfinished()
            raise
        finally:
            client.on_pause = client.on_resume = None
            # It holds this driver.
            self._events = None

    def _count(self, command: CountUsage) -> None:
        """Count beside the loop what a stream took, and tell the machine when that is known."""
        self._store_future = future = asyncio.ensure_future(self._counted(command.counting))
        future.add_done_callback(self._was_stored)

    async def _counted(self, counting: Counting) -> None:
        usage = None
        try:
            usage = await offload(counting.count, counting.size, self._builder.record.key, paid=True)
        except Exception as error:
            # An answer is worth more than its count.
            self._runtime.log.event(
                "error", "cannot count tokens", error=type(error).__name__, at=traceback_summary(error)
            )
        finally:
            self._machine.attempt.count(usage)

    async def _count_unfinished(self) -> None:
        """Count what an answer took that broke off, or that nobody waits for any more."""
        counting = self._machine.unfinished()
        if counting is None:
            return
        self._hang_up_call()
        alive, self._limits.alive = self._limits.alive, None
        try:
            await asyncio.wait_for(self._counted(counting), _COUNTING)
        except TimeoutError:
            # Then it is not known.
            return
        finally:
            self._limits.alive = alive

    def _slowed(self) -> None:
        """The client reads more slowly than the provider speaks, which then says nothing of how fast that is."""
        self._machine.attempt.is_slowed = True
        self._called().pause()

    def _take(self, chunk: bytes) -> None:
        """Take what the provider sent, from the reading callback."""
        self._limits.received_at = self._clock()
        if self._unframer is not None:
            chunk = self._unframer.feed(chunk)
        passed = self._passed
        size = passed.size + len(chunk)
        if size > self._max_bytes:
            raise Oversized(TOO_LARGE)
        if passed.size < passed.max_size:
            passed.chunks.append(chunk if size <= passed.max_size else chunk[: passed.max_size - passed.size])
        passed.size = size
        events = self._events
        assert events is not None and self._translator is not None
        events.take(chunk)
        self._charge_stream(self._translator)

    def _deliver(self, chunk: bytes, out: bytes) -> None:
        """Tell the client what a piece of the stream came to."""
        now, translator = self._clock(), self._translator
        assert translator is not None
        self._limits.received_at = now
        if translator.progressed():
            self._limits.content_received()
        if self._machine.flowing and not translator.finished:
            if out:
                self._limits.sent_at = now
                self._client.write(out)
        else:
            self._passed.hold(chunk)
            self._translated(out, now)

    def _owner_known(self, recording: asyncio.Future[bool]) -> None:
        task = None if self._events is None else self._events.task
        if task is None:
            super()._owner_known(recording)
        else:
            # The translator is a thread's now.
            task.add_done_callback(lambda _: StoreCommands._owner_known(self, recording))

    def _translated(self, out: bytes, now: float) -> None:
        self._step(Translated(out, now))
        if self._translator is not None and (self._translator.is_past_opening or self._machine.flowing):
            self._passed.content_began()
        if self._hung_up:
            raise HungUp

    def _heartbeat_due(self) -> None:
        self._step(HeartbeatDue(self._clock()))

    # At once.

    def _finalize(self, command: Finalize) -> None:
        self._builder.finalize(**command.changes)

    def _start_heartbeats(self, command: StartHeartbeats) -> None:
        self._limits.alive = self._heartbeat_due
        self._limits.hold(command.seconds)

    def _respond(self, command: Respond) -> None:
        self._client.respond(command.status, command.headers, command.body)

    def _start(self, command: Start) -> None:
        self._client.start(200, command.headers)

    def _write(self, command: Write) -> None:
        self._limits.sent_at = self._clock()
        self._client.write(command.data)

    def _end_response(self, _: End) -> None:
        self._client.end()

    def _abort(self, _: Abort) -> None:
        self._client.abort()

    def _hang_up(self, _: HangUp) -> None:
        self._hung_up = True

    def _limit(self, _: Limit) -> None:
        self._limits.ending()


_WAITS: dict[type, Callable[..., Awaitable[object]]] = {
    Offload: Driver._work,
    Locate: Driver._locate,
    ResolveReferences: Driver._resolve_references,
    Reserve: Driver._reserve,
    Detach: Driver._detach,
    Follow: Driver._follow,
    CallTarget: Driver._call,
    Pause: Driver._pause,
    ReadError: Driver._read_error,
    ReadFull: Driver._read_full,
    Collect: Driver._collect,
    StreamThrough: Driver._stream_through,
    Name: Driver._name,
    StoreFull: Driver._store_full,
    AwaitStored: Driver._await_stored,
}
_ACTS: dict[type, Callable[..., None]] = {
    StoreStreamed: Driver._store_streamed,
    CountUsage: Driver._count,
    CacheTurn: Driver._cache_turn,
    AwaitOwner: Driver._await_owner,
    Finalize: Driver._finalize,
    StartHeartbeats: Driver._start_heartbeats,
    Respond: Driver._respond,
    Start: Driver._start,
    Write: Driver._write,
    End: Driver._end_response,
    Abort: Driver._abort,
    Drop: Driver._drop,
    HangUp: Driver._hang_up,
    Limit: Driver._limit,
}
