"""Every command of the pages runs, in an environment as they describe it, and prints what they show.

The environment has a home with a configuration, keys, a gateway that runs, the well-known clients by name, and
providers that are the mock. What cannot be run here is named below, with the reason.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct

from tests.docs.bare import ROOT, bare_environ, gateway
from tests.docs.pages import Block, blocks
from tests.docs.warm import warm_program
from tests.mock.asking import mock_running
from tests.server.process import with_constants

SHELL = blocks("sh")
CONSOLE = blocks("console")
# As pages call the gateway, and the mock.
ADDRESS = "127.0.0.1:8484"
# How a command begins that is not run, and why.
NOT_RUN = {
    "make ": "the recipes install and test everything: CI runs them, and tools/first_hour.py plays `make run`",
    "uv": "installing is proved by `make dist`, and by tests/distribution/",
    "pipx ": "the same",
    "python3 -m venv": "the same",
    "~/.local/share/dragoman-venv/": "the same",
    "docker ": "there may be no daemon; tests/distribution/ goes the same steps without one",
    "dragoman service ": "it changes what systemd or launchd of this user run; tests/cli/test_service.py does it apart",
    ".venv/bin/python tools/replay.py": "the recordings are not a part of the project",
    "python -m bench.gateway.": "it measures for minutes, and needs a quiet machine",
    "python -m bench.peers.": "it installs other gateways and measures for minutes",
    "dragoman launch claude --model smart --gateway http://gateway.example.org": "nobody is there",
    "curl http://gateway.example.org": "nobody is there",
}
KEYS = ("OPENAI_API_KEY", "OPENAI_SECOND_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY", "DEEPSEEK_API_KEY")
CLIENTS = ("claude", "codex", "opencode", "aider", "llm")
PROVIDERS = ("openai", "anthropic", "openrouter", "deepseek", "ollama")
# The provider on this machine may be late on a busy one.
PATIENT = {"dragoman.gateway.model_list_fetch._TIMEOUT": 60.0}
LINES = '[models]\n"smart" = ["anthropic/claude-opus-5", "openai/gpt-5.1"]\n'


class Place(Struct, frozen=True, kw_only=True):
    """Where the commands of a page are typed."""

    address: str
    folder: Path
    environ: dict[str, str]

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run lines of a shell there; the first that fails ends it. Keys are stored apart: one would close the gateway
        that the other pages call."""
        environ = self.environ
        if "dragoman key " in script:
            environ = {**environ, "XDG_STATE_HOME": str(self.folder / "state-with-keys")}
        return subprocess.run(
            ["bash", "-eo", "pipefail", "-c", _filled(script).replace(ADDRESS, self.address)],
            cwd=self.folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )


def _filled(script: str) -> str:
    """The lines with something in the place of keys that the reader has to fill in."""
    return re.sub(r"^(export .*)", lambda found: found[1].replace("…", "0123456789"), script, flags=re.MULTILINE)


def _clients(folder: Path) -> None:
    """Clients that are content."""
    for client in CLIENTS:
        path = folder / client
        path.write_text(f'#!/bin/bash\necho "{client} is content"\n', encoding="utf-8")
        path.chmod(0o755)


def _examples(folder: Path) -> None:
    """The examples, on a port where nobody listens."""
    folder.mkdir()
    for file in (path for path in (ROOT / "examples").iterdir() if path.is_file()):
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".toml":
            head, _, rest = text.rpartition("[server]\n")
            text = f"{head}[server]\nport = 1\n{rest}"
        (folder / file.name).write_text(text, encoding="utf-8")


def _own_file(home: Path, text: str) -> None:
    folder = home / ".config/dragoman"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dragoman.toml").write_text(text, encoding="utf-8")
    (folder / "dragoman.toml").chmod(0o600)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    home, folder, programs = (tmp_path_factory.mktemp(name) for name in ("home", "folder", "bin"))
    _clients(programs)
    _examples(folder / "examples")
    (folder / "litellm-keys.json").write_text('{"keys": []}', encoding="utf-8")
    environ = {name: f"sk-of-{name.lower()}" for name in KEYS}
    # Gateways of the pages end as soon as they serve.
    with mock_running() as mock, warm_program(programs / "dragoman", shortly=True, constants=PATIENT):
        tables = [f'[providers.{name}]\nbase_url = "http://{mock.address}/v1"\n' for name in PROVIDERS]
        # The mock wants to see a key, whoever it is.
        tables.append('api_key = "any"\nauth = "bearer"')
        config = "\n".join([*tables, LINES])
        _own_file(home, config)
        with gateway(home, environ=with_constants({**environ, "PYTHONPATH": str(ROOT / "src")}, PATIENT)) as address:
            _own_file(home, f"[server]\nport = {address.rpartition(':')[2]}\n{config}")
            bare = bare_environ(home, environ)
            paths = f"{programs}:{Path(sys.executable).parent}:{bare['PATH']}"
            python = f"{ROOT}:{ROOT / 'src'}:{bare.get('PYTHONPATH', '')}"
            yield Place(address=address, folder=folder, environ={**bare, "PATH": paths, "PYTHONPATH": python})


def _commands(block: Block) -> list[str]:
    """The commands of a block, whole ones; a command may go on after a backslash."""
    return [command for command in re.split(r"(?<!\\)\n", block.text) if command.strip()]


def _excuse(command: str) -> str | None:
    return next((begin for begin in NOT_RUN if command.startswith(begin)), None)


RUN = [block for block in SHELL if not all(map(_excuse, _commands(block)))]


def test_there_are_commands_on_the_pages_that_people_begin_with() -> None:
    pages = {block.page for block in RUN + CONSOLE}
    assert {"README.md", "docs/README.md", "docs/quickstart.md", "docs/clients/sdks.md", "docs/monitoring.md"} <= pages


def test_every_excuse_is_needed() -> None:
    used = {_excuse(command) for block in SHELL for command in _commands(block)}
    assert set(NOT_RUN) - used == set()


@pytest.mark.parametrize("block", RUN, ids=str)
def test_pitfall_669_the_commands_of_the_pages_run(block: Block, place: Place) -> None:
    done = place.run("\n".join(command for command in _commands(block) if not _excuse(command)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("block", CONSOLE, ids=str)
def test_commands_print_what_is_shown(block: Block, place: Place) -> None:
    for shown in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, output = shown.partition("\n")
        done = place.run(command)
        assert done.returncode == 0, done.stderr
        # An ellipsis stands for what differs from time to time.
        pattern = ".*".join(re.escape(piece) for piece in output.strip().split("…"))
        assert re.fullmatch(pattern, done.stdout.replace("\r\n", "\n").strip(), re.DOTALL), done.stdout
