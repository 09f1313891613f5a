"""`dragoman launch` with a stand-in for the client, which tells how it was started and asks the gateway once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from dragoman.cli.launch import cut
from dragoman.launching.gateway import is_running
from tests.cli.machine import put_trusted
from tests.gateway.harness import CHAT, Received, Reply, running, whole
from tests.sdk.providers import Turn
from tests.sdk.providers import answer as answer_of
from tests.server.process import Process, clean_environment

PATIENCE = 60.0
SECRET = "sk-0123456789abcdef-of-mine"
STAND_IN = f"""#!{sys.executable}
import json, os, signal, sys, time, urllib.request
url = os.environ["ANTHROPIC_BASE_URL"]
body = {{"model": os.environ["ANTHROPIC_MODEL"], "max_tokens": 9, "messages": [{{"role": "user", "content": "Hello"}}]}}
headers = {{"authorization": "Bearer " + os.environ["ANTHROPIC_AUTH_TOKEN"], "content-type": "application/json"}}
with urllib.request.urlopen(urllib.request.Request(url + "/v1/messages", json.dumps(body).encode(), headers)) as answer:
    text = json.load(answer)["content"][0]["text"]
key = os.environ.get("ANTHROPIC_API_KEY")
sizes = [os.environ.get("CLAUDE_CODE_MAX_" + name) for name in ("CONTEXT_TOKENS", "OUTPUT_TOKENS")]
told = {{"sizes": sizes, "words": sys.argv[1:], "url": url, "text": text, "key": key, "pid": os.getpid()}}
print(json.dumps(told), flush=True)
if "wait" in sys.argv:
    time.sleep(60)
sys.exit(5)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a configuration and a client."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/claude"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    configure(tmp_path, "port = 0")
    return tmp_path


def configure(place: Path, server: str, more: str = "") -> None:
    """Write the configuration."""
    put_trusted(place, f"[server]\n{server}\ndiscover = false\n{more}", clean_environment(place))


