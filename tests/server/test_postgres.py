"""`dragoman serve` on a database of PostgreSQL: keys, stored responses and records of processes that share it."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.postgres import PostgresServer
from tests.server.process import Process, Script, Served, provided
from tests.server.shared_database import BEARER, RECORDS, add_key, count_of, create, read, respond, served_on, storage
from tests.waiting import wait_until


@pytest.mark.parametrize("workers", ["1", "2"])
def test_responses_and_records_are_in_the_database(database: str, workers: str) -> None:
    with served_on(database, arguments=("--workers", workers)) as gateway:
        first = create(gateway, "The word is blue.")
        second = create(gateway, "Which word?", previous_response_id=first["id"])
        assert read(gateway, second["id"]).json() == second
        wait_until(lambda: count_of(database, RECORDS) == 2, "both records are in the database")
        assert gateway.stop() == 0
    assert count_of(database, "SELECT count(*) FROM responses") == 2
    assert count_of(database, "SELECT sum(requests) FROM quarter_sums") == 2


def test_a_response_continues_on_another_machine(database: str) -> None:
    with ExitStack() as stack:
        first, second = (stack.enter_context(served_on(database)) for _ in range(2))
        begun = create(first, "The word is blue.")
        continued = create(second, "Which word?", previous_response_id=begun["id"])
        assert read(first, continued["id"]).json() == continued
        wait_until(lambda: count_of(database, RECORDS) == 2, "both records are in the database")


def test_a_key_is_known_to_all_machines_until_it_is_revoked_on_any(database: str) -> None:
    with ExitStack() as stack:
        first, second = (stack.enter_context(served_on(database)) for _ in range(2))
        for number in range(20):
            _make_and_revoke(first, second, f"key-{number}")


def _make_and_revoke(first: Served, second: Served, name: str) -> None:
    bearer, path = f"Bearer {add_key(first, name)}", f"/admin/v1/keys/{name}"
    wait_until(lambda: respond(second, "Hi.", bearer, store=False).status == 200, f"{name} is known")
    tag = first.get(path, authorization=BEARER).header("etag") or ""
    revoked = first.ask("DELETE", path, b"", authorization=BEARER, if_match=tag)
    assert revoked.status == 200, revoked.body
    wait_until(lambda: respond(second, "Hi.", bearer, store=False).status == 401, f"{name} is refused")


def test_an_empty_database_is_not_set_up_by_a_role_that_may_not(postgres: PostgresServer, database: str) -> None:
    postgres.execute("CREATE ROLE reader LOGIN")
    try:
        environment = {"DATABASE_URL": database.replace("user=postgres", "user=reader")}
        with provided(Script(), storage()) as house:
            process = Process(["--config", str(house.file), "--port", "0"], house.directory, environment)
            assert process.wait() != 0
    finally:
        postgres.execute("DROP ROLE reader")
    assert "the owner of the tables runs dragoman db migrate" in "".join(process.log.all())


@pytest.mark.parametrize(
    ("change", "remedy"), [("version = 0", "run dragoman db migrate"), ("oldest = 99", "update this release")]
)
def test_tables_of_another_version_are_refused(database: str, change: str, remedy: str) -> None:
    with served_on(database) as gateway:
        assert gateway.stop() == 0
    before = count_of(database, f"UPDATE schema_version SET {change} RETURNING version")
    with provided(Script(), storage()) as house:
        process = Process(["--config", str(house.file), "--port", "0"], house.directory, {"DATABASE_URL": database})
        assert process.wait() != 0
    assert remedy in "".join(process.log.all())
    assert count_of(database, "SELECT version FROM schema_version") == before
