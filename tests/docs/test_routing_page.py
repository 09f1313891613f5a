"""The page about routing: its example without API keys runs as it stands there."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from pathlib import Path

from tests.docs.bare import ROOT, bare_environ
from tests.docs.pages import blocks
from tests.docs.warm import warm_program
from tests.ports import bound_socket
from tests.waiting import LIMIT

PAGE = [ROOT / "docs/routing.md"]
PORTS = ("4101", "4102", "8485")


def test_the_example_without_keys_fails_over(tmp_path: Path) -> None:
    with ExitStack() as bound:
        # All at once: a port that is bound is not given again.
        sockets = [bound.enter_context(bound_socket()) for _ in PORTS]
        ports = [str(each.getsockname()[1]) for each in sockets]

    def with_ports(text: str) -> str:
        for port, free in zip(PORTS, ports, strict=True):
            text = text.replace(port, free)
        return text

    (config,) = (block.text for block in blocks("toml", PAGE) if "port = 8485" in block.text)
    start, fail_over = (block.text for block in blocks("bash", PAGE))
    assert all(port in config + start for port in PORTS)
    # A reader goes on when all of them listen.
    listening = "".join(f"until curl -s -o /dev/null http://127.0.0.1:{port}/; do sleep 0.1; done\n" for port in ports)
    file, programs = tmp_path / "failover.toml", tmp_path / "bin"
    file.write_text(with_ports(config), encoding="utf-8")
    programs.mkdir()
    environ = bare_environ(tmp_path)
    with warm_program(programs / "dragoman"):
        done = subprocess.run(
            ["bash", "-c", with_ports(start) + listening + with_ports(fail_over) + "wait\n"],
            cwd=tmp_path,
            env={**environ, "PATH": f"{programs}:{environ['PATH']}"},
            capture_output=True,
            text=True,
            check=True,
            timeout=LIMIT,
        )
    assert "You said: Hello" in done.stdout, done.stdout + done.stderr
    (line,) = (line for line in done.stdout.splitlines() if "smart → " in line)
    assert "smart → second/any" in line
    targets = [line.split("\t")[0] for line in done.stdout.splitlines() if "/any\t" in line]
    assert targets == ["first/any", "second/any"]
    assert "warning" not in done.stderr
