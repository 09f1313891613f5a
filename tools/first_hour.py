"""Plays the first hour of somebody new: a clean clone, an empty home, no keys; prints every screen.

python tools/first_hour.py                all of it, from a clone of the last commit, as `make run` sets it up
python tools/first_hour.py --installed    without clone and `make run`: with the dragoman of this Python
python tools/first_hour.py --columns 80   as a narrower terminal shows it
python tools/first_hour.py --clients DIR    with the real Claude Code of `make clients`, else one that only calls

Everything is on this machine and on free ports; the provider is echo. Each screen has a bounded time. The status is 1
if a command ended otherwise than it should.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from tools.pseudo_terminal import Terminal  # noqa: E402 - the path above comes first

# What the environment has besides a home: where programs are, and how packages are fetched here.
_KEPT = re.compile(r"PATH|LANG|PYTHON|PIP_.*|UV_.*|SSL_.*|REQUESTS_.*|(HTTPS?|NO|ALL)_PROXY|(https?|no|all)_proxy")
_SECONDS = 60.0
# `make run` installs, from wherever packages come.
_START_SECONDS = 900.0
_HELLO = '{"model":"MODEL","max_tokens":50,"messages":[{"role":"user","content":"Hello"}]}'
# A client that does what agents do first, for machines that have none.
_STUB = r"""#!/bin/sh
curl -sS "$ANTHROPIC_BASE_URL/v1/messages" -H "authorization: Bearer $ANTHROPIC_AUTH_TOKEN" \
  -H 'content-type: application/json' \
  -d '{"model":"'"$ANTHROPIC_MODEL"'","max_tokens":50,"messages":[{"role":"user","content":"Hello"}]}'
