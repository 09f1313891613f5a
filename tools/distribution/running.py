"""Installs the package where nothing else is, starts its gateway, and asks the embedded provider something."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import tomllib
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools.distribution.contents import ROOT

# Python 3 of these minor versions is looked for.
MINORS = range(11, 16)
PATIENCE = 120.0
VERSION: str = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
_QUESTION = {"model": "echo/text", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
# What a configuration could be made of, and what would bring modules of the clone into the environment.
_OURS = ("DRAGOMAN_CONFIG", "DRAGOMAN_KEY", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


class TrialError(Exception):
    """Something that was tried did not do what it should."""


def environment(home: Path) -> dict[str, str]:
    """This process's environment, without what is the clone's, and a state folder of its own."""
    kept = {name: value for name, value in os.environ.items() if name not in _OURS}
    return {**kept, "XDG_STATE_HOME": str(home)}


def pythons() -> dict[str, Path]:
    """Every Python from 3.11 on that is on the path or under pyenv, by its version, as in 3.11."""
    found: dict[str, Path] = {}
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for minor in MINORS:
        version = f"3.{minor}"
        on_path = shutil.which(f"python{version}")
        # A newer one of the same comes later; what pyenv puts on the path asks which is chosen, and may refuse.
        under = sorted(pyenv.glob(f"{version}.*/bin/python"), key=lambda path: _numbers(path.parts[-3]), reverse=True)
        for path in (*under, *([Path(on_path)] if on_path else [])):
            if _version_of(path) == version:
                found[version] = path
                break
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    found.setdefault(own, Path(sys.executable))
    return dict(sorted(found.items(), key=lambda item: _numbers(item[0])))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def _version_of(python: Path) -> str:
    words = [str(python), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE).stdout.strip()
    except OSError:
        return ""


def run(words: Sequence[str | Path], place: Path, environ: Mapping[str, str] | None = None) -> str:
    """Run a program to its end, and give what it printed."""
    done = subprocess.run(
        words,
        cwd=place,
        env=environment(place) if environ is None else environ,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=5 * PATIENCE,
    )
    if done.returncode:
        raise TrialError(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def install(python: Path, place: Path, *what: str | Path) -> Path:
    """Install something into a bare environment of a Python; give the folder of its programs."""
    run([python, "-m", "venv", "--without-pip", place / "environment"], place)
    bin_folder = place / "environment/bin"
    # By the pip of whoever tries it: that of an old Python may be too old.
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(bin_folder / "python"))
    run([*pip, "install", "-q", *what], place)
    return bin_folder


@contextmanager
def serving(words: Sequence[str | Path], place: Path, environ: Mapping[str, str] | None = None) -> Iterator[str]:
    """A gateway, started as it is given and ended as a terminal does it; gives its address."""
    process = subprocess.Popen(
        words,
        cwd=place,
        env=environment(place) if environ is None else environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    impatient = threading.Timer(PATIENCE, os.killpg, (process.pid, signal.SIGKILL))
    impatient.start()
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline()
        found = re.search(r" listens on (http://\S+?),", first)
        if found is None:
            raise TrialError(f"{' '.join(map(str, words))} did not serve:\n{first}{process.stderr.read()}")
        yield found[1]
        if process.poll() is not None:
            raise TrialError(f"it ended by itself:\n{process.stderr.read()}")
    finally:
        if process.poll() is None:
            # To all of the group: programs that start others do not all pass it on.
            os.killpg(process.pid, signal.SIGINT)
        _, complaints = process.communicate()
        impatient.cancel()
    if process.returncode or "Traceback" in complaints or "Warning" in complaints:
        raise TrialError(f"it ended with {process.returncode}:\n{complaints}")


def ask(address: str, key: str = "") -> None:
    """Ask the embedded provider something, and see to it that it answers."""
    headers = {"content-type": "application/json", **({"x-api-key": key} if key else {})}
    request = urllib.request.Request(f"{address}/v1/messages", json.dumps(_QUESTION).encode(), headers)
    # Whatever proxy is set is not for this machine.
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=PATIENCE) as reply:
        told = reply.read().decode()
    if "You said: Hello" not in told:
        raise TrialError(f"echo answered {told}")


def try_program(words: Sequence[str | Path], place: Path, environ: Mapping[str, str] | None = None) -> None:
    """See to it that a program is dragoman: it tells its commands, and serves."""
    told = run([*words, "--help"], place, environ)
    if "serve" not in told:
        raise TrialError(f"{' '.join(map(str, words))} --help does not tell of serve")
    if "--version" in told and VERSION not in run([*words, "--version"], place, environ):
        raise TrialError(f"{' '.join(map(str, words))} is another version than {VERSION}")
    settings = place / "empty.toml"
    settings.write_text("[server]\n", encoding="utf-8")
    arguments = ["serve", "--port", "0", "--log", "off", "--config", str(settings)]
    with serving([*words, *arguments], place, environ) as address:
        ask(address)
