"""`dragoman serve` on a database of PostgreSQL: keys, stored responses and records of processes that share it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import psycopg
import pytest

from tests.sdk.digging import Object
from tests.server.process import NO_LINES, Process, Script, Served, provided, serving
from tests.waiting import wait_until

MODEL = "echo/text"
# Responses that were asked for.
RECORDS = "SELECT count(*) FROM records WHERE asked <> ''"
STORAGE = '[storage]\ndatabase = "$DATABASE_URL"\nmachine = "eu-1"\n'


@contextmanager
def served(database: str, more: str = "", arguments: Sequence[str] = NO_LINES) -> Iterator[Served]:
    """A gateway on a database."""
    with serving(Script(), STORAGE + more, environment={"DATABASE_URL": database}, arguments=arguments) as gateway:
        yield gateway


def create(gateway: Served, text: str, **more: object) -> Object:
    """A stored response."""
    answer = gateway.post("/v1/responses", {"model": MODEL, "input": text, **more})
    assert answer.status == 200, answer.body
    return {**answer.json()}


def count_of(database: str, statement: str) -> int:
    """A number from the tables."""
    with psycopg.connect(database, options="-c search_path=dragoman") as db:
        row = db.execute(statement.encode()).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("workers", ["1", "2"])
def test_responses_and_records_are_in_the_database(database: str, workers: str) -> None:
    with served(database, arguments=("--workers", workers)) as gateway:
        first = create(gateway, "The word is blue.")
        second = create(gateway, "Which word?", previous_response_id=first["id"])
        assert gateway.get(f"/v1/responses/{second['id']}").json() == second
        wait_until(lambda: count_of(database, RECORDS) == 2, "both records are in the database")
        assert gateway.stop() == 0
    assert count_of(database, "SELECT count(*) FROM responses") == 2
    assert count_of(database, "SELECT sum(requests) FROM quarter_sums") == 2


def test_a_response_continues_on_another_machine(database: str) -> None:
    with ExitStack() as stack:
        first, second = (stack.enter_context(served(database)) for _ in range(2))
        begun = create(first, "The word is blue.")
        continued = create(second, "Which word?", previous_response_id=begun["id"])
        assert first.get(f"/v1/responses/{continued['id']}").json() == continued
        wait_until(lambda: count_of(database, RECORDS) == 2, "both records are in the database")


def test_the_address_is_in_no_output(database: str) -> None:
    with served(f"{database} password=canary-password") as gateway:
        create(gateway, "Hello.")
        assert gateway.stop() == 0
        lines = [*gateway.process.log.all(), *gateway.process.out.all()]
    assert not [line for line in lines if "canary" in line]


@pytest.mark.parametrize(
    ("change", "remedy"), [("version = 0", "run dragoman db migrate"), ("oldest = 99", "update this release")]
)
def test_tables_of_another_version_are_refused(database: str, change: str, remedy: str) -> None:
    with served(database) as gateway:
        assert gateway.stop() == 0
    before = count_of(database, f"UPDATE schema_version SET {change} RETURNING version")
    with provided(Script(), STORAGE) as house:
        process = Process(["--config", str(house.file), "--port", "0"], house.directory, {"DATABASE_URL": database})
        assert process.wait() != 0
    assert remedy in "".join(process.log.all())
    assert count_of(database, "SELECT version FROM schema_version") == before
