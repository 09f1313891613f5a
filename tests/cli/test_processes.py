"""Every command as a process of its own: it ends and writes as it does where tests call it in their own process."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.cli import COMMANDS
from tests.cli.recorded_file import MAIN, recorded_file, timeless
from tests.cli.screens import piped, run_process
from tests.cli.test_translate import STREAM
from tests.server.process import PATIENCE

REQUEST = b'{"model":"echo/text","messages":[{"role":"user","content":"Hi"}]}'
# Commands that end by themselves; FILE is the configuration, REQUEST is on standard input.
TYPED = (
    "",
    "check --config FILE",
    "completion bash",
    "db check --config FILE",
    "doctor --offline --config FILE",
    "env claude --config FILE",
    "explain -",
    "forget --key alice --dry-run --config FILE",
    "key new",
    f"logs --config FILE --session {MAIN}",
    "models --config FILE",
    "prices gpt-5 --config FILE",
    "providers",
    "route echo/text - --config FILE",
    "service status",
    f"session {MAIN} --config FILE",
    "sessions --since all --config FILE",
    "status --config FILE",
    "top --once --config FILE",
    "translate --to openai-responses -",
    "trust FILE",
    "usage --since all --config FILE",
)
# Those have tests with real processes of their own.
ELSEWHERE = {"init", "launch", "mock", "serve"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("processes")
    file = recorded_file(folder)
    file.write_text(file.read_text() + "[server]\nport = 1\ndiscover = false\n")
    return folder


@pytest.mark.parametrize("typed", TYPED)
def test_a_process_writes_what_a_call_writes(typed: str, place: Path, tmp_path: Path) -> None:
    words = typed.replace("FILE", "gateway.toml").split()
    environ = {"PATH": str(tmp_path), "TZ": "UTC"}
    ends = []
    for run in (piped, run_process):
        # A command may leave files behind that the next one mentions, such as SQLite's.
        home = Path(shutil.copytree(place, tmp_path / "home"))
        ends.append(run(words, home, environ, stdin=REQUEST))
        shutil.rmtree(home)
    called, ran = ends
    assert comparable(ran) == comparable(called)
    assert ran[1] + ran[2]


def comparable(ended: tuple[int, str, str]) -> tuple[int, list[str]]:
    """A status and lines, without times, room on the disk, and keys that were just made."""
    status, out, err = ended
    text = re.sub(r"dgm_[\w-]+|[0-9a-f]{64}|[\d.]+ [KMGT]iB\b", "…", timeless(out + err))
    return status, [re.sub(r"\s+", " ", line) for line in text.splitlines()]


def test_no_command_is_forgotten() -> None:
    names = {command.__name__.rpartition(".")[2] for command in COMMANDS}
    assert names == {typed.split()[0] for typed in TYPED if typed} | ELSEWHERE


def test_a_stream_is_translated_as_it_comes() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "dragoman", "translate", "--stream", "--to", "anthropic-messages"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(STREAM)
    process.stdin.flush()
    # The provider has not hung up yet; what is ready is there already.
    assert process.stdout.readline() == b"event: message_start\n"
    process.stdin.write(b"data: [DONE]\n\n")
    rest, _ = process.communicate(timeout=PATIENCE)
    assert rest.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')
    assert process.returncode == 0
