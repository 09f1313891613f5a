"""The commands on Windows, which is played: without the modules, signals and functions that it does not have."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TypeAlias

import pytest
from msgspec import Struct

from dragoman.cli import COMMANDS
from tests.cli.screens import piped
from tests.server.process import PATIENCE, ROOT, clean_environment

# What the standard library itself needs is loaded before the system changes under it.
WINDOWS = """
import asyncio, ctypes, http.client, importlib.abc, mmap, multiprocessing, os, pathlib, select, shutil, signal, socket
import sqlite3, ssl, subprocess, sys, tempfile, urllib.request, zoneinfo

MODULES = {"curses", "fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty", "uvloop"}

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
for name in MODULES:
    sys.modules.pop(name, None)
ABSENT = {
    signal: "SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGUSR1 SIGUSR2 alarm"
    " pthread_sigmask setitimer sigwait",
    os: "O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK chown fchmod fchown fork getpgid getpgrp killpg openpty"
    " register_at_fork setsid",
    select: "PIPE_BUF",
    socket: "SO_REUSEPORT",
}
for module, names in ABSENT.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
# A client that can be found, so that nothing else is in the way of starting it.
shutil.which = lambda name, **_: os.path.abspath(name)
sys.platform = "win32"
from dragoman.cli import main
import json

def call(words):
    # Status, standard output and standard error of one command.
    saved = [os.dup(1), os.dup(2)]
    files = [tempfile.TemporaryFile(), tempfile.TemporaryFile()]
    for target, file in zip((1, 2), files):
        os.dup2(file.fileno(), target)
    try:
        status = main(words)
    except SystemExit as ended:
        status = ended.code
    finally:
        # An exception is printed where the test's own output goes.
        for target, descriptor in zip((1, 2), saved):
            os.dup2(descriptor, target)
            os.close(descriptor)
    for file in files:
        file.seek(0)
    return [status, *(file.read().decode() for file in files)]

json.dump([call(words) for words in json.load(sys.stdin)], sys.stdout)
"""
USE_WSL = (
    "dragoman: the gateway does not run on Windows: use WSL, where it runs as on Linux (`wsl --install` sets it up)\n"
)


Words: TypeAlias = tuple[str, ...]


class Ended(Struct, frozen=True):
    """What came of a command."""

    status: int
    out: str
    err: str


@pytest.fixture(scope="module")
def on_windows(tmp_path_factory: pytest.TempPathFactory) -> dict[Words, Ended]:
    """What all commands wrote and how they ended, one after the other in one process."""
    folder = tmp_path_factory.mktemp("windows")
    # A gateway at the usual port of this machine is none of the test's; nothing listens at this one.
    config = folder / "named.toml"
    config.write_text("[server]\nport = 1\n", encoding="utf-8")
    commands = (*SERVING, *OTHERS)
    done = subprocess.run(
        [sys.executable, "-c", WINDOWS],
        cwd=folder,
        env=clean_environment(folder) | {"DRAGOMAN_CONFIG": str(config)},
        input=json.dumps(commands),
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return dict(zip(commands, (Ended(*ended) for ended in json.loads(done.stdout)), strict=True))


# Every command that serves, or has somebody serve.
SERVING = (("serve", "--port", "0"), ("mock", "--port", "0"), ("launch", "claude", "--model", "echo/text"))
CHAT_REQUEST = str(ROOT / "examples/chat-request.json")
# The others, as they are called; those that only look for a gateway that runs say that there is none.
OTHERS = (
    ("translate", "--to", "anthropic-messages", CHAT_REQUEST),
    ("explain", CHAT_REQUEST),
    ("check",),
    ("check", "--live"),
    # A stored key would close the gateway of the commands after it.
    ("key", "new", "--print"),
    ("key", "list"),
    ("providers",),
    ("models", "echo", "--live"),
    ("prices", "gpt-5"),
    ("route", "echo/text"),
    ("env", "claude"),
    ("usage",),
    ("sessions",),
    ("top", "--once"),
)


@pytest.mark.parametrize("words", SERVING, ids=" ".join)
def test_whoever_would_serve_says_in_one_sentence_to_use_wsl(on_windows: dict[Words, Ended], words: Words) -> None:
    assert on_windows[words] == Ended(1, "", USE_WSL)


@pytest.mark.parametrize("words", OTHERS, ids=lambda words: " ".join(words[:3]).replace(str(ROOT), ""))
def test_the_other_commands_work_there(on_windows: dict[Words, Ended], words: Words) -> None:
    done = on_windows[words]
    assert done.status == 0, done.err
    assert "Traceback" not in done.err
    assert done.out


def test_what_is_translated_there_is_what_is_translated_here(on_windows: dict[Words, Ended], tmp_path: Path) -> None:
    words = ("translate", "--to", "anthropic-messages", CHAT_REQUEST)
    _, out, _ = piped(words, tmp_path)
    assert json.loads(on_windows[words].out) == json.loads(out)


def test_no_command_is_forgotten() -> None:
    tried = {words[0] for words in (*SERVING, *OTHERS)}
    names = set(COMMANDS)
    # These only read and write files of the user, ask a gateway that runs, or have nothing to say of no records.
    beside = {"trust", "status", "service", "doctor", "init", "completion", "logs", "session", "db", "forget"}
    assert names - tried <= beside
