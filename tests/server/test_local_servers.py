"""A server of this machine without a table, found by a gateway in a process of its own, and by a launch's."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.cli.test_launch import STAND_IN
from tests.gateway.harness import CHAT, Received, Reply, running, whole
from tests.gateway.says import SAID, tells
from tests.sdk.providers import Turn
from tests.sdk.providers import answer as answer_of
from tests.server.local_ports import environment_with
from tests.server.process import PATIENCE, Process

LIST = {"object": "list", "data": [{"id": "qwen3", "object": "model"}]}
MESSAGES = "anthropic-messages"


def answers(received: Received) -> Reply:
    if received.method == "GET":
        return whole(LIST)
    if received.target == "/v1/messages":
        return whole(answer_of(MESSAGES, Turn(stop="end_turn", text=SAID)))
    return tells(CHAT)


def ask(port: int, model: str) -> str:
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "Hi"}]}).encode()
    headers = {"content-type": "application/json"}
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", body, headers)
    with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
        told = json.load(answer)
    text: str = told["choices"][0]["message"]["content"]
    return text


def test_one_that_runs_is_in_the_banner_and_is_what_to_try(tmp_path: Path) -> None:
    with running(answers) as house:
        process = Process(["--port", "0"], tmp_path, environment_with(tmp_path, ollama=house.provider.port))
        try:
            port = process.listening()
            assert ask(port, "ollama/qwen3") == SAID
            assert process.stop() == 0
        finally:
            process.end()
    said = process.out.all()
    providers = said[said.index("providers:") + 1 : said.index("try:")]
    assert [line.split()[0] for line in providers] == ["ollama"]
    assert "ollama/qwen3" in providers[0]
    tried = said[said.index("try:") + 1 :]
    assert '"model":"ollama/qwen3"' in tried[0]
    assert tried[1] == "  dragoman launch claude --model ollama/qwen3"
    assert tried[2] == "  without a provider, at no cost:"
    assert '"model":"echo/text"' in tried[3]
    assert not any("cannot" in line for line in process.log.all())


def test_one_with_keys_of_its_own_does_not_look(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[keys]\n")
    with running(answers) as house:
        environment = environment_with(tmp_path, ollama=house.provider.port)
        process = Process(["--port", "0", "--config", str(file)], tmp_path, environment)
        try:
            process.listening()
            assert process.stop() == 0
        finally:
            process.end()
        assert house.provider.received == []
    assert not any("ollama" in line for line in process.out.all())


@pytest.mark.parametrize("model", ["ollama/qwen3"])
def test_a_client_is_launched_in_front_of_one(tmp_path: Path, model: str) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/claude"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    file = tmp_path / "mine.toml"
    # So that no gateway is found that somebody has running.
    file.write_text("[server]\nport = 0\n")
    with running(answers) as house:
        environment = environment_with(tmp_path, ollama=house.provider.port)
        done = subprocess.run(
            [sys.executable, "-m", "dragoman", "launch", "claude", "--config", str(file), "--model", model],
            cwd=tmp_path,
            env=environment | {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"},
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    assert done.returncode == 5, done.stderr
    assert json.loads(done.stdout.splitlines()[0])["text"] == SAID