def launching(place: Path, *words: str, more: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """A launch under way."""
    environment = clean_environment(place) | {"PATH": f"{place / 'bin'}:/usr/bin:/bin", "ANTHROPIC_API_KEY": "mine"}
    return subprocess.Popen(
        [sys.executable, "-m", "dragoman", "launch", *words],
        cwd=place,
        env=environment | dict(more or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def launched(place: Path, *words: str, more: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """A launch to its end: exit status and what was said."""
    process = launching(place, *words, more=more)
    out, err = process.communicate(timeout=2 * PATIENCE)
    return process.returncode, out, err


def port_of(told: Mapping[str, object]) -> int:
    """The port of the gateway that the client was given."""
    return int(str(told["url"]).rpartition(":")[2])


def test_a_gateway_is_started_and_ended_with_the_client(place: Path) -> None:
    status, out, err = launched(place, "claude", "--model", "echo/text", "--", "-p", "--", "two words")
    told = json.loads(out)
    assert status == 5, err
    assert told["text"] == "You said: Hello"
    assert told["words"] == ["-p", "--", "two words"]
    assert told["key"] is None
    assert not running_at(port_of(told))


def test_the_client_is_told_what_the_provider_says_of_the_model(place: Path) -> None:
    answer = answer_of(CHAT, Turn(stop="stop", text="Well."))

    def provider(received: Received) -> Reply:
        return whole({"data": [{"id": "m", "max_model_len": 32768}]} if received.method == "GET" else answer)

    with running(provider) as house:
        address = f"http://127.0.0.1:{house.provider.port}/v1"
        configure(place, "port = 0", f'[providers.box]\nprotocol = "openai-chat"\nbase_url = "{address}"\n')
        status, out, err = launched(place, "claude", "--model", "box/m")
    assert (status, err) == (5, "")
    assert json.loads(out)["sizes"] == ["32768", "8192"]


def test_what_nobody_knows_of_the_model_is_said_in_one_line(place: Path) -> None:
    status, out, err = launched(place, "claude", "--model", "echo/text")
    assert (status, json.loads(out)["sizes"]) == (5, [None, None])
    assert err == (
        "dragoman: note: how many tokens echo/text takes is not known, so claude goes by a guess of its own; "
        "--context 128k says it\n"
    )


def running_at(port: int) -> bool:
    """Whether a gateway answers there."""
    return is_running(f"http://127.0.0.1:{port}")


def test_a_gateway_that_runs_is_used_and_left_running(place: Path) -> None:
    process = Process([], place)
    try:
        port = process.listening()
        configure(place, f"port = {port}")
        status, out, err = launched(place, "claude", "--model", "echo/text")
        assert (status, port_of(json.loads(out))) == (5, port), err
        assert running_at(port)
    finally:
        process.end()


def test_the_key_is_the_clients_alone(place: Path) -> None:
    configure(place, "port = 0", f'[keys.me]\nkey = "{SECRET}"\n')
    status, out, err = launched(place, "claude", "--model", "echo/text", more={"DRAGOMAN_KEY": SECRET})
    assert (status, json.loads(out)["text"]) == (5, "You said: Hello")
    assert SECRET not in out + err


def test_without_the_key_a_gateway_that_runs_is_not_used(place: Path) -> None:
    configure(place, "port = 0", f'[keys.me]\nkey = "{SECRET}"\n')
    process = Process([], place)
    try:
        configure(place, f"port = {process.listening()}", f'[keys.me]\nkey = "{SECRET}"\n')
        status, out, err = launched(place, "claude", "--model", "echo/text")
        assert (status, out) == (1, "")
        assert "put one into DRAGOMAN_KEY" in err
    finally:
        process.end()


def test_a_missing_client_is_told_with_the_line_that_installs_it(place: Path) -> None:
    status, out, err = launched(place, "codex")
    assert (status, out) == (1, "")
    assert "codex is not on PATH; install it: npm install -g @openai/codex" in err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--model", "ecko/text"], "the model `ecko/text` is not known here; did you mean echo/text?"),
        (["--model", "gpt-5.1"], "(a provider is there once its key is: `dragoman providers`)"),
        (["--model", "echo/text", "--small-model", "small"], "the model `small` is not known here"),
    ],
)
def test_a_model_that_leads_nowhere_is_told_before_anything_is_started(
    place: Path, words: list[str], complaint: str
) -> None:
    status, out, err = launched(place, "claude", *words)
    assert (status, out) == (1, "")
    assert complaint in err


def test_words_of_the_client_without_two_hyphens_are_told_where_to_stand(place: Path) -> None:
    status, out, err = launched(place, "claude", "-p", "Hello")
    assert (status, out) == (2, "")
    assert "unrecognized arguments: -p Hello; what is for the client stands behind --" in err


def test_a_signal_ends_the_client_and_then_the_gateway(place: Path) -> None:
    process = launching(place, "claude", "--model", "echo/text", "--", "wait")
    assert process.stdout is not None
    told = json.loads(process.stdout.readline())
    assert running_at(port_of(told))
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=2 * PATIENCE)
    assert process.returncode == 128 + signal.SIGTERM
    assert not running_at(port_of(told))
    with pytest.raises(ProcessLookupError):
        os.kill(told["pid"], 0)


@pytest.mark.parametrize("workers", [1, 2], ids=["one worker", "two workers"])
def test_a_launch_that_is_killed_leaves_no_gateway_behind(place: Path, workers: int) -> None:
    configure(place, f"port = 0\nworkers = {workers}")
    process = launching(place, "claude", "--model", "echo/text", "--", "wait")
    assert process.stdout is not None
    told = json.loads(process.stdout.readline())
    try:
        assert running_at(port_of(told))
        process.kill()
        process.wait(PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while running_at(port_of(told)):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        os.kill(told["pid"], signal.SIGKILL)
        process.communicate(timeout=PATIENCE)


@pytest.mark.parametrize(
    ("words", "ours", "theirs"),
    [
        (["launch", "claude", "--", "-p", "x"], ["launch", "claude"], ["-p", "x"]),
        (["launch", "claude", "--", "--", "x"], ["launch", "claude"], ["--", "x"]),
        (["launch", "claude"], ["launch", "claude"], []),
        (["translate", "--to", "p", "--", "-"], ["translate", "--to", "p", "--", "-"], []),
        ([], [], []),
    ],
)
def test_what_stands_behind_two_hyphens_is_for_the_client(words: list[str], ours: list[str], theirs: list[str]) -> None:
    assert cut(words) == (ours, theirs)
