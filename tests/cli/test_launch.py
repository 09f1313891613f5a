"""`dragoman launch` with a stand-in for the client, which tells how it was started and asks the gateway once."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import shutil
import signal
import stat
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from dragoman.cli import cut
from dragoman.config.config_file import FILE_NAME
from dragoman.config.load import read_settings
from dragoman.config.settings import Settings
from dragoman.launching.gateway import is_running
from dragoman.providers.catalogue import catalogue
from tests.cli.machine import put_trusted
from tests.cli.screens import piped
from tests.cli.transcripts import Transcript
from tests.config.support import named
from tests.gateway.harness import CHAT, House, Received, Reply, running, whole
from tests.ports import CLOSED_PORT
from tests.sdk.providers import Turn
from tests.sdk.providers import answer as answer_of
from tests.server.process import PATIENCE, Process, clean_environment
from tests.server.workers import wait_gone
from tests.waiting import wait_until

SECRET = "sk-0123456789abcdef-of-mine"
SESSION = "6f2c1d1e-8f0b-4d59-9a55-0c1f5b7f2c11"
STAND_IN = f"""#!{sys.executable}
import json, os, signal, sys, time, urllib.request
url = os.environ["ANTHROPIC_BASE_URL"]
body = {{"model": os.environ["ANTHROPIC_MODEL"], "max_tokens": 9, "messages": [{{"role": "user", "content": "Hello"}}]}}
headers = {{"authorization": "Bearer " + os.environ["ANTHROPIC_AUTH_TOKEN"], "content-type": "application/json"}}
headers.update(line.split(": ", 1) for line in os.environ["ANTHROPIC_CUSTOM_HEADERS"].splitlines())
headers |= {{"user-agent": "claude-cli/2.1.0", "x-claude-code-session-id": "{SESSION}"}}
headers["x-claude-code-request-class"] = "main"
file = sys.argv[sys.argv.index("--settings") + 1]
settings = {{"mode": os.stat(file).st_mode & 0o777, "says": json.load(open(file)), "file": file}}
env = settings["says"]["env"]
env["ANTHROPIC_AUTH_TOKEN"] = env["ANTHROPIC_AUTH_TOKEN"][:4]
if "mute" in sys.argv:
    sys.exit(0)
with urllib.request.urlopen(urllib.request.Request(url + "/v1/messages", json.dumps(body).encode(), headers)) as answer:
    text = json.load(answer)["content"][0]["text"]
key = os.environ.get("ANTHROPIC_API_KEY")
sizes = [os.environ.get("CLAUDE_CODE_MAX_" + name) for name in ("CONTEXT_TOKENS", "OUTPUT_TOKENS")]
told = {{"sizes": sizes, "words": sys.argv[3:], "url": url, "text": text, "key": key, "pid": os.getpid()}}
told |= {{"settings": settings, "headers": os.environ["ANTHROPIC_CUSTOM_HEADERS"], "parent": os.getppid()}}
signal.signal(signal.SIGCONT, lambda *_: print("here", "again", flush=True))
print(json.dumps(told), flush=True)
if "wait" in sys.argv:
    time.sleep(300)
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


