"""Exposures: prices that choke their reader, and secrets that another process of the machine could get."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.attack.measuring import Attack, Cost, attacked, source, workers_of
from tests.attack.neighbour import provider
from tests.cli.test_launch import STAND_IN, configure, environment
from tests.gateway.harness import CHAT, PATHS
from tests.server.process import FIRST_PAUSE, Served, clean_environment
from tests.server.workers import wait_gone

_PATIENCE = 15.0


def _variables(made: dict[str, str]) -> dict[str, str]:
    return {**made, "PYTHONPATH": source()} if source() else made


def _timed(name: str, act: Callable[[Path], tuple[int, str]]) -> Cost:
    with TemporaryDirectory() as directory:
        begun = time.monotonic()
        sent, result = act(Path(directory))
        return Cost(name=name, sent=sent, seconds=time.monotonic() - begun, result=result)


def huge_prices(name: str) -> Cost:
    """Update the prices from files with a price of a million digits, and of a thousand times as many."""

    def act(directory: Path) -> tuple[int, str]:
        results = []
        for price in ("1e999990", "1e999999999"):
            file = directory / "new.json"
            model = f'{{"id": "m", "match": {{"equals": "m"}}, "prices": {{"input_mtok": {price}}}}}'
            file.write_text(f'[{{"id": "p", "models": [{model}]}}]')
            command = [sys.executable, "-m", "dragoman", "prices", "update", "--from", str(file)]
            begun = time.monotonic()
            try:
                done = subprocess.run(
                    command,
                    env=_variables(clean_environment(directory)),
                    cwd=directory,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=_PATIENCE,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                results.append(f"{price}: hangs")
                continue
            way = "a traceback" if "Traceback" in done.stderr else f"status {done.returncode}"
            results.append(f"{price}: {way} after {time.monotonic() - begun:.1f} s")
        return 2, ", ".join(results)

    return _timed(name, act)


def container_files(name: str) -> Cost:
    """Read a file of a container with the provider's key."""
    with attacked(provider) as house:
        begun = time.monotonic()
        answer = house.get("/v1/containers/cntr_1/files/cfile_1/content", x_dragoman_provider="chat")
        seconds = time.monotonic() - begun
        calls = len(house.provider.received)
    return Cost(name=name, sent=1, seconds=seconds, result=f"{answer.status}; {calls} calls to the provider")


def _sockets(pid: int) -> set[str]:
    """Inode numbers of the sockets of a process."""
    links = []
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            links.append(str(file.readlink()))
    return {found[1] for link in links if (found := re.fullmatch(r"socket:\[(\d+)\]", link))}


def _listens_at(own: set[str]) -> int:
    """The port of the one of these sockets that listens."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        # 0A is a socket that listens.
        if fields[3] == "0A" and fields[9] in own:
            return int(fields[1].partition(":")[2], 16)
    raise AssertionError("none of the sockets listens")


def _greet(listener: socket.socket, received: list[bytes]) -> None:
    """Take every connection until the listener is closed, greet it as a worker does, and note what it sends."""
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.settimeout(0.5)
                connection.sendall(bytes(32))
                received.append(connection.recv(65536))


def _replayed(port: int, data: bytes) -> int:
    """How many bytes a worker sends to a foreign process that repeats what it was sent."""
    count = 0
    with socket.create_connection(("127.0.0.1", port), timeout=1.0) as connection, suppress(OSError):
        connection.sendall(data)
        while piece := connection.recv(65536):
            count += len(piece)
    return count


# A connection that the dead worker had accepted keeps its port for a minute; the next gateway may have none.
_TRIES = 5


def foreign_listener(name: str) -> Cost:
    """Kill one of two workers, listen at its port, and repeat to the other worker what that sends."""
    begun = time.monotonic()
    for _ in range(_TRIES):
        with attacked(provider, arguments=("--workers", "2"), constants={FIRST_PAUSE: 20.0}) as house:
            dead, alive = workers_of(house)
            # Those that both have are inherited.
            first, second = _sockets(dead), _sockets(alive)
            port, other = _listens_at(first - second), _listens_at(second - first)
            # The supervisor does not notice meanwhile: else the window is a moment.
            os.kill(house.process.pid, signal.SIGSTOP)
            os.kill(dead, signal.SIGKILL)
            wait_gone([dead])
            with suppress(OSError), socket.create_server(("127.0.0.1", port)) as listener:
                received = _listen(listener, house)
                replayed = max((_replayed(other, data) for data in received), default=0)
                sizes = f"{len(received)} connections with {max(map(len, received), default=0)} bytes at most"
                # A worker greets with a nonce of 32 bytes.
                result = f"{sizes}; repeated, they get {replayed} bytes"
                return Cost(name=name, sent=len(received), seconds=time.monotonic() - begun, result=result)
    return Cost(name=name, sent=0, seconds=time.monotonic() - begun, result="the port cannot be taken")


def _listen(listener: socket.socket, house: Served) -> list[bytes]:
    """What the living worker sends to the port of the dead one."""
    received: list[bytes] = []
    greeting = threading.Thread(target=_greet, args=(listener, received), daemon=True)
    greeting.start()
    for _ in range(5):
        house.get("/metrics")
        house.post(PATHS[CHAT], {"model": "chat/served", "messages": [{"role": "user", "content": "x"}]})
    listener.shutdown(socket.SHUT_RDWR)
    greeting.join(_PATIENCE)
    return received


def killed_launch(name: str) -> Cost:
    """Kill a launch, and look for the file with its key after the next one."""

    def act(place: Path) -> tuple[int, str]:
        (place / "bin").mkdir()
        program = place / "bin/claude"
        program.write_text(STAND_IN)
        program.chmod(0o755)
        configure(place, "port = 0")
        command = [sys.executable, "-m", "dragoman", "launch", "claude", "--model", "echo/text"]
        variables = _variables(environment(place, {"TMPDIR": str(place)}))
        with subprocess.Popen(
            [*command, "--", "wait"], cwd=place, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        ) as first:
            assert first.stdout is not None
            client = json.loads(first.stdout.readline())
            first.kill()
            os.kill(client["pid"], signal.SIGKILL)
            wait_gone([client["pid"]])
        file = Path(client["settings"]["file"])
        before = file.exists()
        subprocess.run(command, cwd=place, env=variables, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        return 2, f"the key file is {'left' if before else 'gone'}, after the next launch {_presence(file)}"

    return _timed(name, act)


def _presence(file: Path) -> str:
    return "still there" if file.exists() else "gone"


ATTACKS = (
    Attack("prices of a million digits", huge_prices),
    Attack("a file of a container", container_files),
    Attack("a foreign process at a worker's port", foreign_listener),
    Attack("the key file of a killed launch", killed_launch),
)
