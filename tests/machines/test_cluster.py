"""The servers and the network of the other tests do what these tests take for granted."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.machines.cluster import DATABASE, proxied, running_cluster
from tests.machines.database_proxy import DatabaseProxy
from tests.server.process import looping
from tests.waiting import LIMIT, wait_until


def address(*proxies: DatabaseProxy) -> str:
    hosts = ",".join("127.0.0.1" for _ in proxies)
    ports = ",".join(str(proxy.port) for proxy in proxies)
    return (
        f"host={hosts} port={ports} user=postgres dbname={DATABASE} sslmode=disable gssencmode=disable"
        " target_session_attrs=read-write connect_timeout=60"
    )


def numbers(connection: psycopg.Connection[tuple[object, ...]]) -> list[object]:
    return [number for (number,) in connection.execute("SELECT n FROM kept ORDER BY n").fetchall()]


@pytest.mark.parametrize("synchronous", [True, False], ids=["synchronous", "asynchronous"])
def test_a_promoted_replica_has_all_commits_until_it_was_cut_off(synchronous: bool) -> None:
    with running_cluster() as cluster, looping() as loop, proxied(loop, cluster.socket) as (one, other):
        cluster.primary.execute("CREATE TABLE kept(n integer)", DATABASE)
        for turn in range(2):
            cluster.add_replica(synchronous=synchronous)
            cluster.primary.execute(f"INSERT INTO kept VALUES ({turn})", DATABASE)
            if not synchronous:
                cluster.wait_replicated()
                cluster.detach_replica()
                cluster.primary.execute("INSERT INTO kept VALUES (99)", DATABASE)
            cluster.fail_over()
            with psycopg.connect(address(one, other), autocommit=True) as db:
                assert numbers(db) == [*range(turn + 1)]
                db.execute("INSERT INTO kept VALUES (50)")
                db.execute("DELETE FROM kept WHERE n = 50")


def test_a_proxy_stalls_slows_resets_and_refuses() -> None:
    with running_cluster() as cluster, looping() as loop, proxied(loop, cluster.socket, b"SELECT 7") as (proxy, _):
        with psycopg.connect(address(proxy), autocommit=True) as db:
            assert db.execute("SELECT 7").fetchone() == (7,)
            assert list(proxy.seen.values()) == [1]
            proxy.stall()
            with ThreadPoolExecutor() as pool:
                answer = pool.submit(db.execute, "SELECT 7")
                wait_until(lambda: list(proxy.seen.values()) == [2], "the question was sent")
                assert not answer.done()
                proxy.heal()
                assert answer.result(LIMIT).fetchone() == (7,)
            proxy.slow(0.05)
            assert db.execute("SELECT 7").fetchone() == (7,)
            proxy.heal()
            proxy.reset()
            with pytest.raises(psycopg.OperationalError):
                db.execute("SELECT 1")
        with psycopg.connect(address(proxy), autocommit=True) as db:
            proxy.refuse()
            with pytest.raises(psycopg.OperationalError):
                db.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(address(proxy))
        proxy.heal()
        psycopg.connect(address(proxy)).close()
        wait_until(lambda: proxy.open == 0, "no open connection")
