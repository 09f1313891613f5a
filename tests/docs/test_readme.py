"""The README's examples run as they stand; those of the gateway against a real one, on a port of its own."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anthropic
import openai
import pytest

from dragoman import TranslatedRequest
from dragoman.config.finding import ConfigFile, Origin
from dragoman.config.load import read_settings
from dragoman.config.settings import Settings
from dragoman.providers.catalogue import catalogue

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
CLIENT = re.findall(r"```python client\n(.*?)```", README, re.DOTALL)
TOML = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
# A command after `$ `, and what it prints up to the end of the block.
CONSOLE = re.findall(r"```console\n\$ (.*?)\n(.*?)```", README, re.DOTALL)
CURLS = [(command, shown) for command, shown in CONSOLE if command.startswith("curl ")]
COMMANDS = [command for command, _ in CONSOLE if command.startswith("dragoman ")]
ADDRESS = "127.0.0.1:8484"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway as `make run` starts it, but for the port."""
    serving = subprocess.Popen(
        [sys.executable, "-m", "dragoman", "serve", "--port", "0", "--log", "off"],
        cwd=tmp_path_factory.mktemp("empty"),
        env={**os.environ, "DRAGOMAN_CONFIG": "", "XDG_CONFIG_HOME": str(tmp_path_factory.mktemp("home"))},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert serving.stdout is not None
        found = re.search(r"http://(127\.0\.0\.1:\d+)", serving.stdout.readline())
        assert found is not None
        yield found[1]
    finally:
        serving.send_signal(signal.SIGINT)
        serving.communicate(timeout=30)


def test_there_are_examples_of_every_kind() -> None:
    assert len(PYTHON) >= 2
    assert CLIENT
    assert TOML
    assert len(CURLS) >= 2
    assert COMMANDS


@pytest.mark.parametrize("example", PYTHON)
def test_python_examples_run(example: str) -> None:
    sent: list[bytes] = []
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    error = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n'
    names: dict[str, object] = {"upstream_bytes": [error[:20], error[20:]], "send": sent.append, "body": body}
    exec(example, names)
    assert "out" in names
    assert not sent or b"busy" in b"".join(sent)


@pytest.mark.parametrize("example", CLIENT)
def test_clients_of_the_gateway_are_answered(example: str, address: str) -> None:
    names: dict[str, object] = {}
    exec(example.replace(ADDRESS, address), names)
    claude, gpt = names["claude"], names["gpt"]
    assert isinstance(claude, anthropic.Anthropic)
    assert isinstance(gpt, openai.OpenAI)
    # Their connections must not be left to the collector.
    claude.close()
    gpt.close()
    assert "You said: Hello" in str(names["message"])
    assert "Hello" in str(names["answer"])


@pytest.mark.parametrize(("command", "shown"), CURLS)
def test_curl_prints_what_is_shown(command: str, shown: str, address: str) -> None:
    done = subprocess.run(
        ["bash", "-c", command.replace("curl ", "curl -sS ", 1).replace(ADDRESS, address)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    # An ellipsis stands for what differs from time to time.
    pattern = ".*".join(re.escape(piece) for piece in shown.strip().split("…"))
    assert re.fullmatch(pattern, done.stdout.replace("\r\n", "\n").strip(), re.DOTALL), done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command: str, tmp_path: Path) -> None:
    words = shlex.split(command.split(" > ")[0])[1:]
    done = subprocess.run(
        [sys.executable, "-m", "dragoman", *words], cwd=ROOT, capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 0
    assert done.stdout


@pytest.mark.parametrize("example", TOML)
def test_configurations_are_good(example: str, tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text(example, encoding="utf-8")
    settings = read_settings(
        ConfigFile(path=file, origin=Origin.NAMED), {"OPENAI_API_KEY": "sk-example-of-a-key"}, catalogue()
    )
    assert isinstance(settings, Settings)
    assert {"openai", "local", "echo"} <= set(settings.providers)


def test_the_first_example_gives_what_its_comments_say() -> None:
    names: dict[str, object] = {"upstream_bytes": [], "send": lambda _: None}
    exec(PYTHON[0], names)
    out = names["out"]
    assert isinstance(out, TranslatedRequest)
    assert out.headers == {"anthropic-version": "2026-10-21"}
    assert '{"anthropic-version": "2026-10-21"}' in PYTHON[0]
    assert [(loss["fate"], loss["feature"], loss["at"]) for loss in out.losses] == [
        ("dropped", "sampling", "sampling.seed")
    ]
