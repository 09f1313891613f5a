"""Who has a port is told as far as it is known, with what can be done about it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dragoman.gateway.processes import port_conflict
from dragoman.gateway.processes.port_conflict import Holder, holder_of
from tests.gateway.harness import House, running
from tests.launching.test_port_owners import HEAD, line
from tests.waiting import LIMIT

PID = 4711
INODE = 1583


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever listens here answers or hangs up, however long a busy machine takes for that."""
    monkeypatch.setattr(port_conflict, "_TIMEOUT", LIMIT)


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    """A gateway that has a port."""
    with running() as house:
        yield house


@contextmanager
def answering(reply: bytes) -> Iterator[int]:
    """Something that listens, and says this to whoever comes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            end, _ = listener.accept()
            with end:
                end.recv(65536)
                end.sendall(reply)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(LIMIT)


def system(
    folder: Path, port: int, *words: str, cgroup: str = "/user.slice", name: str = "python3"
) -> dict[str, object]:
    """What the system says of one process that listens at a port."""
    table = folder / "tcp"
    table.write_text(HEAD + line("0100007F", "0A", 0, port))
    process = folder / "proc" / str(PID)
    (process / "fd").mkdir(parents=True)
    (process / "fd" / "3").symlink_to(f"socket:[{INODE}]")
    (process / "stat").write_text(f"{PID} (python3) S 1 1")
    (process / "comm").write_text(f"{name}\n")
    (process / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))
    (process / "cgroup").write_text(f"0::{cgroup}\n")
    (process / "cwd").symlink_to("/srv/there")
    return {"tables": (table,), "processes": folder / "proc"}


@pytest.mark.parametrize(
    ("words", "config"),
    [
        (("serve",), ""),
        (("serve", "--config", "/etc/dragoman.toml"), ", configured by /etc/dragoman.toml"),
        (("serve", "--config=named.toml"), ", configured by /srv/there/named.toml"),
        (("serve", "--config", "a\x1b[31m.toml", "--port", "1"), ", configured by /srv/there/a?[31m.toml"),
        (("serve", "--config"), ""),
    ],
)
def test_pitfall_614_a_gateway_is_told_with_version_process_and_configuration(
    house: House, tmp_path: Path, words: tuple[str, ...], config: str
) -> None:
    told = _told(house.port, system(tmp_path, house.port, "python", "-m", "dragoman", *words))
    version = str(house.get("/").json()["version"])
    assert told.description == f"a dragoman that runs already: version {version}, pid {PID}{config}"
    assert told.remedy == (
        f"use that one at http://127.0.0.1:{house.port}, stop it with `kill {PID}`, or choose another with --port"
    )


def _told(port: int, known: dict[str, object]) -> Holder:
    tables, processes = known["tables"], known["processes"]
    assert isinstance(tables, tuple) and isinstance(processes, Path)
    return holder_of("127.0.0.1", port, tables, processes)


def test_a_service_is_stopped_as_one(house: House, tmp_path: Path) -> None:
    known = system(tmp_path, house.port, "dragoman", "serve", cgroup="/user.slice/app.slice/dragoman.service")
    assert "stop it with `dragoman service stop`," in _told(house.port, known).remedy


def test_a_gateway_of_which_the_system_tells_nothing_is_known_by_its_answer(house: House, tmp_path: Path) -> None:
    told = holder_of("127.0.0.1", house.port, (tmp_path / "none",), tmp_path)
    assert "pid" not in told.description
    assert "stop it with Ctrl-C where it was started or `dragoman service stop`, or " in told.remedy


def test_of_another_program_only_name_and_process_are_told(tmp_path: Path) -> None:
    with answering(b"SSH-2.0-x\r\n") as port:
        known = system(tmp_path, port, "sshd", "--secret", "canary", name="a\x07b")
        told = _told(port, known)
    assert told == Holder(f"a?b, pid {PID}", f"stop it with `kill {PID}`, or choose another with --port")


def test_one_that_poses_as_a_gateway_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    body = b'{"name":"dragoman","version":"1\\u001b[2J' + b"9" * 500 + b'"}'
    with answering(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body) as port:
        told = holder_of("127.0.0.1", port, (tmp_path / "none",), tmp_path)
    assert told.description.isprintable()
    assert len(told.description) < 120


def test_nobody_is_told_where_nobody_says_anything(tmp_path: Path) -> None:
    with answering(b"") as port:
        told = holder_of("127.0.0.1", port, (tmp_path / "none",), tmp_path)
    assert told == Holder("", "stop what listens there, or choose another with --port")
