"""Builds wheel and sdist, and says what in them is not as the repository has it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from email.message import Message
from email.parser import BytesParser
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PACKAGE = "src/dragoman/"
# Data that the package reads, and the mark that it has types: a wheel without them installs, and fails later.
INDISPENSABLE = (
    "dragoman/py.typed",
    "dragoman/providers/catalogue.json",
    "dragoman/providers/catalogue.toml",
    "dragoman/prices/table.json",
    "dragoman/tokens/table.json",
)
SYSTEMS = {"Operating System :: POSIX :: Linux", "Operating System :: MacOS"}
_PYTHON = "Programming Language :: Python :: "


class Distribution(NamedTuple):
    """What was built."""

    wheel: Path
    sdist: Path


def build(folder: Path, root: Path = ROOT) -> Distribution:
    """Build both into a folder, which holds nothing else of the kind afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("*.whl"), *folder.glob("*.tar.gz")):
        old.unlink()
    words = [sys.executable, "-m", "hatchling", "build", "-d", str(folder.resolve())]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Distribution(wheel, sdist)


def repository_files(root: Path = ROOT, *, committed: bool) -> dict[str, bytes] | None:
    """The files of the repository by their path; None where there is no repository.

    Those that are not committed yet belong to it while one works, and not when something is given to others.
    """
    which = ["--cached"] if committed else ["--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(["git", "ls-files", "-z", *which], cwd=root, capture_output=True, check=False)
    except FileNotFoundError:
        return None
    if done.returncode:
        return None
    names = sorted(set(done.stdout.decode().split("\0")) - {""})
    return {name: (root / name).read_bytes() for name in names if (root / name).is_file()}


def members(path: Path) -> dict[str, bytes]:
    """The files in a wheel or an sdist."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    found: dict[str, bytes] = {}
    with tarfile.open(path) as archive:
        for entry in archive:
            reader = archive.extractfile(entry) if entry.isfile() else None
            # A link or a device has no bytes, and no business there.
            found[entry.name] = reader.read() if reader is not None else b""
    return found


def wheel_problems(held: Mapping[str, bytes], files: Mapping[str, bytes]) -> Iterator[str]:
    """What is wrong with the files of a wheel: it holds the package's and their description, and nothing else."""
    ours = {name.removeprefix("src/"): data for name, data in files.items() if name.startswith(PACKAGE)}
    described = next((name.split("/")[0] for name in held if name.endswith(".dist-info/METADATA")), "")
    description = {
        f"{described}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
    }
    yield from _differences("the wheel", {name: held[name] for name in held if name not in description}, ours)
    yield from (f"the wheel lacks {name}" for name in sorted(description - set(held)))
    yield from (f"the wheel lacks {name}" for name in INDISPENSABLE if name not in held)
    # A file of this kind runs in every Python of the environment, whoever is called.
    yield from (f"the wheel holds {name}" for name in held if PurePosixPath(name).suffix == ".pth")


def sdist_problems(held: Mapping[str, bytes], files: Mapping[str, bytes], stem: str) -> Iterator[str]:
    """What is wrong with the files of an sdist: it holds the repository, and a description."""
    description = f"{stem}/PKG-INFO"
    there = {name.removeprefix(f"{stem}/"): data for name, data in held.items() if name != description}
    yield from _differences("the sdist", there, files)
    if description not in held:
        yield f"the sdist lacks {description}"


def _differences(where: str, held: Mapping[str, bytes], files: Mapping[str, bytes]) -> Iterator[str]:
    yield from (f"{where} holds {name}, which is not in the repository" for name in sorted(held.keys() - files.keys()))
    yield from (f"{where} lacks {name}" for name in sorted(files.keys() - held.keys()))
    for name in sorted(held.keys() & files.keys()):
        if held[name] != files[name]:
            yield f"{where} holds another {name} than the repository"


def metadata_problems(held: Mapping[str, bytes], root: Path = ROOT) -> Iterator[str]:
    """What is wrong with what a wheel says of itself."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name = next(name for name in held if name.endswith(".dist-info/METADATA"))
    told = BytesParser().parsebytes(held[name])
    expected = {
        "Name": "dragoman",
        "Version": project["version"],
        "Summary": project["description"],
        "License-Expression": "Apache-2.0",
        "License-File": "LICENSE",
        "Requires-Python": ">=3.11",
        "Description-Content-Type": "text/markdown",
    }
    yield from (f"{key} is {told[key]}, not {value}" for key, value in expected.items() if told[key] != value)
    if held[name].partition(b"\n\n")[2].strip() != (root / "README.md").read_bytes().strip():
        yield "the description is not the README"
    # Nobody's address is made up; the field may come once the project has one.
    yield from (f"{key} names an address" for key in ("Home-page", "Download-URL", "Project-URL") if key in told)
    yield from _classifier_problems(set(told.get_all("Classifier", [])))
    yield from _requirement_problems(told, project["dependencies"])
    folder = name.partition("/")[0]
    if held[f"{folder}/entry_points.txt"].decode().splitlines() != [
        "[console_scripts]",
        "dragoman = dragoman.cli:main",
    ]:
        yield "the entry points are not the one command"
    if b"Tag: py3-none-any" not in held[f"{folder}/WHEEL"].splitlines():
        yield "the wheel is not for every system"


def _classifier_problems(told: set[str]) -> Iterator[str]:
    systems = {each for each in told if each.startswith("Operating System")}
    if systems != SYSTEMS:
        yield f"it says that it runs on {sorted(systems)}"
    if f"{_PYTHON}3.11" not in told:
        yield "it does not say that it runs on Python 3.11"
    yield from (f"it does not say {each!r}" for each in ("Typing :: Typed", f"{_PYTHON}3 :: Only") if each not in told)


def pythons_named(held: Mapping[str, bytes]) -> set[str]:
    """The Pythons that a wheel says it runs on, as in 3.11."""
    text = next(data for name, data in held.items() if name.endswith(".dist-info/METADATA"))
    told = BytesParser().parsebytes(text).get_all("Classifier", [])
    versions = {each.removeprefix(_PYTHON) for each in told if each.startswith(_PYTHON)}
    return {each for each in versions if each.startswith("3.")}


def _requirement_problems(told: Message, wanted: list[str]) -> Iterator[str]:
    needed = {str(Requirement(line)) for line in told.get_all("Requires-Dist", [])}
    plain = {line for line in needed if "extra ==" not in line}
    if plain != {str(Requirement(line)) for line in wanted}:
        yield f"it requires {sorted(plain)}"


def install_lines(root: Path = ROOT) -> list[tuple[str, ...]]:
    """The commands that the README tells people to install it with."""
    _, _, behind = (root / "README.md").read_text(encoding="utf-8").partition("\n## Install\n")
    blocks = re.findall(r"```sh\n(.*?)```", behind.partition("\n## ")[0], re.DOTALL)
    return [tuple(shlex.split(line, comments=True)) for block in blocks for line in block.splitlines()]
