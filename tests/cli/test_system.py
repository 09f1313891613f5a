"""The commands on Windows, which is played: without the modules, signals and functions that it does not have."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.cli import COMMANDS
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
sys.exit(main(sys.argv[1:]))
"""
USE_WSL = (
    "dragoman: a gateway does not run on Windows itself: use WSL, where it runs as on Linux "
    "(`wsl --install` sets it up)\n"
)


def on_windows(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What a command says and how it ends."""
    return subprocess.run(
        [sys.executable, "-c", WINDOWS, *words],
        cwd=folder,
        env=clean_environment(folder),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


# Every command that serves, or has somebody serve.
SERVING = (("serve", "--port", "0"), ("mock", "--port", "0"), ("launch", "claude", "--model", "echo/text"))
CHAT_REQUEST = str(ROOT / "examples/chat-request.json")
# The others, as they are called; those that only look for a gateway that runs say that there is none.
OTHERS = (
    ("translate", "--to", "anthropic-messages", CHAT_REQUEST),
    ("explain", CHAT_REQUEST),
    ("check",),
    ("check", "--live"),
    ("key", "new"),
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
def test_whoever_would_serve_says_in_one_sentence_to_use_wsl(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = on_windows(tmp_path, *words)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", USE_WSL)


@pytest.mark.parametrize("words", OTHERS, ids=lambda words: " ".join(words[:3]).replace(str(ROOT), ""))
def test_the_other_commands_work_there(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = on_windows(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout


def test_what_is_translated_there_is_what_is_translated_here(tmp_path: Path) -> None:
    words = ("translate", "--to", "anthropic-messages", CHAT_REQUEST)
    here = subprocess.run(
        [sys.executable, "-m", "dragoman", *words],
        cwd=tmp_path,
        env=clean_environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert json.loads(on_windows(tmp_path, *words).stdout) == json.loads(here.stdout)


def test_no_command_is_forgotten() -> None:
    tried = {words[0] for words in (*SERVING, *OTHERS)}
    names = {command.__name__.rpartition(".")[2] for command in COMMANDS}
    # These only read and write files of the user, ask a gateway that runs, or have nothing to say of no records.
    beside = {"trust", "status", "service", "doctor", "init", "completion", "logs", "session", "db", "forget"}
    assert names - tried <= beside
