"""Starting: what is printed and can be tried at once, where the gateway refuses to listen, and what a crash leaves."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from dragoman import __version__
from tests.cli.machine import put_trusted
from tests.gateway.harness import CHAT, MESSAGES, PATHS, PROTOCOLS, RESPONSES
from tests.gateway.says import question, tells, text_of
from tests.ports import free_port
from tests.server.process import PATIENCE, Process, clean_environment, serving
from tests.waiting import wait_until

KEY = "dgm_key-of-the-start-test-0123456789"
KEY_OF_FILE, KEY_OF_ENVIRONMENT = "dgm_key-of-a-file-0123456789-abcdef", "dgm_key-of-the-shell-0123456789-abc"
GREETED = {MESSAGES: "Hello from Messages", CHAT: "Hello from Chat", RESPONSES: "Hello from Responses"}


@contextmanager
def started(directory: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[Process]:
    """A gateway without a provider but the one it brings along."""
    process = Process(arguments, directory, environment)
    try:
        yield process
    finally:
        process.end()


def _tried(line: str, environment: Mapping[str, str]) -> str:
    """What a line of the greeting answers when it is pasted into a shell."""
    if shutil.which("curl"):
        command = ["sh", "-c", line.replace("curl ", "curl -sS --fail --max-time 60 ", 1)]
        done = subprocess.run(
            command, env={**os.environ, **environment}, capture_output=True, check=True, timeout=PATIENCE
        )
        return done.stdout.decode()
    words = shlex.split(line.replace('"$DRAGOMAN_KEY"', environment.get("DRAGOMAN_KEY", "")))
    headers = (word.partition(": ") for flag, word in pairwise(words) if flag == "-H")
    given = {name: value for name, _, value in headers}
    request = urllib.request.Request(words[1], words[words.index("-d") + 1].encode(), given)
    with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
        return str(reply.read().decode())


def _try_all(process: Process, environment: Mapping[str, str]) -> None:
    process.out.wait("/v1/responses")
    lines = [line.strip() for line in process.out.all() if line.strip().startswith("curl ")]
    assert len(lines) == len(PROTOCOLS)
    for protocol, line in zip(PROTOCOLS, lines, strict=True):
        assert f"{PATHS[protocol]} " in line
        assert GREETED[protocol] in text_of(protocol, json.loads(_tried(line, environment)))


def test_with_nothing_configured_the_printed_lines_work(tmp_path: Path) -> None:
    with started(tmp_path, "--port", "0") as process:
        process.listening()
        _try_all(process, {})
        said = process.out.all()
        assert any(line.startswith("keys: none") and "this machine only" in line for line in said)
        assert any(line.split()[0] == "echo" and "echo/text" in line for line in said if line.startswith("  "))
        process.send(signal.SIGINT)
        assert process.wait() == 0


def test_with_keys_the_printed_lines_work_for_those_who_have_one(tmp_path: Path) -> None:
    put_trusted(tmp_path, '[keys.laptop]\nkey = "$LAPTOP_KEY"\n', clean_environment(tmp_path))
    with started(tmp_path, "--port", "0", environment={"LAPTOP_KEY": KEY}) as process:
        process.listening()
        _try_all(process, {"DRAGOMAN_KEY": KEY})
        with pytest.raises((subprocess.CalledProcessError, OSError)):
            _try_all(process, {"DRAGOMAN_KEY": "another"})
        said = "\n".join(process.out.all())
        assert "configured by dragoman.toml" in said
        assert KEY not in said


def test_providers_and_routes_are_printed_and_no_key_of_theirs() -> None:
    with serving(lambda received: tells(CHAT)) as house:
        said = "\n".join(house.process.out.all())
        for name, protocol in (("messages", MESSAGES), ("chat", CHAT), ("responses", RESPONSES)):
            assert f"  {name:12} {protocol}: {name}/served" in said
        assert "  routed -> chat/served" in said
        assert "sk-" not in said


def test_a_key_in_the_environment_is_all_that_a_known_provider_needs(tmp_path: Path) -> None:
    with started(tmp_path, "--port", "0", environment={"OPENAI_API_KEY": "sk-canary-0123456789"}) as process:
        process.out.wait("  openai ")
        process.out.wait("dragoman launch claude --model openai/MODEL")
        process.out.wait("at no cost")
        process.out.wait('"model":"echo/text"')
        assert "sk-canary" not in "\n".join(process.out.all())


@pytest.mark.parametrize("insists", [True, False], ids=["whoever insists", "whoever has keys"])
def test_listening_for_others_is_allowed_to(tmp_path: Path, insists: bool) -> None:
    arguments = ["--host", "0.0.0.0", "--port", "0"]
    if insists:
        arguments.append("--no-auth")
    else:
        put_trusted(tmp_path, '[keys.laptop]\nkey = "$LAPTOP_KEY"\n', clean_environment(tmp_path))
    with started(tmp_path, *arguments, environment={"LAPTOP_KEY": KEY}) as process:
        process.listening()
        _try_all(process, {"DRAGOMAN_KEY": KEY})
        assert ("may use it" in "\n".join(process.out.all())) is insists


@pytest.mark.parametrize("workers", ["1", "2"], ids=["one worker", "two workers"])
def test_pitfall_614_a_port_that_a_dragoman_has_is_told_with_its_process_and_what_to_do(
    tmp_path: Path, workers: str
) -> None:
    file = tmp_path / "named.toml"
    file.write_text("[server]\n")
    with started(tmp_path, "--config", "named.toml", "--port", "0", "--workers", workers) as first:
        port = first.listening()
        with started(tmp_path, "--port", str(port)) as second:
            assert second.wait() == 1
            assert second.out.all() == []
            (said,) = second.log.all()
        assert first.running
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use by a dragoman that runs already" in said
    assert f"version {__version__}" in said
    assert f"use that one at http://127.0.0.1:{port}, stop it with " in said
    assert "choose another with --port" in said
    if Path("/proc/net/tcp").exists():
        assert f"pid {first.pid}, configured by {file.resolve()}" in said
        assert f"`kill {first.pid}`" in said


def test_a_port_in_use_is_said_clearly(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with started(tmp_path, "--port", str(port)) as process:
            assert process.wait() == 1
            assert process.out.all() == []
            said = "\n".join(process.log.all())
    assert f"cannot listen on 127.0.0.1:{port}" in said
    assert "in use" in said
    assert "--port" in said
    assert "Traceback" not in said


def test_a_gateway_that_was_killed_can_be_started_again_at_once_in_the_same_place() -> None:
    with serving(lambda received: tells(CHAT)) as house:
        assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
        before = sorted(house.directory.iterdir())
        house.process.send(signal.SIGKILL)
        assert house.process.wait() == -signal.SIGKILL
        assert sorted(house.directory.iterdir()) == before
        with started(house.directory, "--config", str(house.file), "--port", str(house.port)) as again:
            assert again.listening() == house.port
            assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
            assert again.stop() == 0


@pytest.mark.parametrize("workers", ["1", "2"], ids=["one worker", "two workers"])
def test_a_store_that_cannot_be_opened_is_told_and_nobody_listens(tmp_path: Path, workers: str) -> None:
    file = tmp_path / "named.toml"
    file.write_text(f'[storage]\npath = "{tmp_path}"\n')
    with started(tmp_path, "--config", str(file), "--port", "0", "--workers", workers) as process:
        assert process.wait() == 1
        assert process.out.all() == []
        settings, said = process.log.all()
    # What is set is told before anything is done with it.
    assert "settings that are not default" in settings
    assert "storage.path: the file cannot be opened" in said
    assert "name a file in a directory that can be written to" in said
    assert "store_responses = false" in said
    assert "Traceback" not in said


def test_a_hang_up_signal_before_anything_was_read_ends_nothing(tmp_path: Path) -> None:
    with started(tmp_path, "--port", "0") as process:
        # As soon as the command runs at all, which shows in what the system knows of its signals.
        status = Path(f"/proc/{process.pid}/status")
        if not status.exists():
            pytest.skip("signals are found in /proc")
        wait_until(lambda: int(status.read_text().partition("SigIgn:")[2].split()[0], 16) & 1, "SIGHUP is ignored")
        process.send(signal.SIGHUP)
        process.listening()
        process.send(signal.SIGINT)
        assert process.wait() == 0


def test_it_serves_although_the_terminal_cannot_show_its_words(tmp_path: Path) -> None:
    file = tmp_path / "named.toml"
    file.write_text('[models]\n"mod\u00e8le" = "echo/text"\n', encoding="utf-8")
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    with started(tmp_path, "--config", str(file), "--port", "0", environment=ascii_only) as process:
        process.listening()
        assert "mod\\xe8le" in process.out.wait(" -> echo/text")
        _try_all(process, {})
        process.send(signal.SIGINT)
        assert process.wait() == 0
        settings, *others = process.log.all()
        assert "mod\u00e8le" in settings
        assert others == [line for line in others if "exchange" in line]


@pytest.mark.parametrize(
    ("closed", "workers"),
    [("2>&-", "1"), (">&- 2>&-", "1"), (">&- 2>&-", "2"), ("<&- >&- 2>&-", "2")],
)
def test_it_serves_although_nobody_listens_to_what_it_says(tmp_path: Path, closed: str, workers: str) -> None:
    port = free_port()
    command = f"exec {sys.executable} -m dragoman serve --port {port} --workers {workers} {closed}"
    process = subprocess.Popen(["sh", "-c", command], cwd=tmp_path, env=clean_environment(tmp_path))
    try:
        address = f"http://127.0.0.1:{port}"
        wait_until(lambda: process.poll() is not None or _answers(f"{address}/readyz"), "it serves")
        # It has something to say, and says it to nobody: no client gets it.
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"{address}/nowhere", timeout=PATIENCE)
        assert _answers(f"{address}/healthz")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(PATIENCE)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def test_a_provider_whose_variable_is_not_set_keeps_nobody_else_from_being_served(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[providers.openai]\napi_key = "$NOT_SET_HERE"\n[models]\nboth = ["openai/gpt-5.1", "echo/text"]\n')
    with started(tmp_path, "--port", "0", "--config", str(file)) as process:
        process.listening()
        told = process.log.wait("NOT_SET_HERE")
        assert "warning: providers.openai is left out: the environment variable NOT_SET_HERE is not set" in told
        line = process.out.wait("/v1/chat/completions").strip()
        assert GREETED[CHAT] in _tried(line.replace("echo/text@anthropic-messages", "both"), {})


def test_pitfall_625_variables_come_from_a_file_once_and_those_of_the_environment_win(tmp_path: Path) -> None:
    file = tmp_path / "service.env"
    file.touch(0o600)
    file.write_text(f'OF_FILE="{KEY_OF_FILE}"\nOF_BOTH="{KEY_OF_FILE}-not-used"\n')
    keys = '[keys.file]\nkey = "$OF_FILE"\n[keys.both]\nkey = "$OF_BOTH"\n'
    own = {"OF_BOTH": KEY_OF_ENVIRONMENT}
    with serving(lambda received: tells(CHAT), keys, arguments=["--env-file", str(file)], environment=own) as house:
        file.unlink()
        tried = (KEY_OF_FILE, KEY_OF_ENVIRONMENT, f"{KEY_OF_FILE}-not-used")
        statuses = [house.post(PATHS[CHAT], question(CHAT, CHAT), x_api_key=key).status for key in tried]
        assert statuses == [200, 200, 401]
        assert house.stop() == 0
    assert not [line for line in house.process.log.all() if KEY_OF_FILE in line or KEY_OF_ENVIRONMENT in line]


def test_a_file_of_variables_that_others_can_read_ends_the_start(tmp_path: Path) -> None:
    file = tmp_path / "service.env"
    file.write_text(f"OF_FILE={KEY_OF_FILE}\n")
    file.chmod(0o644)
    process = Process(["--port", "0", "--env-file", str(file)], tmp_path)
    assert process.wait() == 1
    assert process.log.all() == [
        f"dragoman: {file}: --env-file: can be read or written by others (chmod 600, and think of new keys)"
    ]
