"""A gateway that keeps what its clients say, asked without an SDK."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from msgspec.structs import replace

from dragoman.config.settings import Settings, Storage, Timeouts
from dragoman.identities.identity import Rights
from dragoman.store import Store, Tables
from tests.gateway.harness import Answer, House, Received, Reply, running, settings_for
from tests.identities.holders import NO_LIMITS
from tests.sdk.digging import Object, dig_text
from tests.store.opened import sqlite
from tests.waiting import wait_until

T = TypeVar("T")
ECHO, SLOW, FAILING = "echo/text@openai-chat", "echo/slow@openai-chat", "echo/error@openai-chat"
ALICE, BOB = "sk-alice-0123456789abcdef", "sk-bob-0123456789abcdef"


@contextmanager
def keeping(
    script: Callable[[Received], Reply] | list[Reply] | tuple[Reply, ...] = (),
    *,
    keys: tuple[str, ...] = (),
    storage: Storage | None = None,
    timeouts: Timeouts | None = None,
    rights: Rights = NO_LIMITS,
) -> Iterator[House]:
    """A gateway with a store of its own."""

    def settings(port: int) -> Settings:
        return replace(settings_for(port, keys=keys, timeouts=timeouts, rights=rights), storage=storage or Storage())

    with running(script, settings) as house:
        yield house


def store_of(house: House) -> Store:
    """The store; it belongs to the gateway's loop."""
    store = house.app.runtime.state.store
    assert store is not None
    return store


def on_loop(house: House, work: Callable[[], T]) -> T:
    """Do something where the store is used."""

    async def done() -> T:
        return work()

    return house.run(done())


def in_store(house: House, work: Callable[[Tables], T]) -> T:
    """Do something with what is kept, in the store's own thread."""

    async def done() -> T:
        return await store_of(house).write(work, counts=False)

    return house.run(done())


def tell_sqlite(house: House, statement: str) -> list[object]:
    """Do what no unit does to the tables; give the first row of what comes of it."""

    async def done() -> list[object]:
        return await store_of(house).read(lambda tables: _told_sqlite(tables, statement))

    return house.run(done())


def _told_sqlite(tables: Tables, statement: str) -> list[object]:
    db = sqlite(tables.connection)
    db.rollback()
    db.set_only_reads(False)
    row = db.row(statement)
    db.begin(writes=False)
    return [] if row is None else [*row]


def waited_for(house: House) -> bool:
    """Whether something waits for a store that another process has."""
    return bool(store_of(house)._threads[0]._stuck)


def create(house: House, **body: object) -> Object:
    """A response."""
    told = house.post("/v1/responses", {"model": ECHO, "input": "Hello.", **body}, **_as(body))
    assert told.status == 200, told.body
    return {**told.json()}


def _as(body: dict[str, object]) -> dict[str, str]:
    key = body.pop("key", None)
    return {"authorization": f"Bearer {key}"} if isinstance(key, str) else {}


def told(house: House, path: str, **headers: str) -> Object:
    """What is at a path."""
    answer = house.get(path, **headers)
    assert answer.status == 200, answer.body
    return {**answer.json()}


def error_in(answer: Answer) -> tuple[int, object, object, str]:
    """Status, param, code and words of an error."""
    error = answer.json()["error"]
    assert isinstance(error, dict)
    return answer.status, error["param"], error["code"], str(error["message"])


def ended(house: House, response_id: object) -> Object:
    """Wait until a background response has ended."""

    def ended_response() -> Object | None:
        found = told(house, f"/v1/responses/{response_id}")
        return None if found["status"] in ("queued", "in_progress") else found

    found = wait_until(ended_response, f"the response {response_id} has ended")
    assert found is not None
    return found


def text_of(response: Object) -> str:
    """The text of a plain answer."""
    return dig_text(response, "output", 0, "content", 0, "text")
