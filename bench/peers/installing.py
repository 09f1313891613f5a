"""Installs other gateways at pinned versions into `$XDG_CACHE_HOME/dragoman/peers/<digest of the pins>`.

Their dependencies conflict, so each has a virtual environment and a file of pins of its own. All clones of a user share
the environments. An environment counts as installed when its stamp was written, which happens last.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
PINS = ROOT / "requirements/peers"
# What every virtual environment has, and no peer needs.
_TOOLS = ("pip", "setuptools", "_distutils_hack", "distutils-precedence.pth")
_STEP = 900.0


class InstallingError(Exception):
    """A package cannot be installed here, and why."""


def pins(name: str) -> Path:
    """The file of pins of a peer."""
    return PINS / f"{name}.txt"


def version(name: str) -> str:
    """The pinned version of a peer's own package."""
    for line in pins(name).read_text(encoding="utf-8").splitlines():
        package, _, number = line.partition("==")
        if package.partition("[")[0] == name:
            return number
    raise InstallingError(f"{pins(name)} does not pin {name}")


def environment(name: str) -> Path:
    """The virtual environment of a peer, by the digest of its pins."""
    digest = hashlib.sha256(f"{platform.system()} {platform.machine()} {sys.version_info[:2]}".encode())
    digest.update(pins(name).read_bytes())
    return _cache() / "dragoman/peers" / digest.hexdigest()[:16] / name


def install(name: str) -> Path:
    """Install a peer unless it is installed; its virtual environment."""
    place = environment(name)
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / ".lock").open("w") as lock:
        # Another clone may be installing the same pins.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / ".installed").exists():
            print(f"installing {name} {version(name)}", file=sys.stderr, flush=True)
            shutil.rmtree(place, ignore_errors=True)
            _run([sys.executable, "-m", "venv", place])
            pip: list[str | Path] = [place / "bin/python", "-m", "pip", "--disable-pip-version-check", "-q"]
            _run([*pip, "install", "--no-input", "-r", pins(name)])
            _run([*pip, "check"])
            (place / ".installed").touch()
    return place


def size(place: Path) -> float:
    """Megabytes of the packages in a virtual environment, compiled files included."""
    found = 0
    for packages in place.glob("lib/python*/site-packages"):
        for entry in packages.iterdir():
            if entry.name.partition("-")[0] not in _TOOLS and entry.name not in _TOOLS:
                files = entry.rglob("*") if entry.is_dir() else [entry]
                found += sum(file.stat().st_size for file in files if file.is_file())
    return found / 1e6


def _cache() -> Path:
    """The directory for what can be made again, by the XDG base directory specification."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    return Path(named) if Path(named).is_absolute() else Path.home() / ".cache"


def _run(words: Sequence[str | Path]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_STEP)
    if done.returncode:
        raise InstallingError(f"{' '.join(map(str, words))} failed:\n{done.stdout}{done.stderr}")
