"""Reads the Dockerfile, and does in a folder what a daemon would do in an image.

All stages share the folder, so that what is copied from one to another stays where it is; absolute paths lead into it.
Whoever runs the tests owns everything: what belongs to the image's user is theirs. An instruction that is not known
here is an error.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
# Paths of the image, and not of the machine: its programs are the machine's.
_INSIDE = re.compile(r"(?<![\w./$}-])/(?=(?:build|opt|var|etc)\b)")


class Instruction(NamedTuple):
    """One instruction: its word, its options, and the rest."""

    word: str
    options: dict[str, str]
    rest: str

    def listed(self) -> list[str]:
        """The rest, which is a JSON list."""
        value = json.loads(self.rest)
        assert isinstance(value, list)
        return value


def instructions(text: str) -> list[Instruction]:
    """The instructions of a Dockerfile."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    found: list[Instruction] = []
    for line in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines():
        if not line.strip():
            continue
        word, _, rest = line.strip().partition(" ")
        options: dict[str, str] = {}
        while option := re.match(r"--([a-z-]+)=(\S+)\s+", rest):
            options[option[1]] = option[2]
            rest = rest[option.end() :]
        found.append(Instruction(word, options, " ".join(rest.split())))
    return found


def context(folder: Path, root: Path = ROOT) -> Path:
    """What a build is given: the files that `.dockerignore` lets through."""
    rules = [line for line in (root / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[:1] != "#"]
    everything, *others = [line for line in rules if line]
    assert everything == "*", "nothing is let through but what is named"
    unwanted = [line.removeprefix("**/") for line in others if not line.startswith("!")]
    for name in (line[1:] for line in others if line.startswith("!")):
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if (root / name).is_dir():
            shutil.copytree(root / name, place, ignore=shutil.ignore_patterns(*unwanted))
        else:
            shutil.copy(root / name, place)
    return folder


class Image:
    """What was built: a folder, and what the instructions say of running it."""

    def __init__(self, folder: Path, given: Path) -> None:
        self._folder, self._given = folder, given
        self._directory = folder
        self._arguments: dict[str, str] = {}
        self._base = {**os.environ, "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))}
        for name in ("PYTHONPATH", "PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT", "DRAGOMAN_CONFIG"):
            self._base.pop(name, None)
        self.environment = dict(self._base)
        self.user = "0:0"
        self.volumes: list[str] = []
        self.ports: list[int] = []
        self.stages: list[str] = []
        self.health: list[str] = []
        self.command: list[str] = []
        self._entry: list[str] = []

    def inside(self, text: str) -> str:
        """The text with the image's paths as they are here."""
        return _INSIDE.sub(f"{self._folder}/", text)

    def follow(self, steps: Sequence[Instruction]) -> None:
        """Do what the instructions say."""
        for step in steps:
            match step.word:
                case "ARG":
                    name, _, value = step.rest.partition("=")
                    self._arguments[name] = value
                case "FROM":
                    self._begin(step.rest)
                case "WORKDIR":
                    self._directory = Path(self.inside(step.rest))
                    self._directory.mkdir(parents=True, exist_ok=True)
                case "ENV":
                    for name, value in re.findall(r"(\w+)=(\S+)", step.rest):
                        self.environment[name] = self.inside(value).replace("$PATH", self.environment["PATH"])
                case "COPY":
                    self._copy(step)
                case "RUN":
                    self._run(step.rest)
                case "USER":
                    self.user = step.rest
                case "VOLUME":
                    self.volumes.append(step.rest)
                case "EXPOSE":
                    self.ports.append(int(step.rest))
                case "HEALTHCHECK":
                    word, _, listed = step.rest.partition(" ")
                    assert word == "CMD"
                    self.health = step._replace(rest=listed).listed()
                case "ENTRYPOINT":
                    self._entry = step.listed()
                case "CMD":
                    self.command = [*self._entry, *map(self.inside, step.listed())]
                case _:
                    raise AssertionError(f"nobody knows here what {step.word} does")

    def _begin(self, rest: str) -> None:
        name = rest.replace("${PYTHON}", self._arguments["PYTHON"])
        self.stages.append(name)
        # Of an earlier stage only what is copied remains.
        shutil.rmtree(self._folder / "build", ignore_errors=True)
        self.environment = dict(self._base)
        self._directory = self._folder

    def _copy(self, step: Instruction) -> None:
        *sources, target = step.rest.split()
        if "from" in step.options:
            assert sources == [target], "what is copied from another stage is where it was"
            assert Path(self.inside(target)).exists()
            return
        place = self._directory / target
        for source in sources:
            found = self._given / source
            if found.is_dir():
                shutil.copytree(found, place)
            else:
                place.mkdir(parents=True, exist_ok=True)
                shutil.copy(found, place)

    def _run(self, line: str) -> None:
        # Only root gives away a folder.
        line = self.inside(line).replace("-o 10001", f"-o {os.geteuid()}").replace("-g 10001", f"-g {os.getegid()}")
        done = subprocess.run(
            ["sh", "-ec", line],
            cwd=self._directory,
            env={**self.environment, **self._arguments},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, done.stdout + done.stderr
