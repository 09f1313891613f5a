"""Faults: what happens to a site under load, one function each. A fault lasts until clients have met it, and is over
when its function returns; what must be true then is `Site.check`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeAlias

import psycopg

from tests.machines.cluster import DATABASE, USER
from tests.machines.machine import Machine
from tests.machines.site import Site
from tests.waiting import wait_until

Fault: TypeAlias = Callable[[Site], None]
# Seconds by which answers of a slow network come later.
_SLOW = 0.2


def database_killed(site: Site) -> None:
    """All processes of the server are killed, and it is started again after clients were refused."""
    server = site.cluster.primary
    server.kill()
    site.until_refused()
    server.start()


def database_restarted(site: Site) -> None:
    """The server is restarted at once."""
    server = site.cluster.primary
    server.stop()
    server.start()


def database_stopped(site: Site) -> None:
    """All processes of the server are stopped: the kernel accepts and acknowledges, and nothing answers."""
    with site.cluster.primary.stopped():
        until = time.monotonic() + site.scale.stop
        site.until_refused()
        wait_until(lambda: time.monotonic() >= until, f"{site.scale.stop:g} s are over", site.scale.stop + 60)


def network_slow(site: Site) -> None:
    """Answers of the server come later."""
    with _healed(site, *site.machines):
        for proxy in site.proxies:
            proxy.slow(_SLOW)
        site.until_served()


def connections_used_up(site: Site) -> None:
    """Somebody else has all connections that a role without privileges can have."""
    server = site.cluster.primary
    with ExitStack() as taken:

        def take() -> None:
            try:
                while True:
                    taken.enter_context(psycopg.connect(server.address(DATABASE, USER), application_name="hog"))
            except psycopg.OperationalError as error:
                assert "connection slots" in str(error) or "too many" in str(error), error

        def are_used_up() -> bool:
            take()
            ours = f"usename = '{USER}' AND application_name <> 'hog'"
            (found,) = server.query(f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {ours}")
            return found == (0,)

        wait_until(are_used_up, "no gateway has a connection")
        site.until_refused()


def replica_promoted(site: Site) -> None:
    """A replica that was cut off, and lacks the latest commits, takes the place of the primary."""
    cluster = site.cluster
    cluster.add_replica(synchronous=False)
    with site.load.doubting():
        cluster.wait_replicated()
        cluster.detach_replica()
        site.until_served()
        cluster.wait_ahead("dragoman.records")
        cluster.fail_over()


def synchronous_replica_promoted(site: Site) -> None:
    """A replica that has all acknowledged commits takes the place of the primary."""
    site.cluster.add_replica(synchronous=True)
    site.until_served()
    site.cluster.fail_over()


def machine_cut_off(site: Site) -> None:
    """One machine reaches the database no more, without learning of it; the other one serves on."""
    one, other = site.shuffled()
    with _healed(site, one):
        for proxy in one.proxies:
            proxy.stall()
        site.until_refused([one])
        site.until_served([other])


def machine_killed(site: Site) -> None:
    """All processes of one machine are killed, and started again on its disk."""
    one, other = site.shuffled()
    one.kill()
    site.until_served([other])
    one.start()


def machine_lost(site: Site) -> None:
    """One machine is gone with its disk, and with what was only there; another one takes its place."""
    one, other = site.shuffled()
    one.kill()
    site.until_served([other])
    site.forget_journals(one)
    one.lose_disk()
    one.start()


FAULTS: tuple[Fault, ...] = (
    database_killed,
    database_restarted,
    database_stopped,
    network_slow,
    connections_used_up,
    replica_promoted,
    synchronous_replica_promoted,
    machine_cut_off,
    machine_killed,
    machine_lost,
)


@contextmanager
def _healed(site: Site, *machines: Machine) -> Iterator[None]:
    """Have the network of these machines work again after the block."""
    try:
        yield
    finally:
        for machine in machines:
            for proxy in machine.proxies:
                proxy.heal()
