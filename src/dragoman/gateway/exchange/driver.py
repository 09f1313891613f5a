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
from dragoman.gateway.exchange.attempt import ErrorAnswer
from dragoman.gateway.exchange.client import Client, ClientRequest
from dragoman.gateway.exchange.events_commands import (
    Abort,
    AwaitOwner,
    AwaitStored,
    Begin,
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
    Keep,
    KeepTurn,
    KeepWhole,
    Limit,
    Locate,
    Name,
    Offload,
    Pause,
    ReadError,
    ReadWhole,
    Recall,
    Reserve,
    Respond,
    Resume,
    Start,
    StartHeartbeats,
    Stored,
    StreamThrough,
    Translated,
    WaitFailed,
    Waiting,
    Write,
)
from dragoman.gateway.exchange.header_forwarding import traced
from dragoman.gateway.exchange.large_events import LargeEvents
from dragoman.gateway.exchange.response_reader import TOO_LARGE, GatheredCall, HungUp, collect, read_error, read_whole
from dragoman.gateway.exchange.state_machine import Machine
from dragoman.gateway.exchange.store_commands import StoreCommands
from dragoman.gateway.exchange.timeouts import Overstayed
from dragoman.gateway.exchange.usage_estimate import Counting, Passed
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.gateway.observability.unexpected_errors import places
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.detached_client import DetachedClient
from dragoman.gateway.stored_responses.exchange_storage import ExchangeStorage
from dragoman.gateway.stored_responses.store_failures import unreadable
from dragoman.gateway.thread_offload import beside_loop
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
    memory: ExchangeStorage


