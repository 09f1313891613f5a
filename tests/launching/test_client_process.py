"""Running a client: its environment, its exit status, and the signals that come meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dragoman.errors import DragomanError
from dragoman.launching.client_process import ClientRun, environment_of, program_of, search_path
from dragoman.launching.clients import CLIENTS, LaunchPlan
from dragoman.launching.keys import GivenKey
from tests.waiting import wait_until

PLAN = LaunchPlan(key_variable="TOKEN", environment={"PLACE": "here"}, removed=("OTHER_KEY",))
KEY = GivenKey(text="secret")
LOCAL = "http://127.0.0.1:8484"
PATIENCE = 60.0


def test_a_client_is_found_on_the_path(tmp_path: Path) -> None:
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert program_of(CLIENTS["claude"], {"PATH": str(tmp_path)}) == str(program)


def test_a_client_that_is_missing_is_told_with_the_line_that_installs_it(tmp_path: Path) -> None:
    with pytest.raises(DragomanError, match="codex is not on PATH; install it: npm install -g @openai/codex"):
        program_of(CLIENTS["codex"], {"PATH": str(tmp_path)})


def test_the_environment_is_the_users_own_and_what_the_plan_says() -> None:
    environment = environment_of(PLAN, KEY, LOCAL, {"HOME": "/home", "OTHER_KEY": "x", "PLACE": "there"})
    assert environment == {"HOME": "/home", "PLACE": "here", "TOKEN": "secret"}


@pytest.mark.parametrize(
    ("url", "before", "after"),
    [
        (LOCAL, {}, None),
        (LOCAL, {"HTTP_PROXY": "http://proxy"}, "127.0.0.1"),
        (LOCAL, {"all_proxy": "http://proxy", "NO_PROXY": "example.org"}, "example.org,127.0.0.1"),
        ("http://gateway.example.org", {"HTTP_PROXY": "http://proxy"}, None),
    ],
)
def test_pitfall_632_no_proxy_comes_between_a_client_and_its_own_machine(
    url: str, before: dict[str, str], after: str | None
) -> None:
    assert environment_of(PLAN, KEY, url, before).get("NO_PROXY") == after


@pytest.mark.parametrize(
    ("script", "status"),
    [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 128 + signal.SIGTERM)],
)
def test_the_exit_status_is_the_clients(script: str, status: int) -> None:
    with ClientRun() as client:
        assert client.to_end(["/bin/sh", "-c", script], os.environ) == status


# Ends with the first signal that it gets.
WAITING = """
import pathlib, signal, sys
numbers = {signal.SIGTERM, signal.SIGHUP, signal.SIGINT}
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
pathlib.Path(sys.argv[1]).touch()
sys.exit(40 + signal.sigwait(numbers))
"""


@pytest.mark.parametrize(
    ("sent", "heard"),
    [
        ([signal.SIGTERM], signal.SIGTERM),
        # What a terminal sends, everybody in front of it gets: the client, too.
        ([signal.SIGINT, signal.SIGHUP], signal.SIGHUP),
        ([signal.SIGTSTP, signal.SIGTERM], signal.SIGTERM),
    ],
    ids=["to us alone", "an interrupt from the terminal", "a stop from the terminal"],
)
def test_a_signal_that_is_sent_to_us_alone_reaches_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: list[signal.Signals], heard: signal.Signals
) -> None:
    kill, ready, passed_on = os.kill, tmp_path / "ready", list[int]()

    def noted_kill(pid: int, number: int) -> None:
        passed_on.append(number)
        kill(pid, number)

    def send() -> None:
        wait_until(ready.exists, "the client runs")
        for number in sent:
            # The kernel may choose any thread: this one, which does not wait for the client.
            signal.pthread_kill(threading.get_ident(), number)

    monkeypatch.setattr(os, "kill", noted_kill)
    with ClientRun() as client:
        sender = threading.Thread(target=send)
        sender.start()
        status = client.to_end([sys.executable, "-c", WAITING, str(ready)], os.environ)
        sender.join(PATIENCE)
    assert (status, passed_on) == (40 + heard, [heard])


def test_after_an_early_signal_no_client_is_started(tmp_path: Path) -> None:
    with ClientRun() as client:
        signal.raise_signal(signal.SIGINT)
        assert client.to_end(["/bin/sh", "-c", f"touch {tmp_path}/ran"], os.environ) == 128 + signal.SIGINT
    assert not (tmp_path / "ran").exists()


STOPPING = """
import os, sys
from dragoman.launching.client_process import ClientRun
with ClientRun() as client:
    sys.exit(client.to_end(["/bin/sh", "-c", "kill -STOP $$; exit 7"], os.environ))
"""


def test_a_client_that_is_stopped_stops_us_and_goes_on_with_us() -> None:
    process = subprocess.Popen([sys.executable, "-c", STOPPING], start_new_session=True)
    try:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        # Only us, and the client goes on.
        os.kill(process.pid, signal.SIGCONT)
        assert process.wait(PATIENCE) == 7
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE)


def test_handlers_are_as_before_in_the_end() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    before = [signal.getsignal(number) for number in numbers]
    with ClientRun():
        assert [signal.getsignal(number) for number in numbers] != before
    assert [signal.getsignal(number) for number in numbers] == before


@pytest.mark.parametrize("path", ["", ".", "bin/..", "{here}", "{here}/", "{here}/bin/..", "{link}"])
def test_what_lies_in_the_current_directory_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    here, link = tmp_path / "here", tmp_path / "link"
    (here / "bin").mkdir(parents=True)
    link.symlink_to(here)
    program = here / "claude"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(here)
    environ = {"PATH": f"{path.format(here=here, link=link)}:/nowhere"}
    with pytest.raises(DragomanError, match="claude is not on PATH"):
        program_of(CLIENTS["claude"], environ)
    assert environment_of(PLAN, KEY, LOCAL, environ)["PATH"] == "/nowhere"


def test_a_current_directory_that_is_gone_hides_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert search_path({"PATH": "/usr/bin:.:/bin"}) == "/usr/bin:/bin"
