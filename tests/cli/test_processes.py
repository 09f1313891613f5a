"""Every command as a process of its own: it ends and writes as it does where tests call it in their own process."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.cli import COMMANDS
from tests.cli.recorded_file import MAIN, recorded_file, timeless
from tests.cli.screens import on_screen, piped, process_on_screen, run_process
from tests.cli.test_translate import STREAM
from tests.gateway.harness import PROVIDER_KEY, whole
from tests.server.process import PATIENCE, ROOT, serving

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
    names = set(COMMANDS)
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


def test_a_process_colours_a_terminal_of_its_own(tmp_path: Path) -> None:
    words = ["explain", str(ROOT / "examples/chat-request.json")]
    seen = process_on_screen(words, tmp_path, columns=140)
    assert seen.coloured
    assert seen.raw.replace("\r", "") == on_screen(words, tmp_path, columns=140).raw


def test_pitfall_619_an_encoding_that_lacks_signs_is_told_in_ascii(tmp_path: Path) -> None:
    # The interpreter reads the encoding when it starts.
    words = ["explain", str(ROOT / "examples/chat-request.json")]
    environ = {"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    seen = process_on_screen(words, tmp_path, environ=environ)
    assert seen.raw.isascii()
    assert seen.plain == on_screen(words, tmp_path, environ={"LC_ALL": "C"}).plain


def test_item_3_a_process_asks_its_terminal_and_then_trusts(tmp_path: Path) -> None:
    (tmp_path / "dragoman.toml").write_text('[models]\nfast = "echo/text"\n')
    asked = process_on_screen(["check"], tmp_path, stream="stderr", typed=b"y\n")
    assert (asked.status, "Trust it? [y/N] " in asked.raw) == (0, True)
    again = on_screen(["check"], tmp_path, stream="stderr", typed=b"")
    assert (again.status, again.raw, again.other) == (0, "", asked.other)


def test_pitfall_623_a_shell_that_undoes_it_is_as_before(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[server]\nport = 1\n[models]\n"mine" = "echo/text"\n')
    words = ["env", "claude", "--model", "mine", "--config", str(file), "--shell", "sh"]
    _, out, _ = piped(words, tmp_path)
    undo = next(line for line in out.splitlines() if line.startswith("# To undo this: "))
    show = "env | grep -E '^(ANTHROPIC|CLAUDE)' || true"
    told = {}
    for name, more in {"done": "", "undone": undo.removeprefix("# To undo this: ")}.items():
        done = subprocess.run(
            ["sh", "-c", f'eval "$LINES_OF_ENV"\n{more}\n{show}'],
            env={"PATH": "/usr/bin:/bin", "LINES_OF_ENV": out},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
        told[name] = [line for line in done.stdout.splitlines() if not line.startswith("LINES_OF_ENV")]
    assert "ANTHROPIC_MODEL=mine" in told["done"]
    assert told["undone"] == []


def test_pitfall_633_the_log_begins_with_every_setting_that_is_not_default() -> None:
    with serving(lambda received: whole({}), arguments=("--workers", "2")) as house:
        assert house.process.log.wait("settings that are not default")
        told = json.loads(house.process.log.all()[0])
    assert told["server.workers"] == "2 (--workers)"
    assert told["server.port"] == "0 (--port)"
    assert told["providers.chat.base_url"].startswith("(") and ":" in told["providers.chat.base_url"]
    assert PROVIDER_KEY not in str(told)
