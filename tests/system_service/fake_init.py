"""Init systems for tests: programs on PATH that really start the command of a unit, and really end it.

    init = FakeInit(tmp_path, "systemctl")
    … run something with init.environment …
    init.end()

They read the unit by themselves, as far as these do, and start its command with an environment of their own, in which
nothing of a shell is. What they are told is written down.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
from pathlib import Path

from tests.server.process import ROOT

# Starts a command and stays as long as it does: whoever waits for its end waits for the lock.
_KEEPER = """
import fcntl, json, os, subprocess, sys
place, words, folder = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
lock = open(f"{place}/lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
log = open(f"{place}/log", "ab")
environ = json.load(open(f"{place}/environ"))
child = subprocess.Popen(words, cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
open(f"{place}/pid.new", "w").write(str(child.pid))
os.rename(f"{place}/pid.new", f"{place}/pid")
print("started", flush=True)
sys.stdout.close()
os.close(1)
status = child.wait()
os.remove(f"{place}/pid")
open(f"{place}/status", "w").write(str(status))
"""

_COMMON = f"""
import fcntl, json, os, signal, sys
place = os.environ["FAKE_INIT"]
words = sys.argv[1:]
with open(f"{{place}}/told", "a") as told:
    told.write(json.dumps(words) + "\\n")
KEEPER = {_KEEPER!r}

def pid():
    try:
        return int(open(f"{{place}}/pid").read())
    except FileNotFoundError:
        return 0

def stop():
    if pid():
        os.kill(pid(), signal.SIGTERM)
        with open(f"{{place}}/lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)

def start(command, folder):
    import subprocess
    keeper = subprocess.Popen(
        [sys.executable, "-IS", "-c", KEEPER, place, json.dumps(command), folder],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
    )
    keeper.stdout.readline()
"""

_SYSTEMCTL = """
unit = os.path.expanduser("~/.config/systemd/user/dragoman.service")
wants = os.path.expanduser("~/.config/systemd/user/default.target.wants")
link = f"{wants}/dragoman.service"
assert words[0] == "--user", words
verb = words[1]
if os.path.exists(f"{place}/no-bus"):
    sys.exit("Failed to connect to bus: No medium found")
if os.path.exists(f"{place}/fails-{verb}"):
    sys.exit(f"Failed to {verb} unit: of course")
if verb == "enable":
    os.makedirs(wants, exist_ok=True)
    os.path.lexists(link) or os.symlink(unit, link)
elif verb == "restart":
    import re
    stop()
    text = open(unit).read()
    line = re.search("^ExecStart=(.*)$", text, re.M)[1]
    found = [quoted or plain for quoted, plain in re.findall(r'"((?:[^"\\\\]|\\\\.)*)"|(\\S+)', line)]
    command = [re.sub(r"\\\\(.)", r"\\1", word).replace("%%", "%").replace("$$", "$") for word in found]
    start(command, re.search("^WorkingDirectory=(.*)$", text, re.M)[1].replace("%%", "%"))
elif verb == "stop":
    stop()
elif verb == "disable":
    stop()
    os.path.lexists(link) and os.remove(link)
elif verb == "show" and "--property=Version" in words:
    print("Version=257")
elif verb == "show":
    print("LoadState=" + ("loaded" if os.path.exists(unit) else "not-found"))
    print("ActiveState=" + ("active" if pid() else "inactive"))
    print("SubState=" + ("running" if pid() else "dead"))
    print(f"MainPID={pid()}")
    print("Result=success")
else:
    assert verb == "daemon-reload", words
"""

_LAUNCHCTL = """
verb, target = words[0], words[1]
domain = f"gui/{os.getuid()}"
loaded = f"{place}/loaded"
if verb == "bootstrap":
    assert target == domain
    if os.path.exists(loaded):
        sys.exit("Bootstrap failed: 5: Input/output error")
    import plistlib
    agent = plistlib.load(open(words[2], "rb"))
    assert agent["Label"] == "local.dragoman" and agent["RunAtLoad"]
    open(loaded, "w").close()
    start(agent["ProgramArguments"], agent["WorkingDirectory"])
elif verb == "bootout":
    if target != f"{domain}/local.dragoman" or not os.path.exists(loaded):
        sys.exit(3)
    stop()
    os.remove(loaded)
elif verb == "print" and target == domain:
    print("gui = {")
elif verb == "print":
    if not os.path.exists(loaded):
        sys.exit(113)
    print(f"{target} = {{\\n\\tactive count = 1")
    print("\\tstate = " + ("running" if pid() else "not running"))
    print(f"\\tpid = {pid()}" if pid() else "\\tlast exit code = 1")
    print("\\tendpoints = {\\n\\t\\tstate = other\\n\\t}\\n}")
else:
    sys.exit(f"unknown: {words}")
"""


class FakeInit:
    """One of the two, in a folder of its own; a service that is still there in the end is ended."""

    def __init__(self, place: Path, program: str) -> None:
        self.place = place / "init"
        self.home = place / "home"
        tools = place / "bin"
        for folder in (self.place, self.home, tools):
            folder.mkdir()
        script = tools / program
        body = {"systemctl": _SYSTEMCTL, "launchctl": _LAUNCHCTL}[program]
        # Without site packages: it is asked again and again while a service starts.
        script.write_text(f"#!{sys.executable} -IS\n{_COMMON}{body}")
        script.chmod(0o755)
        # What an init system gives to a service, and where this clone is, if it is not installed.
        given = {"HOME": str(self.home), "PATH": str(tools), "PYTHONPATH": str(ROOT / "src")}
        (self.place / "environ").write_text(json.dumps(given))
        self.environment = {"HOME": str(self.home), "PATH": str(tools), "FAKE_INIT": str(self.place)}

    def told(self) -> list[list[str]]:
        """All that it was told."""
        file = self.place / "told"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def log(self) -> str:
        """What the service said."""
        file = self.place / "log"
        return file.read_text() if file.exists() else ""

    @property
    def pid(self) -> int:
        """The process of the service; 0 if none runs."""
        try:
            return int((self.place / "pid").read_text())
        except FileNotFoundError:
            return 0

    def end(self) -> None:
        """End the service if it still runs, by its id."""
        if pid := self.pid:
            os.kill(pid, signal.SIGKILL)
            with (self.place / "lock").open() as lock:
                fcntl.flock(lock, fcntl.LOCK_SH)