class Driver(StoreCommands):
    """Runs one exchange. Nothing here is held by what it holds once it has ended."""

    _flight: UpstreamCall | None = None
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
    _most: float = math.inf

    def __init__(self, service: Runtime, asked: ClientRequest, client: Client, account: RecordBuilder) -> None:
        super().__init__(service, asked, client, account)
        self._machine = Machine(service, asked, account, self._memory)

    async def run(self, said: Awaitable[bytes] | Begun) -> None:
        """Serve a request, whose body is still to come or which was begun before."""
        try:
            if isinstance(said, Begun):
                self._memory.follow_up(said.memory)
                event: ExchangeEvent = said.resume
            else:
                try:
                    event = Begin(await said)
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
                    await self._count_rest()
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
        if self._step(ClientDisconnected(self._service.draining and not self._client.gone)) is not None:
            try:
                await self._last_moments()
            finally:
                # There is no other time to tell it.
                self._step(Stored())

    def _outcome(self, error: Exception) -> ExchangeEvent:
        """What became of something that was waited for and failed: a value, without the frames that hold an error."""
        match error:
            case ConfigError():
                self._service.log.event("error", "a provider cannot be called", key=error.key, problem=error.problem)
                return WaitFailed(Unconfigured("the provider is not configured completely", remedy=str(error)))
            case StoreError():
                return WaitFailed(unreadable(error, self._service.log))
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
        if self._flight is not None:
            self._flight.close()
        self._give_back()
        self._discharge()
        self._forget_request()
        self._memory.end()

    # Before the provider.

    def _work(self, command: Offload) -> Awaitable[object]:
        return beside_loop(command.work, command.size, self._account.record.key, paid=command.paid)

    async def _leave(self, command: Detach) -> bytes:
        """Let the response run in the background, as an exchange of its own."""
        service = self._service
        detached, record = DetachedClient(), self._account.record
        # What is asked is the same: it has one id, and is one exchange in the accounts, which ends with the response.
        its_own = service.account(replace(record, started=service.clock(), time=time.time(), losses=()))
        other = Driver(service, replace(self._asked, query="", place=None), detached, its_own)
        begun = Begun(command.resume, self._memory)

        async def run() -> None:
            try:
                await other.run(begun)
            finally:
                its_own.finalize()

        left = encode(
            await self._memory.leave(command.prepared, detached, run, self._hand_on_request, self._asked.place)
        )
        self._account.update(kind="")
        if not its_own.is_settled:
            # Its client is about to hear of it.
            service.accounting.open(its_own.record, command.prepared.target, len(command.resume.body))
        return left

    def _hand_on_request(self) -> Callable[[], None]:
        """What gives back the bytes of the request, which are held as long as its response runs."""
        held = [self._client.take_charge(), self._recalled]
        self._recalled = None

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
        if self._flight is not None:
            self._flight.close()
            self._flight = None

    def _give_back(self) -> None:
        if self._slot is not None:
            self._slot.release()
            self._slot = None

    async def _call(self, command: CallTarget) -> UpstreamCall:
        if self._flight is not None:
            self._hang_up_call()
        prepared, service = command.prepared, self._service
        target = prepared.target
        if self._slot is None and service.admission.limits(target.provider.name):
            self._machine.calls.queued()
            self._slot = await service.admitted(target.provider.name, self._account.record)
            self._machine.calls.admitted()
        service.accounting.open(self._account.record, target, len(command.body))
        self._flight = flight = await service.open(
            Order(
                target.provider,
                target.endpoint,
                target.model,
                prepared.streams,
                command.body,
                traced(prepared.headers, self._account.record, service.told_share),
                command.key,
                query=prepared.query,
            )
        )
        self._limits.follow(flight, command.first_byte)
        await flight.head()
        return flight

    async def _read_error(self, command: ReadError) -> ErrorAnswer:
        reader = command.reader
        body = await read_error(self._called(), self._limits, self._clock)
        return await beside_loop(
            partial(reader.read, body), reader.work(len(body)), self._account.record.key, paid=True
        )

    def _read_whole(self, _: ReadWhole) -> Awaitable[bytes]:
        return read_whole(self._reading())

    def _collect(self, command: Collect) -> Awaitable[int]:
        return collect(command, self._reading())

    def _reading(self) -> GatheredCall:
        most, key = self._service.settings.limits.answer, self._account.record.key
        return GatheredCall(self._called(), self._limits, self._clock, most, key, self._open_charge())

    def _open_charge(self) -> ReaderCharge:
        if self._charge is None:
            budget = self._service.buffered.of(self._account.record.key)
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
        elif self._flight is not None:
            self._flight.resume()

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
        assert self._flight is not None
        return self._flight

    # Streams.

    async def _hear(self, command: StreamThrough) -> None:
        client, flight, translator = self._client, self._called(), command.translator
        if translator is not self._translator:
            # What is only passed on is nowhere gathered.
            self._translator = translator
            self._most = math.inf if command.relay else self._service.settings.limits.answer
        else:
            # An answer that goes on after a pause.
            self._most -= self._passed.size
        self._unframer = command.unframer
        self._passed = self._machine.attempt.passed
        self._events = events = LargeEvents(
            flight,
            translator,
            self._tell,
            self._account.record.key,
            self._limits,
            feed=command.feed,
            kept=command.kept,
            is_held=self._is_held_up,
        )
        client.on_pause, client.on_resume = self._slowed, events.resume
        if client.paused:
            flight.pause()
        self._limits.alive = self._keep_alive
        if translator.speaking:
            self._limits.hearing(stream=True)
            self._passed.spoken()
        else:
            self._limits.opening()
        self._hung_up = False
        try:
            await events.pump(self._take)
            if (unframer := self._unframer) is not None:
                self._unframer = None
                self._take(unframer.close())
                await events.told()
            told = await events.run(translator.call_ended, translator.held)
            if told:
                self._took(told, self._clock())
            await self._noted()
            await events.close_ahead()
        except DragomanError as error:
            await self._noted()
            if isinstance(error, Truncated | Overstayed):
                await events.close_ahead()
            if translator.answered:
                await self._count_rest()
            raise
        except HungUp:
            await self._noted()
            if translator.answered:
                await self._count_rest()
            raise
        finally:
            client.on_pause = client.on_resume = None
            # It holds this driver.
            self._events = None

    def _count(self, command: CountUsage) -> None:
        """Count beside the loop what a stream took, and tell the machine when that is known."""
        self._keeper = keeper = asyncio.ensure_future(self._counted(command.counting))
        keeper.add_done_callback(self._was_kept)

    async def _counted(self, counting: Counting) -> None:
        found = None
        try:
            found = await beside_loop(counting.count, counting.size, self._account.record.key, paid=True)
        except Exception as error:
            # An answer is worth more than its count.
            self._service.log.event(
                "error", "tokens could not be counted", error=type(error).__name__, at=places(error)
            )
        finally:
            self._machine.attempt.count(found)

    async def _count_rest(self) -> None:
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
        self._limits.heard = self._clock()
        if self._unframer is not None:
            chunk = self._unframer.feed(chunk)
        passed = self._passed
        size = passed.size + len(chunk)
        if size > self._most:
            raise Oversized(TOO_LARGE)
        if passed.size < passed.most:
            passed.chunks.append(chunk if size <= passed.most else chunk[: passed.most - passed.size])
        passed.size = size
        events = self._events
        assert events is not None and self._translator is not None
        events.take(chunk)
        self._charge_stream(self._translator)

    def _tell(self, chunk: bytes, out: bytes) -> None:
        """Tell the client what a piece of the stream came to."""
        now, translator = self._clock(), self._translator
        assert translator is not None
        self._limits.heard = now
        if translator.progressed():
            self._limits.spoken()
        if self._machine.flowing and not translator.finished:
            if out:
                self._limits.told = now
                self._client.write(out)
        else:
            self._passed.hold(chunk)
            self._took(out, now)

    def _was_noted(self, noting: asyncio.Future[bool]) -> None:
        task = None if self._events is None else self._events.task
        if task is None:
            super()._was_noted(noting)
        else:
            # The translator is a thread's now.
            task.add_done_callback(lambda _: StoreCommands._was_noted(self, noting))

    def _took(self, out: bytes, now: float) -> None:
        self._step(Translated(out, now))
        if self._translator is not None and (self._translator.speaking or self._machine.flowing):
            self._passed.spoken()
        if self._hung_up:
            raise HungUp

    def _keep_alive(self) -> None:
        self._step(HeartbeatDue(self._clock()))

    # At once.

    def _settle(self, command: Finalize) -> None:
        self._account.finalize(**command.changes)

    def _hold(self, command: StartHeartbeats) -> None:
        self._limits.alive = self._keep_alive
        self._limits.hold(command.seconds)

    def _respond(self, command: Respond) -> None:
        self._client.respond(command.status, command.headers, command.body)

    def _start(self, command: Start) -> None:
        self._client.start(200, command.headers)

    def _write(self, command: Write) -> None:
        self._limits.told = self._clock()
        self._client.write(command.data)

    def _end_reply(self, _: End) -> None:
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
    Recall: Driver._recall,
    Reserve: Driver._reserve,
    Detach: Driver._leave,
    Follow: Driver._follow,
    CallTarget: Driver._call,
    Pause: Driver._pause,
    ReadError: Driver._read_error,
    ReadWhole: Driver._read_whole,
    Collect: Driver._collect,
    StreamThrough: Driver._hear,
    Name: Driver._name,
    KeepWhole: Driver._keep_whole,
    AwaitStored: Driver._await_kept,
}
_ACTS: dict[type, Callable[..., None]] = {
    Keep: Driver._keep,
    CountUsage: Driver._count,
    KeepTurn: Driver._keep_turn,
    AwaitOwner: Driver._tell_noted,
    Finalize: Driver._settle,
    StartHeartbeats: Driver._hold,
    Respond: Driver._respond,
    Start: Driver._start,
    Write: Driver._write,
    End: Driver._end_reply,
    Abort: Driver._abort,
    Drop: Driver._drop,
    HangUp: Driver._hang_up,
    Limit: Driver._limit,
}
