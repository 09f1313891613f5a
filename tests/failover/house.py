"""A gateway process in front of many providers with faults, and of healthy ones.

    with failing(FAULTS) as house:
        told = house.ask_all([Case(fault="500", client=CHAT, provider=MESSAGES, stream=True)])

Each provider has a port and a key of its own, and each case a model of its own: what is remembered of one case changes
nothing for another.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from dragoman.routing.attempt_outcome import AttemptOutcome
from tests.failover.faults import FAULTS, LIMIT, Door, Fault, always
from tests.failover.provider import FaultyProvider
from tests.failover.sayings import Asked, well
from tests.gateway.harness import CHAT, MESSAGES, PATHS, PROTOCOLS, RESPONSES, Answer, HouseLoop, Reply, answer_in
from tests.gateway.says import NAMES, SAID, question
from tests.server.process import Process, Served, looping
from tests.waiting import reporting_state, wait_until

# What healthy providers say, so that it is known from whom an answer is.
HEALTHY = "All is well, said the other one."
GATEWAY_KEY = "dgm_key-of-the-clients-0123456789abcdef"
_LOOKS = 10
_ANOTHER = {MESSAGES: CHAT, CHAT: RESPONSES, RESPONSES: MESSAGES}
IMPATIENT = f"connect = {LIMIT}\nfirst_byte = {LIMIT}\nidle = {LIMIT}\n"
# A stream that has not begun after `heartbeat_after` gets a status without a route: a busy machine must not cause it.
PATIENT = '[routing]\nheartbeat_after = "10 min"\n'
# Routes to the healthy providers, which a busy machine may delay for longer than the timeouts above.
_WELL = "".join(f'"well-{name}" = {{ to = "good-{name}/served", first_byte = "2 min" }}\n' for name in NAMES.values())
_FIRST_WORDS = SAID.partition(" ")[0].encode()


class Case(Struct, frozen=True, kw_only=True):
    """Who asks whom, and how. `second` is whether a healthy provider of another protocol stands behind.

    `line` is another name by which both are asked for.
    """

    fault: str
    client: str
    provider: str
    stream: bool
    second: bool = False
    line: str = ""

    @property
    def bad(self) -> str:
        """The name of the provider with the fault."""
        return name_of(self.fault, self.provider)

    @property
    def other(self) -> str:
        """The short name of the healthy provider's protocol."""
        return NAMES[_ANOTHER[self.provider]]

    @property
    def good(self) -> str:
        """The name of the healthy one."""
        return f"good-{self.other}"

    @property
    def asked(self) -> str:
        """The name that is asked for, without the model."""
        return self.line or (f"{self.bad}--{self.good}" if self.second else self.bad)


class Told(Struct, frozen=True):
    """What a client was answered."""

    case: Case
    answer: Answer


class Met(Struct, frozen=True, kw_only=True):
    """The replies of the providers with one fault, and how often each of these providers was called."""

    told: Sequence[Told]
    connections: Mapping[str, int]
    # The numbers of the requests, in the order of all that a provider received.
    requests: Mapping[str, range]


def name_of(fault: str, protocol: str) -> str:
    """What a provider is called in the configuration."""
    words = "".join(letter if letter.isalnum() else "-" for letter in fault.lower())
    return f"{words}-{NAMES[protocol]}".replace("--", "-")


def cases(fault: str, *, second: bool = False) -> list[Case]:
    """Every provider, for streams and for whole answers. Clients take turns: three faults meet every combination."""
    turn = list(FAULTS).index(fault)
    return [
        Case(
            fault=fault,
            client=PROTOCOLS[(turn + place + stream) % len(PROTOCOLS)],
            provider=provider,
            stream=stream,
            second=second,
        )
        for place, provider in enumerate(PROTOCOLS)
        for stream in (True, False)
    ]


def all_cases(fault: str, *, second: bool = False) -> list[Case]:
    """Every client with every provider, for streams and for whole answers."""
    return [
        Case(fault=fault, client=client, provider=provider, stream=stream, second=second)
        for client in PROTOCOLS
        for provider in PROTOCOLS
        for stream in (True, False)
    ]


