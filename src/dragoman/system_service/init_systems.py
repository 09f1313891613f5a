"""Init systems that can run a user's gateway, as data: detection, commands and a parser of the service state for each.
launchctl is tried before systemctl."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from dragoman.config.container import in_container
from dragoman.errors import DragomanError
from dragoman.launching.client_process import search_path
from dragoman.system_service.units import LABEL, UNIT, Job, launchd_agent, systemd_unit

CommandWords: TypeAlias = tuple[str, ...]

# Timeouts: queries return at once; commands wait for a gateway to start or to finish its streams.
_QUESTION_SECONDS = 10.0
_WORK_SECONDS = 600.0
_MAX_ERROR_LENGTH = 200


class ServiceState(Struct, frozen=True, kw_only=True):
    """The state of a service: whether the init system has loaded it, whether it runs, its process, and a
    description."""

    loaded: bool
    running: bool
    pid: int = 0
    description: str = ""


class Manager(Struct, frozen=True, kw_only=True):
    """An init system: the location and text of its units, and its commands."""

    name: str
    program: str
    unit: Path
    render_unit: Callable[[Job], str]
    # The log file, if the init system has no log of its own.
    log: Path | None
    # Succeeds if the init system works for this user.
    probe: CommandWords
    # The commands that replace an older unit by the new one, and start it.
    before_start: tuple[CommandWords, ...]
    start: tuple[CommandWords, ...]
    stop: tuple[CommandWords, ...]
    # The commands before the unit is removed, and after.
    disable: tuple[CommandWords, ...]
    forget: tuple[CommandWords, ...]
    state: CommandWords
    read: Callable[[int, str], ServiceState]
    # Commands to show to the user: for the log, a restart, and a reload of the configuration.
    show_log: str
    start_again: str
    reload: str
    note: str = ""


def find_manager(environ: Mapping[str, str]) -> Manager:
    """Find the init system of this machine and its program. The current directory is not searched."""
    home = Path(environ.get("HOME", ""))
    if not home.is_absolute():
        raise DragomanError("there is no home to keep a service in (set HOME to an absolute path)")
    path = search_path(environ)
    if program := shutil.which("launchctl", path=path):
        return _launchd(program, home)
    if program := shutil.which("systemctl", path=path):
        return _systemd(program, home)
    raise DragomanError(
        "there is neither systemd nor launchd here to watch over a service: start `dragoman serve` by whatever does"
    )


def check_manager(manager: Manager, environ: Mapping[str, str]) -> None:
    """Fail if the init system does not work for this user. No file has been written by then."""
    status, _, complaint = _run(manager, manager.probe, environ, _QUESTION_SECONDS)
    if status:
        remedy = (
            "start `dragoman serve` itself"
            if in_container()
            else "log in without su or sudo, or start `dragoman serve` itself"
        )
        raise DragomanError(f"{manager.name} does not run for this user: {complaint or f'status {status}'} ({remedy})")


def state_of(manager: Manager, environ: Mapping[str, str]) -> ServiceState:
    status, output, _ = _run(manager, manager.state, environ, _QUESTION_SECONDS)
    return manager.read(status, output)


def run_commands(manager: Manager, commands: tuple[CommandWords, ...], environ: Mapping[str, str]) -> None:
    """Run commands of an init system. The first failure ends the sequence."""
    for words in commands:
        status, _, complaint = _run(manager, words, environ, _WORK_SECONDS)
        if status:
            line = " ".join((Path(manager.program).name, *words))
            raise DragomanError(f"`{line}` failed: {complaint or f'status {status}'}")


def _run(manager: Manager, words: CommandWords, environ: Mapping[str, str], seconds: float) -> tuple[int, str, str]:
    try:
        done = subprocess.run(
            [manager.program, *words],
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DragomanError(f"{manager.program} {words[0]} does not end within {seconds:.0f} s") from None
    complaints = done.stderr.decode(errors="replace").strip().splitlines()
    return done.returncode, done.stdout.decode(errors="replace"), (complaints or [""])[-1][:_MAX_ERROR_LENGTH]


def _systemd(program: str, home: Path) -> Manager:
    return Manager(
        name="systemd",
        program=program,
        # The user's manager does not see the shell's XDG_CONFIG_HOME and always reads this directory.
        unit=home / ".config/systemd/user" / UNIT,
        render_unit=systemd_unit,
        log=None,
        probe=("--user", "show", "--property=Version"),
        before_start=(),
        start=(("--user", "daemon-reload"), ("--user", "enable", UNIT), ("--user", "restart", UNIT)),
        stop=(("--user", "stop", UNIT),),
        disable=(("--user", "disable", "--now", UNIT),),
        forget=(("--user", "daemon-reload"),),
        state=("--user", "show", UNIT, "--property=LoadState,ActiveState,SubState,MainPID,Result"),
        read=read_systemd,
        show_log=f"journalctl --user --unit {UNIT} --follow",
        start_again=f"systemctl --user start {UNIT}",
        reload=f"systemctl --user reload {UNIT}",
        note="it starts when you log in, and ends when you have logged out everywhere, unless you say "
        "`loginctl enable-linger`",
    )


def read_systemd(status: int, output: str) -> ServiceState:
    """Parse the output of `systemctl show`."""
    values = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
    if status or values.get("LoadState", "not-found") != "loaded":
        return ServiceState(loaded=False, running=False, description="systemd does not know it")
    active, result = values.get("ActiveState", "unknown"), values.get("Result", "success")
    words = f"{active} ({values.get('SubState', '')})" + (f", {result}" if result != "success" else "")
    running = active in ("active", "reloading")
    return ServiceState(loaded=True, running=running, pid=_number(values.get("MainPID", "")), description=words)


def _launchd(program: str, home: Path) -> Manager:
    domain = f"gui/{os.getuid()}"
    unit = home / "Library/LaunchAgents" / f"{LABEL}.plist"
    log = home / "Library/Logs/dragoman.log"
    return Manager(
        name="launchd",
        program=program,
        unit=unit,
        render_unit=launchd_agent,
        log=log,
        probe=("print", domain),
        before_start=(("bootout", f"{domain}/{LABEL}"),),
        start=(("bootstrap", domain, str(unit)),),
        stop=(("bootout", f"{domain}/{LABEL}"),),
        disable=(("bootout", f"{domain}/{LABEL}"),),
        forget=(),
        state=("print", f"{domain}/{LABEL}"),
        read=read_launchd,
        show_log=f"tail -f {log}",
        start_again=f"launchctl bootstrap {domain} {unit}",
        reload=f"launchctl kill HUP {domain}/{LABEL}",
        note="it starts when you log in, and ends when you log out",
    )


def read_launchd(status: int, output: str) -> ServiceState:
    """Parse the output of `launchctl print`. Only the first values, at the outer level, count."""
    if status:
        return ServiceState(loaded=False, running=False, description="launchd does not have it loaded")
    values = {name: value for name, value in reversed(re.findall(r"^\t([a-z ]+) = (.+)$", output, re.M))}
    state, code = values.get("state", "unknown"), values.get("last exit code", "")
    words = state + (f", last exit code {code}" if code not in ("", "0", "(never exited)") else "")
    return ServiceState(loaded=True, running=state == "running", pid=_number(values.get("pid", "")), description=words)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() else 0
