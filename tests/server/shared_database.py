"""Gateways as processes of their own on one database of PostgreSQL.

    with served_on(database) as gateway:
        create(gateway, "Hello.")

A gateway has the key `FILE_KEY` in its configuration, whose holder is an administrator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import psycopg

from dragoman.identities.key_text import hash_text, new_key
from tests.gateway.harness import Answer, Received, Reply
from tests.sdk.digging import Object
from tests.server.process import NO_CONSTANTS, NO_LINES, Constants, Script, Served, serving
from tests.waiting import LIMIT

MODEL = "echo/text"
FILE_KEY = new_key()
BEARER = f"Bearer {FILE_KEY}"
KEYS = f'[keys.operator]\nhash = "{hash_text(FILE_KEY)}"\nrole = "admin"\n'
# Responses that were asked for.
RECORDS = "SELECT count(*) FROM records WHERE asked <> ''"
HEARTBEAT = "dragoman.gateway.access.identity_table.POLL_INTERVAL"
# A machine that runs tests is slow at times, which is no fault of the server.
PATIENT: Constants = {
    "dragoman.store.postgres_database.STORE_TIMEOUT": LIMIT,
    "dragoman.store.postgres_database.TIMEOUT": LIMIT,
    "dragoman.store.heartbeat.TIMEOUT": LIMIT,
    HEARTBEAT: 0.05,
}


def storage(more: str = "") -> str:
    """The tables of the configuration."""
    return f'{KEYS}[storage]\ndatabase = "$DATABASE_URL"\n{more}'


@contextmanager
def served_on(
    database: str,
    more: str = "",
    *,
    script: Callable[[Received], Reply] | None = None,
    arguments: Sequence[str] = NO_LINES,
    constants: Constants = NO_CONSTANTS,
) -> Iterator[Served]:
    """A gateway on a database; `more` is added to `[storage]`."""
    environment = {"DATABASE_URL": database}
    constants = {**PATIENT, **constants}
    with serving(
        script or Script(), storage(more), arguments=arguments, environment=environment, constants=constants
    ) as gateway:
        yield gateway


def respond(gateway: Served, text: str, bearer: str = BEARER, **more: object) -> Answer:
    """The answer to a request of the Responses API."""
    return gateway.post("/v1/responses", {"model": MODEL, "input": text, **more}, authorization=bearer)


def create(gateway: Served, text: str, **more: object) -> Object:
    """A stored response."""
    answer = respond(gateway, text, **more)  # type: ignore[arg-type]  # members of a body
    assert answer.status == 200, answer.body
    return {**answer.json()}


def read(gateway: Served, response_id: object) -> Answer:
    """A stored response as it is now."""
    return gateway.get(f"/v1/responses/{response_id}", authorization=BEARER)


def add_key(gateway: Served, name: str) -> str:
    """Add a key to the database."""
    answer = gateway.post("/admin/v1/keys", {"name": name}, authorization=BEARER)
    assert answer.status == 201, answer.body
    return str(answer.json()["key"])


def count_of(database: str, statement: str) -> int:
    """A number from the tables."""
    with psycopg.connect(database, options="-c search_path=dragoman") as db:
        row = db.execute(statement.encode()).fetchone()
    assert row is not None
    return int(row[0])
