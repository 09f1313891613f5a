"""A gateway process in front of providers whose moods change while it runs, and clients that have conversations.

    with town(providers, lines) as house:
        house.providers["a"].mood = down
        told = house.ask_all([Ask(model="line"), Ask(model="line", stream=True)])
        assert house.standings() == {"a/served": "suspect"}

Every request is a conversation of its own, unless it is said which one it belongs to.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct
from msgspec.structs import replace

from dragoman.model.jsonvalue import JsonObject
from tests.failover import sayings
from tests.failover.house import PATIENT
from tests.failover.sayings import Asked, Says
from tests.failover.steered import STEERED, SteeredClock
from tests.gateway.harness import (
    CHAT,
    MESSAGES,
    PATHS,
    PROTOCOLS,
    RESPONSES,
    Answer,
    HouseLoop,
    Received,
    Reply,
    Step,
    answer_in,
)
from tests.gateway.says import failure_of, question
from tests.sdk.digging import Object, dig_objects, dig_text
from tests.server.process import NO_LINES, Process, Provider, Served, looping
from tests.waiting import reporting_state, wait_until

# Gateway keys by their names.
KEYS = {name: f"dgm_key-of-{name}-0123456789abcdef" for name in ("one", "two")}
WAYS = tuple((client, stream) for client in PROTOCOLS for stream in (True, False))
# What the gateway says of itself where it has no room: status, type and code, by the client's protocol.
OVERLOADED = {
    MESSAGES: (529, "overloaded_error", None),
    CHAT: (503, "service_unavailable_error", "server_is_overloaded"),
    RESPONSES: (503, "service_unavailable_error", "server_is_overloaded"),
}

# Seconds for which a key rests that was used too often.
RETRY_AFTER = 1

down: Says = sayings.refuses(500, sayings.SERVER)
_TIRED = sayings.refuses(429, sayings.OFTEN, retry_after=str(RETRY_AFTER))


class MoodyProvider(Provider):
    """Does what its mood says, after what is to be done before: time to wait, or a gate to wait at."""

    def __init__(self, name: str, protocol: str = CHAT, *, keys: int = 1, before: Step = b"", more: str = "") -> None:
        super().__init__(self._reply)
        self.name = name
        self.protocol = protocol
        self.keys = [f"sk-{place}-of-{name}-0123456789abcdef" for place in range(keys)]
        self.mood: Says = self.well
        self.before = before
        # Those of its keys of which it says that they were used too often.
        self.tired: set[str] = set()
        # More members of its table in the configuration.
        self.more = more

    def well(self, asked: Asked) -> Reply:
        """Its answer, which has its name in it."""
        return sayings.well(asked, f"This is {self.name}.")

    @property
    def calls(self) -> int:
        """How many requests came."""
        return len(self.received)

    def calls_for(self, model: str) -> int:
        """How many requests came for a model."""
        return sum(request.json().get("model") == model for request in self.received)

    @property
    def used(self) -> Counter[str]:
        """How often each key was used."""
        return Counter(map(_key_in, self.received))

    def words(self) -> list[str]:
        """What it was asked, in the order in which that came."""
        return [_words_in(request.json()) for request in self.received]

    async def recover(self) -> None:
        """Answer from now on, at once and with all keys; hang up on callers that a failed test has left behind."""
        self.mood, self.before, self.tired = self.well, b"", set()
        for task in tuple(self._tasks):
            task.cancel()

    def table(self) -> str:
        """What the configuration says of it."""
        path = "" if self.protocol == MESSAGES else "/v1"
        members = {"protocol": self.protocol, "base_url": f"http://127.0.0.1:{self.port}{path}", "api_key": self.keys}
        lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in members.items())
        return f'[providers."{self.name}"]\n{lines}models = "served"\n{self.more}\n'

    def _reply(self, received: Received) -> Reply:
        stream = received.json().get("stream") is True
        mood = _TIRED if _key_in(received) in self.tired else self.mood
        said = mood(Asked(protocol=self.protocol, stream=stream, count=self.calls - 1))
        return said if self.before == b"" else replace(said, steps=(self.before, *said.steps))


def _key_in(received: Received) -> str:
    return (received.header("authorization") or received.header("x-api-key") or "").removeprefix("Bearer ")


def _words_in(body: Mapping[str, object]) -> str:
    """The first thing that a user says in a request."""
    if isinstance(body.get("input"), str):
        return str(body["input"])
    said = next(one for one in dig_objects(body, "input" if "input" in body else "messages") if one["role"] == "user")
    return said["content"] if isinstance(said["content"], str) else dig_text(said, "content", 0, "text")


class Ask(Struct, frozen=True, kw_only=True):
    """One request. `words` are those with which its conversation begins, and `turns` how many were before."""

    model: str
    client: str = CHAT
    stream: bool = False
    key: str = "one"
    words: str = ""
    turns: int = 0


class Heard(Struct, frozen=True, kw_only=True):
    """What became of a request."""

    asked: Ask
    answer: Answer

    @property
    def right(self) -> bool:
        """Whether it was answered."""
        return self.answer.status == 200

    @property
    def route(self) -> str:
        """Who answered: provider and model."""
        return (self.answer.header("x-dragoman-route") or "").partition(";")[0]

    @property
    def attempts(self) -> int:
        """How many targets were tried, as the client is told."""
        found = [part for part in (self.answer.header("x-dragoman-route") or "").split("; ") if "attempts=" in part]
        return int(found[0].removeprefix("attempts="))

    @property
    def id(self) -> str:
        """Under which id the record has it."""
        return self.answer.header("request-id") or self.answer.header("x-request-id") or ""


def is_told_to_come_back(heard: Heard) -> int:
    """Assert that somebody was refused for want of room, in its own protocol; give the seconds until it may ask."""
    client, answer = heard.asked.client, heard.answer
    error = failure_of(client, answer)
    assert (answer.status, error["type"], error.get("code")) == OVERLOADED[client], answer
    assert "was not sent" in str(error["message"]), answer
    assert answer.complete
    wait = int(answer.header("retry-after") or 0)
    assert wait >= 1, answer
    return wait


class Town(Served):
    """The gateway, its providers by their names, and clients."""

    def __init__(self, loop: HouseLoop, providers: Mapping[str, MoodyProvider], directory: Path) -> None:
        super().__init__(loop, next(iter(providers.values())), directory)
        self.providers = providers
        # Moves the time of health and cooldowns, if the town is steered.
        self.clock = SteeredClock(directory / "clock")
        self._words = count(1)

    def configure(self, lines: str, more: str = "") -> None:
        """Write the file: providers, keys, and lines of models."""
        keys = "".join(f'[keys.{name}]\nkey = "{key}"\nrole = "admin"\n' for name, key in KEYS.items())
        tables = "\n".join(provider.table() for provider in self.providers.values())
        self.file.write_text(f"{keys}\n{PATIENT}\n[timeouts]\nlame_duck = 0\n{more}\n{tables}\n[models]\n{lines}\n")
        self.file.chmod(0o600)

    def ask_one(self, asked: Ask) -> Heard:
        """Send one request and read the reply."""
        return self.run(self.asking(asked))

    def ask_all(self, asked: Sequence[Ask]) -> list[Heard]:
        """Send requests all at once, and read the replies."""
        return self.replies(self.begin(asked))

    def replies(self, begun: Future[list[Heard]]) -> list[Heard]:
        """Wait for the replies to requests that were sent before."""
        wait_until(begun.done, "all replies")
        return begun.result()

    def begin(self, asked: Sequence[Ask]) -> Future[list[Heard]]:
        """Send requests all at once, whose replies come later."""

        async def all_of_them() -> list[Heard]:
            return await asyncio.gather(*(self.asking(one) for one in asked))

        return asyncio.run_coroutine_threadsafe(all_of_them(), self.loop)

    async def asking(self, asked: Ask) -> Heard:
        """Send a request and read the reply, beside others."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(self.written(asked))
            return Heard(asked=asked, answer=answer_in(await reader.read()))
        finally:
            writer.close()

    def written(self, asked: Ask) -> bytes:
        """The bytes of a request."""
        first = asked.words or f"Hello, for the {next(self._words)}. time."
        said: list[Object] = [{"role": "user", "content": first}]
        for turn in range(asked.turns):
            said += [{"role": "assistant", "content": f"Yes ({turn})."}, {"role": "user", "content": f"And ({turn})?"}]
        more: Object = {"input" if asked.client == RESPONSES else "messages": said}
        body = question(asked.client, CHAT, stream=asked.stream, **{**more, "model": asked.model})
        return self.request(PATHS[asked.client], body, "connection: close", f"x-api-key: {KEYS[asked.key]}")

    def status(self) -> JsonObject:
        """What the gateway says of itself."""
        return self.get("/status", x_api_key=KEYS["one"]).json()

    def load(self, provider: str) -> tuple[int, int]:
        """How many calls a provider has, and how many wait for one."""
        found = next(one for one in dig_objects(self.status(), "providers") if one["name"] == provider)
        calls, waiting = found["calls"], found["queued"]
        assert isinstance(calls, int) and isinstance(waiting, int)
        return calls, waiting

    def comes_to(self, provider: str, calls: int, waiting: int) -> None:
        """Wait until a provider has so many calls, and so many wait."""
        wait_until(lambda: self.load(provider) == (calls, waiting), f"{provider} has {calls} calls, and {waiting} wait")

    def standings(self) -> dict[str, str]:
        """How targets stand that are not as good as any."""
        found = {str(one["target"]): str(one["health"]) for one in dig_objects(self.status(), "targets")}
        return {target: standing for target, standing in found.items() if standing != "healthy"}

    def recorded(self, heard: Sequence[Heard]) -> list[JsonObject]:
        """What the log has of requests."""
        for one in heard:
            self.process.log.wait(f'"id":"{one.id}"')
        lines = {str(line["id"]): line for line in self.process.events("exchange")}
        return [lines[one.id] for one in heard]

    def recover(self) -> None:
        """Have all providers answer, and keep no caller waiting."""
        for provider in self.providers.values():
            self.run(provider.recover())

    def report(self) -> str:
        """The state of the providers."""
        return "\n".join(f"{one.name}: {one.calls} requests, {one.open} open" for one in self.providers.values())

    def ends_well(self) -> None:
        """Assert that nobody has a call or waits for one, and that the gateway ends without a complaint."""
        for name in self.providers:
            self.comes_to(name, 0, 0)
        assert self.stop() == 0
        assert "Traceback" not in "\n".join([*self.process.out.all(), *self.process.log.all()])


@contextmanager
def town(
    providers: Sequence[MoodyProvider],
    lines: str,
    more: str = "",
    *,
    before: Callable[[Path], None] | None = None,
    steered: bool = False,
) -> Iterator[Town]:
    """A gateway in front of some providers; `more` are further time limits and tables.

    `before` is done in its directory, which is its home, before it starts. If it is `steered`, its time for health and
    cooldowns stands still until `clock` is moved.
    """
    with TemporaryDirectory() as name, looping() as loop:
        house = Town(loop, {provider.name: provider for provider in providers}, Path(name))
        started: list[MoodyProvider] = []
        try:
            for provider in providers:
                house.run(provider.start())
                started.append(provider)
            house.configure(lines, more)
            if before is not None:
                before(house.directory)
            house.process = Process(
                ["--config", str(house.file), "--port", "0"],
                house.directory,
                house.clock.environment if steered else None,
                under=STEERED if steered else NO_LINES,
            )
            try:
                house.port = house.process.listening()
                with reporting_state(house.report):
                    yield house
                    house.ends_well()
            finally:
                house.process.end()
        finally:
            for provider in started:
                house.run(provider.stop())