def environment(place: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a launch finds in its environment."""
    own = {"PATH": f"{place / 'bin'}:/usr/bin:/bin", "ANTHROPIC_API_KEY": "mine"}
    return clean_environment(place) | own | dict(more or {})


def launching(place: Path, *words: str) -> subprocess.Popen[str]:
    """A launch under way, as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "dragoman", "launch", *words],
        cwd=place,
        # One that is killed leaves its files behind.
        env=environment(place, {"TMPDIR": str(place)}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def launched(place: Path, *words: str, more: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """A launch to its end: exit status and what was said."""
    return piped(["launch", *words], place, environment(place, more))


@contextmanager
def gateway_here(
    place: Path, more: str = "", script: Callable[[Received], Reply] = lambda _: whole({})
) -> Iterator[House]:
    """A gateway in this process, which a launch finds running where the configuration says.

    `more` is added to the configuration; `{port}` in it is that of a provider that follows the script.
    """

    def settings(port: int) -> Settings:
        configure(place, "port = 0", more.format(port=port))
        return read_settings(named(place / FILE_NAME), {}, catalogue())

    with running(script, settings) as house:
        configure(place, f"port = {house.port}", more.format(port=house.provider.port))
        yield house


def port_of(told: Mapping[str, object]) -> int:
    """The port of the gateway that the client was given."""
    return int(str(told["url"]).rpartition(":")[2])


def test_a_gateway_is_started_and_ended_with_the_client(place: Path) -> None:
    process = launching(place, "claude", "--model", "echo/text", "--", "-p", "--", "two words")
    out, err = process.communicate(timeout=PATIENCE)
    told = json.loads(out)
    assert process.returncode == 5, err
    assert told["text"] == "You said: Hello"
    assert told["words"] == ["-p", "--", "two words"]
    assert told["key"] is None
    # Somebody is left to sum up.
    assert told["parent"] == process.pid
    assert not running_at(port_of(told))


def test_the_client_is_told_what_the_provider_says_of_the_model(place: Path) -> None:
    answer = answer_of(CHAT, Turn(stop="stop", text="Well."))

    def provider(received: Received) -> Reply:
        return whole({"data": [{"id": "m", "max_model_len": 32768}]} if received.method == "GET" else answer)

    with gateway_here(place, BOX, provider):
        status, out, err = launched(place, "claude", "--model", "box/m")
    assert (status, err) == (5, "dragoman: 1 call, 18 tokens, 1 call unpriced, no losses\n")
    assert json.loads(out)["sizes"] == ["32768", "8192"]


BOX = '[providers.box]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:{port}/v1"\n'


def test_what_nobody_knows_of_the_model_is_said_in_one_line(place: Path) -> None:
    with gateway_here(place):
        status, out, err = launched(place, "claude", "--model", "echo/text")
    assert (status, json.loads(out)["sizes"]) == (5, [None, None])
    assert err == (
        "dragoman: note: the context window of echo/text is unknown, so claude uses its default; "
        "set it with --context 128k\n"
        "dragoman: 1 call, 7 tokens, $0.00, no losses\n"
    )


def running_at(port: int) -> bool:
    """Whether a gateway answers there."""
    return is_running(f"http://127.0.0.1:{port}")


def test_a_gateway_that_runs_is_used_and_left_running(place: Path) -> None:
    process = Process([], place)
    try:
        port = process.listening()
        configure(place, f"port = {port}")
        file = place / "log"
        status, out, err = launched(place, "claude", "--model", "echo/text", "--log", str(file))
        assert (status, port_of(json.loads(out))) == (5, port), err
        assert "1 call, 7 tokens, $0.00, no losses" in err
        assert f"the gateway at http://127.0.0.1:{port} was already running" in err
        assert not file.exists()
        assert running_at(port)
    finally:
        process.end()


def test_the_key_is_the_clients_alone(place: Path) -> None:
    configure(place, "port = 0", f'[keys.me]\nkey = "{SECRET}"\n')
    status, out, err = launched(place, "claude", "--model", "echo/text", more={"DRAGOMAN_KEY": SECRET})
    assert (status, json.loads(out)["text"]) == (5, "You said: Hello")
    assert SECRET not in out + err


def test_without_the_key_a_gateway_that_runs_is_not_used(place: Path) -> None:
    with gateway_here(place, f'[keys.me]\nkey = "{SECRET}"\n'):
        status, out, err = launched(place, "claude", "--model", "echo/text")
    assert (status, out) == (1, "")
    assert "set DRAGOMAN_KEY" in err


def test_a_missing_client_is_told_with_the_line_that_installs_it(place: Path) -> None:
    status, out, err = launched(place, "codex")
    assert (status, out) == (1, "")
    assert "codex is not on PATH; install it: npm install -g @openai/codex" in err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--model", "ecko/text"], "the model `ecko/text` is not known here; did you mean echo/text?"),
        (["--model", "gpt-5.1"], "(a provider exists once its key is set: `dragoman providers`)"),
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
    assert "unrecognized arguments: -p Hello; arguments for the client go after --" in err


def test_a_signal_ends_the_client_and_then_the_gateway(place: Path) -> None:
    process = launching(place, "claude", "--model", "echo/text", "--", "wait")
    assert process.stdout is not None
    told = json.loads(process.stdout.readline())
    assert running_at(port_of(told))
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
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
        wait_until(lambda: not running_at(port_of(told)), "the gateway of a killed launch ends")
    finally:
        os.kill(told["pid"], signal.SIGKILL)
        process.communicate(timeout=PATIENCE)


def test_item_22_a8_the_key_of_a_killed_launch_goes_at_the_next_start_once_its_client_has_ended(place: Path) -> None:
    process = launching(place, "claude", "--model", "echo/text", "--", "wait")
    assert process.stdout is not None
    told = json.loads(process.stdout.readline())
    file = Path(told["settings"]["file"])
    try:
        process.kill()
        process.wait(PATIENCE)
        wait_until(lambda: not running_at(port_of(told)), "the gateway of a killed launch ends")
        # The client still runs, and has its settings there.
        launch_again(place)
        assert file.exists()
    finally:
        os.kill(told["pid"], signal.SIGKILL)
        process.communicate(timeout=PATIENCE)
    wait_gone([told["pid"]])
    launch_again(place)
    assert not file.parent.exists()


def launch_again(place: Path) -> None:
    """Another launch beside the first, to its end."""
    process = launching(place, "claude", "--model", "echo/text")
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 5


def test_pitfall_635_637_the_client_gets_the_same_as_settings_with_one_credential(place: Path) -> None:
    own = {"env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "MINE": "kept"}, "theme": "dark"}
    (place / "own.json").write_text(json.dumps(own))
    words = ["claude", "--model", "echo/text", "--", "--settings", "own.json", "-p", "x"]
    status, out, err = launched(place, *words, more={"ANTHROPIC_CUSTOM_HEADERS": "x-mine: 1"})
    told = json.loads(out)
    settings = told["settings"]["says"]
    env = settings.pop("env")
    assert (status, told["words"]) == (5, ["-p", "x"]), err
    assert settings == {"theme": "dark", "apiKeyHelper": ""}
    assert (env["ANTHROPIC_BASE_URL"], env["MINE"], env["ANTHROPIC_MODEL"]) == (told["url"], "kept", "echo/text")
    # Keys, logins and other clouds lead nowhere.
    elsewhere = ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", *(f"CLAUDE_CODE_USE_{n}" for n in CLOUDS))
    assert [env[name] for name in elsewhere] == [""] * 5
    assert env["ANTHROPIC_AUTH_TOKEN"] == "dgm_"
    assert told["key"] is None
    first, second = env["ANTHROPIC_CUSTOM_HEADERS"].splitlines()
    assert (first, second.partition("-")[0]) == ("x-mine: 1", "x")
    # For nobody else to read, and gone with the client.
    assert told["settings"]["mode"] == 0o600
    assert not Path(told["settings"]["file"]).parent.exists()


CLOUDS = ("BEDROCK", "VERTEX", "FOUNDRY")


def test_pitfall_648_a_provider_that_is_down_ends_the_launch_before_the_client_is_started(place: Path) -> None:
    port = CLOSED_PORT
    base = f'protocol = "openai-chat"\nbase_url = "http://127.0.0.1:{port}/v1"\nauth = "none"\n'
    configure(place, "port = 0", f"[providers.box]\n{base}")
    status, out, err = launched(place, "claude", "--model", "box/m", "--context", "32k")
    assert (status, out) == (1, "")
    told = f"dragoman: box/m cannot be used now: box at 127.0.0.1:{port} refused the connection: is it running?"
    # More follows in a container, which 127.0.0.1 is not the host of.
    assert err.startswith(told) and err.count("\n") == 1


def test_a_provider_that_does_not_take_the_key_ends_the_launch_too(place: Path) -> None:
    keyed = f'{BOX}api_key = "{SECRET}"\n'
    with gateway_here(place, keyed, lambda _: whole({"error": {"message": "no"}}, 401)) as house:
        status, out, err = launched(place, "claude", "--model", "box/m", "--context", "32k")
    assert (status, out) == (1, "")
    address = f"http://127.0.0.1:{house.provider.port}/v1"
    assert f"box at {address} refused the key providers.box.api_key: is it right, and still good?" in err
    assert SECRET not in err


def test_one_of_two_that_is_down_is_a_note(place: Path) -> None:
    base = 'protocol = "openai-chat"\nbase_url = "http://127.0.0.1:9/v1"\nauth = "none"\n'
    with gateway_here(place, f'[providers.box]\n{base}[models]\n"two" = ["echo/text", "box/m"]\n'):
        status, out, err = launched(place, "claude", "--model", "two", "--context", "32k")
    assert (status, json.loads(out)["text"]) == (5, "You said: Hello")
    assert "note: box at 127.0.0.1:9 refused the connection: is it running?" in err


def test_the_log_is_its_owners_alone_and_named_when_the_client_fails(place: Path) -> None:
    status, _, err = launched(place, "claude", "--model", "echo/text", "--log", "of launch.log")
    log = place / "of launch.log"
    assert (status, stat.S_IMODE(log.stat().st_mode)) == (5, 0o600)
    assert f"claude ended with status 5; the gateway's log is {log}\n" in err
    assert '"event":"exchange"' in log.read_text()


def test_pitfall_522_a_launch_has_the_name_that_it_is_given(place: Path) -> None:
    with gateway_here(place) as house:
        words = ["claude", "--model", "echo/text", "--context", "32k", "--name", "tidy-up"]
        _, out, err = launched(place, *words)
    assert json.loads(out)["headers"] == "x-dragoman-launch: tidy-up"
    assert "dragoman: tidy-up: 1 call, 7 tokens, $0.00, no losses\n" in err
    assert '"launch":"tidy-up"' in house.log.getvalue()


def test_what_can_be_no_name_is_refused(place: Path) -> None:
    status, out, err = launched(place, "claude", "--name", "two words")
    assert (status, out) == (2, "")
    assert "--name must have 1 to 64 letters" in err


def test_pitfall_636_a_client_that_never_called_is_told_of(place: Path) -> None:
    with gateway_here(place):
        status, _, err = launched(place, "claude", "--model", "echo/text", "--context", "32k", "--", "mute")
        words = ["claude", "--model", "echo/text", "--context", "32k", "--", "mute", "--version"]
        assert launched(place, *words)[2] == ""
    assert status == 0
    assert err == (
        "dragoman: claude never called this gateway: it sent no request, ended early, or uses another "
        "address (settings that an administrator manages)\n"
    )


def test_a_client_that_chooses_its_models_is_told_if_they_lead_nowhere(place: Path) -> None:
    with gateway_here(place):
        _, _, err = launched(place, "claude", "--", "mute", "--version", more={"ANTHROPIC_MODEL": "echo/text"})
    assert (
        "note: claude uses its default models: `claude-sonnet-5` is a model of anthropic, and anthropic "
        "has no key here: set ANTHROPIC_API_KEY, and add [providers.anthropic] to the configuration (--model NAME)\n"
    ) in err


def test_pitfall_644_what_is_good_to_know_of_a_client_is_said_once(place: Path) -> None:
    codex = place / "bin/codex"
    codex.write_text("#!/bin/sh\n")
    codex.chmod(0o755)
    with gateway_here(place):
        said = [launched(place, "codex", "--model", "echo/text", "--context", "32k")[2] for _ in range(2)]
    assert ["codex resume" in err for err in said] == [True, False]


def test_what_all_workers_counted_is_summed_up(place: Path) -> None:
    configure(place, "port = 0\nworkers = 2")
    status, _, err = launched(place, "claude", "--model", "echo/text", "--context", "32k")
    assert (status, err) == (5, "dragoman: 1 call, 7 tokens, $0.00, no losses\n")


class Shell:
    """A shell with job control in front of a terminal, as a person has it."""

    def __init__(self, place: Path) -> None:
        ours, theirs = pty.openpty()
        environment = clean_environment(place) | {"PATH": f"{place / 'bin'}:/usr/bin:/bin", "PS1": "$ ", "TERM": "dumb"}
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"],
            cwd=place,
            env=environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            preexec_fn=partial(_take_terminal, theirs),
        )
        os.close(theirs)
        self._terminal, self._transcript = ours, Transcript(ours)

    def type(self, keys: str) -> None:
        """Type something."""
        os.write(self._terminal, keys.encode())

    def wait(self, text: str) -> str:
        """Read up to a text, and return all of that; it is not read again."""
        return self._transcript.take(text)

    def end(self) -> None:
        """End the shell, whose jobs end with the terminal."""
        os.close(self._terminal)
        self._process.kill()
        self._process.wait(PATIENCE)


def _take_terminal(terminal: int) -> None:
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no shell with job control")
def test_a_client_is_stopped_continued_and_interrupted_as_a_job(place: Path) -> None:
    shell = Shell(place)
    try:
        shell.wait("$ ")
        shell.type(f"{sys.executable} -m dragoman launch claude --model echo/text --context 32k -- wait\n")
        shell.wait('"parent"')
        shell.type("\x1a")
        shell.wait("Stopped")
        shell.wait("$ ")
        shell.type("fg\n")
        shell.wait("here again")
        shell.type("\x03")
        shell.wait("KeyboardInterrupt")
        shell.wait("dragoman: 1 call, 7 tokens, $0.00, no losses")
        shell.wait("dragoman: to resume the session:")
        shell.wait(f"  dragoman launch claude --model echo/text --context 32k -- --resume {SESSION}")
        shell.type("echo it was $?\n")
        shell.wait("it was 130")
        # Of a run that failed nothing is to be resumed.
        shell.type(f"{sys.executable} -m dragoman launch claude --model echo/text --context 32k; echo it was $?\n")
        shown = shell.wait("it was 5")
        assert "dragoman: 1 call" in shown
        assert "resume" not in shown
    finally:
        shell.end()


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