def _is_well(asked: Asked) -> Reply:
    return well(asked, HEALTHY)


class FailingHouse(Served):
    """The gateway, its providers by their names, and clients."""

    def __init__(self, loop: HouseLoop, providers: Mapping[str, FaultyProvider], directory: Path) -> None:
        super().__init__(loop, providers[f"good-{NAMES[CHAT]}"], directory)
        self.providers = providers
        self._models, self._words = count(1), count(1)
        self._held = 0

    def config(self, timeouts: str, lines: str) -> str:
        """Every provider, and `lines` of models."""
        tables = [
            f'[keys.clients]\nkey = "{GATEWAY_KEY}"\nrole = "admin"\n',
            PATIENT,
            f"[timeouts]\nlame_duck = 0\n{timeouts}",
        ]
        for name, provider in self.providers.items():
            table = {"protocol": provider.protocol, "base_url": provider.base_url, "api_key": provider.key}
            members = "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
            # A limit that nobody reaches, so that calls are counted.
            tables.append(f'[providers."{name}"]\n{members}models = "served"\nconcurrency = 10_000\n')
        return "\n".join([*tables, f"[models]\n{_WELL}{lines}"])

    def ask_all(self, cases: Sequence[Case], beside: Callable[[], None] | None = None) -> list[Told]:
        """Send a request for each case, all at once, and read the replies; do something else while they wait."""

        async def all_of_them() -> list[Told]:
            return await asyncio.gather(*(self._ask(case) for case in cases))

        asked = asyncio.run_coroutine_threadsafe(all_of_them(), self.loop)
        if beside is not None:
            beside()
        wait_until(asked.done, f"{len(cases)} replies")
        return asked.result()

    def meet(self, asked: Mapping[str, Sequence[Case]]) -> dict[str, Met]:
        """Send the requests of several faults, all at once; wait until nothing is left of them."""
        before = {name: (one.connections, len(one.received)) for name, one in self.providers.items()}
        told = iter(self.ask_all([case for found in asked.values() for case in found]))
        self.lets_go()
        after = {name: (one.connections, len(one.received)) for name, one in self.providers.items()}
        met: dict[str, Met] = {}
        for fault, found in asked.items():
            names = [name_of(fault, protocol) for protocol in PROTOCOLS]
            met[fault] = Met(
                told=list(islice(told, len(found))),
                connections={name: after[name][0] - before[name][0] for name in names},
                requests={name: range(before[name][1], after[name][1]) for name in names},
            )
        return met

    def ask_one(self, case: Case, model: str) -> Told:
        """Send a request for a case and a model that others may have had."""
        return self.run(self._ask(case, model))

    async def _ask(self, case: Case, model: str = "") -> Told:
        model = model or f"model-{next(self._models)}"
        heard = self.providers[case.bad].heard.setdefault(model, asyncio.Event())
        if not case.stream:
            heard.set()
        return Told(case, await self._send_request(case.client, case.stream, f"{case.asked}/{model}", heard))

    async def _send_request(self, client: str, stream: bool, model: str, heard: asyncio.Event | None = None) -> Answer:
        """Send a request and read the reply; set `heard` once its first words have come."""
        # A conversation of its own, since one that goes on may stay where it was.
        words = f"Hello, for the {next(self._words)}. time."
        more = {"input": words} if client == RESPONSES else {"messages": [{"role": "user", "content": words}]}
        body = question(client, CHAT, stream=stream, model=model, **more)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(self.request(PATHS[client], body, "connection: close", f"x-api-key: {GATEWAY_KEY}"))
            data = bytearray()
            while piece := await reader.read(65536):
                data += piece
                if heard is not None and _FIRST_WORDS in data:
                    heard.set()
            return answer_in(bytes(data))
        finally:
            writer.close()

    def ask_healthy(self) -> list[Told]:
        """Ask each healthy provider, as each client, in both ways."""

        async def one(client: str, provider: str, stream: bool) -> Told:
            case = Case(fault="good", client=client, provider=provider, stream=stream)
            return Told(case, await self._send_request(client, stream, f"well-{NAMES[provider]}"))

        async def all_of_them() -> list[Told]:
            return await asyncio.gather(
                *(one(client, _ANOTHER[client], stream) for client in PROTOCOLS for stream in (True, False))
            )

        return self.run(all_of_them())

    def descriptors(self) -> int:
        """How many files and connections the gateway has open."""
        return sum(1 for _ in Path(f"/proc/{self.process.pid}/fd").iterdir())

    def note_what_is_held(self) -> None:
        """Remember what the gateway holds while it has nothing to do."""
        wait_until(self._is_idle, "the gateway is idle")
        # Connections of those who have just been answered may be closed a moment later.
        self._held = min(self.descriptors() for _ in range(_LOOKS) if self._is_idle())

    def reaches(self, fault: Fault, count: int) -> tuple[int, int]:
        """How many connections and requests reach a provider with a fault, if it is tried so many times."""
        connections = 0 if fault.door in (Door.SHUT, Door.CROWDED) else count
        return connections, 0 if fault.greets else connections

    def lets_go(self) -> None:
        """Wait until the gateway has nothing to do and no more open descriptors than at first."""
        wait_until(self._is_at_rest, f"the gateway is idle, with at most {self._held} descriptors")

    def report(self) -> str:
        """The state of the providers that were called."""
        called = [provider for provider in self.providers.values() if provider.connections]
        return "\n".join(
            f"{provider.name}: {provider.connections} connections, {len(provider.received)} requests, "
            f"{provider.open} open"
            for provider in called
        )

    def ends_well(self) -> None:
        """Assert that each provider was only ever sent its own key, and that the gateway ends without a complaint."""
        for provider in self.providers.values():
            assert provider.credentials == ({provider.key} if provider.received else set()), provider.name
        self.lets_go()
        assert self.stop() == 0
        said = "\n".join([*self.process.out.all(), *self.process.log.all()])
        assert "Traceback" not in said
        assert not [provider.name for provider in self.providers.values() if provider.key in said]

    def _is_at_rest(self) -> bool:
        return self._is_idle() and self.descriptors() <= self._held

    def _is_idle(self) -> bool:
        metrics = self.get("/metrics", x_api_key=GATEWAY_KEY).body.decode().splitlines()
        counted = (
            "dragoman_requests_in_flight ",
            "dragoman_provider_calls_in_flight{",
            "dragoman_provider_queue_length{",
        )
        found = [line.rsplit(" ", 1)[1] for line in metrics if line.startswith(counted)]
        assert len(found) == 1 + 2 * len(self.providers)
        return set(found) == {"0"} and not any(provider.open for provider in self.providers.values())


