"""`dragoman serve` through a pooler in transaction mode, by a role that may not change tables. Revocation through it is
in `tests/machines/test_revocation.py`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from dragoman.database_location import PostgresDatabase
from dragoman.store.contents_database import open_contents
from dragoman.store.migrations.postgres import migrate
from dragoman.store.postgres_database import administer
from dragoman.store.postgres_privileges import grant_to
from tests.postgres import PostgresServer
from tests.server.shared_database import BEARER, RECORDS, add_key, count_of, create, read, respond, served_on
from tests.transaction_pooler import transaction_pooler
from tests.waiting import LIMIT, wait_until


@pytest.fixture
def pooled(postgres: PostgresServer, database: str) -> Iterator[str]:
    """The address of a migrated database through the pooler, for a role of its own."""
    location = PostgresDatabase(address=database, name="", path="")
    open_contents(location, timeout=LIMIT).close()
    with closing(administer(location)) as owner:
        migrate(owner)
        owner.script("CREATE ROLE pooled LOGIN")
        grant_to(owner, "pooled")
        with transaction_pooler(postgres) as pooler:
            yield pooler.address(database.rpartition("dbname=")[2], "pooled")
        owner.script("DROP OWNED BY pooled; DROP ROLE pooled")


def test_a_gateway_works_through_a_pooler_in_transaction_mode(pooled: str, database: str) -> None:
    with ExitStack() as stack:
        one = stack.enter_context(served_on(pooled, arguments=("--workers", "2")))
        other = stack.enter_context(served_on(pooled))
        first = create(one, "The word is blue.")
        second = create(other, "Which word?", previous_response_id=first["id"])
        assert read(one, second["id"]).json() == second
        begun = create(one, "In the background.", background=True)
        wait_until(
            lambda: read(other, begun["id"]).json()["status"] == "completed",
            "the background response is complete on the other machine",
        )
        text = add_key(one, "laptop")
        wait_until(lambda: respond(other, "Hello.", f"Bearer {text}").status == 200, "the key is known everywhere")
        requests = count_of(database, "SELECT count(*) FROM responses")
        wait_until(lambda: count_of(database, RECORDS) >= requests, "all records are in the database")
        assert other.get("/admin/v1/usage", authorization=BEARER).status == 200
        assert (one.stop(), other.stop()) == (0, 0)
    rows = count_of(database, "SELECT count(*) FROM records")
    assert count_of(database, "SELECT sum(requests + cancelled + others) FROM quarter_sums") == rows