echo
"""


class Step(Struct, frozen=True):
    """A line that somebody types, why, and how it should end; None is however it ends."""

    why: str
    line: str
    status: int | None = 0


def steps(address: str, port: int) -> Iterator[Step]:
    """What is typed while the gateway of the first screen runs."""
    curl = f"curl -sS http://{address}/v1/messages -H 'content-type: application/json' -d "
    yield Step("the first request", curl + shlex.quote(_HELLO.replace("MODEL", "echo/text")))
    yield Step(
        "what was lost",
        f"curl -sSi http://{address}/v1/chat/completions -H 'content-type: application/json' -d "
        '\'{"model":"echo/text@anthropic-messages","seed":7,"messages":[{"role":"user","content":"Hello"}]}\''
        " | grep x-dragoman",
    )
    yield Step("a look with a browser", f"curl -sS http://{address}/ -H 'accept: text/html' | head -n 20")
    yield Step("the same, machine-readable", f"curl -sS http://{address}/")
    yield Step("which version", "dragoman --version")
    yield Step("what there is", "dragoman")
    yield Step("a slip of the finger", "dragoman lauch claude", 2)
    yield Step("who is there", "dragoman providers --configured")
    yield Step("a file of one's own", "dragoman init < /dev/null", None)
    yield Step("is it good", "dragoman check")
    yield Step("is everything well", "dragoman doctor", None)
    yield Step("how it is doing", f"dragoman status --gateway http://{address}")
    yield Step("where a request would go", f"dragoman route echo/text --gateway http://{address}")
    yield Step("a model without a key", curl + shlex.quote(_HELLO.replace("MODEL", "openai/gpt-5.1")))
    yield Step("a name that is nearly right", curl + shlex.quote(_HELLO.replace("MODEL", "echo/txt")))
    yield Step("a server that does not run", curl + shlex.quote(_HELLO.replace("MODEL", "ollama/qwen3")))
    yield Step("JSON with a slip", curl + '\'{"model":"echo/text","messages":[{"role":"user"]}\'')
    yield Step("a second gateway", f"dragoman serve --port {port}", 1)
    launch = f"dragoman launch claude --gateway http://{address}"
    yield Step("an agent", f"{launch} --model echo/text -- -p Hello")
    yield Step("an agent on a server that does not run", f"{launch} --model ollama/qwen3 -- -p Hello", 1)
    yield Step("lines for a shell", f"dragoman env claude --model echo/text --gateway http://{address}")
    yield Step("a pipe that is closed", "dragoman prices | head -n 3")
    yield Step("no colours", f"NO_COLOR=1 dragoman status --gateway http://{address} | cat")
    yield Step("is there a service", "dragoman service status", None)
    yield Step("completion", "dragoman completion bash | head -n 3")


class Hour:
    """One run: a folder, an environment, and what went otherwise than it should."""

    def __init__(self, folder: Path, columns: int, *, installed: bool, clients: Path | None = None) -> None:
        self._folder = folder
        self._columns = columns
        self._installed = installed
        self._clients = clients
        self._clone = folder / "dragoman"
        self._wrong: list[str] = []
        self._number = 0

    def play(self) -> list[str]:
        """Everything, in order; gives the lines that ended otherwise than they should."""
        port = _free_port()
        environ = self._environ()
        if not self._installed:
            subprocess.run(
                ["git", "-c", "advice.detachedHead=false", "clone", "-q", str(ROOT), str(self._clone)],
                check=True,
                env=environ,
            )
        line = self._start_line(port)
        self._head("the gateway", line)
        with Terminal(line, self._clone, environ, self._columns) as gateway:
            up = gateway.read_until("responses", _SECONDS if self._installed else _START_SECONDS)
            self._show(gateway.rest())
            if not up:
                return [f"{line}: it did not start"]
            for step in steps(f"127.0.0.1:{port}", port):
                self._type(step, environ)
            self._head("meanwhile, in the gateway's terminal", "")
            self._show(gateway.rest())
            self._head("Ctrl-C there", "^C")
            gateway.type("\x03")
            status = gateway.wait(_SECONDS)
            self._show(gateway.rest())
            print(f"[{status}]")
            # make tells of the signal by its own status.
            if status not in ((0,) if self._installed else (0, 2, 130, -2)):
                self._wrong.append(f"Ctrl-C: {status}")
        return self._wrong

    def _environ(self) -> dict[str, str]:
        home, programs = self._folder / "home", self._folder / "bin"
        for folder in (home, programs, self._clone):
            folder.mkdir(exist_ok=self._installed or folder != self._clone)
        if not self._installed:
            self._clone.rmdir()
        environ = {name: value for name, value in os.environ.items() if _KEPT.fullmatch(name)}
        environ |= {"HOME": str(home), "TERM": "xterm-256color", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
        found = [str(programs), environ.get("PATH", os.defpath)]
        if self._installed:
            _program(programs / "dragoman", f'#!/bin/sh\nexec "{sys.executable}" -m dragoman "$@"\n')
            environ["PYTHONPATH"] = f"{ROOT / 'src'}:{ROOT}"
        else:
            # As the first screen says: after `source .venv/bin/activate`.
            found.insert(0, str(self._clone / ".venv/bin"))
            environ.pop("PYTHONPATH", None)
        if self._clients is None:
            _program(programs / "claude", _STUB)
        else:
            found[:0] = [str(self._clients / "node/bin"), str(self._clients / "npm/node_modules/.bin")]
        return {**environ, "PATH": ":".join(found)}

    def _start_line(self, port: int) -> str:
        return f"dragoman serve --port {port}" if self._installed else f"make run ARGUMENTS='--port {port}'"

    def _type(self, step: Step, environ: dict[str, str]) -> None:
        self._head(step.why, step.line)
        with Terminal(step.line, self._clone, environ, self._columns) as terminal:
            status = terminal.wait(_SECONDS)
            self._show(terminal.rest())
        print(f"[{'it took too long' if status is None else status}]")
        if status is None or (step.status is not None and status != step.status):
            self._wrong.append(f"{step.line}: {status}")

    def _head(self, why: str, line: str) -> None:
        self._number += 1
        print(f"\n---- {self._number}. {why} {'-' * max(0, 100 - len(why))}")
        if line:
            print(f"$ {line}")

    def _show(self, text: str) -> None:
        # Where this machine keeps the play is nobody's business.
        shown = text.replace(str(self._folder / "home"), "~").replace(str(self._folder), "…")
        print(textwrap.indent(shown.rstrip(), "  "), flush=True)


def _program(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def main() -> int:
    """Play it, and say what went wrong."""
    parser = argparse.ArgumentParser(description="Plays the first hour, and prints every screen.")
    parser.add_argument("--installed", action="store_true", help="with the dragoman of this Python")
    parser.add_argument("--columns", type=int, default=100, help="width of the terminal")
    parser.add_argument("--clients", type=Path, metavar="FOLDER", help="where `make clients` has put them")
    options = parser.parse_args()
    clients = options.clients.resolve() if options.clients else None
    with tempfile.TemporaryDirectory(prefix="first-hour-") as folder:
        wrong = Hour(Path(folder), options.columns, installed=options.installed, clients=clients).play()
    print(f"\n{len(wrong)} ended otherwise than they should" + "".join(f"\n  {line}" for line in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
