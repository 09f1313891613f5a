"""Machine: a gateway process group with a directory of its own, and its network to the servers of the cluster."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from dragoman.identities.changes import LOCAL_MAKER, ConfiguredNames
from dragoman.identities.key_text import digest_of, hash_text, new_key
from dragoman.identities.members import KeyMembers
from dragoman.store.identity_changes import IdentityChanges
from dragoman.store.migrations.postgres import migrate
from dragoman.store.postgres import PostgresAddress, PostgresConnection
from tests.gateway.harness import HouseLoop
from tests.machines.cluster import DATABASE, USER, Cluster, proxied
from tests.machines.database_proxy import DatabaseProxy
from tests.server.process import Constants, Process
from tests.waiting import LIMIT, reporting_state

# Texts of keys by their names: administrators' in the configuration of all machines, and those of the database. There
# are several, since what requests of one key store is stored one after the other.
FILE_KEYS = {f"file-{number}": new_key() for number in range(6)}
DATABASE_KEYS = {f"database-{number}": new_key() for number in range(6)}
# Seconds by which the clocks of two machines differ.
SKEW = 30
_CONFIG = """
[server]
workers = {workers}
[timeouts]
lame_duck = 0
[storage]
path = "state.db"
database = "$DATABASE_URL"
machine = "{name}"
key_grace = "{key_grace}"
"""
_KEY = """
[keys.{name}]
hash = "{hash}"
role = "admin"
"""


# What a database lost is noticed sooner than outside of tests.
CONSTANTS: Constants = {"dragoman.records.ingest_thread._COMPARE_EVERY": 0.5}


class Scale(Struct, frozen=True, kw_only=True):
    """How much there is of everything. `pause` is the mean number of seconds between two requests of a client."""

    workers: int
    clients: int
    pause: float
    # Seconds for which a stopped server is stopped at least, and for which keys are accepted without a database.
    stop: float
    key_grace: float


class Machine:
    """One machine. It is down until `start`, and after `kill`."""

    def __init__(
        self,
        name: str,
        directory: Path,
        proxies: Sequence[DatabaseProxy],
        scale: Scale,
        constants: Constants,
        ahead: int,
    ) -> None:
        self.name = name
        self._directory = directory
        self.proxies = proxies
        self._scale = scale
        self._constants = constants
        self._ahead = ahead
        self._process: Process | None = None
        self.port: int | None = None
        self.kills = 0

    @property
    def process(self) -> Process:
        """Its supervisor."""
        assert self._process is not None
        return self._process

    def report(self) -> str:
        """What it logged besides requests."""
        lines = [] if self._process is None else self._process.log.all()
        return "\n".join([f"machine {self.name}:", *(line for line in lines if '"event":"exchange"' not in line)])

    def launch(self) -> None:
        """Start the processes."""
        self._directory.mkdir(exist_ok=True)
        file = self._directory / "dragoman.toml"
        scale = self._scale
        text = _CONFIG.format(workers=scale.workers, name=self.name, key_grace=f"{scale.key_grace:g} s")
        keys = "".join(_KEY.format(name=name, hash=hash_text(key)) for name, key in FILE_KEYS.items())
        file.write_text(text + keys)
        file.chmod(0o600)
        self._process = Process(
            ["--config", str(file), "--port", "0"], self._directory, self._environment(), constants=self._constants
        )

    def wait_listening(self) -> None:
        """Wait until it serves."""
        self.port = self.process.listening()

    def start(self) -> None:
        """Start it, and wait until it serves."""
        self.launch()
        self.wait_listening()

    def kill(self) -> None:
        """Kill all its processes at once."""
        # Before its clients see that, and in this order.
        self.port = None
        self.kills += 1
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def lose_disk(self) -> None:
        """Remove all that it had, while it is down."""
        shutil.rmtree(self._directory)

    def end(self) -> None:
        """End it, however it is."""
        if self._process is not None:
            self._process.end()

    def _environment(self) -> Mapping[str, str]:
        hosts = ",".join("127.0.0.1" for _ in self.proxies)
        ports = ",".join(str(proxy.port) for proxy in self.proxies)
        options = "target_session_attrs=read-write&sslmode=disable&gssencmode=disable"
        places = ",".join(f"{host}:{port}" for host, port in zip(hosts.split(","), ports.split(","), strict=True))
        address = f"postgresql://{USER}@{places}/{DATABASE}?{options}"
        return {"DATABASE_URL": address, "TEST_CLOCK_AHEAD": str(self._ahead)}


def _set_up(cluster: Cluster) -> None:
    """Make the tables as the role of the gateways, and add the keys of the database."""
    address = PostgresAddress(cluster.primary.address(DATABASE, USER))
    with closing(PostgresConnection(address, LIMIT)) as db:
        migrate(db)
        # The clocks of machines may be at the other side of midnight.
        changes = IdentityChanges(db, lambda: 1000.0)
        for name, text in DATABASE_KEYS.items():
            changes.create(name, KeyMembers(), digest_of(text), maker=LOCAL_MAKER, configured=ConfiguredNames())


@contextmanager
def running_machines(
    folder: Path,
    cluster: Cluster,
    loop: HouseLoop,
    scale: Scale,
    *,
    constants: Constants = CONSTANTS,
    watched: bytes = b"",
    sockets: Callable[[int], Path] | None = None,
) -> Iterator[list[Machine]]:
    """Two machines that serve, whose clocks differ. Their network leads to the cluster, or to other sockets."""
    _set_up(cluster)
    with ExitStack() as stack:
        machines = []
        for name, ahead in (("one", 0), ("two", SKEW)):
            proxies = stack.enter_context(proxied(loop, sockets or cluster.socket, watched))
            machine = Machine(name, folder / name, proxies, scale, constants, ahead)
            stack.callback(machine.end)
            stack.enter_context(reporting_state(machine.report))
            machines.append(machine)
            machine.launch()
        for machine in machines:
            machine.wait_listening()
        yield machines