@contextmanager
def failing(faults: Mapping[str, Fault], timeouts: str = "", lines: str = "") -> Iterator[FailingHouse]:
    """A gateway in front of a provider of each protocol for each fault, and of a healthy one of each."""
    named = {"good": Fault(kind=AttemptOutcome.ANSWERED, status=200, says=_is_well, right=always), **faults}
    providers = {
        name_of(fault, protocol): FaultyProvider(name_of(fault, protocol), protocol, named[fault])
        for fault in named
        for protocol in PROTOCOLS
    }
    with TemporaryDirectory() as name, looping() as loop:
        house = FailingHouse(loop, providers, Path(name))
        try:
            house.run(_started(providers.values()))
            house.file.write_text(house.config(timeouts, lines))
            house.file.chmod(0o600)
            house.process = Process(["--config", str(house.file), "--port", "0"], house.directory)
            try:
                house.port = house.process.listening()
                house.ask_healthy()
                house.note_what_is_held()
                with reporting_state(house.report):
                    yield house
            finally:
                house.process.end()
        finally:
            house.run(_stopped(providers.values()))


async def _started(providers: Iterable[FaultyProvider]) -> None:
    for provider in providers:
        await provider.start()


async def _stopped(providers: Iterable[FaultyProvider]) -> None:
    for provider in providers:
        await provider.stop()
